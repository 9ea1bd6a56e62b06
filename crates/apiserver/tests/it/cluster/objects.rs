//! Typed objects and YAML.

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer_apiserver::{Error, TestCluster, Verb};
use kube_client::Api;
use kube_client::api::{DeleteParams, PostParams};
use serde_json::json;

use super::{Team, TeamStatus, cluster, config_map};

// contract: E-16b
#[tokio::test]
async fn typed_objects() {
    let cluster = cluster().await;
    let mut team = Team::new("storage", &["ann"]);
    team.status = Some(TeamStatus { observed_generation: 7 });
    let stored = cluster.create(&team).unwrap();
    assert_eq!(stored.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(stored.status.unwrap().observed_generation, 7, "the status is stored");
    let taken = cluster.create(&team).unwrap_err();
    assert!(matches!(&taken, Error::Status(status) if status.code() == 409), "{taken}");

    let changed =
        cluster.modify::<Team>("default/storage", |team| team.spec.members.push("bob".into())).unwrap();
    assert_eq!(changed.spec.members, ["ann", "bob"]);
    cluster.create(&Namespace { metadata: named("teams"), ..Namespace::default() }).unwrap();
    let mut other = Team::new("network", &[]);
    other.metadata.namespace = Some("teams".into());
    cluster.create(&other).unwrap();
    let names: Vec<_> =
        cluster.list::<Team>().unwrap().into_iter().map(|team| team.metadata.name.unwrap()).collect();
    assert_eq!(names, ["storage", "network"]);
    assert!(cluster.get_opt::<Team>("network").unwrap().is_none());
    assert!(cluster.get::<Team>("teams/network").is_ok());
    let missing = cluster.get::<Team>("network").unwrap_err();
    assert_eq!(missing.to_string(), "teams.example.com \"network\" not found");
    cluster.delete::<Team>("teams/network").unwrap();
    cluster.delete::<Namespace>("teams").unwrap();
    assert!(cluster.get_opt::<Namespace>("teams").unwrap().is_none());
    assert!(cluster.requests().is_empty(), "none of these was a request");
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }
}

/// A modification is repeated on the newest state.
// contract: E-16b
#[tokio::test]
async fn modifications_are_repeated() {
    let cluster = cluster().await;
    cluster.create(&config_map("a")).unwrap();
    let mut calls = 0;
    let changed = cluster.modify::<ConfigMap>("a", |map| {
        calls += 1;
        if calls == 1 {
            let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
            cluster.server().update(other).unwrap();
        }
        map.data.get_or_insert_default().insert("y".into(), "2".into());
    });
    let data = changed.unwrap().data.unwrap();
    assert_eq!((calls, data.len()), (2, 2));
}

/// An object that is not of its Rust type, and a kind that is not served.
// contract: E-16b
#[tokio::test]
async fn errors_name_the_object() {
    let cluster = cluster().await;
    let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: 7}";
    cluster.create_yaml(text).unwrap();
    let error = cluster.get::<ConfigMap>("a").unwrap_err();
    assert!(
        error.to_string().starts_with("ConfigMap \"a\" does not convert: invalid type: integer `7`"),
        "{error}"
    );
    let empty = TestCluster::start().await.unwrap();
    assert!(matches!(empty.list::<Team>(), Err(Error::UnknownKind { .. })));
}

/// Each kind of writes, through the client: all are answered by the server in memory.
// contract: E-16a
#[tokio::test]
async fn client_needs_no_socket() {
    let cluster = TestCluster::builder().server(|server| server.token("s3cret")).start().await.unwrap();
    cluster.faults().refuse_connections().await;
    let pods = Api::<Pod>::default_namespaced(cluster.client());
    assert!(pods.list(&Default::default()).await.is_err(), "the fault applies to the client");
    cluster.faults().accept_connections().await;
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(cluster.requests().resource("configmaps").on(Verb::Delete).len(), 1);
    let client = cluster.client();
    assert!(cluster.client_of("a\nb").is_err());
    let second = TestCluster::start().now_or_never().unwrap().unwrap();
    assert_ne!(second.server().address(), cluster.server().address());
    cluster.shutdown().await;
    assert!(client.apiserver_version().await.is_err(), "the server has ended");
}
