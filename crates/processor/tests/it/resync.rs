//! Resyncs: which handlers receive unchanged objects, and how often.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Pod, Recorder, added, at_revision, pod, start, updated};
use futures::FutureExt as _;
use kinformer_core::Change;
use kinformer_processor::{Buffer, Event, InitialState, Registration, SharedProcessor};
use kinformer_testing::reentrant::within;
use tokio::time::advance;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn add_with_period(processor: &SharedProcessor<Pod>, period: Duration, recorder: &Recorder) -> Registration {
    processor.handler().resync(period).inline().add(recorder.handler()).unwrap()
}

/// Resyncs one object, if any handler is due.
async fn resync(processor: &SharedProcessor<Pod>) {
    if let Some(due) = processor.take_due_handlers() {
        within(processor.send_resync(due, [Change::unchanged(pod("a", 1))])).await;
    }
}

/// Only handlers that are due receive unchanged objects.
// contract: P-03b, P-04a, P-04b, P-04e
#[tokio::test(start_paused = true)]
async fn resync_reaches_only_due_handlers() {
    let processor = SharedProcessor::builder("test").resync(secs(10)).build();
    let [default, often, never] = [(); 3].map(|()| Recorder::new());
    let registration = processor.handler().inline().add(default.handler()).unwrap();
    assert_eq!(registration.resync_period(), Some(secs(10)));
    add_with_period(&processor, secs(4), &often);
    assert_eq!(add_with_period(&processor, Duration::ZERO, &never).resync_period(), None);
    assert_eq!(processor.resync_check_period(), Some(secs(4)));
    let running = start(&processor);

    assert!(!processor.mark_due_handlers(), "no handler is due at the start");
    resync(&processor).await;
    for step in 1..=5 {
        advance(secs(2)).await;
        // After 4 s and 8 s for one handler, after 10 s for the other.
        assert_eq!(processor.mark_due_handlers(), [2, 4, 5].contains(&step), "after {step} steps");
        resync(&processor).await;
        assert!(!processor.mark_due_handlers(), "checked again immediately");
        resync(&processor).await;
    }
    processor.publish([added("end", 1)]);
    assert_eq!(often.received(3).await, ["a1>1", "a1>1", "+end1"]);
    assert_eq!(default.received(2).await, ["a1>1", "+end1"]);
    assert_eq!(never.received(1).await, ["+end1"]);
    running.stop().await.unwrap();
}

/// If `send_resync` is dropped, the objects published so far are delivered and the others are not.
// contract: P-04a, P-10f
#[tokio::test(start_paused = true)]
async fn dropped_send_resync_keeps_published_part() {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    let handler = processor.handler().resync(secs(4)).buffer(Buffer::BackPressure(2)).inline();
    handler.add(recorder.handler()).unwrap();
    let unchanged = || ["a", "b", "c"].map(|name| Change::unchanged(pod(name, 1)));
    advance(secs(4)).await;
    assert!(processor.mark_due_handlers());
    let due = processor.take_due_handlers().unwrap();
    assert!(
        processor.send_resync(due, unchanged()).now_or_never().is_none(),
        "the processor is not running yet"
    );

    let running = start(&processor);
    within(processor.send([added("end", 1)])).await;
    assert_eq!(recorder.received(3).await, ["a1>1", "b1>1", "+end1"]);
    assert!(!processor.mark_due_handlers(), "the rest is not sent again");
    advance(secs(4)).await;
    assert!(processor.mark_due_handlers());
    within(processor.send_resync(processor.take_due_handlers().unwrap(), unchanged())).await;
    assert_eq!(recorder.received(6).await[3..], ["a1>1", "b1>1", "c1>1"]);
    running.stop().await.unwrap();
}

