//! The contract of every [`Store`], as a test suite for any implementation.
//!
//! ```
//! use kinformer_store::Indexer;
//! use kinformer_testing::store_suite;
//!
//! store_suite::run(Indexer::<store_suite::Pod>::new);
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use kinformer_core::{
    Delta, Error, KeyRef, Object, ObjectError, ObjectKey, ObjectName, PartialErrors, Replacement,
    ResourceVersion, Tombstone,
};
use kinformer_store::Store;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The object that the suite stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The resource version; 0 for none.
    pub version: u64,
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new(&self.namespace, &self.name)
    }

    fn resource_version(&self) -> ResourceVersion {
        if self.version == 0 { ResourceVersion::UNSET } else { ResourceVersion::number(self.version) }
    }
}

/// Creates a pod from a key, `namespace/name` or `name`.
pub fn pod(key: &str, version: u64) -> Arc<Pod> {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    Arc::new(Pod { namespace: namespace.into(), name: name.into(), version })
}

/// Tests a store against the contract of every store.
///
/// # Panics
/// If the store breaks the contract; the message names the violation.
pub fn run<S: Store<Pod>>(make: impl Fn() -> S) {
    starts_empty(&make());
    adds_updates_and_deletes(&make());
    applies_a_batch_in_order(&make());
    separates_namespaces(&make());
    separates_text_from_parts(&make());
    replaces_everything(&make());
    replaces_by_the_last_object_of_a_key(&make());
    keeps_undelivered_objects(&make());
    deletes_nothing_by_an_incomplete_list(&make());
    rejects_bad_keys_without_a_change(&make());
    reports_the_newest_version(&make());
    follows_random_histories(&make);
}

fn state<S: Store<Pod>>(store: &S) -> BTreeMap<String, u64> {
    let list = store.list();
    let state: BTreeMap<_, _> = list.iter().map(|pod| (pod.key().to_string(), pod.version)).collect();
    assert_eq!(state.len(), list.len(), "a list contains no key twice");
    let mut keys: Vec<_> = store.keys().iter().map(ToString::to_string).collect();
    keys.sort();
    assert_eq!(keys, state.keys().cloned().collect::<Vec<_>>(), "the keys are those of the list");
    assert_eq!(store.len(), list.len(), "the length is that of the list");
    assert_eq!(store.is_empty(), list.is_empty());
    let mut visited = BTreeMap::new();
    store.for_each(&mut |pod| {
        visited.insert(pod.key().to_string(), pod.version);
    });
    assert_eq!(visited, state, "for_each visits the objects of the list");
    for pod in list {
        for found in [store.get(pod.key()), store.get_by_key(pod.key())] {
            assert!(
                found.is_some_and(|found| Arc::ptr_eq(&found, &pod)),
                "get finds every object of the list"
            );
        }
    }
    state
}

fn assert_state<S: Store<Pod>>(store: &S, expected: &[(&str, u64)]) {
    let expected: BTreeMap<_, _> =
        expected.iter().map(|(key, version)| ((*key).to_owned(), *version)).collect();
    assert_eq!(state(store), expected);
}

fn assert_clean(written: Result<kinformer_core::PartialErrors, Error>) {
    written.unwrap().into_result().unwrap();
}

fn list(pods: &[(&str, u64)], version: u64) -> Replacement<Pod> {
    Replacement::new(pods.iter().map(|(key, version)| pod(key, *version)).collect(), version)
}

fn starts_empty<S: Store<Pod>>(store: &S) {
    assert_state(store, &[]);
    assert!(store.resource_versions().lowest().is_unset());
    assert!(store.get(KeyRef::new("a", "b")).is_none());
}

