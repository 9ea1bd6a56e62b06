//! User code that panics: it is named, and it harms no other handler.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[allow(dead_code, unreachable_pub, reason = "the tests of the other binary use the rest")]
#[path = "it/common/mod.rs"]
mod common;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use common::{Pod, Recorder, added, at, no_task_left, pod, start, within};
use kinformer_core::{Change, KeyRef, Object};
use kinformer_processor::{Buffer, Event, InitialState, Registration, SharedProcessor};
use kinformer_testing::reentrant::CheckOnLog;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing_subscriber::layer::SubscriberExt as _;

/// What all tests of this file have logged; each looks for names of its own.
fn logged() -> &'static Mutex<Vec<u8>> {
    static LOGGED: OnceLock<Mutex<Vec<u8>>> = OnceLock::new();
    struct Writer;
    impl io::Write for Writer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            logged().lock().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    static SUBSCRIBED: OnceLock<()> = OnceLock::new();
    let logged = LOGGED.get_or_init(Mutex::default);
    SUBSCRIBED.get_or_init(|| {
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Writer).finish();
        tracing::subscriber::set_global_default(subscriber.with(CheckOnLog)).unwrap();
    });
    logged
}

/// The lines about one handler.
fn log_of(handler: &str) -> Vec<String> {
    let text = String::from_utf8(logged().lock().clone()).unwrap();
    text.lines().filter(|line| line.contains(&format!("handler={handler} "))).map(str::to_owned).collect()
}

/// Notes every event but the one for `bad`.
fn note(recorder: &Recorder, event: &Event<Arc<Pod>>) {
    assert!(event.key().name() != "bad", "cannot stand it");
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
            assert!(pod.name != "bad", "cannot stand it");
            true
        });
        handler.for_each(move |event| recorder.note(event)).unwrap()
    }),
];

// contract: P-09
#[tokio::test(start_paused = true)]
async fn a_panic_is_named_and_costs_one_event_and_a_second() {
    logged();
    for (kind, add) in KINDS {
        let processor = SharedProcessor::new("test");
        let (recorder, other) = (Recorder::new(), Recorder::new());
        let registration = add(&processor, kind, recorder.clone());
        processor.handler().inline().add(other.handler()).unwrap();
        let running = start(&processor);
        let began = Instant::now();
        processor.publish([added("a", 1), added("bad", 1)]);
        processor.publish([added("c", 1)]);

        assert_eq!(other.received(3).await, ["+a1", "+bad1", "+c1"], "{kind}: it harms no other");
        assert_eq!(began.elapsed(), Duration::ZERO, "{kind}: nor delays it");
        assert_eq!(recorder.received(2).await, ["+a1", "+c1"], "{kind}");
        // The timer is as fine as a millisecond.
        assert!((1000..=1001).contains(&began.elapsed().as_millis()), "{kind}: {:?}", began.elapsed());
        let [line] = log_of(kind).try_into().unwrap();
        assert!(line.contains("ERROR") && line.contains("key=\"bad\""), "{line}");
        assert!(line.contains("panicked: cannot stand it"), "{line}");
        running.stop().await.unwrap();
        let stats = registration.metrics();
        assert_eq!((stats.delivered, stats.panics), (2, 1), "{kind}");
    }
    no_task_left().await;
}

// contract: P-09
#[tokio::test(start_paused = true)]
async fn the_pause_after_a_panic_does_not_hold_up_the_end_nor_a_removal() {
    logged();
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

// contract: P-06, P-09
#[tokio::test(start_paused = true)]
async fn an_event_of_the_initial_list_that_panics_is_finished() {
    logged();
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

/// A handler that does not want to go.
struct Clinging(Arc<AtomicUsize>);

impl kinformer_processor::EventHandler<Arc<Pod>> for Clinging {}

impl Drop for Clinging {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("wants to stay");
    }
}

#[tokio::test]
async fn a_handler_that_panics_when_it_is_dropped_harms_no_other() {
    logged();
    let processor = SharedProcessor::new("test");
    let dropped = Arc::new(AtomicUsize::new(0));
    let clinging = || Clinging(dropped.clone());
    let never_ran = processor.handler().name("never-ran").add(clinging()).unwrap();
    let removed = processor.handler().name("removed-later").add(clinging()).unwrap();
    processor.handler().name("to-the-end").add(clinging()).unwrap();
    processor.handler().name("inline-to-the-end").inline().add(clinging()).unwrap();
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
    assert!(processor.handler().name("too-late").add(clinging()).is_err());
    for name in ["never-ran", "removed-later", "to-the-end", "inline-to-the-end", "too-late"] {
        let [line] = log_of(name).try_into().unwrap();
        assert!(line.contains("panicked: wants to stay"), "{line}");
    }
}

/// An object that panics whenever the last that holds it lets go.
struct Bomb {
    name: &'static str,
    exploded: Arc<AtomicUsize>,
}

impl Object for Bomb {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.name)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.exploded.fetch_add(1, Ordering::SeqCst);
        panic!("boom");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_panic_when_they_are_dropped_harm_no_handler() {
    logged();
    let exploded = Arc::new(AtomicUsize::new(0));
    let bomb = |name| Arc::new(Bomb { name, exploded: exploded.clone() });
    // Five in each round, several in one event.
    let round = || {
        let deleted = Change::deleted(bomb("a")).with_old(Some(bomb("a")));
        [Change::added(bomb("a")), Change::updated(bomb("a"), bomb("a")), deleted]
    };
    let initial = vec![bomb("initial"), bomb("initial")];
    let initial = Mutex::new(Some(initial));
    let state = move || InitialState::new(0, initial.lock().take().unwrap_or_default().into_iter());
    let processor = SharedProcessor::builder("test").initial_state(state).build();
    processor.publish(at(1, round()));
    assert_eq!(exploded.load(Ordering::SeqCst), 5, "without handlers");

    let handlers = [
        processor.handler().inline().add(|_: &Event<Arc<Bomb>>| ()).unwrap(),
        processor.handler().add(|_: &Event<Arc<Bomb>>| ()).unwrap(),
        processor.handler().add_async(async |_: Event<Arc<Bomb>>| ()).unwrap(),
        processor.handler().buffer(Buffer::Coalesced).inline().add(|_: &Event<Arc<Bomb>>| ()).unwrap(),
        processor.handler().filter(|_| false).inline().add(|_: &Event<Arc<Bomb>>| ()).unwrap(),
    ];
    processor.publish(at(2, round()));
    processor.publish(at(3, [Change::updated(bomb("b"), bomb("b"))]));
    processor.publish_synced();
    let running = start(&processor);
    for handler in &handlers {
        within(handler.synced()).await.unwrap();
        assert_eq!(handler.metrics().panics, 0);
    }
    // What is left at the end.
    let slow =
        processor.handler().add_async(async |_: Event<Arc<Bomb>>| std::future::pending().await).unwrap();
    processor.publish(at(4, round()));
    while slow.metrics().lag.is_zero() && slow.metrics().depth == 3 {
        tokio::task::yield_now().await;
    }
    assert!(running.stop().await.is_err(), "one was stuck");
    drop((processor, handlers, slow));
    assert_eq!(exploded.load(Ordering::SeqCst), 5 + 2 + 5 + 2 + 5);
    no_task_left().await;
}
