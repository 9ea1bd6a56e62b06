//! Events of objects that cross the filter of a handler.

use std::sync::Arc;

use crate::common::{Pod, Recorder, added, at_revision, deleted, pod, start, updated};
use kinformer_core::{Change, Tombstone};
use kinformer_processor::{Buffer, Event, Registration, SharedProcessor};
use kinformer_testing::reentrant::within;

/// Publishes these to a handler that accepts objects with an even version. Returns its events.
async fn even(buffer: Buffer, published: Vec<Change<Pod>>) -> Vec<String> {
    let processor = SharedProcessor::new("test");
    let recorder = Recorder::new();
    let registration = processor
        .handler()
        .buffer(buffer)
        .filter(|pod: &Arc<Pod>| pod.version.is_multiple_of(2))
        .inline()
        .add(recorder.handler())
        .unwrap();
    let running = start(&processor);
    // One by one and each delivered before the next, so that nothing is coalesced.
    let n = published.len() as u64;
    for (i, notification) in published.into_iter().enumerate() {
        processor.publish(at_revision(i as u64, [notification]));
        idle(&registration).await;
    }
    processor.publish_synced();
    within(registration.synced()).await.unwrap();
    let stats = registration.metrics();
    assert_eq!(
        stats.delivered,
        recorder.recorded().len() as u64,
        "filtered events do not count as delivered"
    );
    assert!(stats.delivered <= n);
    running.stop().await.unwrap();
    recorder.recorded()
}

/// Waits until a handler has no undelivered events.
async fn idle(registration: &Registration) {
    within(async {
        while registration.metrics().depth > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn unknown(last_known: Option<Arc<Pod>>) -> Tombstone<Arc<Pod>> {
    Tombstone::final_state_unknown("a".parse().unwrap(), last_known)
}

/// An object that leaves the scope is not one that was deleted.
// contract: P-27a, P-27c
#[tokio::test]
async fn what_leaves_is_filtered_by_its_last_state() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)] {
        let events = vec![added("a", 2), added("b", 3), Change::left(pod("a", 2)), Change::left(pod("b", 3))];
        assert_eq!(even(buffer, events).await, ["+a2", "oa2"], "{buffer:?}");
    }
}

/// A coalescing handler receives that an object has left if it has received the object, whatever the last state is.
// contract: P-27c
#[tokio::test]
async fn coalesced_leaving_is_filtered_by_the_delivered_state() {
    let back = [updated("a", 2, 3), Change::left(pod("a", 3)), added("a", 4)];
    let gone = [updated("a", 2, 3), Change::left(pod("a", 3))];
    for (changes, expected) in [(back.to_vec(), &["+a2", "oa2", "+a4"][..]), (gone.to_vec(), &["+a2", "oa2"])]
    {
        let (processor, recorder) = (SharedProcessor::new("test"), Recorder::new());
        let even = |pod: &Arc<Pod>| pod.version.is_multiple_of(2);
        let handler = processor.handler().buffer(Buffer::Coalesced).filter(even).inline();
        let registration = handler.add(recorder.handler()).unwrap();
        let running = start(&processor);
        processor.publish([added("a", 2)]);
        idle(&registration).await;
        processor.publish(changes);
        idle(&registration).await;
        assert_eq!(recorder.recorded(), expected);
        running.stop().await.unwrap();
    }
}

/// An update that crosses the filter is delivered as an addition or a deletion.
// contract: P-11a
#[tokio::test]
async fn crossing_a_filter_adds_or_deletes() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)] {
        let events = vec![
            added("a", 1).in_initial_list(),
            added("b", 2).in_initial_list(),
            updated("a", 1, 3),
            updated("a", 3, 4),
            updated("a", 4, 6),
            updated("a", 6, 7),
            updated("a", 7, 9),
            updated("b", 2, 8),
            added("c", 5),
            added("d", 2),
        ];
        assert_eq!(even(buffer, events).await, ["+b2!", "+a4", "a4>6", "-a6", "b2>8", "+d2"], "{buffer:?}");
    }
}

/// A deletion has the state that the handler received last, also if the filter makes one of an update.
// contract: P-11b
#[tokio::test]
async fn deletion_has_the_state_before_it() {
    let deleted = || Change::deleted(pod("a", 4)).with_old(Some(pod("a", 2)));
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)] {
        for (last, old) in [(deleted(), 2), (updated("a", 2, 3), 2), (Change::deleted(unknown(None)), 0)] {
            let processor = SharedProcessor::new("test");
            let (sender, mut received) = tokio::sync::mpsc::channel(1);
            let record = move |event: &Event<Arc<Pod>>| {
                if let Event::Deleted(deleted) = event {
                    sender.try_send(deleted.old.as_ref().map_or(0, |old| old.version)).unwrap();
                }
            };
            let even = |pod: &Arc<Pod>| pod.version.is_multiple_of(2);
            let registration = processor.handler().buffer(buffer).filter(even).inline().add(record).unwrap();
            let running = start(&processor);
            processor.publish([added("a", 2)]);
            idle(&registration).await;
            processor.publish([last]);
            assert_eq!(within(received.recv()).await, Some(old), "{buffer:?}");
            running.stop().await.unwrap();
        }
    }
}

/// A deletion is delivered if the last delivered state passed the filter.
// contract: P-11a
#[tokio::test]
async fn deletion_is_filtered_by_delivered_state() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced] {
        let events = vec![
            // The final state is filtered out, but the state before it was delivered.
            added("a", 2),
            Change::deleted(pod("a", 3)).with_old(Some(pod("a", 2))),
            // The final state passes the filter, but the state before it was filtered out.
            added("b", 1),
            Change::deleted(pod("b", 2)).with_old(Some(pod("b", 1))),
            // Only the final state is known.
            deleted("c", 4),
            deleted("d", 5),
            Change::deleted(unknown(Some(pod("a", 6)))),
            Change::deleted(unknown(Some(pod("a", 7)))),
            // No state is known: delivered, because the object may have been.
            Change::deleted(unknown(None)),
        ];
        assert_eq!(even(buffer, events).await, ["+a2", "-a3", "-c4", "-a6?", "-a0?"], "{buffer:?}");
    }
}
