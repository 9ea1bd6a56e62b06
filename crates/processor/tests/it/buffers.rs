//! The backlog of a slow handler: its size and content, and back-pressure on the publisher.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Pod, Recorder, added, at_revision, deleted, gate, pod, start, updated};
use futures::FutureExt as _;
use kinformer_core::Change;
use kinformer_processor::{Buffer, Event, InitialState, SharedProcessor};
use kinformer_testing::reentrant::within;

/// Lets every task run until it waits.
async fn let_tasks_run() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn adds(range: std::ops::Range<u64>) -> Vec<Change<Pod>> {
    range.map(|i| added(&format!("p{i}"), i)).collect()
}

// contract: P-10f
#[tokio::test]
async fn publisher_waits_for_back_pressure_handler() {
    let processor = SharedProcessor::new("test");
    let (gate, mut wait) = gate();
    let (slow, fast) = (Recorder::new(), Recorder::new());
    let note = slow.clone();
    let handler = move |event: &Event<Arc<Pod>>| {
        wait();
        note.note(event);
    };
    let registration = processor.handler().buffer(Buffer::BackPressure(3)).for_each(handler).unwrap();
    processor.handler().inline().add(fast.handler()).unwrap();
    let running = start(&processor);

    let mut sending = Box::pin(processor.send(adds(0..20)));
    assert!(sending.as_mut().now_or_never().is_none());
    assert_eq!(registration.metrics().depth, 3, "at most the bound is queued");
    gate.reached().await;
    // One event is being delivered by now, and three are queued.
    assert!(sending.as_mut().now_or_never().is_none());
    assert!(!processor.is_ready() && processor.ready().now_or_never().is_none());
    assert_eq!(fast.received(4).await.len(), 4);
    for delivered in 1..=16 {
        gate.let_one_pass();
        gate.reached().await;
        let sent = sending.as_mut().now_or_never().is_some();
        assert_eq!(sent, delivered == 16, "after {delivered}");
        assert_eq!(registration.metrics().depth, 3);
    }
    assert!(!processor.is_ready());
    drop(gate);
    within(processor.ready()).await;
    assert_eq!(slow.received(20).await, fast.received(20).await);
    running.stop().await.unwrap();
}

// contract: P-10f
#[tokio::test]
async fn bound_of_zero_means_one() {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    processor.handler().buffer(Buffer::BackPressure(0)).inline().add(recorder.handler()).unwrap();
    let running = start(&processor);
    within(processor.send(adds(0..10))).await;
    assert_eq!(recorder.received(10).await.len(), 10);
    running.stop().await.unwrap();
}

/// Waiting publishers continue when the blocking handler is removed or the processor stops.
// contract: P-10f
#[tokio::test]
async fn publishers_resume_after_removal_or_stop() {
    let processor = SharedProcessor::new("test");
    let running = start(&processor);
    let stuck = || {
        let handler = processor.handler().buffer(Buffer::BackPressure(1));
        handler.add_async(async |_: Event<Arc<Pod>>| std::future::pending().await).unwrap()
    };
    let (first, second) = (stuck(), stuck());
    let sending: Vec<_> = (0..3)
        .map(|_| {
            let processor = processor.clone();
            tokio::spawn(async move { processor.send(adds(0..10)).await })
        })
        .collect();
    let_tasks_run().await;
    drop(first.remove());
    let_tasks_run().await;
    assert!(sending.iter().all(|sending| !sending.is_finished()), "the other handler still blocks them");
    drop(second.remove());
    for sending in sending {
        within(sending).await.unwrap();
    }

    // The first event is in its callback, and the second one fills the buffer.
    let third = stuck();
    within(processor.send(adds(0..1))).await;
    let_tasks_run().await;
    within(processor.send(adds(1..2))).await;
    let mut sending = Box::pin(processor.send(adds(2..4)));
    assert!(sending.as_mut().now_or_never().is_none());
    running.cancel.cancel();
    within(sending).await;
    assert!(third.is_removed());
    running.task.abort();
}

