//! Typed, dynamic and metadata-only objects; namespaces, selectors, pages.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{PATIENCE, config_map, follow, kube, labelled, options, server, server_that, stored};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::ProtobufAnswers;
use kinformer_core::Object;
use kinformer_kube::{Encoding, Error, FieldPath, KubeListerWatcher};
use kinformer_reflector::{ListOptions, ListerWatcher, WatchListMode, WatchOptions};
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, GroupVersionKind};
use serde_json::json;

const MODES: [WatchListMode; 2] = [WatchListMode::Off, WatchListMode::Auto];

// contract: L-07b
#[tokio::test(flavor = "multi_thread")]
async fn dynamic_objects_by_discovery() {
    for mode in MODES {
        let server = server().await;
        server
            .create(json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "crontabs.stable.example.com"},
                "spec": {
                    "group": "stable.example.com", "scope": "Namespaced",
                    "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab"},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
                },
            }))
            .unwrap();
        let tab = |name: &str| {
            json!({"apiVersion": "stable.example.com/v1", "kind": "CronTab",
                "metadata": {"name": name, "namespace": "default"}, "spec": {"image": "x"}})
        };
        server.create(tab("a")).unwrap();
        let kind = GroupVersionKind::gvk("stable.example.com", "v1", "CronTab");
        let source = KubeListerWatcher::<DynamicObject>::discover(kube(&server), &kind).await.unwrap();
        assert_eq!(source.resource().plural, "crontabs");
        let follower = follow(source, options(mode));
        follower.caught_up(&server).await;
        server.create(tab("b")).unwrap();
        follower.caught_up(&server).await;
        for name in ["a", "b"] {
            let tab = follower.store.get(("default", name)).unwrap();
            assert_eq!(tab.data["spec"]["image"], "x");
            assert_eq!(tab.types.as_ref().unwrap().kind, "CronTab", "{mode:?}");
        }
        follower.stop().await;
        let unknown = GroupVersionKind::gvk("stable.example.com", "v1", "Nothing");
        let error = KubeListerWatcher::<DynamicObject>::discover(kube(&server), &unknown).await.unwrap_err();
        assert!(matches!(&error, Error::Discovery { kind, .. } if kind == "Nothing"), "{error}");
        server.shutdown().await;
    }
}

/// Protobuf is used if the server supports it, and the objects equal those decoded from JSON.
// contract: L-11a, L-11b
#[tokio::test(flavor = "multi_thread")]
async fn protobuf_is_used_if_the_server_supports_it() {
    for mode in MODES {
        for (offered, expected) in
            [(ProtobufAnswers::Offered, Encoding::Protobuf), (ProtobufAnswers::Refused, Encoding::Json)]
        {
            let server = server_that(offered).await;
            server.create(config_map("a", "1")).unwrap();
            let source = KubeListerWatcher::<ConfigMap>::new(kube(&server));
            let in_json = source.clone().encoding(Encoding::Json);
            let follower = follow(source.clone(), options(mode));
            follower.caught_up(&server).await;
            server.create(config_map("b", "2")).unwrap();
            follower.caught_up(&server).await;
            assert_eq!(source.response_encoding(), Some(expected), "{mode:?}");
            let list = in_json.list(ListOptions::at_version("0")).await.unwrap();
            assert_eq!(in_json.response_encoding(), Some(Encoding::Json));
            assert_eq!(list.objects.len(), 2);
            for map in &list.objects {
                assert_eq!(follower.store.get(map.key()), Some(map.clone()), "{mode:?}");
            }
            follower.stop().await;
            server.shutdown().await;
        }
    }
}

