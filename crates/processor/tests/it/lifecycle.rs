//! Start, stop, and concurrent changes: nothing hangs, and no task or object is left.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::common::{Pod, Recorder, added, at_revision, gate, pod, start};
use futures::{FutureExt as _, StreamExt as _};
use kinformer_core::Change;
use kinformer_processor::{Buffer, Error, Event, Registration, SharedProcessor};
use kinformer_testing::reentrant::within;
use kinformer_testing::tasks;
use tokio_util::sync::CancellationToken;

/// One handler of each kind.
fn one_of_each(processor: &SharedProcessor<Pod>) -> Vec<Registration> {
    let mut registrations = Vec::new();
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(5)] {
        let handler = || processor.handler().buffer(buffer);
        registrations.push(handler().for_each(|_| ()).unwrap());
        registrations.push(handler().inline().for_each(|_| ()).unwrap());
        registrations
            .push(handler().add_async(async |_: Event<Arc<Pod>>| tokio::task::yield_now().await).unwrap());
    }
    registrations
}

/// A hundred tasks add and remove handlers while events are sent. The processor stops in the middle.
// contract: P-13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_ends_concurrent_adds_and_removes() {
    const EVENTS: u64 = 10_000;
    let processor = SharedProcessor::new("test");
    let running = start(&processor);
    let tasks: Vec<_> = (0..100)
        .map(|task| {
            let processor = processor.clone();
            tokio::spawn(async move {
                let mut rounds = 0_u64;
                loop {
                    let buffer = [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(5)][task % 3];
                    let handler = processor.handler().buffer(buffer);
                    let added = match task % 4 {
                        0 => handler.for_each(|_| ()),
                        1 => handler.inline().for_each(|_| ()),
                        2 => handler.add_async(async |_: Event<Arc<Pod>>| tokio::task::yield_now().await),
                        _ => match handler.stream() {
                            Ok(mut stream) => {
                                let _ = stream.next().now_or_never();
                                tokio::task::yield_now().await;
                                Ok(stream.registration().clone())
                            }
                            Err(error) => Err(error),
                        },
                    };
                    match added {
                        Ok(registration) if rounds.is_multiple_of(3) => drop(registration.remove()),
                        Ok(registration) => registration.remove().await,
                        Err(Error::Stopped { .. }) => return rounds,
                        Err(error) => unreachable!("{error}"),
                    }
                    rounds += 1;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for i in 0..EVENTS {
        let object = pod("a", i);
        all.push(Arc::downgrade(&object));
        within(processor.send(at_revision(i, [Change::added(object)]))).await;
        if i == EVENTS / 2 {
            running.cancel.cancel();
        }
        if i % 8 == 0 {
            tokio::task::yield_now().await;
        }
    }
    within(running.task).await.unwrap().unwrap();
    let mut rounds = 0;
    for task in tasks {
        rounds += within(task).await.unwrap();
    }
    assert!(rounds > 0);
    tasks::fall_to(0).await;
    assert!(processor.handler_metrics().is_empty());
    assert_eq!(all.iter().filter_map(Weak::upgrade).count(), 0, "objects are left");
}

// contract: P-13
#[tokio::test]
async fn fully_delivered_events_are_dropped() {
    let processor = SharedProcessor::new("test");
    let registrations = one_of_each(&processor);
    let running = start(&processor);
    let object = pod("a", 1);
    let weak = Arc::downgrade(&object);
    processor.publish([Change::added(object)]);
    processor.publish_synced();
    for registration in &registrations {
        within(registration.synced()).await.unwrap();
    }
    assert!(weak.upgrade().is_none(), "idle handlers retain no object");
    running.stop().await.unwrap();
}

// contract: P-14a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_ends_every_task() {
    let processor = SharedProcessor::new("test");
    let before = one_of_each(&processor);
    let _stream = processor.handler().buffer(Buffer::Coalesced).stream().unwrap();
    let running = start(&processor);
    let recorder = Recorder::new();
    processor.add_handler(recorder.handler()).unwrap();
    let after = one_of_each(&processor);
    for i in 0..500 {
        processor.publish([added("a", i)]);
    }
    recorder.received(1).await;
    tasks::rise_to(20).await;
    running.stop().await.unwrap();
    tasks::fall_to(0).await;
    assert!(before.iter().chain(&after).all(Registration::is_removed));
}

// contract: P-14a
#[tokio::test]
async fn dropped_run_leaves_no_task_and_no_wait() {
    let processor = SharedProcessor::new("test");
    let registrations = one_of_each(&processor);
    let stuck =
        processor.handler().add_async(async |_: Event<Arc<Pod>>| std::future::pending().await).unwrap();
    let mut stream = processor.stream().unwrap();
    {
        let mut running = Box::pin(processor.run(CancellationToken::new()));
        assert!(running.as_mut().now_or_never().is_none());
        processor.publish([added("a", 1)]);
        assert!(running.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    tasks::fall_to(0).await;
    for registration in registrations.iter().chain([&stuck]) {
        assert!(matches!(within(registration.synced()).await, Err(Error::Ended { .. })));
        within(registration.remove()).await;
    }
    assert!(within(stream.next()).await.is_none());
    assert!(matches!(processor.run(CancellationToken::new()).await, Err(Error::Stopped { .. })));
}

/// A dropped run drops callback futures at their await points, without a grace period. Their events do not count as
/// delivered, and undelivered events are lost.
// contract: P-24a, P-24e
#[tokio::test(start_paused = true)]
async fn dropped_run_drops_callbacks_and_events() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(9)] {
        let processor = SharedProcessor::builder("test").grace(Duration::from_secs(3)).build();
        let held = Arc::new(());
        let (in_callback, returned) = (held.clone(), Arc::new(AtomicUsize::new(0)));
        let counter = returned.clone();
        let handler = move |_: Event<Arc<Pod>>| {
            let (held, counter) = (in_callback.clone(), counter.clone());
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                counter.fetch_add(1, Ordering::Relaxed);
                drop(held);
            }
        };
        let registration = processor.handler().buffer(buffer).add_async(handler).unwrap();
        let running = start(&processor);
        processor.publish([added("a", 1), added("b", 1)]);
        within(async {
            while Arc::strong_count(&held) < 3 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let began = tokio::time::Instant::now();
        running.task.abort();
        tasks::fall_to(0).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "no grace period");
        assert_eq!(Arc::strong_count(&held), 1, "the callback and its handler were dropped");
        assert_eq!(returned.load(Ordering::Relaxed), 0);
        assert_eq!(registration.metrics().delivered, 0);
    }
}

/// A dropped wait of a registration or for room loses nothing: a later one checks again.
// contract: P-24b
#[tokio::test(start_paused = true)]
async fn dropped_waits_lose_nothing() {
    let processor = SharedProcessor::new("test");
    let (recorder, started) = (Recorder::new(), tokio::time::Instant::now());
    let handler = processor.handler().buffer(Buffer::BackPressure(1)).inline();
    let registration = handler.add(recorder.handler()).unwrap();
    processor.publish([added("a", 1)]);
    processor.publish_synced();
    let soon = started + Duration::from_secs(1);
    assert!(registration.synced().now_or_never().is_none());
    assert!(registration.synced().until(soon).now_or_never().is_none());
    assert!(processor.ready().now_or_never().is_none());
    let (dropped, other) = (processor.ready(), processor.ready());
    let (mut dropped, mut other) = (Box::pin(dropped), Box::pin(other));
    assert!(dropped.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
    let running = start(&processor);
    assert_eq!(recorder.received(1).await, ["+a1"]);
    drop(dropped);
    within(other).await;
    assert!(processor.is_ready(), "a wait reserves no room");
    within(registration.synced()).await.unwrap();
    within(registration.synced().until(soon)).await.unwrap();
    running.stop().await.unwrap();
}

// contract: P-16a
#[tokio::test]
async fn processor_runs_once() {
    let processor = SharedProcessor::<Pod>::new("the one");
    let running = start(&processor);
    tokio::task::yield_now().await;
    let error = processor.run(CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, Error::Running { .. }) && error.to_string().contains("\"the one\""), "{error}");
    running.stop().await.unwrap();
    let error = processor.run(CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, Error::Stopped { .. }), "{error}");
    let error = processor.add_handler(|_: &Event<Arc<Pod>>| ()).unwrap_err();
    assert!(matches!(error, Error::Stopped { .. }) && error.to_string().contains("\"the one\""), "{error}");
    assert!(matches!(processor.stream(), Err(Error::Stopped { .. })));
    // Without handlers, no published object is retained.
    let object = pod("a", 1);
    processor.publish([Change::added(object.clone())]);
    within(processor.send(at_revision(1, [added("b", 1)]))).await;
    assert_eq!(Arc::strong_count(&object), 1);
}

/// Handler futures that do not finish are dropped after the grace period, and their handlers are named in the error.
// contract: P-14a
#[tokio::test(start_paused = true)]
async fn stuck_futures_are_dropped_after_grace_period() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced] {
        let processor = SharedProcessor::builder("test").grace(Duration::from_secs(3)).build();
        let held = Arc::new(());
        let in_callback = held.clone();
        let handler = move |_: Event<Arc<Pod>>| {
            let held = in_callback.clone();
            async move {
                std::future::pending::<()>().await;
                drop(held);
            }
        };
        let stuck = processor.handler().name("stuck").buffer(buffer).add_async(handler).unwrap();
        processor.handler().name("fine").inline().for_each(|_| ()).unwrap();
        let running = start(&processor);
        processor.publish([added("a", 1)]);
        within(async {
            while Arc::strong_count(&held) < 3 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let began = tokio::time::Instant::now();
        let ended = running.stop().await;
        let Err(Error::Stuck { handlers }) = &ended else { unreachable!("{ended:?}") };
        assert_eq!(handlers.as_slice(), [Arc::from("stuck")]);
        assert_eq!(stuck.metrics().delivered, 0, "its callback was dropped");
        assert!(ended.unwrap_err().to_string().contains("stuck"));
        assert!((3000..=3001).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        assert_eq!(Arc::strong_count(&held), 1, "the callback was dropped");
        tasks::fall_to(0).await;
    }
}

// contract: P-14a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_callback_does_not_delay_stop() {
    let processor = SharedProcessor::builder("test").grace(Duration::ZERO).build();
    let (gate, mut wait) = gate();
    processor.handler().name("blocked").for_each(move |_| wait()).unwrap();
    let running = start(&processor);
    processor.publish([added("a", 1)]);
    gate.reached().await;
    let ended = running.stop().await;
    assert!(
        matches!(&ended, Err(Error::Stuck { handlers }) if handlers == &[Arc::from("blocked")]),
        "{ended:?}"
    );
    drop(gate);
    tasks::fall_to(0).await;
}

#[tokio::test(start_paused = true)]
async fn stuck_handler_is_marked_until_it_returns() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced] {
        let processor = SharedProcessor::new("test");
        let (pass, passage) = tokio::sync::watch::channel(false);
        let handler = move |_: Event<Arc<Pod>>| {
            let mut passage = passage.clone();
            async move { drop(passage.wait_for(|open| *open).await) }
        };
        let stuck = processor.handler().name("slow").buffer(buffer).add_async(handler).unwrap();
        let fine = processor.handler().filter(|_| false).inline().for_each(|_| ()).unwrap();
        let running = start(&processor);
        tokio::time::sleep(Duration::from_secs(31)).await;
        processor.publish([added("a", 1)]);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!stuck.metrics().stuck, "observed by one check only");
        // Events published meanwhile do not count as progress of the handler.
        processor.publish([added("b", 1)]);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(stuck.metrics().stuck && !fine.metrics().stuck, "{buffer:?}");
        let deadline = tokio::time::Instant::now() + Duration::from_secs(1);
        let error = stuck.synced().until(deadline).await.unwrap_err().to_string();
        assert!(error.contains("has not returned"), "{error}");

        pass.send_replace(true);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!stuck.metrics().stuck);
        running.stop().await.unwrap();
    }
}