/// A late handler is resynced to the state of its initial list even if no object has changed since.
// contract: P-04a, P-05a
#[tokio::test(start_paused = true)]
async fn late_handler_is_resynced_without_changes() {
    let state = || InitialState::new(1, vec![pod("a", 1)].into_iter());
    let processor = SharedProcessor::builder("test").initial_state(state).build();
    let [early, late] = [(); 2].map(|()| Recorder::new());
    add_with_period(&processor, secs(2), &early);
    let running = start(&processor);
    processor.publish(at_revision(1, [added("a", 1)]));
    add_with_period(&processor, secs(2), &late);
    for _ in 0..2 {
        advance(secs(2)).await;
        assert!(processor.mark_due_handlers());
        let due = processor.take_due_handlers().unwrap();
        processor.send_resync(due, at_revision(1, [Change::unchanged(pod("a", 1))])).await;
    }
    assert_eq!(late.received(3).await, ["+a1!", "a1>1", "a1>1"]);
    assert_eq!(early.received(3).await, ["+a1!", "a1>1", "a1>1"]);
    running.stop().await.unwrap();
}

/// A resync is delivered to the handlers that were due when it began, and to no others.
// contract: P-03b, P-18a
#[tokio::test(start_paused = true)]
async fn resync_targets_handlers_due_at_its_start() {
    let processor = SharedProcessor::new("test");
    let [early, late] = [(); 2].map(|()| Recorder::new());
    add_with_period(&processor, secs(2), &early);
    let coalesced = Recorder::new();
    processor
        .handler()
        .buffer(Buffer::Coalesced)
        .resync(Duration::ZERO)
        .inline()
        .add(coalesced.handler())
        .unwrap();
    advance(secs(2)).await;
    assert!(processor.mark_due_handlers());
    resync(&processor).await;
    add_with_period(&processor, secs(2), &late);
    assert!(processor.take_due_handlers().is_none(), "no handler is due twice");
    advance(secs(2)).await;
    assert!(processor.mark_due_handlers());
    resync(&processor).await;
    processor.publish([added("end", 1)]);
    // The handlers read their backlog only now.
    let running = start(&processor);
    assert_eq!(early.received(3).await, ["a1>1", "a1>1", "+end1"]);
    assert_eq!(late.received(2).await, ["a1>1", "+end1"]);
    assert_eq!(coalesced.received(1).await, ["+end1"]);
    running.stop().await.unwrap();
}

/// A stuck handler that is not due holds nothing of a resync, and does not delay it.
// contract: P-04b, P-10f, P-10g
#[tokio::test(start_paused = true)]
async fn resync_is_not_in_the_backlog_of_other_handlers() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(2)] {
        let processor = SharedProcessor::new("test");
        let recorder = Recorder::new();
        add_with_period(&processor, secs(1), &recorder);
        let stuck = async |_: Event<Arc<Pod>>| std::future::pending().await;
        let stuck = processor.handler().resync(secs(9)).buffer(buffer).add_async(stuck).unwrap();
        let running = start(&processor);
        processor.publish([added("a", 1)]);
        recorder.received(1).await;
        for round in 1..=3 {
            advance(secs(1)).await;
            assert!(processor.mark_due_handlers());
            let due = processor.take_due_handlers().unwrap();
            let objects: Vec<_> = (0..100).map(|i| pod(&format!("o{i}"), 1)).collect();
            let alive: Vec<_> = objects.iter().map(Arc::downgrade).collect();
            within(processor.send_resync(due, objects.into_iter().map(Change::unchanged))).await;
            recorder.received(1 + 100 * round).await;
            tokio::task::yield_now().await;
            assert_eq!((stuck.metrics().depth, processor.is_ready()), (0, true), "{buffer:?}");
            assert!(alive.iter().all(|object| object.strong_count() == 0), "{buffer:?}");
        }
        running.cancel.cancel();
        running.task.abort();
    }
}

/// A due handler that has not started yet receives a resync between the changes before and after it.
// contract: P-04a, P-10g, P-18b
#[tokio::test(start_paused = true)]
async fn resync_keeps_its_place_among_changes() {
    for buffer in [Buffer::EveryEvent, Buffer::BackPressure(100)] {
        let processor = SharedProcessor::new("test");
        let recorder = Recorder::new();
        let handler = processor.handler().resync(secs(1)).buffer(buffer).inline();
        let registration = handler.add(recorder.handler()).unwrap();
        let mut expected = Vec::new();
        for round in 1..=3 {
            processor.publish([updated("b", round - 1, round)]);
            advance(secs(1)).await;
            for name in ["a", "b"] {
                assert!(processor.mark_due_handlers());
                let due = processor.take_due_handlers().unwrap();
                processor.send_resync(due, [Change::unchanged(pod(name, round))]).await;
                advance(secs(1)).await;
            }
            expected.extend([
                format!("b{}>{round}", round - 1),
                format!("a{round}>{round}"),
                format!("b{round}>{round}"),
            ]);
        }
        assert_eq!(registration.metrics().depth, 9);
        let running = start(&processor);
        assert_eq!(recorder.received(9).await, expected);
        assert_eq!(registration.metrics().depth, 0);
        running.stop().await.unwrap();
    }
}

