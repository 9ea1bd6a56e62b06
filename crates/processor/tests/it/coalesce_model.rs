//! Coalescing against a model: each event that the handler takes is the one the model predicts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{Pod, pod, start};
use futures::{FutureExt as _, StreamExt as _};
use kinformer_core::{Change, Tombstone};
use kinformer_processor::{Added, Buffer, Deleted, Event, Left, ListenerStream, SharedProcessor, Updated};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The object is created, changed, or created again.
    Set(u8),
    /// The object is deleted. Its final state is known or was missed.
    Delete(u8, Seen),
    /// The object leaves the scope.
    Leave(u8),
    /// The handler takes one event.
    Take,
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    Final,
    Missed,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5_u8).prop_map(Step::Set),
        2 => (0..5_u8, prop_oneof![Just(Seen::Final), Just(Seen::Missed)])
            .prop_map(|(key, seen)| Step::Delete(key, seen)),
        2 => (0..5_u8).prop_map(Step::Leave),
        3 => Just(Step::Take),
    ]
}

/// The current objects, the objects delivered last, those of them that left since, and the pending keys in order.
#[derive(Default)]
struct Model {
    now: BTreeMap<u8, Arc<Pod>>,
    delivered: BTreeMap<u8, Arc<Pod>>,
    left: BTreeMap<u8, Arc<Pod>>,
    waiting: Vec<u8>,
}

impl Model {
    fn changed(&mut self, key: u8) {
        if !self.waiting.contains(&key) {
            self.waiting.push(key);
        }
        if !self.now.contains_key(&key) && !self.delivered.contains_key(&key) {
            self.waiting.retain(|waiting| *waiting != key);
        }
    }

    fn publish(&mut self, step: Step, version: u64) -> Option<Change<Pod>> {
        match step {
            Step::Set(key) => {
                let new = pod(&format!("p{key}"), version);
                let old = self.now.insert(key, new.clone());
                self.changed(key);
                Some(match old {
                    Some(old) => Change::updated(old, new),
                    None => Change::added(new),
                })
            }
            Step::Delete(key, seen) => {
                let old = self.now.remove(&key)?;
                self.changed(key);
                Some(match seen {
                    // The final state is one that was never published.
                    Seen::Final => Change::deleted(pod(&old.name, version)).with_old(Some(old)),
                    Seen::Missed => {
                        Change::deleted(Tombstone::final_state_unknown(old.name.parse().unwrap(), Some(old)))
                    }
                })
            }
            Step::Leave(key) => {
                let old = self.now.remove(&key)?;
                if let Some(delivered) = self.delivered.get(&key) {
                    self.left.entry(key).or_insert_with(|| delivered.clone());
                }
                self.changed(key);
                Some(Change::left(old))
            }
            Step::Take => None,
        }
    }

    /// Compares an event with the expected one.
    fn take(&mut self, event: Option<Event<Arc<Pod>>>) {
        if self.waiting.is_empty() {
            assert!(event.is_none(), "{event:?} although nothing is pending");
            return;
        }
        let key = self.waiting.remove(0);
        let now = self.now.get(&key).cloned();
        if let Some(left) = self.left.remove(&key) {
            let is_it =
                matches!(&event, Some(Event::Left(Left { object, .. })) if Arc::ptr_eq(object, &left));
            assert!(is_it, "{event:?}, but {left:?} left");
            self.delivered.remove(&key);
            // What came back is the next event.
            self.waiting.splice(0..0, now.map(|_| key));
            return;
        }
        let delivered = self.delivered.remove(&key);
        let event = event.expect("an event is pending");
        match (delivered, &now, &event) {
            (None, Some(now), Event::Added(Added { object, in_initial_list: false, .. })) => {
                assert!(Arc::ptr_eq(now, object));
            }
            (Some(delivered), Some(now), Event::Updated(Updated { old, new, .. })) => {
                assert!(Arc::ptr_eq(&delivered, old) && Arc::ptr_eq(now, new));
            }
            (Some(delivered), None, Event::Deleted(Deleted { tombstone, .. })) => {
                assert_eq!(tombstone.key().name(), delivered.name);
            }
            (delivered, now, event) => {
                unreachable!("{event:?} but delivered is {delivered:?} and current is {now:?}")
            }
        }
        if let Some(now) = now {
            self.delivered.insert(key, now);
        }
    }
}

/// The handler's next event, after all published events have been coalesced.
async fn next(stream: &mut ListenerStream<Pod>) -> Option<Event<Arc<Pod>>> {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    stream.next().now_or_never().flatten()
}

async fn play(steps: Vec<Step>) {
    let processor = SharedProcessor::new("test");
    let mut stream = processor.handler().buffer(Buffer::Coalesced).stream().unwrap();
    let running = start(&processor);
    let mut model = Model::default();
    for (version, step) in steps.into_iter().enumerate() {
        if let Step::Take = step {
            let event = next(&mut stream).await;
            model.take(event);
            assert_eq!(stream.registration().metrics().depth, model.waiting.len());
        } else {
            processor.publish(model.publish(step, version as u64));
        }
    }
    while !model.waiting.is_empty() {
        let event = next(&mut stream).await;
        model.take(event);
    }
    assert!(next(&mut stream).await.is_none());
    assert_eq!(model.delivered, model.now);
    running.stop().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    // contract: P-10c, P-10d, P-10e, P-27a, P-27b
    #[test]
    fn coalesced_events_match_model(steps in prop::collection::vec(step(), 0..120)) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(play(steps));
    }
}