/// If `send` is dropped, the events published so far are delivered and the others are not.
// contract: P-10f
#[tokio::test]
async fn dropped_send_keeps_published_part() {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    processor.handler().buffer(Buffer::BackPressure(2)).inline().add(recorder.handler()).unwrap();
    assert!(processor.send(adds(0..5)).now_or_never().is_none(), "the processor is not running yet");
    let running = start(&processor);
    within(processor.send(adds(5..6))).await;
    assert_eq!(recorder.received(3).await, ["+p00", "+p11", "+p55"]);
    running.stop().await.unwrap();
}

// contract: P-10a, P-10b, P-10g
#[tokio::test(start_paused = true)]
async fn metrics_report_depth_and_lag() {
    for (buffer, depth) in [(Buffer::EveryEvent, 3), (Buffer::Coalesced, 2), (Buffer::BackPressure(9), 3)] {
        let processor = SharedProcessor::new("test");
        let (pass, passage) = tokio::sync::watch::channel(false);
        let handler = move |_: Event<Arc<Pod>>| {
            let mut passage = passage.clone();
            async move { drop(passage.wait_for(|open| *open).await) }
        };
        let registration = processor.handler().name("slow").buffer(buffer).add_async(handler).unwrap();
        let running = start(&processor);
        let_tasks_run().await;
        let stats = registration.metrics();
        assert_eq!((stats.depth, stats.lag, stats.delivered), (0, Duration::ZERO, 0));

        processor.publish([added("a", 1)]);
        let_tasks_run().await;
        processor.publish([added("b", 1), updated("b", 1, 2), added("c", 1)]);
        let_tasks_run().await;
        tokio::time::advance(Duration::from_secs(5)).await;
        let [stats] = processor.handler_metrics().try_into().unwrap();
        assert_eq!(
            (&*stats.name, stats.depth, stats.lag),
            ("slow", depth, Duration::from_secs(5)),
            "{buffer:?}"
        );

        pass.send_replace(true);
        let_tasks_run().await;
        let stats = registration.metrics();
        assert_eq!((stats.depth, stats.lag, stats.delivered), (0, Duration::ZERO, 1 + depth as u64));
        running.stop().await.unwrap();
    }
}

// contract: P-10c, P-10d, P-10e
#[tokio::test]
async fn coalesced_backlog_keeps_newest_per_key() {
    let processor = SharedProcessor::new("test");
    let (gate, mut wait) = gate();
    let recorder = Recorder::new();
    let note = recorder.clone();
    let handler = move |event: &Event<Arc<Pod>>| {
        wait();
        note.note(event);
    };
    let registration = processor.handler().buffer(Buffer::Coalesced).for_each(handler).unwrap();
    let running = start(&processor);
    processor.publish([added("known", 1).in_initial_list()]);
    gate.reached().await;

    processor.publish([
        added("new", 1).in_initial_list(),
        updated("known", 1, 2),
        added("cancelled", 1),
        updated("new", 1, 3),
        updated("known", 2, 4),
        deleted("cancelled", 1),
        // Deleted and created again.
        deleted("known", 4),
        added("known", 5),
    ]);
    processor.publish([Change::deleted(pod("unknown", 7)), added("last", 1)]);
    let_tasks_run().await;
    assert_eq!(registration.metrics().depth, 4);
    drop(gate);
    let expected = ["+known1!", "+new3!", "known1>5", "-unknown7", "+last1"];
    assert_eq!(recorder.received(5).await, expected);
    processor.publish([deleted("known", 5), added("end", 1)]);
    assert_eq!(recorder.received(7).await[5..], ["-known5", "+end1"]);
    running.stop().await.unwrap();
}