/// A check for due handlers does not affect a resync that is being sent. Two handlers are due at different times, and a
/// third makes the publisher wait in the middle of each resync.
// contract: P-18a, P-18b, P-18d, P-18c
#[tokio::test(start_paused = true)]
async fn due_check_does_not_affect_running_resync() {
    const OBJECTS: usize = 100;
    let processor = SharedProcessor::new("test");
    let [seldom, often] = [(); 2].map(|()| Recorder::new());
    add_with_period(&processor, secs(3), &seldom);
    add_with_period(&processor, secs(1), &often);
    let slow = async |_: Event<Arc<Pod>>| tokio::time::sleep(Duration::from_millis(50)).await;
    let slow = processor.handler().buffer(Buffer::BackPressure(1)).resync(secs(3)).add_async(slow).unwrap();
    let running = start(&processor);
    let all = || (0..OBJECTS).map(|i| Change::unchanged(pod(&format!("o{i}"), 1)));
    let one: Vec<_> = (0..OBJECTS).map(|i| format!("o{i}1>1")).collect();

    advance(secs(3)).await;
    assert!(processor.mark_due_handlers());
    let first = processor.take_due_handlers().unwrap();
    let sending = tokio::spawn({
        let processor = processor.clone();
        async move { processor.send_resync(first, all()).await }
    });
    // Sending takes five seconds.
    for _ in 0..3 {
        advance(secs(1)).await;
        assert!(processor.mark_due_handlers(), "one of them is due again");
    }
    within(sending).await.unwrap();
    assert_eq!(seldom.received(OBJECTS).await, one);
    assert_eq!(often.received(OBJECTS).await, one);

    // The checks made meanwhile add up to one resync for each handler but the slow one, whose period has begun again.
    let second = processor.take_due_handlers().unwrap();
    assert!(processor.take_due_handlers().is_none());
    within(processor.send_resync(second, all())).await;
    let twice = [&one[..], &one[..]].concat();
    assert_eq!(often.received(2 * OBJECTS).await, twice);
    assert_eq!(seldom.received(2 * OBJECTS).await, twice);
    processor.publish_synced();
    within(slow.synced()).await.unwrap();
    assert_eq!(slow.metrics().delivered, OBJECTS as u64);
    running.stop().await.unwrap();
}

/// A handler with back-pressure that needs longer for a resync than its period leaves a whole period without a resync.
// contract: P-18e
#[tokio::test(start_paused = true)]
async fn overloaded_handler_leaves_time_for_changes() {
    let processor = SharedProcessor::new("test");
    let slow = async |_: Event<Arc<Pod>>| tokio::time::sleep(secs(1)).await;
    processor.handler().buffer(Buffer::BackPressure(1)).resync(secs(3)).add_async(slow).unwrap();
    let running = start(&processor);
    let ten = || (0..10).map(|i| Change::unchanged(pod(&format!("o{i}"), 1)));
    advance(secs(3)).await;
    assert!(processor.mark_due_handlers());
    let due = processor.take_due_handlers().unwrap();
    let began = tokio::time::Instant::now();
    let mut sending = pin!(processor.send_resync(due, ten()));
    let mut marked = 0;
    while (&mut sending).now_or_never().is_none() {
        advance(secs(1)).await;
        marked += usize::from(processor.mark_due_handlers());
    }
    assert!(marked > 0 && began.elapsed() > secs(3), "it is found due during its resync");
    for _ in 0..2 {
        advance(secs(1)).await;
        assert!(!processor.mark_due_handlers());
    }
    assert!(processor.take_due_handlers().is_none());
    advance(secs(1)).await;
    assert!(processor.mark_due_handlers());
    running.stop().await.unwrap();
}

