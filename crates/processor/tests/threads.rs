//! The threads of blocking handlers. A test binary of its own, because all processors of a process share them.
#![cfg(not(loom))]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by a panic"
)]

#[allow(dead_code, unreachable_pub, reason = "the tests of the other binary use the rest")]
#[path = "it/common/mod.rs"]
mod common;

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{Pod, Recorder, added, gate, start, updated};
use futures::FutureExt as _;
use kinformer_core::Change;
use kinformer_processor::{Added, Event, SharedProcessor, ThreadMetrics, set_base_threads, thread_metrics};
use kinformer_testing::reentrant::within;
use kinformer_testing::tasks;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

/// The pool is global to the process: tests that inspect it run one at a time.
static POOL: Semaphore = Semaphore::const_new(1);

fn threads(n: usize) {
    set_base_threads(NonZero::new(n).unwrap());
}

/// Waits until the metrics of the pool satisfy a condition. A thread counts its callback until a moment after the end.
async fn metrics_until(condition: impl Fn(&ThreadMetrics) -> bool) {
    within(async {
        while !condition(&thread_metrics()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A runtime with this number of blocking threads.
fn runtime(blocking_threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).max_blocking_threads(blocking_threads).enable_all().build().unwrap()
}

/// Handlers whose backlogs are never empty share the threads: each makes progress.
// contract: P-15b
#[test]
fn busy_handlers_share_threads() {
    const THREADS: usize = 8;
    const HANDLERS: usize = 12;
    runtime(THREADS).block_on(async {
        let _turn = POOL.acquire().await.unwrap();
        threads(THREADS);
        let processor = SharedProcessor::new("test");
        let delivered = watch::Sender::new([0; HANDLERS]);
        for handler in 0..HANDLERS {
            let (publisher, delivered) = (processor.clone(), delivered.clone());
            let busy = move |_: &Event<Arc<Pod>>| {
                // Each event publishes another one, so that the backlog is never empty.
                publisher.publish([updated("a", 1, 2)]);
                thread::park_timeout(Duration::from_millis(1));
                delivered.send_modify(|delivered| delivered[handler] += 1);
            };
            processor.add_handler(busy).unwrap();
        }
        let running = start(&processor);
        processor.publish([added("a", 1)]);
        let mut all = delivered.subscribe();
        within(all.wait_for(|delivered| delivered.iter().all(|delivered| *delivered >= 20))).await.unwrap();
        assert!(thread_metrics().threads >= THREADS, "{:?}", thread_metrics());
        running.stop().await.unwrap();
    });
}

/// A thousand stuck handlers block no other handler and no DNS lookup.
// contract: P-01b, P-15a, P-15c, P-15d, P-15e
#[test]
fn stuck_handlers_block_no_other_work() {
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
        tasks::fall_to(0).await;
        metrics_until(|metrics| (metrics.stuck, metrics.running, metrics.waiting) == (0, 0, 0)).await;
    });
}

/// A waiting handler gets a thread although a long-running callback occupies the only regular one.
// contract: P-15c, P-15e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_callback_frees_slot_for_waiting_handler() {
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
        while !waiting.metrics().waiting_for_thread && recorder.recorded().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(recorder.received(1).await, ["+b1"], "it got a thread");
    metrics_until(|metrics| metrics.stuck == 1).await;
    assert!(!waiting.metrics().waiting_for_thread && !stuck.metrics().waiting_for_thread);
    drop(gate);
    within(stuck.remove()).await;
    metrics_until(|metrics| metrics.stuck == 0).await;
    running.stop().await.unwrap();
}

/// A removal does not wait for a thread, because no callback of the handler is running.
// contract: P-08g, P-15e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_waiting_for_thread_can_be_removed() {
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
    metrics_until(|metrics| metrics.waiting == 0).await;
}

/// A callback may spawn tasks on the runtime and block on its futures.
// contract: P-15a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_may_block_on_the_runtime() {
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

/// Dropping the runtime ends the turns of handlers and drops the handlers.
// contract: P-14b
#[test]
fn runtime_shutdown_drops_handlers() {
    let _turn = futures::executor::block_on(POOL.acquire()).unwrap();
    let runtime = runtime(8);
    let delivered = Arc::new(AtomicUsize::new(0));
    let processor = SharedProcessor::new("test");
    let registration = {
        let (delivered, publisher) = (delivered.clone(), processor.clone());
        let busy = move |event: &Event<Arc<Pod>>| {
            delivered.fetch_add(1, Ordering::SeqCst);
            let Event::Added(Added { object, .. }) = event else { unreachable!() };
            publisher.publish([Change::added(object.clone())]);
        };
        processor.add_handler(busy).unwrap()
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

/// A dropped run does not end a blocking callback: its thread drops the handler when the callback returns.
// contract: P-24c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_callback_continues_after_dropped_run() {
    let _turn = POOL.acquire().await.unwrap();
    let processor = SharedProcessor::new("test");
    let (gate, mut wait) = gate();
    let held = Arc::new(());
    let (in_handler, returned) = (held.clone(), Arc::<AtomicUsize>::default());
    let count = returned.clone();
    let handler = move |_: &Event<Arc<Pod>>| {
        let _ = &in_handler;
        wait();
        count.fetch_add(1, Ordering::SeqCst);
    };
    let registration = processor.add_handler(handler).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1), added("b", 1)]);
    gate.reached().await;
    running.task.abort();
    assert!(running.task.await.unwrap_err().is_cancelled());
    assert!(registration.remove().now_or_never().is_none(), "the callback has not returned");
    assert_eq!((returned.load(Ordering::SeqCst), Arc::strong_count(&held)), (0, 2), "its handler is alive");
    drop(gate);
    within(registration.remove()).await;
    within(async {
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(returned.load(Ordering::SeqCst), 1, "it has returned, and there was no other");
    metrics_until(|metrics| (metrics.stuck, metrics.running) == (0, 0)).await;
}

/// A paused clock does not advance while a callback runs: the runtime is not idle.
// contract: P-15g
#[tokio::test(start_paused = true)]
async fn paused_clock_waits_for_running_callback() {
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
