//! Snapshots: what they contain, and what a restore does to clients.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{ApiServer, Fault, GarbageCollection, TestCluster, Verb};
use kube_client::Api;
use kube_runtime::{WatchStreamExt as _, reflector, watcher};
use serde_json::json;

use super::{Team, cluster, config_map};
use crate::common::{Client, PATIENCE};

/// Objects, definitions, owners and versions are in a snapshot; later writes are not.
// contract: E-21a
#[tokio::test]
async fn clusters_start_from_a_snapshot() {
    let template = cluster().await;
    let team = template.create(&Team::new("a", &["ann"])).unwrap();
    let owned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "Team", "name": "a", "uid": team.metadata.uid}]}});
    template.server().create(owned).unwrap();
    let state = template.snapshot();
    template.create(&config_map("later")).unwrap();
    template.delete::<Team>("a").unwrap();

    let first = TestCluster::from_snapshot(&state).await.unwrap();
    let second = TestCluster::from_snapshot(&state).await.unwrap();
    assert_eq!(first.server().version(), state.version());
    assert!(first.get::<ConfigMap>("later").is_err());
    first.create(&Team::new("b", &[])).unwrap();
    first.delete::<Team>("a").unwrap();
    assert!(first.get::<ConfigMap>("owned").is_err(), "deleted with its owner");
    assert!(second.get::<ConfigMap>("owned").is_ok() && second.get::<Team>("b").is_err());
    // The history begins with the snapshot.
    let client = Client::new(second.server());
    let maps = "/api/v1/namespaces/default/configmaps";
    let mut watch = client.watch(&format!("{maps}?watch=1&resourceVersion={}", state.version())).await;
    second.create(&config_map("new")).unwrap();
    assert_eq!(watch.kind_and_name().await, crate::common::pair("ADDED", "new"));
    let mut watch = client.watch(&format!("{maps}?watch=1&resourceVersion={}", state.version() - 1)).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
}

/// The collector goes on where it was: an owner that waits for a dependent, which a finalizer holds.
// contract: E-21a
#[tokio::test]
async fn deletions_continue_after_a_restore() {
    let cluster = cluster().await;
    let team = cluster.create(&Team::new("a", &[])).unwrap();
    let owned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"],
        "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Team", "name": "a", "uid": team.metadata.uid,
            "blockOwnerDeletion": true}]}});
    cluster.server().create(owned).unwrap();
    let teams = Api::<Team>::default_namespaced(cluster.client());
    teams.delete("a", &kube_client::api::DeleteParams::foreground()).await.unwrap();
    let state = cluster.snapshot();
    for restored in [TestCluster::from_snapshot(&state).await.unwrap(), {
        cluster.restore(&state);
        cluster
    }] {
        assert!(restored.get::<Team>("a").unwrap().metadata.deletion_timestamp.is_some());
        restored.modify::<ConfigMap>("held", |map| map.metadata.finalizers = None).unwrap();
        assert!(restored.get::<ConfigMap>("held").is_err() && restored.get::<Team>("a").is_err());
    }
}

/// A restore in place ends watches, and clients relist. Faults and the log stay.
// contract: E-21c, E-21d
#[tokio::test]
async fn clients_relist_after_a_restore() {
    let cluster = cluster().await;
    cluster.create(&config_map("a")).unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    let (store, writer) = reflector::store();
    let stream = reflector(writer, watcher(maps, watcher::Config::default())).default_backoff();
    let running = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    let holds = |wanted: &[&str]| {
        let mut names: Vec<_> = store.state().iter().map(|map| map.metadata.name.clone().unwrap()).collect();
        names.sort();
        if names == wanted { Ok(()) } else { Err(format!("{names:?}")) }
    };
    cluster.eventually(|| holds(&["a"])).await.unwrap();
    let state = cluster.snapshot();
    cluster.create(&config_map("b")).unwrap();
    cluster.eventually(|| holds(&["a", "b"])).await.unwrap();
    cluster.faults().inject(Fault::internal_error().on(Verb::Create));
    let (version, logged) = (cluster.server().version(), cluster.requests().len());
    let client = Client::new(cluster.server());
    let mut watch = client.watch(&format!("/api/v1/pods?watch=1&resourceVersion={version}")).await;
    cluster.restore(&state);
    assert_eq!(watch.next().await, Err(crate::common::WatchEnd::Regular));
    cluster.eventually(|| holds(&["a"])).await.unwrap();
    let lists = cluster.requests().on(Verb::List).resource("configmaps");
    assert_eq!(lists.len(), 2, "{lists}");
    assert!(cluster.requests().len() > logged, "the log stays");
    let refused =
        client.post("/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "c"}})).await;
    assert_eq!(refused.code, 500, "the fault stays");
    running.abort();
}

/// A write after a restore does not reach a version that a client has seen before it.
// contract: E-21c
#[tokio::test]
async fn versions_seen_before_a_restore_are_expired() {
    let cluster = cluster().await;
    let client = Client::new(cluster.server());
    let maps = "/api/v1/namespaces/default/configmaps";
    let state = cluster.snapshot();
    cluster.create(&config_map("a")).unwrap();
    let seen = cluster.server().version();
    cluster.restore(&state);
    assert!(cluster.server().version() > seen);
    cluster.create(&config_map("b")).unwrap();
    cluster.create(&config_map("c")).unwrap();
    let mut watch = client.watch(&format!("{maps}?watch=1&resourceVersion={seen}")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
    let list = format!("{maps}?resourceVersion={seen}&resourceVersionMatch=Exact");
    client.get(&list).await.status(410, "Expired");
    // The state of another server at the same version.
    let other = TestCluster::from_snapshot(&cluster.snapshot()).await.unwrap();
    cluster.modify::<ConfigMap>("b", |map| map.immutable = Some(true)).unwrap();
    other.modify::<ConfigMap>("c", |map| map.immutable = Some(true)).unwrap();
    let seen = other.server().version();
    assert_eq!(seen, cluster.server().version());
    other.restore(&cluster.snapshot());
    assert!(other.server().version() > seen);
}

/// A request whose body arrives after a restore is for the restored state.
// contract: E-21d
#[tokio::test]
async fn requests_continue_on_the_restored_state() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let cluster = cluster().await;
    let state = cluster.snapshot();
    let mut stream = tokio::net::TcpStream::connect(cluster.server().address()).await.unwrap();
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let head = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let is_logged = || if cluster.requests().is_empty() { Err("not logged") } else { Ok(()) };
    cluster.eventually(is_logged).await.unwrap();
    cluster.restore(&state);
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(cluster.get::<ConfigMap>("a").is_ok());
}

/// Whether there is garbage collection is part of the state.
// contract: E-21a
#[tokio::test]
async fn garbage_collection_is_restored() {
    let off = ApiServer::builder().garbage_collection(GarbageCollection::Off).start().await.unwrap();
    let state = off.snapshot();
    let restored = ApiServer::builder().snapshot(&state).start().await.unwrap();
    let owner = restored
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}))
        .unwrap();
    let owner =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let owned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": [owner]}});
    restored.create(owned).unwrap();
    restored.delete("v1", "ConfigMap", "default", "owner").unwrap();
    assert_eq!(restored.count("v1", "ConfigMap").unwrap(), 1);
}
