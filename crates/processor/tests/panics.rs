//! User code that panics: the log names the handler, and no other handler is affected. A test binary of its own,
//! because it records the log of the process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test fails by a panic"
)]

#[allow(dead_code, unreachable_pub, reason = "the other test binary uses the rest")]
#[path = "it/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Pod, Recorder, added, at_revision, pod, start};
use kinformer_core::{Change, KeyRef, Object};
use kinformer_processor::{Buffer, Event, InitialState, Registration, SharedProcessor};
use kinformer_testing::logs;
use kinformer_testing::panics::panic_twice;
use kinformer_testing::reentrant::within;
use kinformer_testing::tasks;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The lines about one handler.
fn log_of(handler: &str) -> Vec<String> {
    let handler = format!("handler={handler} ");
    logs::lines().into_iter().filter(|line| line.contains(&handler)).collect()
}

/// Panics for `bad`, and for `worse` with a payload that panics when it is dropped.
fn check(name: &str) {
    assert!(name != "bad", "bad object");
    if name == "worse" {
        panic_twice();
    }
}

/// Records every event, and panics for some objects.
fn note(recorder: &Recorder, event: &Event<Arc<Pod>>) {
    check(event.key().name());
    recorder.note(event);
}

type Add = fn(&SharedProcessor<Pod>, &'static str, Recorder) -> Registration;

const KINDS: [(&str, Add); 5] = [
    ("blocking", |processor, name, recorder| {
        processor.handler().name(name).for_each(move |event| note(&recorder, event)).unwrap()
    }),
    ("inline", |processor, name, recorder| {
        processor.handler().name(name).inline().for_each(move |event| note(&recorder, event)).unwrap()
    }),
    ("future", |processor, name, recorder| {
        let handler = move |event: Event<Arc<Pod>>| {
            let recorder = recorder.clone();
            async move {
                tokio::task::yield_now().await;
                note(&recorder, &event);
            }
        };
        processor.handler().name(name).add_async(handler).unwrap()
    }),
    ("coalesced", |processor, name, recorder| {
        let handler = processor.handler().name(name).buffer(Buffer::Coalesced);
        handler.inline().for_each(move |event| note(&recorder, event)).unwrap()
    }),
    ("filtered", |processor, name, recorder| {
        let handler = processor.handler().name(name).filter(|pod: &Arc<Pod>| {
            check(&pod.name);
            true
        });
        handler.for_each(move |event| recorder.note(event)).unwrap()
    }),
];

/// A panic of a handler is logged with its name. The handler skips one event and pauses for one second.
// contract: P-09a, P-09b, P-09c
#[tokio::test(start_paused = true)]
async fn panic_costs_one_event_and_one_second() {
    logs::capture();
    for (kind, add) in KINDS {
        let processor = SharedProcessor::new("test");
        let (recorder, other) = (Recorder::new(), Recorder::new());
        let registration = add(&processor, kind, recorder.clone());
        processor.handler().inline().add(other.handler()).unwrap();
        let running = start(&processor);
        let began = Instant::now();
        processor.publish([added("a", 1), added("bad", 1)]);
        processor.publish([added("c", 1)]);

        assert_eq!(
            other.received(3).await,
            ["+a1", "+bad1", "+c1"],
            "{kind}: other handlers are not affected"
        );
        assert_eq!(began.elapsed(), Duration::ZERO, "{kind}: nor delayed");
        assert_eq!(recorder.received(2).await, ["+a1", "+c1"], "{kind}");
        // The timer has a resolution of one millisecond.
        assert!((1000..=1001).contains(&began.elapsed().as_millis()), "{kind}: {:?}", began.elapsed());
        let [line] = log_of(kind).try_into().unwrap();
        assert!(line.contains("ERROR") && line.contains("key=\"bad\""), "{line}");
        assert!(line.contains("panicked: bad object"), "{line}");
        running.stop().await.unwrap();
        let stats = registration.metrics();
        assert_eq!((stats.delivered, stats.panics), (2, 1), "{kind}");
    }
    tasks::fall_to(0).await;
}

/// A panic whose payload panics when it is dropped costs one event as well.
// contract: P-09a, P-09b, P-09d
#[tokio::test(start_paused = true)]
async fn panicking_payload_costs_one_event() {
    logs::capture();
    for (kind, add) in KINDS {
        let processor = SharedProcessor::new("test");
        let (recorder, name) = (Recorder::new(), format!("{kind}-payload").leak());
        let registration = add(&processor, name, recorder.clone());
        let running = start(&processor);
        processor.publish([added("a", 1), added("worse", 1), added("c", 1)]);
        assert_eq!(recorder.received(2).await, ["+a1", "+c1"], "{kind}");
        let [line] = log_of(name).try_into().unwrap();
        assert!(line.contains("key=\"worse\"") && line.contains("panicked: no message"), "{line}");
        running.stop().await.unwrap();
        let stats = registration.metrics();
        assert_eq!((stats.delivered, stats.panics), (2, 1), "{kind}");
    }
}

/// The pause after a panic delays neither a removal nor the stop.
// contract: P-09c
#[tokio::test(start_paused = true)]
async fn panic_pause_delays_no_removal_and_no_stop() {
    logs::capture();
    for (kind, add) in KINDS {
        let processor = SharedProcessor::new("test");
        let removed = add(&processor, "removed", Recorder::new());
        let stopped = add(&processor, "stopped", Recorder::new());
        let running = start(&processor);
        let began = Instant::now();
        processor.publish([added("bad", 1)]);
        while removed.metrics().panics + stopped.metrics().panics < 2 {
            tokio::task::yield_now().await;
        }
        within(removed.remove()).await;
        running.stop().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "{kind}");
    }
}

