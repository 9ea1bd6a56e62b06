//! Shards: the selector of requests, and the filter of what arrives.

use std::collections::BTreeSet;

use crate::common::{PATIENCE, empty_list, server_that};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::ProtobufAnswers;
use kinformer_kube::{
    Encoding, KubeListerWatcher, NamespaceFilter, Shard, ShardField, ShardSelector, client, fnv1a64,
};
use kinformer_reflector::{ListOptions, ListerWatcher as _, WatchEvent, WatchOptions};
use kinformer_testing::scripted_http::in_process_client;
use proptest::prelude::*;
use serde_json::json;

const END: u128 = 1 << 64;

fn half() -> ShardSelector {
    ShardSelector::one(ShardField::Uid, 0..END / 2)
}

/// The selector is a parameter, and a version where any would do is the one that is asked for.
// contract: L-45a, L-45c
#[tokio::test]
async fn parameters_of_shards() {
    let (client, requests) = in_process_client(|_| empty_list());
    let maps = KubeListerWatcher::packed::<ConfigMap>(client).shard(Shard::new(half()));
    for (at_least, requested, expected) in [
        (None, "0", "resourceVersion=0"),
        (Some("7"), "0", "resourceVersion=7&resourceVersionMatch=NotOlderThan"),
        (Some("7"), "9", "resourceVersion=9"),
        (Some("7"), "", ""),
        (Some(""), "0", ""),
        (Some(""), "9", ""),
    ] {
        let source = match at_least {
            Some(version) => maps.clone().at_least(version),
            None => maps.clone(),
        };
        source.list(ListOptions::at_version(requested)).await.unwrap();
        let target = requests.all().last().unwrap().target.clone();
        let (_, query) = target.split_once('?').unwrap();
        let parameters: Vec<(String, String)> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let (shard, versions): (Vec<_>, Vec<_>) =
            parameters.into_iter().partition(|(name, _)| name == "shardSelector");
        assert_eq!(shard, [("shardSelector".to_owned(), half().to_string())]);
        let versions: Vec<String> = versions.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(versions.join("&"), expected, "{at_least:?} {requested}");
    }
}

