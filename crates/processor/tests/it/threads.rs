//! The threads on which callbacks that may block run.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{Pod, Recorder, added, gate, no_task_left, start, updated, within};
use kinformer_core::Change;
use kinformer_processor::{Added, Event, SharedProcessor, set_base_threads, thread_metrics};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

/// The pool is the process's own: tests that look at it take turns.
static POOL: Semaphore = Semaphore::const_new(1);

fn threads(n: usize) {
    set_base_threads(NonZero::new(n).unwrap());
}

/// As a runtime with the same number of blocking threads of its own.
fn runtime(blocking_threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).max_blocking_threads(blocking_threads).enable_all().build().unwrap()
}

// contract: P-15
#[test]
fn handlers_that_are_never_done_share_the_threads() {
    const THREADS: usize = 8;
    const HANDLERS: usize = 12;
    runtime(THREADS).block_on(async {
        let _turn = POOL.acquire().await.unwrap();
        threads(THREADS);
        let processor = SharedProcessor::new("test");
        let delivered = watch::Sender::new([0; HANDLERS]);
        for handler in 0..HANDLERS {
            let (publisher, delivered) = (processor.clone(), delivered.clone());
            let never_done = move |_: &Event<Arc<Pod>>| {
                // Each event leads to another one, so that there always is one.
                publisher.publish([updated("a", 1, 2)]);
                thread::park_timeout(Duration::from_millis(1));
                delivered.send_modify(|delivered| delivered[handler] += 1);
            };
            processor.add_handler(never_done).unwrap();
        }
        let running = start(&processor);
        processor.publish([added("a", 1)]);
        let mut all = delivered.subscribe();
        within(all.wait_for(|delivered| delivered.iter().all(|delivered| *delivered >= 20))).await.unwrap();
        assert!(thread_metrics().threads >= THREADS, "{:?}", thread_metrics());
        running.stop().await.unwrap();
    });
}

// contract: P-01, P-15
#[test]
fn a_thousand_stuck_handlers_stop_no_other_and_no_lookup() {
    const STUCK: usize = 1000;
    let runtime = runtime(512);
    let (release, released) = watch::channel(false);
    runtime.block_on(async {
        let _turn = POOL.acquire().await.unwrap();
        threads(64);
        let processor = SharedProcessor::new("test");
        let reached = watch::Sender::new(0);
        for _ in 0..STUCK {
            let (reached, mut released) = (reached.clone(), released.clone());
            let stuck = move |_: &Event<Arc<Pod>>| {
                reached.send_modify(|reached| *reached += 1);
                let _ = Handle::current().block_on(released.wait_for(|released| *released));
            };
            processor.add_handler(stuck).unwrap();
        }
        let recorder = Recorder::new();
        processor.add_handler(recorder.handler()).unwrap();
        let running = start(&processor);
        processor.publish([added("a", 1)]);
        within(reached.subscribe().wait_for(|reached| *reached == STUCK)).await.unwrap();

        assert_eq!(recorder.received(1).await, ["+a1"]);
        processor.publish([added("b", 1)]);
        assert_eq!(recorder.received(2).await, ["+a1", "+b1"]);
        assert!(within(tokio::net::lookup_host("localhost:80")).await.unwrap().next().is_some());
        let metrics = thread_metrics();
        assert!(metrics.threads > STUCK && metrics.running >= STUCK, "{metrics:?}");
        assert!(metrics.threads <= metrics.maximum, "{metrics:?}");

        release.send_replace(true);
        let ended = within(running.stop()).await;
        assert!(ended.is_ok(), "{ended:?}");
        no_task_left().await;
        let metrics = thread_metrics();
        assert_eq!((metrics.stuck, metrics.running, metrics.waiting), (0, 0, 0), "{metrics:?}");
    });
}

