//! Taking a handler off, at any moment and from anywhere.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::common::{Pod, Recorder, added, gate, no_task_left, start, within};
use futures::FutureExt as _;
use kinformer_processor::{
    Buffer, Error, Event, EventHandler, HandlerBuilder, Registration, SharedProcessor,
};
use tokio::runtime::Handle;

// contract: P-08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_waits_for_the_running_callback_and_nothing_comes_after_it() {
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

    let mut removal = Box::pin(registration.remove());
    assert!(removal.as_mut().now_or_never().is_none(), "the callback is still running");
    assert!(registration.is_removed());
    processor.publish([added("c", 1)]);
    assert!(processor.handler_metrics()[0].removed, "it is seen until it has returned");
    assert_eq!(processor.handler_metrics()[0].depth, 0, "nothing waits for it");
    gate.let_one_pass();
    within(removal).await;
    assert_eq!(recorder.now(), ["+a1"]);
    assert!(processor.handler_metrics().is_empty());
    // Again, and again.
    within(registration.remove()).await;
    assert!(!within(processor.remove_handler(&registration)).await);
    running.stop().await.unwrap();
    within(registration.remove()).await;
    assert_eq!(recorder.now(), ["+a1"]);
}

// contract: P-08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_remove_handler_has_removed_the_handler() {
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

    drop(processor.remove_handler(&registration));
    assert!(!registration.is_removed(), "never polled");
    assert!(processor.remove_handler(&registration).now_or_never().is_none(), "the callback is running");
    assert!(registration.is_removed());
    gate.let_one_pass();
    assert!(!within(processor.remove_handler(&registration)).await, "removed before");
    assert_eq!(recorder.now(), ["+a1"]);
    running.stop().await.unwrap();
}

// contract: P-08
#[tokio::test]
async fn a_removal_is_done_by_the_call() {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    let registration = processor.handler().inline().add(recorder.handler()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    recorder.received(1).await;
    drop(registration.remove());
    processor.publish([added("b", 1)]);
    within(registration.remove()).await;
    assert_eq!(recorder.now(), ["+a1"]);
    running.stop().await.unwrap();
}

// contract: P-08
#[tokio::test]
async fn a_foreign_registration_changes_nothing() {
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

// contract: P-08
#[tokio::test]
async fn before_the_start_and_after_the_end_it_succeeds_as_well() {
    let processor = SharedProcessor::new("test");
    let (never, until_the_end) = (Recorder::new(), Recorder::new());
    let held = Arc::new(());
    let handler = {
        let (held, mut deliver) = (held.clone(), never.handler());
        move |event: &Event<Arc<Pod>>| {
            let _ = &held;
            deliver(event);
        }
    };
    let before = processor.add_handler(handler).unwrap();
    let after = processor.add_handler(until_the_end.handler()).unwrap();
    processor.publish([added("a", 1)]);
    within(before.remove()).await;
    assert_eq!(Arc::strong_count(&held), 1, "the handler has ended with it");
    assert!(matches!(before.synced().await, Err(Error::Ended { depth: 1, .. })));
    let running = start(&processor);
    assert_eq!(until_the_end.received(1).await, ["+a1"]);
    running.stop().await.unwrap();
    assert!(after.is_removed());
    within(after.remove()).await;
    assert!(!processor.remove_handler(&after).await);
    assert!(never.now().is_empty());
    no_task_left().await;
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
    assert_eq!(recorder.now(), ["+a1"], "{buffer:?}");
    running.stop().await.unwrap();
}

// contract: P-08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_removes_itself_does_not_wait_for_itself() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)] {
        for _ in 0..20 {
            removes_itself(buffer).await;
        }
    }
}

// contract: P-08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_removals_of_one_handler_one_has_removed_it() {
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

// contract: P-08, P-14
#[tokio::test(start_paused = true)]
async fn a_handler_that_was_removed_and_never_returns_is_named_at_the_end() {
    let processor = SharedProcessor::new("test");
    let registration = processor
        .handler()
        .name("gone")
        .add_async(async |_: Event<Arc<Pod>>| std::future::pending::<()>().await)
        .unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    // Idle tasks let time pass: by then it is in its callback.
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::task::yield_now().await;
    assert!(registration.remove().now_or_never().is_none());
    let ended = running.stop().await;
    assert!(
        matches!(&ended, Err(Error::Stuck { handlers }) if handlers == &[Arc::from("gone")]),
        "{ended:?}"
    );
    no_task_left().await;
    within(registration.remove()).await;
}

/// A registration that is known to the handler's own code once it is made.
type Own = Arc<OnceLock<Registration>>;

/// Waits for the removal on the thread of the caller.
type Remove = fn(&Registration);

fn with_futures(registration: &Registration) {
    futures::executor::block_on(registration.remove());
}

fn with_tokio(registration: &Registration) {
    Handle::current().block_on(registration.remove());
}

type AddRemoving = fn(HandlerBuilder<'_, Pod>, Own, Remove, Recorder) -> Registration;

/// Each kind of handler, and the filter of one.
const REMOVING: [(&str, AddRemoving); 4] = [
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

/// The handler awaits its removal with `remove`, then goes on to the end of its callback.
async fn waits_for_its_own_removal(kind: &str, add: AddRemoving, buffer: Buffer, remove: Remove) {
    let processor = SharedProcessor::new("test");
    let (own, recorder) = (Own::default(), Recorder::new());
    let registration = add(processor.handler().buffer(buffer), own.clone(), remove, recorder.clone());
    own.set(registration.clone()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1), added("b", 1)]);
    assert_eq!(recorder.received(1).await, ["+a1"], "{kind}, {buffer:?}");
    within(registration.remove()).await;
    assert_eq!(recorder.now(), ["+a1"], "{kind}, {buffer:?}");
    running.stop().await.unwrap();
}

// contract: P-08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_of_any_kind_may_wait_for_its_own_removal() {
    for (kind, add) in REMOVING {
        for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)] {
            waits_for_its_own_removal(kind, add, buffer, with_futures).await;
            if matches!(kind, "blocking" | "filter") {
                waits_for_its_own_removal(kind, add, buffer, with_tokio).await;
            }
        }
    }
}

/// A removal that was made and awaited elsewhere before the callback waits for it.
// contract: P-08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_is_handed_to_the_callback_ends_there() {
    let processor = SharedProcessor::new("test");
    let (hand_over, removal) =
        std::sync::mpsc::channel::<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>>();
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
    hand_over.send(removal).unwrap();
    gate.let_one_pass();
    assert_eq!(recorder.received(1).await, ["+a1"]);
    running.stop().await.unwrap();
}

/// A handler whose end waits for its removal.
struct RemovedAtItsEnd(Own);

impl EventHandler<Arc<Pod>> for RemovedAtItsEnd {}

impl Drop for RemovedAtItsEnd {
    fn drop(&mut self) {
        with_futures(self.0.get().unwrap());
    }
}

// contract: P-08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drop_of_a_handler_may_wait_for_its_removal() {
    for inline in [false, true] {
        for started in [false, true] {
            let processor = SharedProcessor::new("test");
            let own = Own::default();
            let handler = RemovedAtItsEnd(own.clone());
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

// contract: P-08, P-14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_waits_for_a_callback_that_outlives_its_processor() {
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
