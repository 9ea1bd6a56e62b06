//! Listers over a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Error, LabelSelector, Lister, Packed, PackedObject};
use kinformer_core::{KeyRef, ObjectKey};
use kinformer_kube::ObjectDecoder;
use kinformer_store::{IndexFunction, Indexer, NAMESPACE_INDEX};
use proptest::prelude::*;
use serde_json::json;

fn pod(key: &str, labels: &[(&str, &str)]) -> PackedObject {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
    let json = json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}});
    PackedObject::encode(&json, &ObjectDecoder::json()).unwrap()
}

fn store(indexed: bool, pods: Vec<PackedObject>) -> Arc<Indexer<PackedObject>> {
    let mut builder = Indexer::builder();
    if indexed {
        builder = builder.index(NAMESPACE_INDEX, IndexFunction::by_namespace());
    }
    let store = builder.build().unwrap();
    pods.into_iter().for_each(|pod| store.add(pod).unwrap().into_result().unwrap());
    Arc::new(store)
}

fn sample() -> Vec<PackedObject> {
    vec![
        pod("a/web-0", &[("app", "web")]),
        pod("a/db-0", &[("app", "db")]),
        pod("b/web-0", &[("app", "web"), ("canary", "")]),
        pod("node", &[("app", "web")]),
    ]
}

fn keys(pods: &[Packed<Pod>]) -> BTreeSet<String> {
    pods.iter().map(|pod| pod.key().to_string()).collect()
}

