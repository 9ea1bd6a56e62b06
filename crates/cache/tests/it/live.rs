//! Reads that are answered by the server.

use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kinformer_apiserver::Verb;
use kinformer_cache::{Cache, Error, Query};
use kube_core::gvk::GroupVersionKind;
use serde_json::{Value, json};

use crate::common::{builder, node, pod, requests, server};

fn secret(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "type": "Opaque"})
}

async fn names(cache: &Cache, options: Query) -> Vec<String> {
    let list = cache.list::<Secret>(&options).await.unwrap();
    list.iter().map(|secret| secret.key().to_string()).collect()
}

// contract: C-12a
#[tokio::test]
async fn reads_of_an_uncached_kind_start_no_informer() {
    let server = server().await;
    for (namespace, name) in [("team-b", "x"), ("team-a", "y"), ("team-a", "x")] {
        server.create(secret(namespace, name)).unwrap();
    }
    let cache = builder(&server)
        .options(|options| options.namespaces(["team-a"]))
        .uncached::<Secret>()
        .build()
        .await
        .unwrap();
    let read = cache.get::<Secret>("team-a/x").await.unwrap();
    assert_eq!(read.decode().unwrap().type_.as_deref(), Some("Opaque"));
    let error = cache.get::<Secret>("team-a/z").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    let all = Query::new;
    assert_eq!(names(&cache, all()).await, ["team-a/x", "team-a/y", "team-b/x"]);
    assert_eq!(names(&cache, all().limit(2)).await, ["team-a/x", "team-a/y"]);
    assert_eq!(names(&cache, all().namespace("team-b")).await, ["team-b/x"]);
    assert_eq!(names(&cache, all().labels("app=y".parse().unwrap())).await, ["team-a/y"]);
    assert_eq!(names(&cache, all().field("metadata.name", "x")).await, ["team-a/x", "team-b/x"]);
    assert!(names(&cache, all().field("metadata.name", "x,metadata.namespace=team-a")).await.is_empty());
    let error = cache.list::<Secret>(&all().field("spec.none", "x")).await.unwrap_err();
    assert!(matches!(error, Error::LiveRead { .. }), "{error}");
    assert!(error.to_string().starts_with("secrets cannot be read from the server: "), "{error}");
    let metadata = cache.metadata::<Secret>();
    assert!(metadata.get("team-b/x").await.unwrap().is_metadata_only());
    assert!(metadata.list(&all()).await.unwrap().iter().all(|secret| secret.is_metadata_only()));
    assert_eq!(server.metrics().requests_for(Verb::Watch, "secrets"), 0);
    cache.start().unwrap();
    assert_eq!(server.metrics().requests_for(Verb::Watch, "secrets"), 0);
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-12b
#[tokio::test]
async fn live_reads_have_the_newest_state() {
    let server = server().await;
    let cache = builder(&server).build().await.unwrap();
    let kind = GroupVersionKind::gvk("", "v1", "Pod");
    let (pods, dynamic) = (cache.kind::<Pod>().live(), cache.dynamic(&kind).await.unwrap().live());
    for number in 0..3 {
        let name = format!("web-{number}");
        server.create(pod("team-a", &name, "web", "node-1")).unwrap();
        let key = format!("team-a/{name}");
        assert_eq!(pods.get(&*key).await.unwrap().name(), name);
        assert_eq!(dynamic.get(&*key).await.unwrap().decode().unwrap().types.as_ref().unwrap().kind, "Pod");
        assert_eq!(dynamic.list(&Query::new()).await.unwrap().len(), number + 1);
    }
    server.create(node("node-1")).unwrap();
    let nodes = cache.kind::<Node>().live();
    assert_eq!(nodes.get("team-a/node-1").await.unwrap().name(), "node-1", "nodes are in no namespace");
    assert_eq!(nodes.list(&Query::new().namespace("team-a")).await.unwrap().len(), 1);
    assert_eq!(requests(&server, "nodes"), 1);
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}
