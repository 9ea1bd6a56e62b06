//! Conditions of objects, for [`Informer::wait_for_condition`](crate::Informer::wait_for_condition).
//!
//! Each reads fields in place, so it works on any view of the kind; a field that cannot be read fulfils no condition.
//!
//! ```
//! use k8s_openapi::api::batch::v1::Job;
//! use kinformer::{Informer, Packed, conditions};
//!
//! # async fn example(jobs: Informer<Job>) -> Result<(), kinformer::Error> {
//! let is_gone_or_complete = |job: Option<&Packed<Job>>| job.is_none_or(conditions::is_job_completed);
//! jobs.wait_for_condition("default/backup", is_gone_or_complete).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Follows kube-runtime 5 (`wait::conditions`).

use kinformer_kube::{FieldPath, Packed};
use serde::Deserialize;

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type", default)]
    name: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
struct Ingress {
    ip: Option<String>,
    hostname: Option<String>,
}

fn has_condition<K>(object: &Packed<K>, name: &str, reason: Option<&str>) -> bool {
    let conditions: Option<Vec<Condition>> =
        object.field(&FieldPath::new(&["status", "conditions"])).ok().flatten();
    let found = conditions.iter().flatten().find(|condition| condition.name == name);
    found.is_some_and(|found| found.status == "True" && reason.is_none_or(|reason| found.reason == reason))
}

fn text<K>(object: &Packed<K>, path: &[&str]) -> Option<String> {
    object.field(&FieldPath::new(path)).ok().flatten()
}

fn has_address<K>(object: &Packed<K>) -> bool {
    let path = FieldPath::new(&["status", "loadBalancer", "ingress"]);
    let ingress: Option<Vec<Ingress>> = object.field(&path).ok().flatten();
    ingress.is_some_and(|all| {
        !all.is_empty() && all.iter().all(|ingress| ingress.ip.is_some() || ingress.hostname.is_some())
    })
}

/// Whether an object with this UID is gone: there is no object, or another one of the same name.
#[doc(alias = "delete_and_finalize")]
pub fn is_deleted<K>(object: Option<&Packed<K>>, uid: &str) -> bool {
    object.is_none_or(|object| object.uid() != Some(uid))
}

/// Whether a pod has the phase `Running`.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer::{BoxError, Packed, conditions};
///
/// fn pod(phase: &str) -> Result<Packed<Pod>, BoxError> {
///     let pod = serde_json::json!({"metadata": {"name": "web-0"}, "status": {"phase": phase}});
///     Ok(Packed::from_value(serde_json::from_value::<Pod>(pod)?)?)
/// }
///
/// assert!(conditions::is_pod_running(&pod("Running")?));
/// assert!(!conditions::is_pod_running(&pod("Pending")?));
/// # Ok::<(), BoxError>(())
/// ```
pub fn is_pod_running<K>(pod: &Packed<K>) -> bool {
    text(pod, &["status", "phase"]).as_deref() == Some("Running")
}

/// Whether a job has the condition `Complete`.
pub fn is_job_completed<K>(job: &Packed<K>) -> bool {
    has_condition(job, "Complete", None)
}

/// Whether a deployment has rolled out: the condition `Progressing` with the reason `NewReplicaSetAvailable`.
///
/// ```
/// # use k8s_openapi::api::apps::v1::Deployment;
/// use std::time::Duration;
///
/// use kinformer::{Informer, conditions};
/// use tokio::time::Instant;
///
/// /// Waits for a rollout, as `kubectl rollout status` does.
/// async fn rolled_out(deployments: &Informer<Deployment>, key: &str) -> Result<(), kinformer::Error> {
///     let is_done = |found: Option<&_>| found.is_some_and(conditions::is_deployment_completed);
///     let rollout = deployments.wait_for_condition(key, is_done);
///     rollout.until(Instant::now() + Duration::from_secs(600)).await?;
///     Ok(())
/// }
/// ```
pub fn is_deployment_completed<K>(deployment: &Packed<K>) -> bool {
    has_condition(deployment, "Progressing", Some("NewReplicaSetAvailable"))
}

/// Whether the definition of a custom resource has the condition `Established`: the API server serves the kind.
pub fn is_crd_established<K>(definition: &Packed<K>) -> bool {
    has_condition(definition, "Established", None)
}

/// Whether a service has the addresses of its load balancer, or is of another type.
pub fn is_service_loadbalancer_provisioned<K>(service: &Packed<K>) -> bool {
    text(service, &["spec", "type"]).as_deref() != Some("LoadBalancer") || has_address(service)
}

/// Whether an ingress has addresses.
pub fn is_ingress_provisioned<K>(ingress: &Packed<K>) -> bool {
    has_address(ingress)
}
