//! User code that asks the processor for everything, wherever it runs: no lock is held there.
//!
//! All tests ask so, by `common::start` and `common::within`; here is what they do not come by.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Pod, added, at, no_task_left, pod, start, within};
use futures::{FutureExt as _, StreamExt as _};
use kinformer_processor::{Buffer, Error, Event, EventHandler, InitialState, Registration, SharedProcessor};
use kinformer_testing::reentrant::{self, CheckOnDrop};

// contract: P-17
#[tokio::test(start_paused = true)]
async fn a_subscriber_may_ask_while_the_watchdog_warns() {
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

/// A handler of each kind, each with something that asks when it is dropped.
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

/// Objects that are taken one by one, with something that asks when it is dropped.
fn state() -> InitialState<Pod> {
    let dropped = CheckOnDrop("the drop of an initial list");
    let objects = (0..3).map(move |i| {
        let _ = &dropped;
        reentrant::run_checks("the iterator of an initial list");
        pod(&format!("pod-{i}"), 1)
    });
    InitialState::new(1, objects)
}

// contract: P-17
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drops_may_ask_however_a_handler_ends() {
    drops_may_ask(Duration::from_secs(100), |ended| ended.is_ok()).await;
    // Handlers that have not noticed the end by then are dropped at their await points.
    drops_may_ask(Duration::ZERO, |ended| matches!(ended, Ok(()) | Err(Error::Stuck { .. }))).await;
}

async fn drops_may_ask(grace: Duration, is_expected: fn(&Result<(), Error>) -> bool) {
    let last = CheckOnDrop("the drop of the state's function");
    let look = move || {
        let _ = &last;
        state()
    };
    let processor = SharedProcessor::builder("test").initial_state(look).grace(grace).build();
    let before = handlers(&processor);
    // Before the start, with all of the initial list left.
    within(before[0].remove()).await;
    let running = start(&processor);
    let after = handlers(&processor);
    processor.publish_synced();
    processor.publish(at(2, [added("pod-3", 2)]));
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
    no_task_left().await;
    drop(stream);
    drop((before, after, processor));
    assert_eq!(reentrant::blocked_checks(), [""; 0]);
}

// contract: P-17
#[tokio::test]
async fn wakers_may_ask_for_whatever_they_wait_for() {
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
    // Nothing takes from it: the others wait for its room until it is removed.
    drop(stream);
    processor.publish_synced();
    within(all).await;
    running.stop().await.unwrap();
}
