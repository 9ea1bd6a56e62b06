//! The resources of servers that are not kube-apiserver.

use kinformer_testing::scripted_http::{Answer, Request, ScriptedServer};
use serde_json::{Value, json};

use crate::common::run;

/// Aggregated discovery of one group, whose resource can be listed only.
fn groups(freshness: &str, resources: &Value) -> Answer {
    Answer::json(&json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{
            "metadata": {"name": "metrics.k8s.io"},
            "versions": [{"version": "v1beta1", "resources": resources, "freshness": freshness}],
        }],
    }))
}

fn pods() -> Value {
    json!([{
        "resource": "pods", "responseKind": {"group": "", "version": "", "kind": "PodMetrics"}, "scope": "Namespaced",
        "singularResource": "pod", "verbs": ["get", "list"],
    }])
}

/// A server without a core group.
fn answer(request: &Request) -> Answer {
    match request.target.split('?').next().unwrap_or_default() {
        "/apis" => groups("Current", &pods()),
        "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods" if request.is_watch() => {
            Answer::failure(405, "MethodNotAllowed")
        }
        "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods" => Answer::json(&json!({
            "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
            "items": [{"metadata": {"name": "web", "namespace": "default"}, "window": "10s"}],
        })),
        _ => Answer::failure(404, "NotFound"),
    }
}

/// A resource that can only be listed is read by `get`, not by `watch`, also on a server without a core group.
// contract: T-05a, T-05b
#[tokio::test]
async fn get_needs_only_list_and_no_core_group() {
    let server = ScriptedServer::http(answer).await;
    let url = format!("http://{}", server.address());
    let ended = run(&format!("get pods.metrics.k8s.io -n default -o json --server {url}")).await;
    assert_eq!(ended.code(0).json()[0]["window"], "10s");
    run(&format!("watch pods.metrics.k8s.io --server {url}")).await.code(2).stderr_has("cannot be watched");
}

/// A server that has neither core nor other groups is an error of discovery.
// contract: T-05b
#[tokio::test]
async fn server_without_any_group_is_an_error() {
    let server = ScriptedServer::http(|_| Answer::failure(404, "NotFound")).await;
    let url = format!("http://{}", server.address());
    run(&format!("get pods --server {url}")).await.code(1).stderr_has("failed to list its API resources");
}

/// A group whose aggregated discovery is stale is named, if a resource is not found.
// contract: T-05c
#[tokio::test]
async fn unavailable_group_is_named() {
    let server = ScriptedServer::http(|request| match request.target.as_str() {
        "/apis" => groups("Stale", &json!([])),
        _ => Answer::failure(404, "NotFound"),
    })
    .await;
    let url = format!("http://{}", server.address());
    let ended = run(&format!("get pods.metrics.k8s.io --server {url}")).await;
    ended.code(1).stderr_has("the resources of metrics.k8s.io/v1beta1 are not available now");
}
