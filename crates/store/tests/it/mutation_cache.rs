//! The mutation cache: own writes over an informer's store.

use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{Error as ObjectError, KeyRef, Object, ResourceVersion};
use kinformer_store::{Adds, Error, IndexFunction, Indexer, MutationCache, MutationCacheOptions};
use tokio::time::advance;

#[derive(Debug, PartialEq)]
struct Pod {
    name: &'static str,
    uid: &'static str,
    version: &'static str,
    node: &'static str,
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version.into()
    }

    fn uid(&self) -> Option<&str> {
        (!self.uid.is_empty()).then_some(self.uid)
    }
}

fn pod(name: &'static str, version: &'static str, node: &'static str) -> Pod {
    Pod { name, uid: "u1", version, node }
}

fn cache(options: MutationCacheOptions) -> (Arc<Indexer<Pod>>, MutationCache<Pod>) {
    let by_node = IndexFunction::fallible(|pod: &Arc<Pod>, values| match pod.node {
        "bad" => Err("no such node".into()),
        node => {
            values.push(node);
            Ok(())
        }
    });
    let indexer = Arc::new(Indexer::builder().index("node", by_node).build().unwrap());
    (indexer.clone(), MutationCache::with_options(indexer.reader(), options))
}

fn with_adds() -> MutationCacheOptions {
    MutationCacheOptions::default().adds(Adds::Show)
}

fn add(indexer: &Indexer<Pod>, pod: Pod) {
    indexer.add(pod).unwrap().into_result().unwrap();
}

/// The results of the list and of the index for each of these nodes, as `name@version`; `get` agrees with the list.
fn visible_pods(cache: &MutationCache<Pod>, nodes: &[&str]) -> Vec<Vec<String>> {
    let text = |pods: Vec<Arc<Pod>>| {
        let mut text: Vec<_> = pods.iter().map(|pod| format!("{}@{}", pod.name, pod.version)).collect();
        text.sort();
        text
    };
    let list = text(cache.list());
    for entry in &list {
        let (name, version) = entry.split_once('@').unwrap();
        assert_eq!(cache.get(KeyRef::named(name)).unwrap().version, version);
    }
    let by_node = nodes.iter().map(|node| text(cache.by_index("node", node).unwrap()));
    std::iter::once(list.clone()).chain(by_node).collect()
}

// contract: S-15a
#[test]
fn own_write_is_visible_until_delivered() {
    let (indexer, cache) = cache(MutationCacheOptions::default());
    add(&indexer, pod("a", "5", "n1"));
    add(&indexer, pod("b", "5", "n1"));
    cache.mutation(pod("a", "7", "n2")).unwrap();
    assert_eq!(visible_pods(&cache, &["n1", "n2"]), [vec!["a@7", "b@5"], vec!["b@5"], vec!["a@7"]]);
    add(&indexer, pod("a", "6", "n1"));
    assert_eq!(
        visible_pods(&cache, &["n1", "n2"]),
        [vec!["a@7", "b@5"], vec!["b@5"], vec!["a@7"]],
        "still older"
    );
    add(&indexer, pod("a", "8", "n3"));
    assert_eq!(visible_pods(&cache, &["n2", "n3"]), [vec!["a@8", "b@5"], vec![], vec!["a@8"]]);
    indexer.delete_by_key(KeyRef::named("a")).unwrap();
    add(&indexer, pod("a", "1", "n1"));
    assert_eq!(cache.get(KeyRef::named("a")).unwrap().version, "1", "a delivered write is dropped");
}

// contract: S-15e
#[test]
fn adds_are_visible_only_if_enabled() {
    let (_, hidden) = cache(MutationCacheOptions::default());
    hidden.mutation(pod("a", "7", "n1")).unwrap();
    assert_eq!(visible_pods(&hidden, &["n1"]), [vec![""; 0], vec![]]);
    let (_, visible) = cache(with_adds());
    visible.mutation(pod("a", "7", "n1")).unwrap();
    assert_eq!(visible_pods(&visible, &["n1", "n2"]), [vec!["a@7"], vec!["a@7"], vec![]]);
}

/// The deletion of an object drops the write to it. A write reported after the deletion does not restore the object.
// contract: S-15b
#[test]
fn deletion_drops_write_and_blocks_late_write() {
    let (_, cache) = cache(with_adds());
    cache.mutation(pod("a", "7", "n1")).unwrap();
    cache.on_delete(&pod("a", "8", "n1"));
    assert_eq!(cache.get(KeyRef::named("a")), None);
    cache.mutation(pod("a", "7", "n1")).unwrap();
    assert_eq!(visible_pods(&cache, &["n1"]), [vec![""; 0], vec![]]);
    cache.mutation(Pod { uid: "u2", ..pod("a", "9", "n1") }).unwrap();
    assert_eq!(cache.get(KeyRef::named("a")).unwrap().uid, "u2", "another object of the same name");
    cache.on_delete(&pod("a", "8", "n1"));
    assert_eq!(
        cache.get(KeyRef::named("a")).unwrap().uid,
        "u2",
        "the deletion of the old object does not affect it"
    );
}