/// A handler that was due and is then removed is no longer due.
// contract: P-18a
#[tokio::test(start_paused = true)]
async fn removal_clears_pending_resync() {
    let processor = SharedProcessor::<Pod>::new("test");
    let registration = add_with_period(&processor, secs(5), &Recorder::new());
    advance(secs(5)).await;
    assert!(processor.mark_due_handlers());
    registration.remove().await;
    assert!(processor.take_due_handlers().is_none());
    assert!(!processor.mark_due_handlers());
}

// contract: P-04e, I-15
#[tokio::test(start_paused = true)]
async fn maximum_period_disables_resync() {
    let processor = SharedProcessor::<Pod>::builder("test").resync(Duration::MAX).build();
    let default = processor.add_handler(|_: &Event<Arc<Pod>>| ()).unwrap();
    let never = add_with_period(&processor, Duration::MAX, &Recorder::new());
    let almost = add_with_period(&processor, Duration::MAX - secs(1), &Recorder::new());
    for registration in [&default, &never, &almost] {
        assert_eq!(registration.resync_period(), None);
    }
    assert_eq!(processor.resync_check_period(), None);
    assert!(!processor.mark_due_handlers());
    // Next to a handler with a period, before and after the start.
    let recorder = Recorder::new();
    add_with_period(&processor, secs(10), &recorder);
    let running = start(&processor);
    tokio::task::yield_now().await;
    assert_eq!(add_with_period(&processor, Duration::MAX, &Recorder::new()).resync_period(), None);
    assert_eq!(processor.resync_check_period(), Some(secs(10)));
    advance(secs(10)).await;
    assert!(processor.mark_due_handlers());
    running.stop().await.unwrap();
}

// contract: P-04c
#[tokio::test(start_paused = true)]
async fn periods_below_one_second_become_one_second() {
    let processor = SharedProcessor::<Pod>::builder("test").resync(Duration::from_millis(1)).build();
    assert_eq!(processor.resync_check_period(), Some(secs(1)));
    let registration = add_with_period(&processor, Duration::from_millis(999), &Recorder::new());
    assert_eq!(registration.resync_period(), Some(secs(1)));
    assert_eq!(processor.resync_check_period(), Some(secs(1)));
}

// contract: P-04d
#[tokio::test(start_paused = true)]
async fn check_period_shrinks_only_before_start() {
    let processor = SharedProcessor::builder("test").resync(secs(60)).build();
    let recorder = Recorder::new();
    add_with_period(&processor, secs(90), &recorder);
    assert_eq!(processor.resync_check_period(), Some(secs(60)));
    let smallest = add_with_period(&processor, secs(30), &recorder);
    assert_eq!(processor.resync_check_period(), Some(secs(30)));
    let running = start(&processor);
    tokio::task::yield_now().await;

    assert_eq!(add_with_period(&processor, secs(5), &recorder).resync_period(), Some(secs(30)));
    assert_eq!(add_with_period(&processor, secs(45), &recorder).resync_period(), Some(secs(45)));
    smallest.remove().await;
    assert_eq!(processor.resync_check_period(), Some(secs(30)), "a removal does not change it");
    running.stop().await.unwrap();
}

/// If no handler requested resyncs before the start, handlers added later get none.
// contract: P-04d
#[tokio::test(start_paused = true)]
async fn no_resync_before_start_means_none_after() {
    let processor = SharedProcessor::<Pod>::new("test");
    let without = processor.add_handler(|_: &Event<Arc<Pod>>| ()).unwrap();
    assert_eq!((without.resync_period(), processor.resync_check_period()), (None, None));
    let running = start(&processor);
    tokio::task::yield_now().await;
    assert_eq!(add_with_period(&processor, secs(5), &Recorder::new()).resync_period(), None);
    assert_eq!(processor.resync_check_period(), None);
    advance(secs(60)).await;
    assert!(!processor.mark_due_handlers());
    running.stop().await.unwrap();
}

// contract: P-04b
#[tokio::test(start_paused = true)]
async fn removed_handler_is_not_due() {
    let processor = SharedProcessor::<Pod>::new("test");
    let registration = add_with_period(&processor, secs(5), &Recorder::new());
    advance(secs(5)).await;
    registration.remove().await;
    assert!(!processor.mark_due_handlers());
}
