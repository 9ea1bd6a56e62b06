//! Delivery: which events a handler receives, in which order, and independently of other handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Pod, Recorder, added, deleted, describe, gate, pod, start, updated};
use futures::StreamExt as _;
use futures::stream::FusedStream as _;
use kinformer_core::{Change, KeyRef, Object, Tombstone};
use kinformer_processor::{
    Added, AsyncEventHandler, Buffer, Deleted, Event, EventHandler, EventHandlerFuncs, SharedProcessor,
    Updated,
};
use kinformer_testing::reentrant::within;
use tokio::sync::mpsc;

/// `n` updates of `p0` to `p9` with increasing versions.
fn updates(n: u64) -> impl Iterator<Item = Change<Pod>> {
    (0..n).map(|i| updated(&format!("p{}", i % 10), i, i + 1))
}

async fn stuck_handlers_delay_no_other() {
    let processor = SharedProcessor::new("test");
    let (gate, mut wait) = gate();
    let blocked = Recorder::new();
    let note = blocked.clone();
    let blocking = processor
        .handler()
        .for_each(move |event| {
            wait();
            note.note(event);
        })
        .unwrap();
    let pending =
        processor.handler().add_async(async |_: Event<Arc<Pod>>| std::future::pending::<()>().await).unwrap();
    let (fast, inline) = (Recorder::new(), Recorder::new());
    processor.add_handler(fast.handler()).unwrap();
    processor.handler().inline().add(inline.handler()).unwrap();
    let running = start(&processor);

    for event in updates(1000) {
        processor.publish([event]);
    }
    let all: Vec<_> = updates(1000).map(|change| describe(&Event::of(change).unwrap())).collect();
    assert_eq!(fast.received(1000).await, all);
    assert_eq!(inline.received(1000).await, all);
    assert_eq!(blocked.recorded(), [""; 0]);
    gate.reached().await;
    assert_eq!((blocking.metrics().depth, pending.metrics().depth), (999, 999));

    drop(gate);
    assert_eq!(blocked.received(1000).await, all, "every event was kept, in order");
    // The callback never returns, so the future of the removal is dropped.
    drop(pending.remove());
    running.cancel.cancel();
    running.task.abort();
}

// contract: P-01a, P-01b, P-10b
#[tokio::test]
async fn stuck_handler_delays_no_other_single_thread() {
    stuck_handlers_delay_no_other().await;
}

// contract: P-01a, P-01b, P-10b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stuck_handler_delays_no_other_multi_thread() {
    stuck_handlers_delay_no_other().await;
}

// contract: P-01a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_handler_receives_two_events_at_once() {
    let processor = SharedProcessor::new("test");
    let overlap = Arc::new(AtomicBool::new(false));
    let mut registrations = Vec::new();
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(3)] {
        let overlap = overlap.clone();
        let inside = Arc::new(AtomicBool::new(false));
        let handler = move |_: Event<Arc<Pod>>| {
            let (inside, overlap) = (inside.clone(), overlap.clone());
            async move {
                overlap.fetch_or(inside.swap(true, Ordering::SeqCst), Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
            }
        };
        registrations.push(processor.handler().buffer(buffer).add_async(handler).unwrap());
    }
    let running = start(&processor);
    within(processor.send(updates(2000))).await;
    processor.publish_synced();
    for registration in registrations {
        within(registration.synced()).await.unwrap();
    }
    assert!(!overlap.load(Ordering::SeqCst));
    running.stop().await.unwrap();
}

// contract: P-02a, P-02c, P-02d
#[tokio::test]
async fn events_carry_objects_and_revision() {
    let processor = SharedProcessor::new("test");
    let mut events = processor.stream().unwrap();
    let (one, two) = (pod("a", 1), pod("a", 2));
    let unknown = Tombstone::final_state_unknown("a".parse().unwrap(), Some(two.clone()));
    processor.publish([
        Change::added(one.clone()).in_initial_list().at_revision(7),
        Change::added(one.clone()).at_revision(8),
        Change::updated(one.clone(), two.clone()).at_revision(9),
        Change::deleted(two.clone()).at_revision(10),
        Change::deleted(unknown).at_revision(11),
    ]);
    let mut next = async || within(events.next()).await.unwrap();
    assert!(
        matches!(next().await, Event::Added(Added { object, in_initial_list: true, revision: 7, .. }) if Arc::ptr_eq(&object, &one))
    );
    assert!(
        matches!(next().await, Event::Added(Added { object, in_initial_list: false, revision: 8, .. }) if Arc::ptr_eq(&object, &one))
    );
    let updated = next().await;
    assert!(
        matches!(&updated, Event::Updated(Updated { old, new, .. }) if Arc::ptr_eq(old, &one) && Arc::ptr_eq(new, &two))
    );
    assert_eq!((updated.object(), updated.revision()), (Some(&two), 9));
    assert!(
        matches!(next().await, Event::Deleted(Deleted { tombstone: Tombstone::FinalState(object), revision: 10, .. }) if Arc::ptr_eq(&object, &two))
    );
    let unknown = next().await;
    assert!(
        matches!(&unknown, Event::Deleted(Deleted { tombstone, .. }) if tombstone.is_final_state_unknown())
    );
    assert_eq!((unknown.key().name(), unknown.object(), unknown.revision()), ("a", Some(&two), 11));
}

