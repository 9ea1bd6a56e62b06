//! The same reads in several shapes of a cache, and through each view of a kind.

use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::NamespaceOptions;
use kinformer_apiserver::ApiServer;
use kinformer_cache::{Cache, CacheBuilder, Error, Kind, Query};
use kube_core::gvk::GroupVersionKind;

use crate::common::{builder, node, pod, server};

/// A cache without options, one of several namespaces, and one that starts no informers for reads.
const SHAPES: [fn(CacheBuilder) -> CacheBuilder; 3] = [
    |cache| cache,
    |cache| {
        let others = NamespaceOptions::all_others().fields("metadata.name!=none");
        cache.options(|options| options.namespaces(["team-a".into(), "team-c".into(), others]))
    },
    CacheBuilder::fail_on_missing_informer,
];

async fn cluster() -> ApiServer {
    let server = server().await;
    for (namespace, name, app, node) in [
        ("team-b", "b", "web", "node-1"),
        ("team-a", "c", "web", "node-1"),
        ("team-a", "a", "api", "node-1"),
        ("team-a", "b", "web", "node-2"),
    ] {
        server.create(pod(namespace, name, app, node)).unwrap();
    }
    server.create(node("node-1")).unwrap();
    server
}

/// All reads of pods, through one view.
async fn read_pods<K: 'static>(pods: Kind<K>) {
    _ = pods.index_by_field("spec.nodeName", &["spec", "nodeName"]); // once for all views
    assert_eq!(pods.get("team-a/b").await.unwrap().label("app"), Some("web"));
    assert_eq!(pods.get(("team-b", "b")).await.unwrap().namespace(), Some("team-b"));
    for key in ["team-a/none", "team-d/a"] {
        assert!(matches!(pods.get(key).await, Err(Error::NotFound { .. })), "{key}");
    }
    let all = Query::new;
    let web = || all().labels("app=web".parse().unwrap());
    for (options, expected) in [
        (all(), &["team-a/a", "team-a/b", "team-a/c", "team-b/b"][..]),
        (all().namespace("team-a"), &["team-a/a", "team-a/b", "team-a/c"]),
        (all().namespace("team-d"), &[]),
        (all().limit(3), &["team-a/a", "team-a/b", "team-a/c"]),
        (web(), &["team-a/b", "team-a/c", "team-b/b"]),
        (web().namespace("team-b"), &["team-b/b"]),
        (web().limit(1), &["team-a/b"]),
        (all().labels("app notin (web, api)".parse().unwrap()), &[]),
        (all().field("spec.nodeName", "node-1"), &["team-a/a", "team-a/c", "team-b/b"]),
        (web().field("spec.nodeName", "node-1").namespace("team-a"), &["team-a/c"]),
    ] {
        let list = pods.list(&options).await.unwrap();
        let keys: Vec<_> = list.iter().map(|pod| pod.key().to_string()).collect();
        assert_eq!(keys, expected, "{options:?}");
    }
}

async fn read_nodes(cache: &Cache) {
    let nodes = cache.kind::<Node>();
    nodes.synced_informer().await.unwrap();
    assert_eq!(nodes.list(&Query::new()).await.unwrap().len(), 1);
    assert_eq!(nodes.get("team-a/node-1").await.unwrap().name(), "node-1");
}

