//! Blocking handlers that a simulation runs without threads.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::{added, describe, start};
use kinformer_processor::SharedProcessor;
use kinformer_processor::stepping::{Stepping, pass_time};
use kinformer_testing::reentrant::within;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Runs two blocking handlers, and returns their callbacks with the times since the start.
fn run(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let _stepping = Stepping::from_seed(seed);
        let processor = SharedProcessor::new("test");
        let (trace, began) = (Arc::<Mutex<Vec<String>>>::default(), Instant::now());
        let own = thread::current().id();
        let handler = |name: &'static str, run_time: u64| {
            let trace = trace.clone();
            let handler = move |event: &_| {
                assert_eq!(thread::current().id(), own);
                trace.lock().push(format!("{:?} {name} {}", began.elapsed(), describe(event)));
                pass_time(Duration::from_millis(run_time));
            };
            processor.add_handler(handler).unwrap()
        };
        let (fast, slow) = (handler("fast", 0), handler("slow", 7));
        let running = start(&processor);
        for version in 0..20 {
            processor.publish([added("a", version), added("b", version)]);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..5))).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!([fast.metrics().delivered, slow.metrics().delivered], [40, 40]);
        within(running.stop()).await.unwrap();
        trace.lock().clone()
    })
}

/// A seed determines when the callbacks of blocking handlers run, all of them on the thread of the runtime.
#[test]
fn seed_determines_turns() {
    let traces: Vec<_> = (0..10).map(run).collect();
    assert_eq!(traces, (0..10).map(run).collect::<Vec<_>>());
    assert_ne!(traces[0], traces[1]);
}

/// A removal waits for the rest of the run time of a callback, and a turn that has not started is taken back.
#[tokio::test(start_paused = true)]
async fn removal_waits_for_run_time() {
    let _stepping = Stepping::from_seed(1);
    let processor = SharedProcessor::new("test");
    let called = Arc::<Mutex<u32>>::default();
    let count = called.clone();
    let handler = move |_: &_| {
        *count.lock() += 1;
        pass_time(Duration::from_secs(5));
    };
    let registration = processor.add_handler(handler).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    while *called.lock() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let began = Instant::now();
    registration.remove().await;
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
    within(running.stop()).await.unwrap();
}