fn adds_updates_and_deletes<S: Store<Pod>>(store: &S) {
    assert_clean(store.add(pod("ns/a", 1)));
    assert_clean(store.update(pod("ns/b", 2)));
    assert_clean(store.add(pod("ns/a", 3)));
    assert_state(store, &[("ns/a", 3), ("ns/b", 2)]);
    assert_clean(store.delete(pod("ns/a", 4).into()));
    assert_clean(store.delete(pod("ns/absent", 5).into()));
    let key: ObjectKey = "ns/b".parse().unwrap();
    assert_clean(store.delete(Tombstone::final_state_unknown(key, None)));
    assert_state(store, &[]);
    assert_clean(store.add(pod("ns/a", 6)));
    assert_state(store, &[("ns/a", 6)]);
    assert_clean(store.apply(Delta::SyncAll.into()));
    assert_clean(store.apply(Delta::Sync(pod("ns/a", 5)).into()));
    assert_state(store, &[("ns/a", 6)]);
}

fn applies_a_batch_in_order<S: Store<Pod>>(store: &S) {
    let deltas = [
        Delta::Added(pod("a", 1)),
        Delta::Updated(pod("", 2)),
        Delta::ReplacedAll(Box::new(list(&[("b", 3), ("b", 4), ("c", 4)], 4))),
        Delta::Deleted(pod("ns/", 5).into()),
        Delta::Deleted(pod("c", 6).into()),
        Delta::SyncAll,
        Delta::Replaced(pod("d", 7)),
        Delta::bookmark(ResourceVersion::number(8)),
    ];
    let errors = store.apply(deltas.into()).unwrap();
    let mut names = names(&errors);
    names.sort_unstable();
    assert_eq!(names, ["1", "3", "b"], "keys, or indexes in the batch");
    assert!(errors.errors().iter().all(|problem| problem.left_out));
    assert_state(store, &[("b", 4), ("d", 7)]);
    assert_eq!(store.resource_versions().lowest(), ResourceVersion::number(8));
}

/// The key of each object with an error, or its index.
fn names(errors: &PartialErrors) -> Vec<String> {
    let name = |problem: &ObjectError| match problem.error.object() {
        Some(ObjectName::Key(key)) => key.to_string(),
        Some(ObjectName::Index(index)) => index.to_string(),
        None => panic!("{problem} names no object"),
    };
    errors.errors().iter().map(name).collect()
}

fn separates_namespaces<S: Store<Pod>>(store: &S) {
    for (version, key) in (1..).zip(["a", "x/a", "y/a", "x/b"]) {
        assert_clean(store.add(pod(key, version)));
    }
    assert_state(store, &[("a", 1), ("x/a", 2), ("y/a", 3), ("x/b", 4)]);
    assert_clean(store.delete(pod("x/a", 5).into()));
    assert_state(store, &[("a", 1), ("y/a", 3), ("x/b", 4)]);
}

fn separates_text_from_parts<S: Store<Pod>>(store: &S) {
    let text = Pod { namespace: String::new(), name: "x/a".to_owned(), version: 1 };
    assert_clean(store.add(Arc::new(text.clone())));
    assert_clean(store.add(pod("x/a", 2)));
    let versions = || [KeyRef::named("x/a"), KeyRef::new("x", "a")].map(|key| Some(store.get(key)?.version));
    assert_eq!(versions(), [Some(1), Some(2)]);
    assert_clean(store.delete(Arc::new(text).into()));
    assert_eq!(versions(), [None, Some(2)]);
}

fn replaces_everything<S: Store<Pod>>(store: &S) {
    assert_clean(store.add(pod("a", 1)));
    assert_clean(store.add(pod("b", 2)));
    assert_clean(store.replace(list(&[("b", 3), ("c", 3)], 9)));
    assert_state(store, &[("b", 3), ("c", 3)]);
    assert_clean(store.replace(list(&[], 10)));
    assert_state(store, &[]);
}

fn replaces_by_the_last_object_of_a_key<S: Store<Pod>>(store: &S) {
    let errors = store.replace(list(&[("a", 1), ("b", 2), ("a", 3), ("", 4), ("c", 5)], 9)).unwrap();
    let mut names = names(&errors);
    names.sort_unstable();
    assert_eq!(names, ["3", "a"], "the object without a key by its index in the list");
    let is_duplicate = |problem: &ObjectError| matches!(&problem.error, Error::Duplicate { .. });
    assert!(errors.errors().iter().any(is_duplicate), "{errors:?}");
    assert_state(store, &[("a", 3), ("b", 2), ("c", 5)]);
}