/// A packed object decodes to the same value as an object that is decoded on arrival.
// contract: L-13f
#[tokio::test(flavor = "multi_thread")]
async fn packed_objects_equal_eager_objects() {
    for mode in MODES {
        for offered in [ProtobufAnswers::Offered, ProtobufAnswers::Refused] {
            let server = server_that(offered).await;
            server.create(config_map("a", "1")).unwrap();
            let source = KubeListerWatcher::packed::<ConfigMap>(kube(&server));
            let follower = follow(source.clone(), options(mode));
            follower.caught_up(&server).await;
            server.create(config_map("b", "2")).unwrap();
            follower.caught_up(&server).await;
            let eager = KubeListerWatcher::<ConfigMap>::new(kube(&server));
            let list = eager.list(ListOptions::at_version("0")).await.unwrap();
            assert_eq!((list.objects.len(), source.response_encoding()), (2, eager.response_encoding()));
            for map in &list.objects {
                let packed = follower.store.get(map.key()).unwrap();
                assert_eq!(packed.resource_version(), map.resource_version(), "{mode:?}");
                let mut typed = ConfigMap::clone(&packed.decode_as::<ConfigMap>().unwrap());
                typed.metadata.managed_fields = None;
                assert_eq!(typed, map.0, "{mode:?} {offered:?}");
            }
            follower.stop().await;
            server.shutdown().await;
        }
    }
}

/// Dropped fields are stored neither in packed objects nor in decoded ones.
// contract: L-14a, L-14c
#[tokio::test(flavor = "multi_thread")]
async fn dropped_fields_are_not_stored() {
    for mode in MODES {
        for encoding in [Encoding::Protobuf, Encoding::Json] {
            let server = server_that(ProtobufAnswers::Offered).await;
            server.create(config_map("a", "1")).unwrap();
            let eager = KubeListerWatcher::<ConfigMap>::new(kube(&server))
                .encoding(encoding)
                .drop_fields([FieldPath::new(&["data"])]);
            let packed = KubeListerWatcher::packed::<ConfigMap>(kube(&server))
                .drop_fields([FieldPath::new(&["data"])]);
            let packed = packed
                .encoding(encoding)
                .drop_fields([FieldPath::new(&["metadata", "labels"])])
                .decoded_cache_size(1);
            let (eager, packed) = (follow(eager, options(mode)), follow(packed.clone(), options(mode)));
            eager.caught_up(&server).await;
            packed.caught_up(&server).await;
            server.create(config_map("b", "2")).unwrap();
            eager.caught_up(&server).await;
            packed.caught_up(&server).await;
            for name in ["a", "b"] {
                let eager = eager.store.get(("default", name)).unwrap();
                let packed = packed.store.get(("default", name)).unwrap();
                assert_eq!((Object::label(&*eager, "app"), packed.label("app")), (Some("x"), None));
                let typed = packed.decode_as::<ConfigMap>().unwrap();
                assert_eq!((&typed.data, &eager.data), (&None, &None), "{mode:?} {encoding:?}");
                assert_eq!(typed.metadata.uid, eager.metadata.uid);
            }
            let decoded = packed.store.list().iter().filter(|packed| packed.is_decoded()).count();
            assert_eq!((decoded, packed.store.len()), (1, 2));
            eager.stop().await;
            packed.stop().await;
            server.shutdown().await;
        }
    }
}

// contract: L-07a
#[tokio::test(flavor = "multi_thread")]
async fn metadata_only_by_content_negotiation() {
    for mode in MODES {
        let server = server().await;
        server.create(config_map("a", "1")).unwrap();
        let source = KubeListerWatcher::<PartialObjectMeta<ConfigMap>>::new(kube(&server));
        let follower = follow(source, options(mode));
        follower.caught_up(&server).await;
        server.create(config_map("b", "1")).unwrap();
        follower.caught_up(&server).await;
        for name in ["a", "b"] {
            let meta = follower.store.get(("default", name)).unwrap();
            assert_eq!(Object::label(&*meta, "app"), Some("x"));
            assert!(
                meta.types.as_ref().is_none_or(|types| types.kind == "PartialObjectMetadata"),
                "{mode:?}"
            );
        }
        follower.stop().await;
        server.shutdown().await;
    }
}

