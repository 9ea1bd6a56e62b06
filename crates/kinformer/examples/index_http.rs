//! The indexes of an informer, as an HTTP service.
//!
//! An index finds objects by a value without reading the others. Every informer of a factory has one by namespace; this
//! program adds one by a field, the node, and one by a function, the label `app`. The service answers each request from one
//! snapshot of the store: the keys of a value, its objects, and everything. By default the program sends some requests to
//! itself, prints the answers, and ends by itself. With `--serve` it serves 127.0.0.1:4000, or the address after
//! `--listen`, until Ctrl-C. With `KUBECONFIG`, an argument or a variable, it reads that cluster.
//!
//! `cargo run -p kinformer --example index_http`
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod common;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use k8s_openapi::api::core::v1::Pod;
use kinformer::{FieldPath, Informer, PackedRef, SharedInformerFactory};
use serde_json::{Map, Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pods = [("web-0", "web", "node-1"), ("web-1", "web", "node-2"), ("api-0", "api", "node-1")];
    let cluster = common::Cluster::connect(pods.map(pod)).await?;
    let factory = SharedInformerFactory::new(cluster.client.clone());

    let pods = factory.core().v1().pods();
    pods.index_by_field("node", &["spec", "nodeName"])?;
    pods.index("app", |pod, values| {
        if let Some(app) = pod.label("app") {
            values.push(app);
        }
        Ok(())
    })?;
    factory.start()?;
    factory.wait_for_cache_sync().await.into_result()?;

    let router = Router::new()
        .route("/indexes", get(indexes))
        .route("/index-keys/{index}/{value}", get(index_keys))
        .route("/by-index/{index}/{value}", get(by_index))
        .route("/list", get(list))
        .with_state(pods);
    let requests = [
        "/indexes",
        "/index-keys/namespace/default",
        "/index-keys/node/node-1",
        "/by-index/app/web",
        "/index-keys/zone/east",
        "/list",
    ];
    common::serve(router, &requests).await?;

    factory.shutdown().await?;
    cluster.stop().await;
    Ok(())
}

/// A JSON text, or a status and a message.
type Answer = Result<Json<Value>, (StatusCode, String)>;

/// The names of the indexes, each with its values.
async fn indexes(State(pods): State<Informer<Pod>>) -> Answer {
    let snapshot = pods.snapshot().map_err(unavailable)?;
    let mut indexes = Map::new();
    for index in snapshot.index_names() {
        let mut values = snapshot.index_values(&index).map_err(not_found)?;
        values.sort();
        indexes.insert(index.to_string(), values.iter().map(|value| value.to_string()).collect());
    }
    Ok(Json(Value::Object(indexes)))
}

/// The keys of the objects with this value, as `IndexKeys` of client-go.
async fn index_keys(
    State(pods): State<Informer<Pod>>,
    Path((index, value)): Path<(String, String)>,
) -> Answer {
    let snapshot = pods.snapshot().map_err(unavailable)?;
    let found = snapshot.by_index(&index, &value).map_err(not_found)?;
    let mut keys: Vec<String> = found.iter().map(|pod| pod.key().to_string()).collect();
    keys.sort();
    Ok(Json(keys.into()))
}

/// The objects with this value, as `ByIndex` of client-go.
async fn by_index(State(pods): State<Informer<Pod>>, Path((index, value)): Path<(String, String)>) -> Answer {
    let snapshot = pods.snapshot().map_err(unavailable)?;
    let mut found = snapshot.by_index(&index, &value).map_err(not_found)?;
    found.sort_by(|one, other| one.key().cmp(&other.key()));
    found.into_iter().map(summary).collect::<Result<Value, _>>().map(Json)
}

/// All objects.
async fn list(State(pods): State<Informer<Pod>>) -> Answer {
    let snapshot = pods.snapshot().map_err(unavailable)?;
    snapshot.ordered().into_iter().map(summary).collect::<Result<Value, _>>().map(Json)
}

/// Some fields of a pod. They are read in place; the pod is not decoded.
fn summary(pod: PackedRef<'_, Pod>) -> Result<Value, (StatusCode, String)> {
    let node: Option<String> = pod.field(&FieldPath::new(&["spec", "nodeName"])).map_err(unavailable)?;
    Ok(json!({"name": pod.name(), "app": pod.label("app"), "node": node}))
}

fn not_found(error: kinformer::Error) -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, error.to_string())
}

fn unavailable(error: impl std::fmt::Display) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}

fn pod((name, app, node): (&str, &str, &str)) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox:1"}]},
    })
}