// contract: P-07
#[tokio::test]
async fn handler_added_twice_receives_twice() {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    let first = processor.add_handler(recorder.handler()).unwrap();
    let second = processor.add_handler(recorder.handler()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    assert_eq!(recorder.received(2).await, ["+a1", "+a1"]);

    assert!(within(processor.remove_handler(&first)).await);
    processor.publish([added("b", 1)]);
    processor.publish_synced();
    within(second.synced()).await.unwrap();
    assert_eq!(recorder.recorded(), ["+a1", "+a1", "+b1"]);
    assert_eq!(processor.handler_metrics().len(), 1);
    running.stop().await.unwrap();
}

/// Implements a method for each kind of event.
struct Methods(Recorder);

impl EventHandler<Arc<Pod>> for Methods {
    fn on_add(&mut self, added: &Added<Arc<Pod>>) {
        self.0.note(&Event::Added(added.clone()));
    }

    fn on_update(&mut self, updated: &Updated<Arc<Pod>>) {
        self.0.note(&Event::Updated(updated.clone()));
    }

    fn on_delete(&mut self, deleted: &Deleted<Arc<Pod>>) {
        self.0.note(&Event::Deleted(deleted.clone()));
    }
}

/// The same as [`Methods`], with futures.
struct AsyncMethods(Recorder);

impl AsyncEventHandler<Arc<Pod>> for AsyncMethods {
    async fn on_add(&mut self, added: Added<Arc<Pod>>) {
        tokio::task::yield_now().await;
        self.0.note(&Event::Added(added));
    }

    async fn on_update(&mut self, updated: Updated<Arc<Pod>>) {
        tokio::task::yield_now().await;
        self.0.note(&Event::Updated(updated));
    }

    async fn on_delete(&mut self, deleted: Deleted<Arc<Pod>>) {
        tokio::task::yield_now().await;
        self.0.note(&Event::Deleted(deleted));
    }
}

/// Receives every event and ignores it.
struct Ignore;

impl EventHandler<Arc<Pod>> for Ignore {}
impl AsyncEventHandler<Arc<Pod>> for Ignore {}

// contract: P-12
#[tokio::test]
async fn all_handler_kinds_receive_the_same_events() {
    let processor = SharedProcessor::new("test");
    let recorders: Vec<_> = (0..8).map(|_| Recorder::new()).collect();
    let [sync, inline, futures, closure, inline_closure, async_closure, funcs, inline_funcs] =
        recorders.as_slice()
    else {
        unreachable!()
    };
    let with_funcs = |recorder: &Recorder| {
        let (add, update, delete) = (recorder.clone(), recorder.clone(), recorder.clone());
        EventHandlerFuncs::new()
            .on_add(move |added: &Added<Arc<Pod>>| add.note(&Event::Added(added.clone())))
            .on_update(move |updated| update.note(&Event::Updated(updated.clone())))
            .on_delete(move |deleted| delete.note(&Event::Deleted(deleted.clone())))
    };
    let handler = || processor.handler();
    handler().add(Methods(sync.clone())).unwrap();
    handler().inline().add(Methods(inline.clone())).unwrap();
    handler().add_async(AsyncMethods(futures.clone())).unwrap();
    handler().for_each(closure.handler()).unwrap();
    handler().inline().for_each(inline_closure.handler()).unwrap();
    let recorder = async_closure.clone();
    handler()
        .add_async(move |event: Event<Arc<Pod>>| {
            let recorder = recorder.clone();
            async move { recorder.note(&event) }
        })
        .unwrap();
    handler().add(with_funcs(funcs)).unwrap();
    handler().inline().add(with_funcs(inline_funcs)).unwrap();
    let ignoring = [
        handler().add(Ignore).unwrap(),
        handler().add_async(Ignore).unwrap(),
        handler().add(EventHandlerFuncs::<Arc<Pod>>::default()).unwrap(),
    ];
    let stream = handler().stream().unwrap();
    let running = start(&processor);

    processor.publish([added("a", 1).in_initial_list(), added("b", 1), updated("a", 1, 2), deleted("a", 2)]);
    processor.publish_synced();
    let expected = ["+a1!", "+b1", "a1>2", "-a2"];
    for recorder in &recorders {
        assert_eq!(recorder.received(4).await, expected);
    }
    assert_eq!(within(stream.take(4).map(|event| describe(&event)).collect::<Vec<_>>()).await, expected);
    for ignoring in ignoring {
        within(ignoring.synced()).await.unwrap();
        assert_eq!((ignoring.metrics().delivered, ignoring.metrics().panics), (4, 0));
    }
    running.stop().await.unwrap();
}

/// The futures of an asynchronous closure borrow its state, which a panic leaves as it is.
// contract: P-26
#[tokio::test(start_paused = true)]
async fn async_closure_keeps_its_state() {
    let processor = SharedProcessor::new("test");
    let (sender, mut receiver) = mpsc::channel(3);
    let handler = processor.handler().for_each_async_with((0, sender), async |(events, sender), event| {
        *events += 1;
        tokio::task::yield_now().await;
        assert_ne!(describe(&event), "+b1");
        sender.send((*events, describe(&event))).await.unwrap();
    });
    let running = start(&processor);
    processor.publish([added("a", 1), added("b", 1), updated("a", 1, 2)]);
    let mut received = Vec::new();
    for _ in 0..2 {
        received.push(within(receiver.recv()).await.unwrap());
    }
    assert_eq!(received, [(1, "+a1".to_owned()), (3, "a1>2".to_owned())]);
    assert_eq!(handler.unwrap().metrics().panics, 1);
    running.stop().await.unwrap();
}

/// Sends the revision that each callback receives.
struct Revisions(mpsc::Sender<u64>);

impl EventHandler<Arc<Pod>> for Revisions {
    fn on_add(&mut self, added: &Added<Arc<Pod>>) {
        self.0.try_send(added.revision).unwrap();
    }

    fn on_update(&mut self, updated: &Updated<Arc<Pod>>) {
        self.0.try_send(updated.revision).unwrap();
    }

    fn on_delete(&mut self, deleted: &Deleted<Arc<Pod>>) {
        self.0.try_send(deleted.revision).unwrap();
    }
}

impl AsyncEventHandler<Arc<Pod>> for Revisions {
    async fn on_add(&mut self, added: Added<Arc<Pod>>) {
        self.0.try_send(added.revision).unwrap();
    }

    async fn on_update(&mut self, updated: Updated<Arc<Pod>>) {
        self.0.try_send(updated.revision).unwrap();
    }

    async fn on_delete(&mut self, deleted: Deleted<Arc<Pod>>) {
        self.0.try_send(deleted.revision).unwrap();
    }
}

// contract: P-02d
#[tokio::test]
async fn every_callback_receives_the_revision() {
    let processor = SharedProcessor::new("test");
    let handler = || processor.handler();
    let mut received = Vec::new();
    let mut revisions = || {
        let (sender, receiver) = mpsc::channel(1);
        received.push(receiver);
        sender
    };
    handler().inline().add(Revisions(revisions())).unwrap();
    handler().add(Revisions(revisions())).unwrap();
    handler().add_async(Revisions(revisions())).unwrap();
    handler().buffer(Buffer::Coalesced).add(Revisions(revisions())).unwrap();
    let [add, update, delete] = [(); 3].map({
        let sender = revisions();
        move |()| sender.clone()
    });
    let funcs = EventHandlerFuncs::new()
        .on_add(move |added: &Added<Arc<Pod>>| add.try_send(added.revision).unwrap())
        .on_update(move |updated| update.try_send(updated.revision).unwrap())
        .on_delete(move |deleted| delete.try_send(deleted.revision).unwrap());
    handler().add(funcs).unwrap();
    // An event that crosses a filter keeps the revision of the published event.
    let crossing = handler().filter(|pod: &Arc<Pod>| pod.version % 2 == 1);
    crossing.add(Revisions(revisions())).unwrap();
    let running = start(&processor);
    let changes = [added("a", 1), updated("a", 1, 2), updated("a", 2, 3), deleted("a", 3)];
    for (change, revision) in changes.into_iter().zip(7..) {
        processor.publish([change.at_revision(revision)]);
        for receiver in &mut received {
            assert_eq!(within(receiver.recv()).await, Some(revision));
        }
    }
    running.stop().await.unwrap();
}

/// A stream ends when its processor stops or its handler is removed. Dropping the stream removes the handler.
// contract: P-12
#[tokio::test]
async fn stream_ends_on_stop_and_removes_on_drop() {
    let processor = SharedProcessor::new("test");
    let mut ended = processor.stream().unwrap();
    let dropped = processor.stream().unwrap();
    let mut removed = processor.handler().buffer(Buffer::Coalesced).stream().unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    assert_eq!(describe(&within(removed.next()).await.unwrap()), "+a1");

    let registration = dropped.registration().clone();
    assert!(!registration.is_removed());
    drop(dropped);
    assert!(registration.is_removed());

    processor.publish([added("b", 1)]);
    within(removed.registration().remove()).await;
    assert!(within(removed.next()).await.is_none(), "nothing new after the removal");

    assert_eq!(describe(&within(ended.next()).await.unwrap()), "+a1");
    assert_eq!(ended.registration().metrics().depth, 1);
    running.stop().await.unwrap();
    assert!(within(ended.next()).await.is_none());
}

/// Waits end when the last handle of the processor is dropped.
// contract: P-12
#[tokio::test(start_paused = true)]
async fn waits_end_with_last_processor_handle() {
    let processor = SharedProcessor::<Pod>::new("test");
    let mut stream = processor.stream().unwrap();
    let registration = processor.add_handler(|_: &Event<Arc<Pod>>| ()).unwrap();
    drop(processor);
    assert!(within(stream.next()).await.is_none());
    assert!(within(registration.synced()).await.unwrap_err().to_string().contains("ended before"));
    within(registration.remove()).await;
}

/// A stream that has ended returns `None` on every poll: a `select!` in a loop polls it again and again.
// contract: P-20
#[tokio::test]
async fn ended_stream_keeps_returning_none() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(2)] {
        let processor = SharedProcessor::<Pod>::new("test");
        let stream = || processor.handler().buffer(buffer).stream().unwrap();
        let (mut removed, mut stopped) = (stream(), stream());
        let running = start(&processor);
        processor.publish([added("a", 1)]);
        for stream in [&mut removed, &mut stopped] {
            assert_eq!(describe(&within(stream.next()).await.unwrap()), "+a1");
            assert!(!stream.is_terminated());
        }
        drop(removed.registration().remove());
        assert!(within(removed.next()).await.is_none());
        running.stop().await.unwrap();
        assert!(within(stopped.next()).await.is_none());
        for stream in [&mut removed, &mut stopped] {
            assert!(stream.is_terminated());
            assert!(within(stream.next()).await.is_none(), "{buffer:?}");
            assert!(within(stream.next()).await.is_none(), "{buffer:?}");
        }
    }
}

