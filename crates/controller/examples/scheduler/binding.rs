//! The requests about one pod: the binding, and the read that decides about an expired assumption.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_client::api::PostParams;
use kube_client::{Api, Client, Error};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::pod::PodInfo;

/// The end of a request.
pub(crate) enum Outcome {
    /// The binding is written. The informer will deliver the pod.
    Written,
    /// The server has refused the binding.
    Refused,
    /// The pod was read, and is bound: its event is late.
    Bound,
    /// The pod was read, and is not bound.
    NotBound,
    /// There was no answer, or none that says whether the pod is bound.
    Unknown,
}

/// Writes the binding of a pod. The binding has the UID, so that a new pod of the same name is not bound by it.
pub(crate) async fn bind(client: Client, pod: &PodInfo, node: &str, limit: Duration) -> Outcome {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name, "uid": &*pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let pods: Api<Pod> = Api::namespaced(client, &pod.namespace);
    let params = PostParams::default();
    let written = pods.create_subresource::<_, Value>("binding", &pod.name, &params, &binding);
    match timeout(limit, written).await {
        Ok(Ok(_)) => Outcome::Written,
        Ok(Err(Error::Api(status))) if status.code < 500 => {
            eprintln!("{} is not bound to {node}: {}", pod.name, status.message);
            Outcome::Refused
        }
        // The connection broke, or the server failed: it may have written the binding all the same.
        Ok(Err(_)) | Err(_) => Outcome::Unknown,
    }
}

/// Reads a pod whose binding was not confirmed in time.
pub(crate) async fn check(client: Client, pod: &PodInfo, limit: Duration) -> Outcome {
    let pods: Api<Pod> = Api::namespaced(client, &pod.namespace);
    let Ok(Ok(read)) = timeout(limit, pods.get_opt(&pod.name)).await else { return Outcome::Unknown };
    match read.map(|read| PodInfo::of(&read)) {
        Some(read) if read.uid == pod.uid && read.node.is_some() => Outcome::Bound,
        _ => Outcome::NotBound,
    }
}
