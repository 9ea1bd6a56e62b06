//! Removal of handlers, at any time and from any task or thread.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::common::{Gate, Pod, Recorder, Running, added, gate, start};
use futures::FutureExt as _;
use kinformer_processor::{
    Buffer, Error, Event, EventHandler, ListenerBuilder, Registration, SharedProcessor,
};
use kinformer_testing::reentrant::within;
use kinformer_testing::tasks;
use tokio::runtime::Handle;

/// A processor whose only handler is blocked in the callback of its first event, with a second event queued.
struct Blocked {
    processor: SharedProcessor<Pod>,
    registration: Registration,
    recorder: Recorder,
    gate: Gate,
    running: Running,
}

impl Blocked {
    async fn new() -> Self {
        let processor = SharedProcessor::new("test");
        let recorder = Recorder::new();
        let (gate, mut wait) = gate();
        let note = recorder.clone();
        let handler = move |event: &Event<Arc<Pod>>| {
            note.note(event);
            wait();
        };
        let registration = processor.add_handler(handler).unwrap();
        let running = start(&processor);
        processor.publish([added("a", 1), added("b", 1)]);
        gate.reached().await;
        Self { processor, registration, recorder, gate, running }
    }
}

/// A removal waits for the running callback, and no event is delivered after it.
// contract: P-08a, P-08b, P-08d, P-08e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removal_waits_for_running_callback() {
    let Blocked { processor, registration, recorder, gate, running } = Blocked::new().await;

    let mut removal = Box::pin(registration.remove());
    assert!(removal.as_mut().now_or_never().is_none(), "the callback is still running");
    assert!(registration.is_removed());
    processor.publish([added("c", 1)]);
    assert!(processor.handler_metrics()[0].removed, "listed until its callback has returned");
    assert_eq!(processor.handler_metrics()[0].depth, 0, "no event is queued for it");
    gate.let_one_pass();
    within(removal).await;
    assert_eq!(recorder.recorded(), ["+a1"]);
    assert!(processor.handler_metrics().is_empty());
    // Further removals have no effect.
    within(registration.remove()).await;
    assert!(!within(processor.remove_handler(&registration)).await);
    running.stop().await.unwrap();
    within(registration.remove()).await;
    assert_eq!(recorder.recorded(), ["+a1"]);
}

/// The first poll of `remove_handler` removes the handler, also if the future is dropped before it is ready.
// contract: P-08b, P-08e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remove_handler_dropped_after_poll_removes() {
    let Blocked { processor, registration, recorder, gate, running } = Blocked::new().await;

    drop(processor.remove_handler(&registration));
    assert!(!registration.is_removed(), "never polled");
    assert!(processor.remove_handler(&registration).now_or_never().is_none(), "the callback is running");
    assert!(registration.is_removed());
    gate.let_one_pass();
    assert!(!within(processor.remove_handler(&registration)).await, "removed before");
    assert_eq!(recorder.recorded(), ["+a1"]);
    running.stop().await.unwrap();
}

