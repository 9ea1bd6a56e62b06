//! Events of objects that cross the filter of a handler.

use std::sync::Arc;

use crate::common::{Pod, Recorder, added, at, deleted, pod, start, updated, within};
use kinformer_core::{Change, Tombstone};
use kinformer_processor::{Buffer, SharedProcessor};

/// Tells these to a handler for objects with an even version.
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
        processor.publish(at(i as u64, [notification]));
        within(async {
            while registration.metrics().depth > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    processor.publish_synced();
    within(registration.synced()).await.unwrap();
    let stats = registration.metrics();
    assert_eq!(stats.delivered, recorder.now().len() as u64, "what is held back is not delivered");
    assert!(stats.delivered <= n);
    running.stop().await.unwrap();
    recorder.now()
}

fn unknown(last_known: Option<Arc<Pod>>) -> Tombstone<Arc<Pod>> {
    Tombstone::final_state_unknown("a".parse().unwrap(), last_known)
}

// contract: P-11
#[tokio::test]
async fn crossing_the_filter_is_an_addition_or_a_deletion() {
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

// contract: P-11
#[tokio::test]
async fn a_deletion_is_judged_by_the_state_delivered_last() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced] {
        let events = vec![
            // Its final state is held back, but it was delivered.
            added("a", 2),
            Change::deleted(pod("a", 3)).with_old(Some(pod("a", 2))),
            // The other way round.
            added("b", 1),
            Change::deleted(pod("b", 2)).with_old(Some(pod("b", 1))),
            // The final state is all that is known.
            deleted("c", 4),
            deleted("d", 5),
            Change::deleted(unknown(Some(pod("a", 6)))),
            Change::deleted(unknown(Some(pod("a", 7)))),
            // Nothing is: rather once too often.
            Change::deleted(unknown(None)),
        ];
        assert_eq!(even(buffer, events).await, ["+a2", "-a3", "-c4", "-a6?", "-a0?"], "{buffer:?}");
    }
}