// contract: C-01a, C-02a, C-02d, C-05
#[tokio::test]
async fn reads_are_the_same_in_each_shape_and_view() {
    let server = cluster().await;
    let kind = GroupVersionKind::gvk("", "v1", "Pod");
    for shape in SHAPES {
        let cache = shape(builder(&server)).build().await.unwrap();
        cache.start().unwrap();
        cache.kind::<Pod>().informer().unwrap(); // for the one that starts none for reads
        cache.kind::<Node>().informer().unwrap();
        read_pods(cache.kind::<Pod>()).await;
        read_pods(cache.dynamic(&kind).await.unwrap()).await;
        read_pods(cache.metadata::<Pod>()).await;
        read_pods(cache.dynamic_metadata(&kind).await.unwrap()).await;
        read_nodes(&cache).await;
        cache.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

/// A cancelled read leaves the informer running, and an informer that is requested without a wait is waited for later.
// contract: C-01b, C-06a
#[tokio::test]
async fn reads_wait_for_an_informer_that_was_requested_before() {
    let server = cluster().await;
    for shape in SHAPES {
        let cache = shape(builder(&server)).build().await.unwrap();
        cache.start().unwrap();
        let pods = cache.kind::<Pod>();
        assert!(!pods.informer().unwrap().has_synced());
        let cancelled = tokio::time::timeout(std::time::Duration::ZERO, pods.get("team-a/a")).await;
        assert!(cancelled.is_err());
        assert_eq!(pods.get("team-a/a").await.unwrap().name(), "a");
        cache.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

/// As controller-runtime's table of selectors: each by list and get, through each view.
// contract: C-04a, C-04e
#[tokio::test]
async fn selectors_restrict_lists_and_gets() {
    type Case = (&'static str, fn(CacheBuilder) -> CacheBuilder, &'static [&'static str]);
    let cases: [Case; 10] = [
        ("label of all kinds", |cache| cache.options(|all| all.labels("app=api")), &["team-a/a"]),
        ("label of no object", |cache| cache.options(|all| all.labels("app=none")), &[]),
        (
            "label of the kind before that of all",
            |cache| cache.options(|all| all.labels("app=none").of_kind::<Pod>(|pods| pods.labels("app=web"))),
            &["team-a/b", "team-a/c", "team-b/b"],
        ),
        (
            "field of all kinds",
            |cache| cache.options(|all| all.fields("metadata.name=b")),
            &["team-a/b", "team-b/b"],
        ),
        (
            "field of the kind",
            |cache| cache.options(|all| all.of_kind::<Pod>(|pods| pods.fields("metadata.name=c"))),
            &["team-a/c"],
        ),
        (
            "field of the kind before that of all",
            |cache| {
                cache.options(|all| {
                    all.fields("metadata.name=none")
                        .of_kind::<Pod>(|pods| pods.fields("spec.nodeName=node-2"))
                })
            },
            &["team-a/b"],
        ),
        (
            "label and field",
            |cache| cache.options(|all| all.labels("app=web").fields("metadata.name=b")),
            &["team-a/b", "team-b/b"],
        ),
        (
            "namespace as a field",
            |cache| cache.options(|all| all.fields("metadata.namespace=team-b")),
            &["team-b/b"],
        ),
        (
            "namespace",
            |cache| cache.options(|all| all.namespaces([NamespaceOptions::new("team-a").labels("app=web")])),
            &["team-a/b", "team-a/c"],
        ),
        (
            "namespace of the kind, with the selector of the namespace",
            |cache| {
                cache.options(|all| {
                    let both = ["team-a", "team-b"]
                        .map(|name| NamespaceOptions::new(name).fields("metadata.name=b"));
                    all.labels("app=none").of_kind::<Pod>(|pods| pods.labels("app=web").namespaces(both))
                })
            },
            &["team-a/b", "team-b/b"],
        ),
    ];
    let server = cluster().await;
    for (case, options, expected) in cases {
        let cache = options(builder(&server)).build().await.unwrap();
        cache.start().unwrap();
        check(cache.kind::<Pod>(), case, expected).await;
        check(cache.dynamic(&GroupVersionKind::gvk("", "v1", "Pod")).await.unwrap(), case, expected).await;
        check(cache.metadata::<Pod>(), case, expected).await;
        cache.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

async fn check<K>(pods: Kind<K>, case: &str, expected: &[&str]) {
    let list = pods.list(&Query::new()).await.unwrap();
    assert_eq!(list.iter().map(|pod| pod.key().to_string()).collect::<Vec<_>>(), expected, "{case}");
    for key in ["team-a/a", "team-a/b", "team-a/c", "team-b/b"] {
        assert_eq!(pods.get(key).await.is_ok(), expected.contains(&key), "{case}: {key}");
    }
}