/// `Registration::remove` removes the handler when it is called, not when its future is polled.
// contract: P-08b
#[tokio::test]
async fn remove_takes_effect_without_await() {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    let registration = processor.handler().inline().add(recorder.handler()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    recorder.received(1).await;
    drop(registration.remove());
    processor.publish([added("b", 1)]);
    within(registration.remove()).await;
    assert_eq!(recorder.recorded(), ["+a1"]);
    running.stop().await.unwrap();
}

/// A registration of another processor removes no handler.
// contract: P-08c
#[tokio::test]
async fn foreign_registration_removes_nothing() {
    let [processor, other] = [(); 2].map(|()| SharedProcessor::new("test"));
    let (recorder, foreign) = (Recorder::new(), Recorder::new());
    processor.add_handler(recorder.handler()).unwrap();
    let registration = other.add_handler(foreign.handler()).unwrap();
    let (running, other_running) = (start(&processor), start(&other));
    assert!(!processor.remove_handler(&registration).await);
    assert!(!registration.is_removed());
    processor.publish([added("a", 1)]);
    other.publish([added("b", 1)]);
    assert_eq!(recorder.received(1).await, ["+a1"]);
    assert_eq!(foreign.received(1).await, ["+b1"]);
    assert!(within(other.remove_handler(&registration)).await);
    running.stop().await.unwrap();
    other_running.stop().await.unwrap();
}

// contract: P-08d
#[tokio::test]
async fn removal_works_before_start_and_after_stop() {
    let processor = SharedProcessor::new("test");
    let (never, until_stop) = (Recorder::new(), Recorder::new());
    let held = Arc::new(());
    let handler = {
        let (held, mut deliver) = (held.clone(), never.handler());
        move |event: &Event<Arc<Pod>>| {
            let _ = &held;
            deliver(event);
        }
    };
    let before = processor.add_handler(handler).unwrap();
    let after = processor.add_handler(until_stop.handler()).unwrap();
    processor.publish([added("a", 1)]);
    within(before.remove()).await;
    assert_eq!(Arc::strong_count(&held), 1, "the removal drops the handler");
    assert!(matches!(before.synced().await, Err(Error::Ended { depth: 1, .. })));
    let running = start(&processor);
    assert_eq!(until_stop.received(1).await, ["+a1"]);
    running.stop().await.unwrap();
    assert!(after.is_removed());
    within(after.remove()).await;
    assert!(!processor.remove_handler(&after).await);
    assert!(never.recorded().is_empty());
    tasks::fall_to(0).await;
}

/// A handler that removes itself with its first event.
async fn removes_itself(buffer: Buffer) {
    let processor = SharedProcessor::new("test");
    let own = Arc::new(OnceLock::<Registration>::new());
    let recorder = Recorder::new();
    let (own_handler, note) = (own.clone(), recorder.clone());
    let handler = move |event: Event<Arc<Pod>>| {
        let (own, note) = (own_handler.clone(), note.clone());
        async move {
            own.get().unwrap().remove().await;
            note.note(&event);
        }
    };
    let registration = processor.handler().buffer(buffer).add_async(handler).unwrap();
    own.set(registration.clone()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1), added("b", 1)]);
    assert_eq!(recorder.received(1).await, ["+a1"]);
    within(registration.remove()).await;
    assert_eq!(recorder.recorded(), ["+a1"], "{buffer:?}");
    running.stop().await.unwrap();
}

/// A handler that removes itself does not wait for its own callback.
// contract: P-08f
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_removing_itself_does_not_deadlock() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)] {
        for _ in 0..20 {
            removes_itself(buffer).await;
        }
    }
}

/// Exactly one of several concurrent removals of a handler reports that it removed the handler.
// contract: P-08a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_concurrent_removals_returns_true() {
    let processor = SharedProcessor::new("test");
    let running = start(&processor);
    for _ in 0..50 {
        let registration = processor.add_handler(|_: &Event<Arc<Pod>>| ()).unwrap();
        let removals: Vec<_> = (0..4)
            .map(|_| {
                let (processor, registration) = (processor.clone(), registration.clone());
                tokio::spawn(async move { processor.remove_handler(&registration).await })
            })
            .collect();
        let mut removed = 0;
        for removal in removals {
            removed += usize::from(within(removal).await.unwrap());
        }
        assert_eq!(removed, 1);
    }
    assert!(processor.handler_metrics().is_empty());
    running.stop().await.unwrap();
}

/// A handler that was removed but never returns from its callback is named in the error of the stop.
// contract: P-08d, P-14a
#[tokio::test(start_paused = true)]
async fn removed_stuck_handler_is_named_in_stop_error() {
    let processor = SharedProcessor::new("test");
    let registration = processor
        .handler()
        .name("gone")
        .add_async(async |_: Event<Arc<Pod>>| std::future::pending::<()>().await)
        .unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    // Advancing the clock lets the tasks run: the callback has started by then.
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::task::yield_now().await;
    assert!(registration.remove().now_or_never().is_none());
    let ended = running.stop().await;
    assert!(
        matches!(&ended, Err(Error::Stuck { handlers }) if handlers == &[Arc::from("gone")]),
        "{ended:?}"
    );
    tasks::fall_to(0).await;
    within(registration.remove()).await;
}

/// The handler's own registration, set once the handler has been added.
type Own = Arc<OnceLock<Registration>>;

/// Waits for the removal on the caller's thread.
type Remove = fn(&Registration);

fn with_futures(registration: &Registration) {
    futures::executor::block_on(registration.remove());
}

fn with_tokio(registration: &Registration) {
    Handle::current().block_on(registration.remove());
}