fn keeps_undelivered_objects<S: Store<Pod>>(store: &S) {
    assert_clean(store.replace(list(&[("a", 1), ("b", 1)], 1)));
    let undelivered = ["a", "absent"].map(|key| key.parse().unwrap());
    assert_clean(store.replace(list(&[("c", 2)], 2).undelivered(undelivered)));
    assert_state(store, &[("a", 1), ("c", 2)]);
}

fn deletes_nothing_by_an_incomplete_list<S: Store<Pod>>(store: &S) {
    assert_clean(store.replace(list(&[("a", 1), ("b", 1)], 1)));
    assert_clean(store.replace(list(&[("b", 2), ("c", 2)], 2).unidentified(1)));
    assert_state(store, &[("a", 1), ("b", 2), ("c", 2)]);
    assert_eq!(store.resource_versions().lowest(), ResourceVersion::number(1));
    assert_clean(store.replace(list(&[("c", 2)], 3)));
    assert_state(store, &[("c", 2)]);
    assert_eq!(store.resource_versions().lowest(), ResourceVersion::number(3));
}

fn rejects_bad_keys_without_a_change<S: Store<Pod>>(store: &S) {
    assert_clean(store.add(pod("a", 1)));
    for key in ["", "ns/"] {
        for result in [store.add(pod(key, 9)), store.update(pod(key, 9)), store.delete(pod(key, 9).into())] {
            match result {
                Err(Error::Key { source, .. }) => assert_eq!(source.key(), key),
                other => panic!("{key:?} was not rejected as a key: {other:?}"),
            }
        }
    }
    assert_state(store, &[("a", 1)]);
    assert_eq!(store.resource_versions().lowest(), ResourceVersion::number(1));
}

fn reports_the_newest_version<S: Store<Pod>>(store: &S) {
    let assert_version =
        |version: u64| assert_eq!(store.resource_versions().lowest(), ResourceVersion::number(version));
    assert_clean(store.add(pod("a", 5)));
    assert_version(5);
    assert_clean(store.update(pod("b", 3)));
    assert_version(5);
    assert_clean(store.delete(pod("b", 7).into()));
    assert_version(7);
    assert_clean(store.bookmark(ResourceVersion::number(9)));
    assert_version(9);
    assert_clean(store.bookmark(ResourceVersion::number(8)));
    assert_version(9);
    assert_clean(store.replace(list(&[("a", 10)], 20)));
    assert_version(20);
    assert_clean(store.add(pod("c", 0)));
    assert_version(20);
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    Delete(u8),
    Replace(Vec<u8>),
}

fn follows_random_histories<S: Store<Pod>>(make: &impl Fn() -> S) {
    let key = 0u8..12;
    let step = prop_oneof![
        4 => key.clone().prop_map(Step::Add),
        2 => key.clone().prop_map(Step::Delete),
        1 => prop::collection::vec(key, 0..9).prop_map(Step::Replace),
    ];
    let name = |key: u8| format!("ns{}/p{key}", key % 2);
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let ran = runner.run(&prop::collection::vec(step, 1..60), |steps| {
        let store = make();
        let mut model = BTreeMap::new();
        for (version, step) in (1u64..).zip(steps) {
            match step {
                Step::Add(key) => {
                    assert_clean(store.add(pod(&name(key), version)));
                    model.insert(name(key), version);
                }
                Step::Delete(key) => {
                    assert_clean(store.delete(pod(&name(key), version).into()));
                    model.remove(&name(key));
                }
                Step::Replace(keys) => {
                    let keys: Vec<_> = keys.into_iter().map(name).collect();
                    model = keys.iter().map(|key| (key.clone(), version)).collect();
                    let listed = model.keys().map(|key| pod(key, version)).collect();
                    assert_clean(store.replace(Replacement::new(listed, version)));
                }
            }
            prop_assert_eq!(&state(&store), &model);
            prop_assert_eq!(store.resource_versions().lowest(), ResourceVersion::number(version));
        }
        Ok(())
    });
    if let Err(error) = ran {
        panic!("the store left the model: {error}");
    }
}