/// A dynamic object of a built-in kind has its API version and kind.
#[tokio::test(flavor = "multi_thread")]
async fn dynamic_objects_of_built_in_kinds_have_types() {
    let server = server().await;
    server.create(config_map("a", "1")).unwrap();
    let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let source = KubeListerWatcher::<DynamicObject>::discover(kube(&server), &kind).await.unwrap();
    let list = source.namespace("default").list(ListOptions::at_version("")).await.unwrap();
    let types = list.objects[0].types.as_ref().unwrap();
    assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
    server.shutdown().await;
}

/// An object is stored once its labels match the selector, and removed once they do not.
#[tokio::test(flavor = "multi_thread")]
async fn selector_changes_add_and_remove_objects() {
    for mode in MODES {
        let server = server().await;
        server.create(labelled("in", "1", "web")).unwrap();
        server.create(labelled("out", "1", "db")).unwrap();
        let source =
            KubeListerWatcher::<ConfigMap>::new(kube(&server)).namespace("default").labels("app in (web)");
        let follower = follow(source, options(mode));
        follower.caught_up(&server).await;
        assert_eq!(stored(&follower.store).into_keys().collect::<Vec<_>>(), ["in"]);
        server.update(labelled("in", "2", "db")).unwrap();
        server.update(labelled("out", "2", "web")).unwrap();
        follower.caught_up(&server).await;
        assert_eq!(stored(&follower.store).into_keys().collect::<Vec<_>>(), ["out"], "{mode:?}");
        follower.stop().await;
        server.shutdown().await;
    }
}

/// Field selectors, namespaces and tweaks are part of each request.
#[tokio::test(flavor = "multi_thread")]
async fn selectors_namespaces_tweaks_reach_server() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        server.create(config_map(name, "1")).unwrap();
    }
    let maps = KubeListerWatcher::<ConfigMap>::new(kube(&server));
    let names = async |source: &KubeListerWatcher<ConfigMap>| {
        let list = source.list(ListOptions::at_version("")).await.unwrap();
        list.objects.iter().map(|map| map.metadata.name.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names(&maps.clone().fields("metadata.name=b")).await, ["b"]);
    assert_eq!(names(&maps.clone().namespace("kube-system")).await, [""; 0]);
    let tweaks = Arc::new(AtomicUsize::new(0));
    let counted = tweaks.clone();
    let tweaked = maps.clone().namespace("default").tweak(move |params| {
        counted.fetch_add(1, Ordering::Relaxed);
        assert!(!params.is_watch());
        params.set("fieldSelector", "metadata.name=c");
    });
    assert_eq!(names(&tweaked).await, ["c"]);
    assert_eq!(tweaks.load(Ordering::Relaxed), 1);

    let mut page = ListOptions::at_version("");
    page.limit = NonZeroU32::new(2);
    let first = maps.list(page.clone()).await.unwrap();
    assert_eq!((first.objects.len(), first.remaining), (2, Some(1)));
    page.continue_token = first.continue_token;
    let second = maps.list(page).await.unwrap();
    assert_eq!(
        (second.objects.len(), second.continue_token, second.resource_version),
        (1, None, first.resource_version)
    );
    server.shutdown().await;
}

/// The server closes a watch whose stream was dropped.
// contract: R-02b
#[tokio::test(flavor = "multi_thread")]
async fn dropped_watch_is_closed() {
    let server = server().await;
    server.create(config_map("a", "1")).unwrap();
    let maps = KubeListerWatcher::<ConfigMap>::new(kube(&server));
    let version = server.version().to_string();
    let watch = maps.watch(WatchOptions::from(version.as_str(), Duration::from_secs(300))).await.unwrap();
    let open = async |expected: u64| {
        while server.metrics().open_watches as u64 != expected {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, open(1)).await.unwrap();
    drop(watch);
    // The server notices on its next write to the connection, at the latest with a bookmark.
    tokio::time::timeout(PATIENCE, open(0)).await.unwrap();
    server.shutdown().await;
}