// contract: S-15b
#[test]
fn without_uids_the_versions_decide() {
    let (_, cache) = cache(with_adds());
    let anonymous = |version| Pod { uid: "", ..pod("a", version, "n1") };
    cache.mutation(anonymous("7")).unwrap();
    cache.on_delete(&anonymous("6"));
    assert!(cache.get(KeyRef::named("a")).is_some(), "deleted before it was written");
    cache.on_delete(&anonymous("8"));
    cache.mutation(anonymous("8")).unwrap();
    assert!(cache.get(KeyRef::named("a")).is_none());
    cache.mutation(anonymous("9")).unwrap();
    assert!(cache.get(KeyRef::named("a")).is_some());
}

// contract: S-15a
#[test]
fn reported_deliveries_drop_the_write() {
    let (_, cache) = cache(with_adds());
    cache.mutation(pod("a", "7", "n1")).unwrap();
    cache.on_add_or_update(&pod("a", "6", "n1"));
    assert!(cache.get(KeyRef::named("a")).is_some());
    cache.on_add_or_update(&pod("a", "7", "n1"));
    assert!(cache.get(KeyRef::named("a")).is_none());
    cache.on_delete(&pod("a", "8", "n1"));
    cache.on_add_or_update(&Pod { uid: "u2", ..pod("a", "9", "n1") });
    cache.mutation(pod("a", "10", "n1")).unwrap();
    assert!(cache.get(KeyRef::named("a")).is_some(), "the deletion is dropped once the object exists again");
}

// contract: S-15c
#[tokio::test(start_paused = true)]
async fn own_write_expires() {
    let (indexer, cache) = cache(with_adds().time_to_live(Duration::from_secs(10)));
    add(&indexer, pod("a", "5", "n1"));
    cache.mutation(pod("a", "7", "n2")).unwrap();
    advance(Duration::from_secs(9)).await;
    assert_eq!(cache.get(KeyRef::named("a")).unwrap().version, "7");
    advance(Duration::from_secs(1)).await;
    assert_eq!(visible_pods(&cache, &["n1", "n2"]), [vec!["a@5"], vec!["a@5"], vec![]]);
}

// contract: S-15c, I-15
#[tokio::test(start_paused = true)]
async fn maximum_time_to_live_never_expires() {
    let (indexer, cache) = cache(with_adds().time_to_live(Duration::MAX));
    add(&indexer, pod("a", "5", "n1"));
    cache.mutation(pod("a", "7", "n2")).unwrap();
    advance(Duration::from_secs(1_000_000)).await;
    cache.mutation(pod("b", "8", "n2")).unwrap();
    assert_eq!(cache.get(KeyRef::named("a")).unwrap().version, "7");
}

// contract: S-15d
#[test]
fn least_recently_used_write_is_evicted() {
    let (_, cache) = cache(with_adds().max_entries(2));
    cache.mutation(pod("a", "1", "n1")).unwrap();
    cache.mutation(pod("b", "2", "n1")).unwrap();
    assert!(cache.get(KeyRef::named("a")).is_some());
    cache.mutation(pod("c", "3", "n1")).unwrap();
    assert_eq!(visible_pods(&cache, &["n1"])[0], ["a@1", "c@3"]);
    cache.mutation(pod("c", "2", "n1")).unwrap();
    assert_eq!(
        cache.get(KeyRef::named("c")).unwrap().version,
        "3",
        "an older write does not replace a newer one"
    );
}

// contract: S-15a
#[test]
fn incomparable_write_stays_until_delivered() {
    let (indexer, cache) = cache(MutationCacheOptions::default());
    add(&indexer, pod("a", "x5", "n1"));
    cache.mutation(pod("a", "x7", "n1")).unwrap();
    assert_eq!(cache.get(KeyRef::named("a")).unwrap().version, "x7");
    add(&indexer, pod("a", "x7", "n2"));
    assert_eq!(cache.get(KeyRef::named("a")).unwrap().node, "n2");
}

// contract: S-06, S-07
#[test]
fn errors_name_the_bad_input() {
    let (indexer, cache) = cache(with_adds());
    add(&indexer, pod("a", "5", "n1"));
    assert!(matches!(cache.mutation(pod("", "5", "n1")), Err(Error::Core(ObjectError::Key { .. }))));
    assert!(matches!(cache.by_index("zone", "z1"), Err(Error::UnknownIndex { name, .. }) if name == "zone"));
    cache.mutation(pod("b", "6", "bad")).unwrap();
    match cache.by_index("node", "n1") {
        Err(Error::IndexFunction { key, index, .. }) => {
            assert_eq!((key.name(), &*index), ("b", "node"));
        }
        other => panic!("{other:?}"),
    }
}

/// A deletion with a newer version drops a write to any earlier instance of the object.
// contract: S-15b
#[test]
fn newer_deletion_drops_earlier_instances() {
    let (_, cache) = cache(with_adds());
    cache.mutation(pod("a", "3", "n1")).unwrap();
    cache.on_delete(&Pod { uid: "u2", ..pod("a", "3", "n1") });
    assert!(cache.get(KeyRef::named("a")).is_none());
    cache.mutation(pod("a", "2", "n1")).unwrap();
    assert!(cache.get(KeyRef::named("a")).is_none(), "a late write to the instance before that one");
}

// contract: S-15b
#[test]
fn older_deletion_does_not_replace_a_newer_one() {
    let (_, cache) = cache(with_adds());
    cache.on_delete(&Pod { uid: "u2", ..pod("a", "9", "n1") });
    cache.on_delete(&pod("a", "5", "n1"));
    cache.mutation(Pod { uid: "u2", ..pod("a", "8", "n1") }).unwrap();
    assert!(cache.get(KeyRef::named("a")).is_none());
}
