//! After a wait for a version, the store includes it.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{HOUR, QUEUES, Running};
use kinformer_core::{KeyRef, Object as _, PartId, Transform};
use kinformer_delta_fifo::Bound;
use kinformer_processor::{Buffer, Event};
use kinformer_reflector::SourceError;
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::Instant;

/// One change of the server.
#[derive(Clone, Debug)]
struct Written {
    version: u64,
    key: String,
    kind: WriteKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum WriteKind {
    State,
    /// The store keeps the previous state, or has none.
    Undecodable,
    Deleted,
}

/// The writes of the server, in order.
#[derive(Clone, Debug, Default)]
struct History(Arc<Mutex<Vec<Written>>>);

impl History {
    fn write(&self, version: u64, key: &str, kind: WriteKind) {
        self.0.lock().push(Written { version, key: key.to_owned(), kind });
    }

    /// Asserts that the store holds each object in its state at `version` or in a later one.
    fn check(&self, informer: &SharedIndexInformer<Item>, version: u64) {
        let (store, history) = (crate::common::stored(informer), self.0.lock().clone());
        let keys: std::collections::BTreeSet<_> = history.iter().map(|written| &written.key).collect();
        for key in keys {
            let of_key: Vec<_> = history.iter().filter(|written| written.key == *key).collect();
            let at = of_key.partition_point(|written| written.version <= version);
            // Each state from that version on is possible. A list in which the object does not decode keeps the state
            // of the store.
            let from = at.saturating_sub(1);
            let unknown = of_key[from..].iter().any(|written| written.kind == WriteKind::Undecodable);
            let possible = if unknown { &of_key } else { &of_key[from..] };
            let held = store.get(key).map(|item| item.version);
            let fine = match held {
                Some(held) => {
                    possible.iter().any(|written| written.kind == WriteKind::State && written.version == held)
                }
                None => possible.iter().any(|written| written.kind != WriteKind::State) || at == 0,
            };
            assert!(fine, "waited for {version}; {key} is {held:?} in the store, after {of_key:?}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Apply(u8),
    Undecodable(u8),
    Delete(u8),
    /// This number at once.
    ApplyAll(u8),
    Relist,
    Disconnect,
    Pass(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let n = any::<u8>();
    prop_oneof![
        10 => n.prop_map(|n| Step::Apply(n % 40)),
        1 => n.prop_map(|n| Step::Undecodable(n % 40)),
        4 => n.prop_map(|n| Step::Delete(n % 40)),
        1 => n.prop_map(Step::ApplyAll),
        2 => Just(Step::Relist),
        1 => Just(Step::Disconnect),
        4 => n.prop_map(Step::Pass),
    ]
}

/// Waits for each write, while a slow handler delays the store.
async fn history(queue: QueueKind, bound: Bound, initial: u8, steps: Vec<Step>) {
    let (source, written) = (FakeSource::new(), History::default());
    let apply = |n: u8, value: u64| {
        let key = format!("ns-{}/{n}", n % 3);
        let version = source.apply(Item::of(&key, 0, value));
        written.write(version, &key, WriteKind::State);
    };
    (0..initial).for_each(|n| apply(n, 0));
    let informer =
        SharedIndexInformer::builder(source.clone()).queue(queue).queue_bound(bound).build().unwrap();
    let slow = |_: Event<Arc<Item>>| tokio::time::sleep(Duration::from_millis(3));
    informer.handler().buffer(Buffer::BackPressure(1)).add_async(slow).unwrap();
    let running = Running::start_only(informer.clone());
    let mut waits = tokio::task::JoinSet::new();
    let mut wait = |version: u64| {
        let (informer, written) = (informer.clone(), written.clone());
        waits.spawn(async move {
            let deadline = Instant::now() + HOUR;
            informer.wait_for(PartId::ONLY, &version.into()).until(deadline).await.unwrap();
            written.check(&informer, version);
        });
    };
    wait(source.version());
    for (value, step) in (1_u64..).zip(steps) {
        match step {
            Step::Apply(n) => apply(n, value),
            Step::ApplyAll(n) => (0..n).for_each(|n| apply(n, value)),
            Step::Undecodable(n) => {
                let key = format!("ns-{}/{n}", n % 3);
                let version = source.apply_undecodable(Item::of(&key, 0, value));
                written.write(version, &key, WriteKind::Undecodable);
            }
            Step::Delete(n) => {
                let key = format!("ns-{}/{n}", n % 3);
                if source.exists(KeyRef::parse(key.as_str()).unwrap()) {
                    written.write(
                        source.delete(KeyRef::parse(key.as_str()).unwrap()),
                        &key,
                        WriteKind::Deleted,
                    );
                }
            }
            Step::Relist => {
                source.break_watches(|| SourceError::expired("compacted"));
                source.compact();
            }
            Step::Disconnect => source.disconnect(),
            Step::Pass(ms) => tokio::time::sleep(Duration::from_millis(ms.into())).await,
        }
        wait(source.version());
    }
    while let Some(waited) = waits.join_next().await {
        waited.unwrap();
    }
    running.stop().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    // contract: S-12a, S-17a, S-17b
    #[test]
    fn store_is_complete_after_wait_for_version(
        bound in prop::sample::select(vec![Bound::Deltas(1), Bound::Deltas(7), Bound::default()]),
        initial in 0_u8..250,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        for queue in QUEUES {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(history(queue, bound, initial, steps.clone()));
        }
    }
}

/// The version of one object does not prove that the rest of its list is stored.
// contract: S-12a, S-17a, S-17b
#[tokio::test(start_paused = true)]
async fn list_version_is_reached_with_its_last_object() {
    for queue in QUEUES {
        let source = FakeSource::new();
        (0..205).for_each(|n| _ = source.apply(Item::of(&format!("ns/o{n}"), 0, 1)));
        let last = source.apply(Item::of("ns/o0", 0, 2));
        let informer = SharedIndexInformer::builder(source.clone()).queue(queue).build().unwrap();
        let slow = |_: Event<Arc<Item>>| tokio::time::sleep(Duration::from_millis(3));
        informer.handler().buffer(Buffer::BackPressure(1)).add_async(slow).unwrap();
        let running = Running::start_only(informer.clone());
        informer.wait_for(PartId::ONLY, &last.into()).await.unwrap();
        assert_eq!(informer.snapshot().len(), 205, "{queue:?}");
        assert_eq!(informer.snapshot().resource_versions().lowest(), last.into());
        running.stop().await.unwrap();
    }
}

/// The server is idle, so only the write itself can end the wait.
// contract: S-12a, S-18a, S-18b
#[tokio::test(start_paused = true)]
async fn wait_ends_for_an_object_that_is_not_stored() {
    for queue in QUEUES {
        for bound in [Bound::Deltas(1), Bound::default()] {
            let source = FakeSource::new().without_bookmarks();
            ["good", "fails", "panics", "broken"]
                .iter()
                .for_each(|name| _ = source.apply(Item::of(name, 0, 1)));
            let transform = Transform::in_place(|item: &mut Item| match (item.name.as_str(), item.value) {
                ("fails", 2) => Err("it has no handle".into()),
                ("panics", 2) => panic!("it is too hot"),
                _ => Ok(()),
            });
            let informer = SharedIndexInformer::builder(source.clone())
                .queue(queue)
                .queue_bound(bound)
                .transform(transform)
                .build()
                .unwrap();
            let running = Running::start(informer.clone()).await;
            let waited = async |version: u64, what: &str| {
                let deadline = Instant::now() + Duration::from_secs(60);
                let end = informer.wait_for(PartId::ONLY, &version.into()).until(deadline).await;
                assert!(end.is_ok(), "{queue:?} {bound:?} {what}: {end:?}");
            };
            waited(source.apply(Item::of("fails", 0, 2)), "a transform that fails").await;
            waited(source.apply(Item::of("panics", 0, 2)), "a transform that panics").await;
            waited(source.apply_undecodable(Item::of("broken", 0, 2)), "an undecodable object").await;
            waited(source.apply_undecodable(Item::of("new", 0, 2)), "a new undecodable object").await;
            waited(source.delete(KeyRef::named("broken")), "the deletion of an undecodable object").await;
            waited(source.delete(KeyRef::named("new")), "the deletion of a new undecodable object").await;
            waited(
                source.delete(KeyRef::named("fails")),
                "the deletion of an object that the transform rejects",
            )
            .await;
            assert_eq!(
                informer.snapshot().get(KeyRef::named("panics")).map(|item| item.value),
                Some(1),
                "{queue:?}"
            );
            let left: Vec<_> = informer.snapshot().keys().iter().map(ToString::to_string).collect();
            assert_eq!(left, ["good", "panics"].map(str::to_owned), "{queue:?}");
            assert!(informer.snapshot().get(KeyRef::named("good")).unwrap().key().namespace().is_none());
            running.stop().await.unwrap();
        }
    }
}