/// An event of the initial list whose callback panics counts as processed.
// contract: P-06c, P-09b
#[tokio::test(start_paused = true)]
async fn panic_in_initial_list_does_not_block_sync() {
    logs::capture();
    for (kind, add) in KINDS {
        let state = || InitialState::new(0, vec![pod("bad", 1)].into_iter());
        let processor = SharedProcessor::builder("test").initial_state(state).build();
        let registration = add(&processor, "initial", Recorder::new());
        let running = start(&processor);
        processor.publish_synced();
        within(registration.synced()).await.unwrap();
        assert_eq!(registration.metrics().panics, 1, "{kind}");
        running.stop().await.unwrap();
    }
}

/// A handler that panics when it is dropped.
struct PanickingHandler(Arc<AtomicUsize>);

impl kinformer_processor::EventHandler<Arc<Pod>> for PanickingHandler {}

impl Drop for PanickingHandler {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("handler dropped");
    }
}

/// A handler that panics when it is dropped does not affect others.
#[tokio::test]
async fn handler_drop_panic_affects_no_other() {
    logs::capture();
    let processor = SharedProcessor::new("test");
    let dropped = Arc::new(AtomicUsize::new(0));
    let panicking = || PanickingHandler(dropped.clone());
    let never_ran = processor.handler().name("never-ran").add(panicking()).unwrap();
    let removed = processor.handler().name("removed-later").add(panicking()).unwrap();
    processor.handler().name("to-the-end").add(panicking()).unwrap();
    processor.handler().name("inline-to-the-end").inline().add(panicking()).unwrap();
    let recorder = Recorder::new();
    processor.add_handler(recorder.handler()).unwrap();

    within(never_ran.remove()).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    assert_eq!(recorder.received(1).await, ["+a1"]);
    within(removed.remove()).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    running.stop().await.unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 4);
    assert!(processor.handler().name("too-late").add(panicking()).is_err());
    for name in ["never-ran", "removed-later", "to-the-end", "inline-to-the-end", "too-late"] {
        let [line] = log_of(name).try_into().unwrap();
        assert!(line.contains("panicked: handler dropped"), "{line}");
    }
}

/// An object that panics when it is dropped.
struct PanickingObject {
    name: &'static str,
    dropped: Arc<AtomicUsize>,
}

impl Object for PanickingObject {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.name)
    }
}

impl Drop for PanickingObject {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        panic!("boom");
    }
}

/// Objects that panic when they are dropped do not affect handlers.
#[tokio::test(start_paused = true)]
async fn object_drop_panic_affects_no_handler() {
    logs::capture();
    let dropped = Arc::new(AtomicUsize::new(0));
    let object = |name| Arc::new(PanickingObject { name, dropped: dropped.clone() });
    // Five in each round, several in one event.
    let round = || {
        let deleted = Change::deleted(object("a")).with_old(Some(object("a")));
        [Change::added(object("a")), Change::updated(object("a"), object("a")), deleted]
    };
    let initial = vec![object("initial"), object("initial")];
    let initial = Mutex::new(Some(initial));
    let state = move || InitialState::new(0, initial.lock().take().unwrap_or_default().into_iter());
    let processor = SharedProcessor::builder("test").initial_state(state).build();
    processor.publish(at_revision(1, round()));
    assert_eq!(dropped.load(Ordering::SeqCst), 5, "without handlers");

    let handlers = [
        processor.handler().inline().add(|_: &Event<Arc<PanickingObject>>| ()).unwrap(),
        processor.handler().add(|_: &Event<Arc<PanickingObject>>| ()).unwrap(),
        processor.handler().add_async(async |_: Event<Arc<PanickingObject>>| ()).unwrap(),
        processor
            .handler()
            .buffer(Buffer::Coalesced)
            .inline()
            .add(|_: &Event<Arc<PanickingObject>>| ())
            .unwrap(),
        processor.handler().filter(|_| false).inline().add(|_: &Event<Arc<PanickingObject>>| ()).unwrap(),
    ];
    processor.publish(at_revision(2, round()));
    processor.publish(at_revision(3, [Change::updated(object("b"), object("b"))]));
    processor.publish_synced();
    let running = start(&processor);
    for handler in &handlers {
        within(handler.synced()).await.unwrap();
        assert_eq!(handler.metrics().panics, 0);
    }
    // Undelivered events at the stop.
    let slow = processor
        .handler()
        .add_async(async |_: Event<Arc<PanickingObject>>| std::future::pending().await)
        .unwrap();
    processor.publish(at_revision(4, round()));
    while slow.metrics().lag.is_zero() && slow.metrics().depth == 3 {
        tokio::task::yield_now().await;
    }
    assert!(running.stop().await.is_err(), "one was stuck");
    drop((processor, handlers, slow));
    assert_eq!(dropped.load(Ordering::SeqCst), 5 + 2 + 5 + 2 + 5);
    tasks::fall_to(0).await;
}
