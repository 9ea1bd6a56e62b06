//! Lists: namespaces, labels, fields, limits.

use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer_cache::{Error, Kind, Query};

use crate::common::{builder, node, pod, server, started};

async fn keys(pods: &Kind<Pod>, options: Query) -> Vec<String> {
    let list = pods.list(&options).await.unwrap();
    list.iter().map(|pod| pod.key().to_string()).collect()
}

// contract: C-02a, C-02d, C-03a
#[tokio::test]
async fn lists_combine_namespace_labels_fields_and_limit() {
    let server = server().await;
    for (namespace, name, app, node) in [
        ("team-b", "b", "web", "node-1"),
        ("team-a", "c", "web", "node-1"),
        ("team-a", "a", "api", "node-1"),
        ("team-a", "b", "web", "node-2"),
    ] {
        server.create(pod(namespace, name, app, node)).unwrap();
    }
    let cache = builder(&server).build().await.unwrap();
    let pods = cache.kind::<Pod>();
    pods.index_by_field("spec.nodeName", &["spec", "nodeName"]).unwrap(); // before the start
    cache.start().unwrap();
    let all = Query::new;
    assert_eq!(keys(&pods, all()).await, ["team-a/a", "team-a/b", "team-a/c", "team-b/b"]);
    assert_eq!(keys(&pods, all().namespace("")).await.len(), 4);
    pods.index_by_field("metadata.name", &["metadata", "name"]).unwrap(); // after it
    let web = || all().labels("app=web".parse().unwrap());
    let on_1 = || web().field("spec.nodeName", "node-1");
    for (options, expected) in [
        (all().namespace("team-a"), &["team-a/a", "team-a/b", "team-a/c"][..]),
        (web(), &["team-a/b", "team-a/c", "team-b/b"]),
        (web().limit(2), &["team-a/b", "team-a/c"]),
        (web().namespace("team-a"), &["team-a/b", "team-a/c"]),
        (on_1(), &["team-a/c", "team-b/b"]),
        (on_1().namespace("team-b"), &["team-b/b"]),
        (all().field("spec.nodeName", "node-1").namespace("team-a"), &["team-a/a", "team-a/c"]),
        (all().field("spec.nodeName", "node-1").field("metadata.name", "b"), &["team-b/b"]),
        (all().field("spec.nodeName", "node-2").field("spec.nodeName", "node-1"), &[]),
        (all().field("spec.nodeName", "node-3"), &[]),
        (all().limit(0), &[]),
        (all().namespace("team-c"), &[]),
    ] {
        assert_eq!(keys(&pods, options.clone()).await, expected, "{options:?}");
    }
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-03b
#[tokio::test]
async fn every_field_needs_one_index() {
    let server = server().await;
    let cache = started(&server).await;
    let pods = cache.kind::<Pod>();
    pods.index_by_field("spec.nodeName", &["spec", "nodeName"]).unwrap();
    let error = pods.index_by_field("spec.nodeName", &["spec", "nodeName"]).unwrap_err();
    assert!(error.to_string().contains("spec.nodeName"), "{error}");
    // Also if another field selects nothing.
    let options = Query::new().field("spec.nodeName", "none").field("status.phase", "Running");
    let error = pods.list(&options).await.unwrap_err();
    assert!(matches!(error, Error::NoFieldIndex { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        r#"pods cannot be listed by "status.phase": there is no index of this field; add it with Kind::index_by_field"#
    );
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A map function of a controller is not async, and finds the objects that refer to another one.
// contract: C-03f
#[tokio::test]
async fn field_indexes_are_those_of_the_informer() {
    let server = server().await;
    server.create(pod("team-a", "a", "web", "node-1")).unwrap();
    server.create(pod("team-b", "b", "web", "node-2")).unwrap();
    let cache = started(&server).await;
    let pods = cache.kind::<Pod>();
    pods.index_by_field("spec.nodeName", &["spec", "nodeName"]).unwrap();
    let informer = pods.synced_informer().await.unwrap();
    informer.index_by_field("app", &["metadata", "labels", "app"]).unwrap();
    pods.index_by_field("app", &["metadata", "labels", "app"]).unwrap_err();
    assert_eq!(informer.lister().by_index("spec.nodeName", "node-1").unwrap().len(), 1);
    assert_eq!(keys(&pods, Query::new().field("app", "web")).await, ["team-a/a", "team-b/b"]);
    let found = pods.by_index("spec.nodeName", "node-2").unwrap();
    assert_eq!(found.iter().map(|pod| pod.name()).collect::<Vec<_>>(), ["b"]);
    let error = pods.by_index("status.phase", "Running").unwrap_err();
    assert!(matches!(&error, Error::NoFieldIndex { field, .. } if &**field == "status.phase"), "{error}");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-02c
#[tokio::test]
async fn pages_are_of_one_state() {
    let server = server().await;
    for name in ["a", "b", "c", "d", "e"] {
        server.create(pod("team-a", name, "web", "node-1")).unwrap();
    }
    let cache = started(&server).await;
    let pods = cache.kind::<Pod>();
    let size = std::num::NonZeroUsize::new(2).unwrap();
    let mut pages = pods.pages(&Query::new(), size).await.unwrap();
    assert_eq!((pages.len(), pages.objects_left()), (3, 5));
    let names =
        |page: Vec<kinformer::Packed<Pod>>| page.iter().map(|pod| pod.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(pages.next().unwrap()), ["a", "b"]);
    server.delete("v1", "Pod", "team-a", "c").unwrap();
    let created = server.create(pod("team-a", "bb", "web", "node-1")).unwrap();
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    pods.informer().unwrap().wait_for(("team-a", "bb"), &version.into()).await.unwrap();
    assert_eq!(names(pages.next().unwrap()), ["c", "d"]);
    assert_eq!(names(pages.next().unwrap()), ["e"]);
    assert!(pages.next().is_none());
    assert_eq!(keys(&pods, Query::new().limit(3)).await, ["team-a/a", "team-a/b", "team-a/bb"]);
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-03d
#[test]
fn field_selectors_are_exact() {
    let options = Query::new();
    let error = |selector: &str| options.clone().field_selector(selector).unwrap_err();
    assert_eq!(
        error("spec.nodeName=node-1,status.phase!=Running").to_string(),
        "the field selector \"spec.nodeName=node-1,status.phase!=Running\" cannot be answered by the cache: \
         status.phase!=Running is not exact; filter the objects of the list instead"
    );
    assert!(matches!(error("spec.nodeName"), Error::FieldSelector { .. }));
    assert!(options.field_selector("").is_ok());
}

// contract: C-03d, C-03e
#[tokio::test]
async fn indexes_are_by_path_or_function() {
    let server = server().await;
    server.create(pod("team-a", "a", "web", "node-1")).unwrap();
    server.create(pod("team-a", "b", "api", "node-1")).unwrap();
    let cache = started(&server).await;
    let pods = cache.kind::<Pod>();
    pods.index_by_field("spec.nodeName", &["spec", "nodeName"]).unwrap();
    let images = |pod: kinformer::PackedRef<'_, Pod>, values: &mut kinformer::IndexValues| {
        values.push("all");
        values.push(pod.label("app").unwrap_or_default());
        Ok(())
    };
    pods.index("images", images).unwrap();
    let found = |selector: &str| Query::new().field_selector(selector).unwrap();
    assert_eq!(keys(&pods, found("images=all,spec.nodeName==node-1")).await, ["team-a/a", "team-a/b"]);
    assert_eq!(keys(&pods, found("images=api,spec.nodeName==node-1")).await, ["team-a/b"]);
    pods.index("images", images).unwrap_err();
    // A function that panics is contained: its objects are not in the index.
    pods.index("broken", |_, _| panic!("of the test")).unwrap();
    assert!(keys(&pods, found("broken=x")).await.is_empty());
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-02e
#[tokio::test]
async fn namespace_has_no_effect_on_a_list_of_cluster_scoped_objects() {
    let server = server().await;
    server.create(node("node-1")).unwrap();
    let cache = started(&server).await;
    let nodes = cache.kind::<Node>();
    for options in [Query::new(), Query::new().namespace("team-a")] {
        assert_eq!(nodes.list(&options).await.unwrap().len(), 1, "{options:?}");
        assert_eq!(nodes.clone().live().list(&options).await.unwrap().len(), 1, "{options:?}");
    }
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}
