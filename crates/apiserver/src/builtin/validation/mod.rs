//! What Kubernetes refuses.

mod admission_rules;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod claims;
mod cron;
mod data;
mod endpoints;
mod events;
mod job_status;
mod labels;
mod limits;
mod networking;
mod nodes;
mod pods;
mod policies;
mod policy;
mod rbac;
mod scheduling;
mod services;
mod status;
mod storage;
mod webhook_client;
mod webhooks;

use super::check::{Check, Fields, Object, texts};
use super::names;
use crate::status::Cause;

pub(crate) use cron::duration_fault;
pub(crate) use labels::MAX_ANNOTATIONS;
pub(crate) use webhook_client::webhook_client_faults;

/// Returns what is wrong with an object, apart from its metadata.
pub(crate) fn faults(
    api_version: &str,
    kind: &str,
    object: &Object,
    before: Option<&Object>,
    is_dry_run: bool,
) -> Vec<Cause> {
    let mut check = Check::default();
    check.is_dry_run = is_dry_run;
    if let Some(validate) = validator(api_version, kind) {
        validate(&mut check, object, before);
    }
    if before.is_none() && api_version == admission_rules::VERSION {
        admission_rules::name(&mut check, object);
    }
    check.into_causes()
}

/// Returns the warnings about an object that is valid.
pub(crate) fn warnings(api_version: &str, kind: &str, object: &Object) -> Vec<String> {
    if api_version == admission_rules::VERSION && kind.ends_with("WebhookConfiguration") {
        return admission_rules::warnings(object);
    }
    Vec::new()
}

/// Returns what is wrong with the status of an object.
pub(crate) fn status_faults(kind: &str, object: &Object, before: &Object) -> Vec<Cause> {
    let mut check = Check::default();
    status::status(&mut check, kind, object, before);
    check.into_causes()
}

type Validator = fn(&mut Check, &Object, Option<&Object>);

/// Returns the checks of a kind.
fn validator(api_version: &str, kind: &str) -> Option<Validator> {
    let validator: Validator = match (api_version, kind) {
        ("v1", "Pod") => pod,
        ("v1", "PodTemplate") => pod_template,
        ("v1", "Namespace") => namespace,
        ("v1", "Event") => events::core_event,
        ("events.k8s.io/v1", "Event") => events::event,
        ("v1", "Service") => services::service,
        ("v1", "ConfigMap") => data::config_map,
        ("v1", "Secret") => data::secret,
        ("v1", "Endpoints") => endpoints::endpoints,
        ("v1", "Node") => nodes::node,
        ("v1", "PersistentVolume") => storage::volume,
        ("v1", "PersistentVolumeClaim") => claims::claim,
        ("v1", "ReplicationController") => apps::replication_controller,
        ("v1", "ResourceQuota") => limits::quota,
        ("v1", "LimitRange") => limits::limit_range,
        ("apps/v1", "Deployment") => apps::deployment,
        ("apps/v1", "ReplicaSet") => apps::replica_set,
        ("apps/v1", "StatefulSet") => apps::stateful_set,
        ("apps/v1", "DaemonSet") => apps::daemon_set,
        ("apps/v1", "ControllerRevision") => apps::revision,
        ("batch/v1", "Job") => batch::job,
        ("batch/v1", "CronJob") => batch::cron_job,
        ("networking.k8s.io/v1", "Ingress") => networking::ingress,
        ("networking.k8s.io/v1", "IngressClass") => networking::ingress_class,
        ("networking.k8s.io/v1", "NetworkPolicy") => policy::network_policy,
        ("discovery.k8s.io/v1", "EndpointSlice") => endpoints::slice,
        ("rbac.authorization.k8s.io/v1", "Role") => rbac::role,
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => rbac::cluster_role,
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => rbac::role_binding,
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => rbac::cluster_role_binding,
        ("autoscaling/v2" | "autoscaling/v1", "HorizontalPodAutoscaler") => autoscaling::autoscaler,
        ("policy/v1", "PodDisruptionBudget") => policy::budget,
        ("storage.k8s.io/v1", "StorageClass") => storage::class,
        ("storage.k8s.io/v1", "VolumeAttachment") => storage::attachment,
        ("storage.k8s.io/v1", "CSIDriver") => storage::driver,
        ("storage.k8s.io/v1", "CSINode") => storage::node,
        ("coordination.k8s.io/v1", "Lease") => scheduling::lease,
        ("scheduling.k8s.io/v1", "PriorityClass") => scheduling::priority_class,
        ("node.k8s.io/v1", "RuntimeClass") => scheduling::runtime_class,
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration") => webhooks::configuration,
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration") => webhooks::configuration,
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy") => policies::policy,
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding") => policies::binding,
        ("certificates.k8s.io/v1", "CertificateSigningRequest") => certificates::request,
        _ => return None,
    };
    Some(validator)
}

fn pod(c: &mut Check, object: &Object, before: Option<&Object>) {
    match before {
        Some(before) => pods::pod_update(c, before, object),
        None => pods::pod_create(c, object),
    }
}

fn pod_template(c: &mut Check, object: &Object, _: Option<&Object>) {
    c.enter("template", |c| pods::template(c, object.of("template")));
}

fn namespace(c: &mut Check, object: &Object, before: Option<&Object>) {
    if before.is_some() {
        return;
    }
    for name in texts(object.of("spec").items("finalizers")) {
        c.rules("spec.finalizers", name, names::qualified_name(name));
        if !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&name) {
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            c.invalid("spec.finalizers", name, rule);
        }
    }
}