/// From a server that ignores the selector, only objects of the shard are delivered, in both encodings, also after it was narrowed.
// contract: L-45a, L-45b
#[tokio::test]
async fn objects_of_other_shards_are_dropped() {
    let server = server_that(ProtobufAnswers::Offered).await;
    let map = |number: u32, value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value},
            "metadata": {"name": format!("m{number}"), "namespace": "default"}})
    };
    let created: Vec<_> = (0..40).map(|number| server.create(map(number, "0")).unwrap()).collect();
    let names = |selector: &ShardSelector| -> BTreeSet<String> {
        let uid = |map: &serde_json::Value| map["metadata"]["uid"].as_str().unwrap().to_owned();
        let selected = created.iter().filter(|map| selector.matches(&uid(map)));
        selected.map(|map| map["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let shard = Shard::new(half());
        let client = client(server.config().unwrap()).unwrap();
        let maps = KubeListerWatcher::packed::<ConfigMap>(client).encoding(encoding).shard(shard.clone());
        let list = maps.list(ListOptions::default()).await.unwrap();
        let listed: BTreeSet<String> = list.objects.iter().map(|map| map.name().to_owned()).collect();
        assert_eq!(listed, names(&half()));
        let options = WatchOptions::from(list.resource_version, PATIENCE);
        let mut events = maps.watch(options).await.unwrap();
        for selector in [half(), ShardSelector::one(ShardField::Uid, END / 4..END / 2)] {
            shard.narrow(selector.clone());
            (0..40).for_each(|number| drop(server.update(map(number, &format!("{selector}"))).unwrap()));
            (0..40).for_each(|number| drop(server.update(map(number, "0")).unwrap()));
            for _ in 0..2 {
                let mut changed = BTreeSet::new();
                while changed.len() < names(&selector).len() {
                    match events.next().await.unwrap().unwrap() {
                        WatchEvent::Modified(map) => assert!(changed.insert(map.name().to_owned())),
                        WatchEvent::Bookmark { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(changed, names(&selector));
            }
        }
    }
}

/// Objects of other namespaces are dropped, in lists and watches and in both encodings, also after the filter was narrowed.
// contract: L-46a, L-46b
#[tokio::test]
async fn objects_of_other_namespaces_are_dropped() {
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let server = server_that(ProtobufAnswers::Offered).await;
        let map = |namespace: &str, name: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace}})
        };
        for namespace in ["team-a", "team-b", "team-c"] {
            let namespaced =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            server.create(namespaced).unwrap();
            server.create(map(namespace, "map")).unwrap();
        }
        let client = client(server.config().unwrap()).unwrap();
        let filter = NamespaceFilter::new(["team-a".into(), "team-b".into()]);
        let maps = KubeListerWatcher::packed::<ConfigMap>(client).encoding(encoding);
        let maps = maps.only_namespaces(filter.clone());
        let list = maps.list(ListOptions::default()).await.unwrap();
        let keys: Vec<String> = list.objects.iter().map(|map| map.key().to_string()).collect();
        assert_eq!(keys, ["team-a/map", "team-b/map"]);
        assert_eq!(maps.count().await.unwrap(), Some(3));
        assert_eq!(maps.clone().labels("a=b").count().await.unwrap(), Some(0));
        let mut events = maps.watch(WatchOptions::from(list.resource_version, PATIENCE)).await.unwrap();
        for namespace in ["team-c", "team-b"] {
            server.create(map(namespace, "later")).unwrap();
        }
        let Some(Ok(WatchEvent::Added(added))) = events.next().await else { panic!("no addition") };
        assert_eq!(added.key().to_string(), "team-b/later");
        filter.narrow(&["team-a".into(), "team-c".into()].into());
        for namespace in ["team-b", "team-c", "team-a"] {
            server.create(map(namespace, "last")).unwrap();
        }
        let Some(Ok(WatchEvent::Added(added))) = events.next().await else { panic!("no addition") };
        assert_eq!(added.key().to_string(), "team-a/last");
        server.shutdown().await;
    }
}

/// The figures of docs/beyond-one-process.md: names that differ only at their end are in few slots.
// contract: L-45e
#[test]
fn hashes_of_similar_names_are_close() {
    let slots = |names: &dyn Fn(u32) -> String, count| {
        (0..count).map(|number| fnv1a64(&names(number)) >> 54).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(slots(&|number| format!("team-{number}"), 100), 2);
    assert_eq!(slots(&|number| format!("team-{number}"), 1_000), 14);
    assert_eq!(slots(&|number| format!("customer-{number:05}-prod"), 1_000), 649);
}

proptest! {
    /// The sets of a selector are those of its ranges.
    // contract: L-45d
    #[test]
    fn selectors_are_sets(
        a in prop::collection::vec((0u128..64, 0u128..64), 0..6),
        b in prop::collection::vec((0u128..64, 0u128..64), 0..6),
    ) {
        let set = |ranges: &[(u128, u128)]| -> BTreeSet<u128> {
            ranges.iter().flat_map(|(start, end)| *start..*end).collect()
        };
        let selector = |ranges: &[(u128, u128)]| {
            ShardSelector::new(ShardField::Uid, ranges.iter().map(|(start, end)| *start..*end))
        };
        let of = |selector: &ShardSelector| -> BTreeSet<u128> { selector.ranges().iter().cloned().flatten().collect() };
        let (one, two) = (selector(&a), selector(&b));
        prop_assert_eq!(of(&one), set(&a));
        prop_assert_eq!(of(&one.and(&two)), &set(&a) & &set(&b));
        prop_assert_eq!(of(&one.without(&two)), &set(&a) - &set(&b));
        prop_assert!(one.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
    }
}
