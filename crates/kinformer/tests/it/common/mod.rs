//! A server with a few objects, and factories on it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kinformer::{Decode, Event, QueueKind, SharedInformerFactory, SharedInformerFactoryBuilder};
use kinformer_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio::time::error::Elapsed;

/// One character for the type of an event.
pub fn sign<O>(event: &Event<O>) -> char {
    match event {
        Event::Added(_) => '+',
        Event::Updated(_) => '=',
        Event::Deleted(_) => '-',
        Event::Left(_) => 'o',
    }
}

pub async fn server() -> ApiServer {
    ApiServer::builder().start().await.unwrap()
}

pub fn builder(server: &ApiServer) -> SharedInformerFactoryBuilder {
    SharedInformerFactory::builder(kinformer::client(server.config().unwrap()).unwrap())
}

pub fn factory(server: &ApiServer) -> SharedInformerFactory {
    builder(server).build()
}

pub const QUEUES: [QueueKind; 3] = [QueueKind::RealFifo, QueueKind::RealFifoByObject, QueueKind::DeltaFifo];

/// Both times at which objects can be decoded.
pub const POLICIES: [Decode; 2] = [Decode::OnRead { keep: 256 }, Decode::OnArrival];

pub fn factory_with(server: &ApiServer, decode: Decode) -> SharedInformerFactory {
    let builder = builder(server).decode::<ConfigMap>(decode).decode::<Node>(decode);
    builder.decode::<Secret>(decode).decode::<Pod>(decode).build()
}

pub fn config_map(namespace: &str, name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {"value": value}},
        "data": {"key": value},
    })
}

pub fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

pub fn version(object: &Value) -> kinformer::ResourceVersion {
    object["metadata"]["resourceVersion"].as_str().unwrap().into()
}

/// A deadline that is later than any test needs, so that a wait that hangs fails.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

pub async fn synced(factory: &SharedInformerFactory) {
    factory.start().unwrap();
    factory.wait_for_cache_sync().until(soon()).await.into_result().unwrap();
}

/// Waits until the condition is true.
pub async fn until(condition: impl Fn() -> bool) -> Result<(), Elapsed> {
    let waited = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout_at(soon(), waited).await
}

/// Waits until the server has this number of open watches.
pub async fn watches(server: &ApiServer, expected: u64) {
    until(|| server.metrics().open_watches == expected).await.unwrap_or_else(|_| {
        panic!("{} watches are open, not {expected}", server.metrics().open_watches);
    });
}
