//! Resyncs: which handlers receive unchanged objects, and how often.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Pod, Recorder, added, at, pod, start, within};
use futures::FutureExt as _;
use kinformer_core::Change;
use kinformer_processor::{Buffer, Event, InitialState, Registration, SharedProcessor};
use tokio::time::advance;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn every(processor: &SharedProcessor<Pod>, period: Duration, recorder: &Recorder) -> Registration {
    processor.handler().resync(period).inline().add(recorder.handler()).unwrap()
}

/// Resyncs one object, if any handler is due.
async fn resync(processor: &SharedProcessor<Pod>) {
    if let Some(due) = processor.take_due_handlers() {
        within(processor.send_resync(due, [Change::unchanged(pod("a", 1))])).await;
    }
}

// contract: P-03, P-04
#[tokio::test(start_paused = true)]
async fn only_handlers_that_are_due_receive_unchanged_objects() {
    let processor = SharedProcessor::builder("test").resync(secs(10)).build();
    let [default, often, never] = [(); 3].map(|()| Recorder::new());
    let registration = processor.handler().inline().add(default.handler()).unwrap();
    assert_eq!(registration.resync_period(), Some(secs(10)));
    every(&processor, secs(4), &often);
    assert_eq!(every(&processor, Duration::ZERO, &never).resync_period(), None);
    assert_eq!(processor.resync_check_period(), Some(secs(4)));
    let running = start(&processor);

    assert!(!processor.mark_due_handlers(), "no handler is due at the start");
    resync(&processor).await;
    for step in 1..=5 {
        advance(secs(2)).await;
        // 4 s and 8 s for one of them, 10 s for the other.
        assert_eq!(processor.mark_due_handlers(), [2, 4, 5].contains(&step), "after {step} steps");
        resync(&processor).await;
        assert!(!processor.mark_due_handlers(), "asked again at once");
        resync(&processor).await;
    }
    processor.publish([added("end", 1)]);
    assert_eq!(often.received(3).await, ["a1>1", "a1>1", "+end1"]);
    assert_eq!(default.received(2).await, ["a1>1", "+end1"]);
    assert_eq!(never.received(1).await, ["+end1"]);
    running.stop().await.unwrap();
}