type AddSelfRemoving = fn(ListenerBuilder<'_, Pod>, Own, Remove, Recorder) -> Registration;

/// Each kind of handler, and a filter.
const SELF_REMOVING: [(&str, AddSelfRemoving); 4] = [
    ("blocking", |handler, own, remove, recorder| {
        let removing = move |event: &Event<Arc<Pod>>| {
            remove(own.get().unwrap());
            recorder.note(event);
        };
        handler.for_each(removing).unwrap()
    }),
    ("inline", |handler, own, remove, recorder| {
        let removing = move |event: &Event<Arc<Pod>>| {
            remove(own.get().unwrap());
            recorder.note(event);
        };
        handler.inline().for_each(removing).unwrap()
    }),
    ("asynchronous", |handler, own, remove, recorder| {
        let removing = move |event: Event<Arc<Pod>>| {
            let (own, recorder) = (own.clone(), recorder.clone());
            async move {
                tokio::task::yield_now().await;
                remove(own.get().unwrap());
                recorder.note(&event);
            }
        };
        handler.add_async(removing).unwrap()
    }),
    ("filter", |handler, own, remove, recorder| {
        let filtered = handler.filter(move |_| {
            remove(own.get().unwrap());
            true
        });
        filtered.for_each(move |event| recorder.note(event)).unwrap()
    }),
];

/// The handler waits for its removal with `remove`, then completes its callback.
async fn waits_for_its_own_removal(kind: &str, add: AddSelfRemoving, buffer: Buffer, remove: Remove) {
    let processor = SharedProcessor::new("test");
    let (own, recorder) = (Own::default(), Recorder::new());
    let registration = add(processor.handler().buffer(buffer), own.clone(), remove, recorder.clone());
    own.set(registration.clone()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1), added("b", 1)]);
    assert_eq!(recorder.received(1).await, ["+a1"], "{kind}, {buffer:?}");
    within(registration.remove()).await;
    assert_eq!(recorder.recorded(), ["+a1"], "{kind}, {buffer:?}");
    running.stop().await.unwrap();
}

// contract: P-08f
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_handler_kind_may_await_its_own_removal() {
    for (kind, add) in SELF_REMOVING {
        for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)] {
            waits_for_its_own_removal(kind, add, buffer, with_futures).await;
            if matches!(kind, "blocking" | "filter") {
                waits_for_its_own_removal(kind, add, buffer, with_tokio).await;
            }
        }
    }
}

/// A removal that was started and polled outside the callback completes when the callback waits for it.
// contract: P-08f
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removal_awaited_inside_callback_completes() {
    let processor = SharedProcessor::new("test");
    let (sender, removal) = std::sync::mpsc::channel::<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>>();
    let (gate, mut wait) = gate();
    let recorder = Recorder::new();
    let note = recorder.clone();
    let handler = move |event: &Event<Arc<Pod>>| {
        wait();
        futures::executor::block_on(removal.recv().unwrap());
        note.note(event);
    };
    let registration = processor.add_handler(handler).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    gate.reached().await;
    let mut removal = Box::pin(registration.remove());
    assert!(removal.as_mut().now_or_never().is_none());
    sender.send(removal).unwrap();
    gate.let_one_pass();
    assert_eq!(recorder.received(1).await, ["+a1"]);
    running.stop().await.unwrap();
}

/// A handler whose `drop` waits for its removal.
struct AwaitsRemovalOnDrop(Own);

impl EventHandler<Arc<Pod>> for AwaitsRemovalOnDrop {}

impl Drop for AwaitsRemovalOnDrop {
    fn drop(&mut self) {
        with_futures(self.0.get().unwrap());
    }
}

// contract: P-08f
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_drop_may_await_its_removal() {
    for inline in [false, true] {
        for started in [false, true] {
            let processor = SharedProcessor::new("test");
            let own = Own::default();
            let handler = AwaitsRemovalOnDrop(own.clone());
            let added = match inline {
                true => processor.handler().inline().add(handler),
                false => processor.handler().add(handler),
            };
            let registration = added.unwrap();
            own.set(registration.clone()).unwrap();
            let running = started.then(|| start(&processor));
            tokio::task::yield_now().await;
            let removal = tokio::spawn(async move { registration.remove().await });
            within(removal).await.unwrap();
            if let Some(running) = running {
                running.stop().await.unwrap();
            }
        }
    }
}

/// A removal waits for a running callback even after the processor has stopped.
// contract: P-08e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removal_waits_for_callback_outliving_stop() {
    let processor = SharedProcessor::builder("test").grace(Duration::ZERO).build();
    let (gate, mut wait) = gate();
    let registration = processor.handler().for_each(move |_| wait()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    gate.reached().await;
    assert!(matches!(running.stop().await, Err(Error::Stuck { .. })));
    let mut removal = Box::pin(registration.remove());
    assert!(removal.as_mut().now_or_never().is_none(), "the callback is still running");
    gate.let_one_pass();
    within(removal).await;
}
