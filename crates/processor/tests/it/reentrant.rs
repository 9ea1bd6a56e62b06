//! User code may call the processor wherever it runs: no lock is held there.
//!
//! All tests check this through `common::start` and `common::within`; the tests here cover the remaining places.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Pod, added, at_revision, pod, start};
use futures::{FutureExt as _, StreamExt as _};
use kinformer_processor::{Buffer, Error, Event, EventHandler, InitialState, Registration, SharedProcessor};
use kinformer_testing::reentrant::within;
use kinformer_testing::reentrant::{self, CheckOnDrop};
use kinformer_testing::tasks;

/// A log subscriber may call the processor while the warning about a stuck handler is logged.
// contract: P-17a, P-17b
#[tokio::test(start_paused = true)]
async fn log_subscriber_may_call_processor() {
    let processor = SharedProcessor::new("test");
    let stuck =
        processor.handler().add_async(async |_: Event<Arc<Pod>>| std::future::pending().await).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    while !stuck.metrics().stuck {
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    assert!(matches!(running.stop().await, Err(Error::Stuck { .. })));
}

/// Adds a handler of each kind. Its filter, its closure and the handler call the processor when they are dropped.
fn handlers(processor: &SharedProcessor<Pod>) -> Vec<Registration> {
    struct Handler {
        _dropped: CheckOnDrop,
    }
    impl EventHandler<Arc<Pod>> for Handler {}
    let handler = || Handler { _dropped: CheckOnDrop("the drop of a handler") };
    let mut added = Vec::new();
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)] {
        let filter = CheckOnDrop("the drop of a filter");
        let builder = || {
            let filter = filter.clone();
            processor.handler().buffer(buffer).resync(Duration::from_secs(5)).filter(move |_| {
                let _ = &filter;
                true
            })
        };
        added.push(builder().add(handler()).unwrap());
        added.push(builder().inline().add(handler()).unwrap());
        let dropped = CheckOnDrop("the drop of a closure");
        let future = move |_: Event<Arc<Pod>>| {
            let dropped = dropped.clone();
            async move { drop(dropped) }
        };
        added.push(builder().add_async(future).unwrap());
    }
    added
}

/// An initial list whose iterator calls the processor for each object and when it is dropped.
fn state() -> InitialState<Pod> {
    let dropped = CheckOnDrop("the drop of an initial list");
    let objects = (0..3).map(move |i| {
        let _ = &dropped;
        reentrant::run_checks("the iterator of an initial list");
        pod(&format!("pod-{i}"), 1)
    });
    InitialState::new(1, objects)
}

/// Handlers, filters and initial lists may call the processor when they are dropped, however the handler ends.
// contract: P-17a, P-17b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drops_may_call_processor() {
    check_calls_in_drops(Duration::from_secs(100), |ended| ended.is_ok()).await;
    // Handlers that have not stopped by then are dropped at their await points.
    check_calls_in_drops(Duration::ZERO, |ended| matches!(ended, Ok(()) | Err(Error::Stuck { .. }))).await;
}

async fn check_calls_in_drops(grace: Duration, is_expected: fn(&Result<(), Error>) -> bool) {
    let last = CheckOnDrop("the drop of the state's function");
    let initial_state = move || {
        let _ = &last;
        state()
    };
    let processor = SharedProcessor::builder("test").initial_state(initial_state).grace(grace).build();
    let before = handlers(&processor);
    // Removed before the start, with an undelivered initial list.
    within(before[0].remove()).await;
    let running = start(&processor);
    let after = handlers(&processor);
    processor.publish_synced();
    processor.publish(at_revision(2, [added("pod-3", 2)]));
    for registration in before[1..].iter().chain(&after) {
        within(registration.synced()).await.unwrap();
    }
    let mut stream = processor.stream().unwrap();
    drop(within(stream.next()).await);
    for registration in &after {
        within(registration.remove()).await;
    }
    let ended = running.stop().await;
    assert!(is_expected(&ended), "{ended:?}");
    assert!(processor.handler().add(|_: &Event<Arc<Pod>>| ()).is_err());
    tasks::fall_to(0).await;
    drop(stream);
    drop((before, after, processor));
    assert_eq!(reentrant::blocked_checks(), [""; 0]);
}

// contract: P-17a, P-17b
#[tokio::test]
async fn wakers_may_call_processor() {
    let processor = SharedProcessor::new("test");
    let registration =
        processor.handler().buffer(Buffer::BackPressure(1)).inline().add(|_: &Event<Arc<Pod>>| ()).unwrap();
    let stream = processor.handler().buffer(Buffer::BackPressure(1)).stream().unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    let mut waits: Vec<_> = (0..3)
        .map(|_| {
            let (processor, registration) = (processor.clone(), registration.clone());
            let wait = async move {
                processor.ready().await;
                let _ = registration.synced().await;
                registration.remove().await;
            };
            reentrant::check_on_wake(Box::pin(wait))
        })
        .collect();
    for wait in &mut waits {
        assert!(wait.now_or_never().is_none());
    }
    let all = futures::future::join_all(waits);
    // The stream is not polled: the other waits last until it is removed.
    drop(stream);
    processor.publish_synced();
    within(all).await;
    running.stop().await.unwrap();
}