/// Undelivered objects of the initial list are coalesced with the events that follow it.
// contract: P-05a, P-05b, P-10c, P-10d, P-10e
#[tokio::test]
async fn initial_list_is_coalesced_with_later_events() {
    let initial = ["first", "changed", "deleted", "again", "same"].map(|name| pod(name, 1)).to_vec();
    let initial_state = move || InitialState::new(1, initial.clone().into_iter());
    let processor = SharedProcessor::builder("test").initial_state(initial_state).build();
    let (gate, mut wait) = gate();
    let recorder = Recorder::new();
    let note = recorder.clone();
    let handler = move |event: &Event<Arc<Pod>>| {
        wait();
        note.note(event);
    };
    let registration = processor.handler().buffer(Buffer::Coalesced).for_each(handler).unwrap();
    let running = start(&processor);
    gate.reached().await;
    processor.publish(at_revision(2, [updated("changed", 1, 2), deleted("deleted", 1), deleted("again", 1)]));
    processor.publish_synced();
    processor.publish(at_revision(3, [updated("first", 1, 3), added("again", 3), added("cancelled", 3)]));
    processor.publish(at_revision(4, [updated("changed", 2, 4), deleted("cancelled", 3), added("new", 4)]));
    let_tasks_run().await;
    assert!(!registration.has_synced());
    drop(gate);
    let expected = ["+first1!", "+changed4!", "+again3!", "+same1!", "first1>3", "+new4"];
    assert_eq!(recorder.received(6).await, expected);
    within(registration.synced()).await.unwrap();
    assert_eq!(registration.metrics().depth, 0);
    processor.publish(at_revision(5, [updated("same", 1, 5), deleted("changed", 4)]));
    assert_eq!(recorder.received(8).await[6..], ["same1>5", "-changed4"]);
    running.stop().await.unwrap();
}

/// On a thread that is always busy, an inline handler and the coalescing of events keep up with the publisher.
// contract: P-01c
#[tokio::test]
async fn handlers_keep_up_on_a_busy_thread() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced] {
        let processor = SharedProcessor::new("test");
        let handler = processor.handler().buffer(buffer).inline();
        let registration = handler.for_each(|_: &Event<Arc<Pod>>| ()).unwrap();
        let running = start(&processor);
        let publisher = processor.clone();
        let flood = async move {
            let mut deepest = 0;
            for round in 0..1_000 {
                publisher.publish((0..64).map(|i| updated("a", 64 * round + i, 64 * round + i + 1)));
                // Unlike tokio's, this leaves the thread no idle time.
                kinformer_core::internal::yield_now().await;
                deepest = deepest.max(registration.metrics().depth);
            }
            deepest
        };
        let deepest = within(tokio::spawn(flood)).await.unwrap();
        assert!(deepest <= 1_000, "{buffer:?}: {deepest} undelivered events");
        running.stop().await.unwrap();
    }
}

/// Keys that are created and deleted endlessly do not grow a coalesced backlog.
// contract: P-10c, P-10d
#[tokio::test]
async fn coalescing_bounds_memory_for_new_keys() {
    let processor = SharedProcessor::new("test");
    let registration = processor
        .handler()
        .buffer(Buffer::Coalesced)
        .add_async(async |_: Event<Arc<Pod>>| std::future::pending().await)
        .unwrap();
    let running = start(&processor);
    processor.publish([added("stuck", 1)]);
    let mut all = Vec::new();
    for i in 0..5_000 {
        let object = pod(&format!("p{i}"), i);
        all.push(Arc::downgrade(&object));
        processor.publish([Change::added(object.clone()), updated("one", i, i + 1)]);
        processor.publish([Change::deleted(object)]);
        if i % 50 == 0 {
            let_tasks_run().await;
            assert!(registration.metrics().depth <= 2, "{}", registration.metrics().depth);
        }
    }
    let_tasks_run().await;
    assert_eq!(all.iter().filter(|object| object.strong_count() > 0).count(), 0);
    assert_eq!(registration.metrics().depth, 1, "only the object that still exists");
    running.cancel.cancel();
    running.task.abort();
}
