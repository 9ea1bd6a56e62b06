//! What a website consists of. Only the fields that the operator decides about are set.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kinformer_controller::{ReconcileError, set_controller_reference};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::website::Website;

fn metadata(website: &Website) -> Value {
    json!({"name": website.name_any(), "namespace": website.namespace(), "labels": labels(website)})
}

fn labels(website: &Website) -> Value {
    json!({"app.kubernetes.io/name": website.name_any(), "app.kubernetes.io/managed-by": crate::NAME})
}

pub(crate) fn deployment(website: &Website) -> Result<Deployment, ReconcileError> {
    let container = json!({
        "name": "web",
        "image": website.spec.image,
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
    });
    let mut deployment = serde_json::from_value(json!({
        "metadata": metadata(website),
        "spec": {
            "replicas": website.spec.replicas,
            "selector": {"matchLabels": labels(website)},
            "template": {"metadata": {"labels": labels(website)}, "spec": {"containers": [container]}},
        },
    }))?;
    set_controller_reference(website, &mut deployment)?;
    Ok(deployment)
}

pub(crate) fn service(website: &Website) -> Result<Service, ReconcileError> {
    let mut service = serde_json::from_value(json!({
        "metadata": metadata(website),
        "spec": {
            "selector": labels(website),
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }))?;
    set_controller_reference(website, &mut service)?;
    Ok(service)
}
