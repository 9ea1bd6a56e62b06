//! Lists: namespaces, labels, fields, limits.

use k8s_openapi::api::core::v1::Pod;
use kinformer_cache::{Error, Kind, ListOptions};

use crate::common::{builder, pod, server, started};

async fn keys(pods: &Kind<Pod>, options: ListOptions) -> Vec<String> {
    let list = pods.list(&options).await.unwrap();
    list.iter().map(|pod| pod.key().to_string()).collect()
}

// contract: C-02a, C-02b, C-02d, C-03a
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
    pods.index_field("spec.nodeName", &["spec", "nodeName"]).unwrap(); // before the start
    cache.start().unwrap();
    let all = ListOptions::new;
    assert_eq!(keys(&pods, all()).await, ["team-a/a", "team-a/b", "team-a/c", "team-b/b"]);
    assert_eq!(keys(&pods, all().namespace("")).await.len(), 4);
    pods.index_field("metadata.name", &["metadata", "name"]).unwrap(); // after it
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

// contract: C-03b, C-03c
#[tokio::test]
async fn every_field_needs_one_index() {
    let server = server().await;
    let cache = started(&server).await;
    let pods = cache.kind::<Pod>();
    pods.index_field("spec.nodeName", &["spec", "nodeName"]).unwrap();
    let error = pods.index_field("spec.nodeName", &["spec", "nodeName"]).unwrap_err();
    assert!(error.to_string().contains("spec.nodeName"), "{error}");
    // Also if another field selects nothing.
    let options = ListOptions::new().field("spec.nodeName", "none").field("status.phase", "Running");
    let error = pods.list(&options).await.unwrap_err();
    assert!(matches!(error, Error::NoFieldIndex { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        r#"pods cannot be listed by "status.phase": there is no index of this field; add it with Kind::index_field"#
    );
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}