// contract: P-15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_that_runs_for_long_gives_its_place_to_what_waits() {
    let _turn = POOL.acquire().await.unwrap();
    threads(1);
    let processor = SharedProcessor::new("test");
    let (gate, mut wait) = gate();
    let stuck = processor.add_handler(move |_: &Event<Arc<Pod>>| wait()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    gate.reached().await;
    let recorder = Recorder::new();
    let waiting = processor.add_handler(recorder.handler()).unwrap();
    processor.publish([added("b", 1)]);
    within(async {
        while !waiting.metrics().waiting_for_thread && recorder.now().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(recorder.received(1).await, ["+b1"], "it got a thread");
    assert_eq!(thread_metrics().stuck, 1);
    assert!(!waiting.metrics().waiting_for_thread && !stuck.metrics().waiting_for_thread);
    drop(gate);
    within(stuck.remove()).await;
    assert_eq!(thread_metrics().stuck, 0);
    running.stop().await.unwrap();
}

/// A removal does not wait for a thread: nothing of the handler runs.
// contract: P-08, P-15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_waits_for_a_thread_can_be_removed() {
    let _turn = POOL.acquire().await.unwrap();
    threads(1);
    let processor = SharedProcessor::new("test");
    let (gate, mut wait) = gate();
    processor.add_handler(move |_: &Event<Arc<Pod>>| wait()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    gate.reached().await;
    for _ in 0..100 {
        let recorder = Recorder::new();
        let waiting = processor.add_handler(recorder.handler()).unwrap();
        processor.publish([added("b", 1)]);
        within(waiting.remove()).await;
        assert!(!waiting.metrics().waiting_for_thread);
    }
    drop(gate);
    running.stop().await.unwrap();
    assert_eq!(thread_metrics().waiting, 0);
}

// contract: P-15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_may_use_the_runtime_and_block_on_it() {
    let _turn = POOL.acquire().await.unwrap();
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    let note = recorder.clone();
    let handler = move |event: &Event<Arc<Pod>>| {
        let spawned = tokio::spawn(async { tokio::time::sleep(Duration::from_millis(1)).await });
        Handle::current().block_on(spawned).unwrap();
        futures::executor::block_on(tokio::time::sleep(Duration::from_millis(1)));
        note.note(event);
    };
    processor.add_handler(handler).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    assert_eq!(recorder.received(1).await, ["+a1"]);
    running.stop().await.unwrap();
}

// contract: P-14, P-15
#[test]
fn a_runtime_that_goes_away_ends_turns_and_drops_handlers() {
    let _turn = futures::executor::block_on(POOL.acquire()).unwrap();
    let runtime = runtime(8);
    let delivered = Arc::new(AtomicUsize::new(0));
    let processor = SharedProcessor::new("test");
    let registration = {
        let (delivered, publisher) = (delivered.clone(), processor.clone());
        let never_done = move |event: &Event<Arc<Pod>>| {
            delivered.fetch_add(1, Ordering::SeqCst);
            let Event::Added(Added { object, .. }) = event else { unreachable!() };
            publisher.publish([Change::added(object.clone())]);
        };
        processor.add_handler(never_done).unwrap()
    };
    runtime.block_on(async {
        drop(start(&processor));
        processor.publish([added("a", 1)]);
        while delivered.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    });
    drop(runtime);
    assert!(registration.is_removed());
    futures::executor::block_on(registration.remove());
    assert_eq!(Arc::strong_count(&delivered), 1, "the handler was dropped");
    assert_eq!(registration.metrics().panics, 0);
}

/// A paused clock stands still while a callback runs: it is not idleness.
// contract: P-15
#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_advance_while_a_callback_runs() {
    let _turn = POOL.acquire().await.unwrap();
    let processor = SharedProcessor::new("test");
    let began = tokio::time::Instant::now();
    let (done, mut is_done) = watch::channel(false);
    let handler = move |_: &Event<Arc<Pod>>| {
        thread::park_timeout(Duration::from_millis(50));
        done.send_replace(true);
    };
    processor.add_handler(handler).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    within(is_done.wait_for(|done| *done)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    running.stop().await.unwrap();
}
