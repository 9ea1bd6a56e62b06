//! Taking a handler off, at any moment and from anywhere.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use common::{Pod, Recorder, added, gate, no_task_left, start, within};
use futures::FutureExt as _;
use kinformer_processor::{Buffer, Error, Event, Registration, SharedProcessor};

// contract: P-08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_waits_for_the_running_callback_and_nothing_comes_after_it() {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    let (gate, mut wait) = gate();
    let note = recorder.clone();
    let handler = move |event: &Event<Pod>| {
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
    assert_eq!(processor.stats()[0].depth, 2, "what it holds up is seen until it has returned");
    gate.let_one_pass();
    within(removal).await;
    assert_eq!(recorder.now(), ["+a1"]);
    assert!(processor.stats().is_empty());
    // Again, and again.
    within(registration.remove()).await;
    assert!(!within(processor.remove_handler(&registration)).await);
    running.stop().await.unwrap();
    within(registration.remove()).await;
    assert_eq!(recorder.now(), ["+a1"]);
}

// contract: P-08
#[tokio::test]
async fn a_removal_is_done_by_the_call() {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    let registration = processor.handler().inline().add(recorder.handler()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    recorder.told(1).await;
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
    assert_eq!(recorder.told(1).await, ["+a1"]);
    assert_eq!(foreign.told(1).await, ["+b1"]);
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
        let (held, mut tell) = (held.clone(), never.handler());
        move |event: &Event<Pod>| {
            let _ = &held;
            tell(event);
        }
    };
    let before = processor.add_handler(handler).unwrap();
    let after = processor.add_handler(until_the_end.handler()).unwrap();
    processor.publish([added("a", 1)]);
    within(before.remove()).await;
    assert_eq!(Arc::strong_count(&held), 1, "the handler has ended with it");
    assert!(matches!(before.synced().await, Err(Error::Ended { depth: 1, .. })));
    let running = start(&processor);
    assert_eq!(until_the_end.told(1).await, ["+a1"]);
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
    let handler = move |event: Event<Pod>| {
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
    assert_eq!(recorder.told(1).await, ["+a1"]);
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
async fn of_many_who_remove_one_handler_one_has_removed_it() {
    let processor = SharedProcessor::new("test");
    let running = start(&processor);
    for _ in 0..50 {
        let registration = processor.add_handler(|_: &Event<Pod>| ()).unwrap();
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
    assert!(processor.stats().is_empty());
    running.stop().await.unwrap();
}

// contract: P-08, P-14
#[tokio::test(start_paused = true)]
async fn a_handler_that_was_removed_and_never_returns_is_named_at_the_end() {
    let processor = SharedProcessor::new("test");
    let registration = processor
        .handler()
        .named("gone")
        .add_async(async |_: Event<Pod>| std::future::pending::<()>().await)
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
