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
    assert_eq!(ended.code(0).json()[0]["items"][0]["window"], "10s");
    let table = run(&format!("get pods.metrics.k8s.io -n default --server {url}")).await;
    let words: Vec<&str> = table.code(0).stdout.split_whitespace().collect();
    assert_eq!(words, ["NAME", "AGE", "web", "<unknown>"]);
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

/// A server before Kubernetes 1.26: each group is asked for by itself. One of them does not answer.
fn one_by_one(request: &Request) -> Answer {
    let resources = |group_version: &str, name: &str, kind: &str, short: &str| {
        let resource = json!({"name": name, "singularName": "", "namespaced": true, "kind": kind,
            "verbs": ["get", "list", "watch"], "shortNames": [short]});
        let status = json!({"name": format!("{name}/status"), "singularName": "", "namespaced": true, "kind": kind,
            "verbs": ["get"]});
        Answer::json(&json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
            "resources": [status, resource]}))
    };
    let group = |name: &str| {
        let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    match request.target.split('?').next().unwrap_or_default() {
        "/api" => Answer::json(
            &json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ),
        "/api/v1" => resources("v1", "pods", "Pod", "po"),
        "/apis" => Answer::json(&json!({"kind": "APIGroupList", "apiVersion": "v1",
            "groups": [group("gone.example.com"), group("apps.example.com")]})),
        "/apis/apps.example.com/v1" => resources("apps.example.com/v1", "things", "Thing", "po"),
        "/apis/apps.example.com/v1/namespaces/default/things" => Answer::json(&json!({
            "kind": "ThingList", "apiVersion": "apps.example.com/v1", "metadata": {"resourceVersion": "9"},
            "items": [{"metadata": {"name": "a", "namespace": "default", "resourceVersion": "5"}}],
        })),
        "/api/v1/namespaces/default/pods" => Answer::json(&json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [],
        })),
        "/apis/gone.example.com/v1" => Answer::failure(503, "ServiceUnavailable"),
        _ => Answer::failure(404, "NotFound"),
    }
}

// contract: T-06c, T-06d
#[tokio::test]
async fn groups_are_discovered_one_by_one() {
    let server = ScriptedServer::http(one_by_one).await;
    let url = format!("http://{}", server.address());
    let ended = run(&format!("get things -n default -o json --server {url}")).await;
    let object = &ended.code(0).json()[0]["items"][0];
    assert_eq!((&object["metadata"]["name"], &object["kind"]), (&json!("a"), &json!("Thing")));
    ended.stderr_has("skipping unavailable API group").stderr_has("gone.example.com");
    run(&format!("get others.gone.example.com --server {url}"))
        .await
        .code(1)
        .stderr_has("gone.example.com/v1");
    let ended = run(&format!("get po -n default --server {url}")).await;
    ended.code(0).stderr_has(
        "warning: the short name \"po\" could also match lower priority resource things.apps.example.com",
    );
}

/// Numbers that no type of Rust has are printed as they were received.
// contract: T-06e
#[tokio::test]
async fn numbers_are_printed_as_received() {
    let numbers = r#"[18446744073709551615,123456789012345678901234567890,1e+06,-0.0,1.10]"#;
    let server = ScriptedServer::http(move |request| {
        if request.target.starts_with("/api/v1/namespaces/default/pods") {
            let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":
                {"name":"a","namespace":"default","resourceVersion":"5"},"spec":{"numbers":NUMBERS}}]}"#;
            return Answer::new(200, "application/json", list.replace("NUMBERS", numbers));
        }
        one_by_one(request)
    })
    .await;
    let url = format!("http://{}", server.address());
    let ended = run(&format!("get pods -n default -o json --server {url}")).await;
    assert!(ended.code(0).stdout.contains(&format!("\"numbers\":{numbers}")), "{}", ended.stdout);
}