/// As in client-go. kube-runtime delivers them.
// contract: P-19a
#[tokio::test(start_paused = true)]
async fn undelivered_events_are_dropped_on_stop() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(10)] {
        let processor = SharedProcessor::new("test");
        let (gate, mut wait) = gate();
        let (blocking, inline) = (Recorder::new(), Recorder::new());
        let note = blocking.clone();
        let registration = processor
            .handler()
            .buffer(buffer)
            .for_each(move |event| {
                note.note(event);
                wait();
            })
            .unwrap();
        let mut stream = processor.handler().buffer(buffer).stream().unwrap();
        let note = inline.clone();
        processor
            .handler()
            .buffer(buffer)
            .add_async(move |event: Event<Arc<Pod>>| {
                note.note(&event);
                std::future::pending()
            })
            .unwrap();
        let running = start(&processor);
        processor.publish(["a", "b", "c"].map(|name| added(name, 1)));
        gate.reached().await;
        inline.received(1).await;
        assert_eq!(describe(&within(stream.next()).await.unwrap()), "+a1");

        running.cancel.cancel();
        while !registration.is_removed() {
            tokio::task::yield_now().await;
        }
        drop(gate);
        // The future that never ends is dropped at its await point after the grace period.
        drop(running.stop().await);
        assert_eq!(
            (blocking.recorded(), inline.recorded()),
            (vec!["+a1".into()], vec!["+a1".into()]),
            "{buffer:?}"
        );
        assert!(within(stream.next()).await.is_none(), "{buffer:?}");
        assert!(processor.handler_metrics().is_empty(), "no handler is left");
    }
}

/// An object with a UID.
struct WithUid(&'static str);

impl Object for WithUid {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named("reborn")
    }

    fn uid(&self) -> Option<&str> {
        Some(self.0)
    }
}

/// An update from one object to another one of the same name shows both UIDs.
// contract: O-02c
#[tokio::test]
async fn handler_reads_both_uids() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced] {
        let processor = SharedProcessor::new("test");
        let (uids, mut received) = mpsc::channel(1);
        let handler = move |event: &Event<Arc<WithUid>>| {
            let Event::Updated(Updated { old, new, .. }) = event else { panic!("not an update") };
            uids.try_send([old, new].map(|object| object.uid().map(str::to_owned))).unwrap();
        };
        processor.handler().buffer(buffer).inline().add(handler).unwrap();
        let running = start(&processor);
        processor.publish([Change::updated(Arc::new(WithUid("1")), Arc::new(WithUid("2")))]);
        let uids = within(received.recv()).await.unwrap();
        assert_eq!(uids, [Some("1".to_owned()), Some("2".to_owned())], "{buffer:?}");
        running.stop().await.unwrap();
    }
}
