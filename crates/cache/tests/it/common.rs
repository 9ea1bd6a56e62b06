//! An API server with objects, and a cache.

use kinformer_apiserver::{ApiServer, Builder, Verb};
use kinformer_cache::{Cache, CacheBuilder};
use serde_json::{Value, json};

/// A server with the namespaces of the pods.
pub async fn server() -> ApiServer {
    with_namespaces(ApiServer::builder()).await
}

pub async fn with_namespaces(server: Builder) -> ApiServer {
    let server = server.start().await.unwrap();
    for namespace in ["team-a", "team-b"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create(namespace).unwrap();
    }
    server
}

pub fn builder(server: &ApiServer) -> CacheBuilder {
    Cache::builder(kinformer::client(server.config().unwrap()).unwrap())
}

/// A cache with the defaults, started.
pub async fn started(server: &ApiServer) -> Cache {
    let cache = builder(server).build().await.unwrap();
    cache.start().unwrap();
    cache
}

pub fn pod(namespace: &str, name: &str, app: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

pub fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

/// The lists and watches of a resource that the server has received.
pub fn requests(server: &ApiServer, resource: &str) -> u64 {
    let metrics = server.metrics();
    metrics.requests_for(Verb::List, resource) + metrics.requests_for(Verb::Watch, resource)
}
