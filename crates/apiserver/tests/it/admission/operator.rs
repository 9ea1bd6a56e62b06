//! A webhook of an operator that sets defaults and denies: the recipe of docs/testing.md.

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::TestCluster;
use kube_client::api::{Api, PostParams};
use serde_json::{Value, json};

use super::{Reply, WebhookServer};

/// Config maps get an owner, and none has more than two entries.
fn answer(path: &str, request: &Value) -> Reply {
    let object = &request["object"];
    match path {
        "default" if object["metadata"]["labels"].is_null() => {
            Reply::patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"owner": "unknown"}}]))
        }
        "check" if object["data"].as_object().is_some_and(|data| data.len() > 2) => {
            Reply::denied(json!({"message": "at most two entries", "code": 403, "reason": "Forbidden"}))
        }
        _ => Reply::allowed(),
    }
}

fn configuration(kind: &str, path: &str, authority: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "operator"},
        "webhooks": [{
            "name": format!("{}.example.com", path.trim_start_matches('/')), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"caBundle": authority, "service": {"namespace": "default", "name": "hooks", "path": path}},
            "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"]}],
        }],
    })
}

// contract: E-27a, E-27e, E-27k
#[tokio::test(start_paused = true)]
async fn an_operator_defaults_and_denies() {
    let webhooks = WebhookServer::start(answer).await;
    let cluster = TestCluster::builder()
        .service("default", "hooks", 443, webhooks.address)
        .object(configuration("MutatingWebhookConfiguration", "/default", &webhooks.authority))
        .object(configuration("ValidatingWebhookConfiguration", "/check", &webhooks.authority))
        .start()
        .await
        .unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
    let map = |data: Value| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "settings"}, "data": data})).unwrap()
    };
    let denied = maps.create(&PostParams::default(), &map(json!({"a": "", "b": "", "c": ""}))).await;
    let denied = denied.unwrap_err().to_string();
    assert!(
        denied.contains("admission webhook \"check.example.com\" denied the request: at most two entries"),
        "{denied}"
    );
    let created = maps.create(&PostParams::default(), &map(json!({"a": ""}))).await.unwrap();
    assert_eq!(created.metadata.labels.unwrap()["owner"], "unknown");
    // What the test itself stores is not checked.
    cluster.create_yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: own}}").unwrap();
    assert_eq!(cluster.get::<ConfigMap>("own").unwrap().metadata.labels, None);
}
