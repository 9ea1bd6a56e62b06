//! One factory with several kinds, as an HTTP service: pods, nodes and deployments.
//!
//! Each kind has one informer, whichever part of a program requests it; here the service reads them all through views
//! without a type. `/` is the state of the informers, `/{resource}` the keys of a kind, and the other paths are one object,
//! in a namespace or without one. A path of a kind that the factory does not have is 404, and a kind that has not synced is
//! 503. By default the program sends some requests to itself, prints the answers, and ends by itself. With `--serve` it
//! serves 127.0.0.1:4000, or the address after `--listen`, until Ctrl-C. With `KUBECONFIG`, an argument or a
//! variable, it reads that cluster.
//!
//! `cargo run -p kinformer --example factory_http`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use kinformer::{Informer, KeyRef, SharedInformerFactory};
use kube_core::DynamicObject;
use serde_json::{Map, Value, json};

/// The informers of all kinds, as views without a type.
type Kinds = Arc<[Informer<DynamicObject>]>;

/// A JSON text, or a status and a message.
type Answer = Result<Json<Value>, (StatusCode, String)>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = common::Cluster::connect(objects()).await?;
    let factory = SharedInformerFactory::new(cluster.client.clone());
    let pods = factory.core().v1().pods();
    let nodes = factory.core().v1().nodes();
    let deployments = factory.apps().v1().deployments();
    let kinds: Kinds = Arc::new([pods.dynamic(), nodes.dynamic(), deployments.dynamic()]);
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;

    let router = Router::new()
        .route("/", get(state))
        .route("/{resource}", get(list))
        .route("/{resource}/{name}", get(cluster_scoped))
        .route("/{resource}/{namespace}/{name}", get(namespaced))
        .with_state(kinds);
    let requests = [
        "/",
        "/pods",
        "/nodes",
        "/deployments.apps",
        "/nodes/node-1",
        "/deployments.apps/default/web",
        "/pods/default/db-0",
        "/secrets",
    ];
    common::serve(router, &requests).await?;

    factory.shutdown().await?;
    cluster.stop().await;
    Ok(())
}

/// The state of each informer.
async fn state(State(kinds): State<Kinds>) -> Json<Value> {
    let mut state = Map::new();
    for kind in kinds.iter() {
        let objects = kind.status().metrics().objects;
        state.insert(kind.selection().resource(), json!({"synced": kind.has_synced(), "objects": objects}));
    }
    Json(Value::Object(state))
}

/// The keys of the objects of a kind.
async fn list(State(kinds): State<Kinds>, Path(resource): Path<String>) -> Answer {
    let snapshot = find(&kinds, &resource)?.snapshot().map_err(unavailable)?;
    let keys: Vec<String> = snapshot.ordered().iter().map(|object| object.key().to_string()).collect();
    Ok(Json(keys.into()))
}

async fn cluster_scoped(
    State(kinds): State<Kinds>,
    Path((resource, name)): Path<(String, String)>,
) -> Answer {
    object(find(&kinds, &resource)?, KeyRef::named(&name))
}

async fn namespaced(
    State(kinds): State<Kinds>,
    Path((resource, namespace, name)): Path<(String, String, String)>,
) -> Answer {
    object(find(&kinds, &resource)?, KeyRef::new(&namespace, &name))
}

/// The labels of an object, and the fields of its specification.
fn object(kind: &Informer<DynamicObject>, key: KeyRef<'_>) -> Answer {
    match kind.lister().get(key) {
        Ok(object) => {
            let object = object.decode().map_err(unavailable)?;
            let spec = object.data.get("spec").and_then(Value::as_object);
            let fields: Vec<&String> = spec.into_iter().flat_map(|spec| spec.keys()).collect();
            Ok(Json(json!({"labels": object.metadata.labels, "spec": fields})))
        }
        Err(error @ kinformer::Error::NotFound { .. }) => Err((StatusCode::NOT_FOUND, error.to_string())),
        Err(error) => Err(unavailable(error)),
    }
}

fn find<'k>(kinds: &'k Kinds, resource: &str) -> Result<&'k Informer<DynamicObject>, (StatusCode, String)> {
    let kind = kinds.iter().find(|kind| kind.selection().resource() == resource);
    kind.ok_or_else(|| (StatusCode::NOT_FOUND, format!("there is no informer of {resource}")))
}

fn unavailable(error: impl std::fmt::Display) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

/// The objects of a server in this process.
fn objects() -> [Value; 4] {
    let web = |name: &str| json!({"name": name, "namespace": "default", "labels": {"app": "web"}});
    let pod = |name: &str, node: &str| {
        let spec = json!({"nodeName": node, "containers": [{"name": "main", "image": "busybox:1"}]});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": web(name), "spec": spec})
    };
    [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"zone": "east"}},
            "spec": {"podCIDR": "10.0.1.0/24"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": web("web"), "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}}),
        pod("web-0", "node-1"),
        pod("web-1", "node-1"),
    ]
}