// contract: P-04, P-10
#[tokio::test(start_paused = true)]
async fn a_resync_that_is_dropped_has_published_the_first_part() {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    let handler = processor.handler().resync(secs(4)).buffer(Buffer::BackPressure(2)).inline();
    handler.add(recorder.handler()).unwrap();
    let unchanged = || ["a", "b", "c"].map(|name| Change::unchanged(pod(name, 1)));
    advance(secs(4)).await;
    assert!(processor.mark_due_handlers());
    let due = processor.take_due_handlers().unwrap();
    assert!(processor.send_resync(due, unchanged()).now_or_never().is_none(), "it does not run yet");

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

/// Nothing may ever change again: what it is resynced to is the state of its initial list.
// contract: P-04, P-05
#[tokio::test(start_paused = true)]
async fn a_late_handler_is_resynced_although_nothing_has_changed_since() {
    let state = || InitialState::new(1, vec![pod("a", 1)].into_iter());
    let processor = SharedProcessor::builder("test").initial_state(state).build();
    let [early, late] = [(); 2].map(|()| Recorder::new());
    every(&processor, secs(2), &early);
    let running = start(&processor);
    processor.publish(at(1, [added("a", 1)]));
    every(&processor, secs(2), &late);
    for _ in 0..2 {
        advance(secs(2)).await;
        assert!(processor.mark_due_handlers());
        let due = processor.take_due_handlers().unwrap();
        processor.send_resync(due, at(1, [Change::unchanged(pod("a", 1))])).await;
    }
    assert_eq!(late.received(3).await, ["+a1!", "a1>1", "a1>1"]);
    assert_eq!(early.received(3).await, ["+a1!", "a1>1", "a1>1"]);
    running.stop().await.unwrap();
}

// contract: P-03, P-18
#[tokio::test(start_paused = true)]
async fn a_resync_is_for_the_handlers_that_were_due_when_it_began() {
    let processor = SharedProcessor::new("test");
    let [early, late] = [(); 2].map(|()| Recorder::new());
    every(&processor, secs(2), &early);
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
    every(&processor, secs(2), &late);
    assert!(processor.take_due_handlers().is_none(), "no handler is due twice");
    advance(secs(2)).await;
    assert!(processor.mark_due_handlers());
    resync(&processor).await;
    processor.publish([added("end", 1)]);
    // Only now does anybody look at any of it.
    let running = start(&processor);
    assert_eq!(early.received(3).await, ["a1>1", "a1>1", "+end1"]);
    assert_eq!(late.received(2).await, ["a1>1", "+end1"]);
    assert_eq!(coalesced.received(1).await, ["+end1"]);
    running.stop().await.unwrap();
}

/// Two handlers are due at different times, and a third makes the publisher wait in the middle of each resync.
// contract: P-18
#[tokio::test(start_paused = true)]
async fn a_check_changes_nothing_about_a_resync_that_is_being_sent() {
    const OBJECTS: usize = 100;
    let processor = SharedProcessor::new("test");
    let [seldom, often] = [(); 2].map(|()| Recorder::new());
    every(&processor, secs(3), &seldom);
    every(&processor, secs(1), &often);
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
    // It takes five seconds.
    for _ in 0..3 {
        advance(secs(1)).await;
        assert!(processor.mark_due_handlers(), "one of them is due again");
    }
    within(sending).await.unwrap();
    assert_eq!(seldom.received(OBJECTS).await, one);
    assert_eq!(often.received(OBJECTS).await, one);

    // What the checks found meanwhile is one resync for each.
    let second = processor.take_due_handlers().unwrap();
    assert!(processor.take_due_handlers().is_none());
    within(processor.send_resync(second, all())).await;
    let twice = [&one[..], &one[..]].concat();
    assert_eq!(often.received(2 * OBJECTS).await, twice);
    assert_eq!(seldom.received(2 * OBJECTS).await, twice);
    processor.publish_synced();
    within(slow.synced()).await.unwrap();
    assert_eq!(slow.metrics().delivered, 2 * OBJECTS as u64);
    running.stop().await.unwrap();
}

// contract: P-18
#[tokio::test(start_paused = true)]
async fn a_handler_that_was_due_and_left_is_due_no_longer() {
    let processor = SharedProcessor::<Pod>::new("test");
    let registration = every(&processor, secs(5), &Recorder::new());
    advance(secs(5)).await;
    assert!(processor.mark_due_handlers());
    registration.remove().await;
    assert!(processor.take_due_handlers().is_none());
    assert!(!processor.mark_due_handlers());
}

// contract: P-04, I-15
#[tokio::test(start_paused = true)]
async fn the_longest_period_is_never() {
    let processor = SharedProcessor::<Pod>::builder("test").resync(Duration::MAX).build();
    let default = processor.add_handler(|_: &Event<Arc<Pod>>| ()).unwrap();
    let never = every(&processor, Duration::MAX, &Recorder::new());
    let almost = every(&processor, Duration::MAX - secs(1), &Recorder::new());
    for registration in [&default, &never, &almost] {
        assert_eq!(registration.resync_period(), None);
    }
    assert_eq!(processor.resync_check_period(), None);
    assert!(!processor.mark_due_handlers());
    // Beside one that has a period, before the start and after it.
    let recorder = Recorder::new();
    every(&processor, secs(10), &recorder);
    let running = start(&processor);
    tokio::task::yield_now().await;
    assert_eq!(every(&processor, Duration::MAX, &Recorder::new()).resync_period(), None);
    assert_eq!(processor.resync_check_period(), Some(secs(10)));
    advance(secs(10)).await;
    assert!(processor.mark_due_handlers());
    running.stop().await.unwrap();
}

// contract: P-04
#[tokio::test(start_paused = true)]
async fn periods_below_a_second_rise_to_one() {
    let processor = SharedProcessor::<Pod>::builder("test").resync(Duration::from_millis(1)).build();
    assert_eq!(processor.resync_check_period(), Some(secs(1)));
    let registration = every(&processor, Duration::from_millis(999), &Recorder::new());
    assert_eq!(registration.resync_period(), Some(secs(1)));
    assert_eq!(processor.resync_check_period(), Some(secs(1)));
}

// contract: P-04
#[tokio::test(start_paused = true)]
async fn the_check_period_shrinks_before_the_start_and_no_later() {
    let processor = SharedProcessor::builder("test").resync(secs(60)).build();
    let recorder = Recorder::new();
    every(&processor, secs(90), &recorder);
    assert_eq!(processor.resync_check_period(), Some(secs(60)));
    let smallest = every(&processor, secs(30), &recorder);
    assert_eq!(processor.resync_check_period(), Some(secs(30)));
    let running = start(&processor);
    tokio::task::yield_now().await;

    assert_eq!(every(&processor, secs(5), &recorder).resync_period(), Some(secs(30)));
    assert_eq!(every(&processor, secs(45), &recorder).resync_period(), Some(secs(45)));
    smallest.remove().await;
    assert_eq!(processor.resync_check_period(), Some(secs(30)), "it stays when a handler leaves");
    running.stop().await.unwrap();
}

// contract: P-04
#[tokio::test(start_paused = true)]
async fn without_a_resync_before_the_start_there_is_none_after_it() {
    let processor = SharedProcessor::<Pod>::new("test");
    let without = processor.add_handler(|_: &Event<Arc<Pod>>| ()).unwrap();
    assert_eq!((without.resync_period(), processor.resync_check_period()), (None, None));
    let running = start(&processor);
    tokio::task::yield_now().await;
    assert_eq!(every(&processor, secs(5), &Recorder::new()).resync_period(), None);
    assert_eq!(processor.resync_check_period(), None);
    advance(secs(60)).await;
    assert!(!processor.mark_due_handlers());
    running.stop().await.unwrap();
}

// contract: P-04
#[tokio::test(start_paused = true)]
async fn a_removed_handler_is_not_due() {
    let processor = SharedProcessor::<Pod>::new("test");
    let registration = every(&processor, secs(5), &Recorder::new());
    advance(secs(5)).await;
    registration.remove().await;
    assert!(!processor.mark_due_handlers());
}