/// A backlog of a million batches is dropped without overflowing a small stack.
#[test]
fn long_backlog_is_dropped_on_small_stack() {
    let on_a_small_stack = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let processor = SharedProcessor::new("test");
            let registration = processor.add_handler(|_: &Event<Arc<Pod>>| ()).unwrap();
            let object = pod("a", 1);
            for _ in 0..1_000_000 {
                processor.publish([Change::added(object.clone())]);
            }
            assert_eq!(registration.metrics().depth, 1_000_000);
            registration.remove().await;
            assert_eq!(Arc::strong_count(&object), 1);
        });
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(on_a_small_stack).unwrap().join().unwrap();
}

/// A future that counts its polls.
fn polls_of<F: Future>(future: F) -> (Arc<AtomicUsize>, impl Future<Output = F::Output>) {
    let polls = Arc::new(AtomicUsize::new(0));
    let count = polls.clone();
    let mut future = Box::pin(future);
    let counted = std::future::poll_fn(move |context| {
        count.fetch_add(1, Ordering::SeqCst);
        future.as_mut().poll(context)
    });
    (polls, counted)
}

/// A processor without handlers needs no task and no timer. The clock is paused, so that a timer would be visible as a
/// poll.
// contract: P-23a, P-23c
#[tokio::test(start_paused = true)]
async fn idle_processor_needs_no_task_and_no_timer() {
    let processor = SharedProcessor::new("test");
    let cancel = CancellationToken::new();
    let (polls, run) = polls_of({
        let (processor, cancel) = (processor.clone(), cancel.clone());
        async move { processor.run(cancel).await }
    });
    let running = tokio::spawn(run);
    for i in 0..3 {
        processor.publish([added("a", i)]);
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    assert_eq!((tasks::alive(), polls.load(Ordering::SeqCst)), (1, 1), "the task that runs it, polled once");

    // With a handler there are two more: its own, and the one that wakes it.
    let recorder = Recorder::new();
    let registration = processor.handler().inline().add(recorder.handler()).unwrap();
    processor.publish([added("a", 3)]);
    recorder.received(1).await;
    assert_eq!(tasks::alive(), 3);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let checked = polls.load(Ordering::SeqCst);
    assert!(checked < 10, "polled {checked} times");
    tokio::time::sleep(Duration::from_secs(36_000)).await;
    assert_eq!(polls.load(Ordering::SeqCst), checked, "the handler is idle");
    registration.remove().await;
    cancel.cancel();
    within(running).await.unwrap().unwrap();
    assert_eq!(tasks::alive(), 0);
}
