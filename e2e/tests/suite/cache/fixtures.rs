//! The objects that the calls read.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::PostParams;
use kube_client::{Api, Client};
use kube_core::DynamicObject;
use kube_core::discovery::ApiResource;
use kube_core::gvk::GroupVersionKind;
use serde_json::{Value, json};

use crate::recorder::eventually;

/// The pods of controller-runtime's suite: number, namespace, restart policy, and whether it has the label `common-label`.
const PODS: [(u8, &str, &str, bool); 6] = [
    (1, "test-1", "Never", false),
    (2, "test-2", "Always", false),
    (3, "test-2", "OnFailure", true),
    (4, "test-3", "Never", true),
    (5, "test-1", "Never", false),
    (6, "test-2", "Always", false),
];

/// Secrets: namespace, and the name, which is also the label `from`.
pub(super) const SECRETS: [(&str, &str); 11] = [
    ("defaults", "all"),
    ("defaults", "by-kind"),
    ("defaults", "by-namespace"),
    ("other", "all"),
    ("other", "by-kind"),
    ("other", "by-namespace"),
    ("public", "all"),
    ("public", "public"),
    ("system", "all"),
    ("system", "public"),
    ("system", "system"),
];

/// The key of a pod.
pub(super) fn pod(number: u8) -> String {
    let (_, namespace, ..) = PODS.into_iter().find(|(known, ..)| *known == number).unwrap();
    format!("{namespace}/test-pod-{number}")
}

pub(super) fn pods(numbers: &[u8]) -> Vec<String> {
    numbers.iter().copied().map(pod).collect()
}

async fn post(client: &Client, kind: &str, namespace: &str, object: Value) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
    let api: Api<DynamicObject> = match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Creates all objects, and a kind that cannot be listed.
pub(super) async fn create(client: &Client) {
    for name in ["test-1", "test-2", "test-3", "defaults", "other", "public", "system", "writes", "others"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        post(client, "Namespace", "", namespace).await;
    }
    // Pods need them, and no controller creates them.
    for namespace in ["test-1", "test-2", "test-3"] {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        post(client, "ServiceAccount", namespace, account).await;
    }
    for (number, namespace, restart_policy, is_common) in PODS {
        let name = format!("test-pod-{number}");
        let mut labels = json!({"test-label": name});
        if is_common {
            labels["common-label"] = json!("common");
        }
        let metadata = json!({"name": name, "labels": labels, "annotations": {"number": number.to_string()}});
        let containers = json!([{"name": "one", "image": "nginx"}, {"name": "two", "image": name}]);
        let spec =
            json!({"restartPolicy": restart_policy, "activeDeadlineSeconds": 3, "containers": containers});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        post(client, "Pod", namespace, pod).await;
    }
    for name in ["test-node-1", "test-node-2"] {
        let metadata = json!({"name": name, "labels": {"test-label": name}});
        post(client, "Node", "", json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})).await;
    }
    for (namespace, from) in SECRETS {
        let metadata = json!({"name": from, "labels": {"from": from}, "annotations": {"from": from}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        post(client, "Secret", namespace, secret).await;
    }
    stuck(client).await;
}

/// Defines a kind with an object whose conversion fails, so that no informer of it syncs.
async fn stuck(client: &Client) {
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    // Nothing listens on this port.
    let webhook =
        json!({"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"}});
    let definition = json!({
        "metadata": {"name": "stucks.test.kinformer.dev"},
        "spec": {
            "group": "test.kinformer.dev", "scope": "Namespaced", "names": {"kind": "Stuck", "plural": "stucks"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    });
    let definition = serde_json::from_value(definition).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let kind = GroupVersionKind::gvk("test.kinformer.dev", "v1", "Stuck");
    let resource = ApiResource::from_gvk_with_plural(&kind, "stucks");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "test-1", &resource);
    eventually("the kind is served", async || {
        let created = api.create(&PostParams::default(), &DynamicObject::new("stuck", &resource)).await;
        created.map_err(|error| error.to_string())
    })
    .await;
}