fn set(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

fn selector(text: &str) -> LabelSelector {
    text.parse().unwrap()
}

// contract: F-06b, F-06c
#[test]
fn objects_are_listed_by_label_and_namespace() {
    for indexed in [true, false] {
        let pods = Lister::<Pod>::new(store(indexed, sample()).reader());
        let everything = LabelSelector::everything();
        assert_eq!(keys(&pods.list(&everything).unwrap()), set(&["a/db-0", "a/web-0", "b/web-0", "node"]));
        assert_eq!(keys(&pods.list(&selector("app=web")).unwrap()), set(&["a/web-0", "b/web-0", "node"]));
        assert_eq!(keys(&pods.list(&selector("app=web,!canary")).unwrap()), set(&["a/web-0", "node"]));
        assert!(pods.list(&LabelSelector::nothing()).unwrap().is_empty());

        let a = pods.namespace("a");
        assert_eq!(keys(&a.list(&everything).unwrap()), set(&["a/db-0", "a/web-0"]));
        assert_eq!(keys(&a.list(&selector("app!=web")).unwrap()), set(&["a/db-0"]));
        assert!(pods.namespace("c").list(&everything).unwrap().is_empty());
        assert_eq!(pods.namespace("").list(&everything).unwrap().len(), 4, "no namespace is all of them");
        assert_eq!(pods.namespace("").list(&selector("app=web")).unwrap().len(), 3);
        let mut visited = 0;
        pods.namespace("").for_each(&everything, |_| visited += 1).unwrap();
        assert_eq!(visited, 4);
    }
}

// contract: F-06a, F-06c
#[test]
fn get_returns_the_object_or_not_found() {
    let pods = Lister::<Pod>::new(store(true, sample()).reader());
    assert_eq!(pods.get("a/web-0").unwrap().key().to_string(), "a/web-0");
    assert_eq!(pods.get("node").unwrap().key().to_string(), "node");
    assert_eq!(pods.namespace("b").get("web-0").unwrap().key().to_string(), "b/web-0");

    let missing = |found: Result<Packed<Pod>, Error>, requested: &str| matches!(found, Err(Error::NotFound { resource, key }) if &*resource == "Pod" && key == requested);
    assert!(missing(pods.get("a/web-1"), "a/web-1"));
    assert!(missing(pods.namespace("c").get("web-0"), "c/web-0"));
    assert!(missing(pods.namespace("a").get("node"), "a/node"));
    assert!(pods.get_opt("a/web-0").unwrap().is_some() && pods.get_opt("a/web-1").unwrap().is_none());
    assert!(matches!(pods.get_opt("a/").unwrap_err(), Error::Key(_)));
    let in_namespace = pods.namespace("b");
    assert!(in_namespace.get_opt("web-0").unwrap().is_some() && in_namespace.get_opt("x").unwrap().is_none());
    let pods = pods.resource_name("pods");
    assert_eq!(pods.namespace("a").get("x").unwrap_err().to_string(), "pods \"a/x\" not found");
}

// contract: F-06a, O-20b, O-20d
#[test]
fn lister_accepts_keys_in_every_form() {
    let pods = Lister::<Pod>::new(store(true, sample()).reader());
    let pod = pods.get("a/web-0").unwrap();
    let key = ObjectKey::new("a", "web-0").unwrap();
    for same in [
        pods.get(&"a/web-0".to_owned()),
        pods.get("a/web-0"),
        pods.get(&key),
        pods.get(KeyRef::new("a", "web-0")),
    ] {
        assert!(same.unwrap().ptr_eq(&pod));
    }
    assert!(pods.get("node").unwrap().ptr_eq(&pods.get(KeyRef::named("node")).unwrap()));
    for text in ["", "a/", "/web-0", "a/web-0/log"] {
        let error = pods.get(text).unwrap_err();
        assert!(matches!(&error, Error::Key(error) if error.key() == text), "{text:?}: {error}");
    }
    // A key that is not a string is looked up unchanged.
    for absent in
        [KeyRef::named("a/web-0"), KeyRef::new("a", "web-0").in_cluster("east"), KeyRef::new("a", "")]
    {
        assert!(matches!(pods.get(absent), Err(Error::NotFound { .. })), "{absent:?}");
    }
}

/// Text is not a key: only the parser and the lister read it as one. All other look-ups take parts.
// contract: O-20e
#[test]
fn look_ups_below_listers_take_parts() {
    static_assertions::assert_not_impl_any!(KeyRef<'static>: From<&'static str>, From<&'static String>);
    static_assertions::assert_not_impl_any!(ObjectKey: From<&'static str>, From<String>);
    let store = store(true, sample());
    let (reader, snapshot) = (store.reader(), store.snapshot());
    let text = KeyRef::named("a/web-0");
    assert!(store.get(text).is_none() && reader.get(text).is_none() && snapshot.get(text).is_none());
    let parts = ("a", "web-0");
    assert!(store.get(parts).is_some() && reader.get(parts).is_some() && snapshot.get(parts).is_some());
}

/// Listed objects are those of the store, and a later list includes later writes.
// contract: F-06b, F-06d
#[test]
fn lister_shares_and_follows_the_store() {
    let store = store(true, sample());
    let pods = Lister::<Pod>::new(store.reader());
    let all = pods.list(&selector("app=db")).unwrap();
    assert!(Arc::ptr_eq(all[0].object(), &store.get(("a", "db-0")).unwrap()), "nothing is copied");
    assert!(all[0].ptr_eq(&pods.namespace("a").get("db-0").unwrap()));

    // A visit shows one state, regardless of concurrent writes.
    let mut seen = Vec::new();
    pods.for_each(&selector("app=web"), |pod| {
        seen.push(pod.into_owned());
        store.delete_by_key(("a", "web-0"));
        store.delete_by_key(("b", "web-0"));
        store.delete_by_key(KeyRef::named("node"));
    })
    .unwrap();
    assert_eq!(keys(&seen), set(&["a/web-0", "b/web-0", "node"]));
    assert_eq!(keys(&pods.list(&LabelSelector::everything()).unwrap()), set(&["a/db-0"]));
}

proptest! {
    // contract: F-06b, F-06c
    #[test]
    fn all_lists_agree_with_a_filter_of_all_objects(
        objects in proptest::collection::vec(("[a-c]", "[a-z]{1,2}", "[x-z]"), 0..40),
        namespace in "[a-d]",
        value in "[x-z]",
        negated: bool,
    ) {
        let operator = if negated { "!=" } else { "=" };
        let selector = selector(&format!("app{operator}{value}"));
        for indexed in [true, false] {
            let all: Vec<PackedObject> =
                objects.iter().map(|(ns, name, app)| pod(&format!("{ns}/{name}"), &[("app", app)])).collect();
            let pods = Lister::<Pod>::new(store(indexed, all).reader());
            let expected = |namespace: Option<&str>| -> BTreeSet<String> {
                let all = pods.list(&LabelSelector::everything()).unwrap();
                let all = all.iter().filter(|pod| namespace.is_none_or(|ns| pod.namespace() == Some(ns)));
                let chosen = all.filter(|pod| (pod.label("app") == Some(&value)) != negated);
                chosen.map(|pod| pod.key().to_string()).collect()
            };
            prop_assert_eq!(keys(&pods.list(&selector).unwrap()), expected(None));
            let there = pods.namespace(namespace.as_str());
            prop_assert_eq!(keys(&there.list(&selector).unwrap()), expected(Some(&namespace)));
            let mut visited = Vec::new();
            there.for_each(&selector, |pod| visited.push(pod.into_owned())).unwrap();
            prop_assert_eq!(visited.len(), expected(Some(&namespace)).len());
        }
    }
}
