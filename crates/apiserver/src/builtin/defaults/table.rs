//! The defaults of the types of Kubernetes 1.37, by the names of the types. A default is set in each object of its type,
//! whichever kind has it.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::protobuf::schema::{Message, Zero};

use super::super::check::Fields;

/// A type, a field, and its default in JSON. The defaults of a type are set in this order.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("PodSpec", "dnsPolicy", r#""ClusterFirst""#),
    ("PodSpec", "restartPolicy", r#""Always""#),
    ("PodSpec", "securityContext", "{}"),
    ("PodSpec", "terminationGracePeriodSeconds", "30"),
    ("PodSpec", "schedulerName", r#""default-scheduler""#),
    ("Container", "terminationMessagePath", r#""/dev/termination-log""#),
    ("Container", "terminationMessagePolicy", r#""File""#),
    ("EphemeralContainer", "terminationMessagePath", r#""/dev/termination-log""#),
    ("EphemeralContainer", "terminationMessagePolicy", r#""File""#),
    ("ContainerPort", "protocol", r#""TCP""#),
    ("Probe", "timeoutSeconds", "1"),
    ("Probe", "periodSeconds", "10"),
    ("Probe", "successThreshold", "1"),
    ("Probe", "failureThreshold", "3"),
    ("HTTPGetAction", "path", r#""/""#),
    ("HTTPGetAction", "scheme", r#""HTTP""#),
    ("GRPCAction", "service", r#""""#),
    ("ObjectFieldSelector", "apiVersion", r#""v1""#),
    ("FileKeySelector", "optional", "false"),
    ("SecretVolumeSource", "defaultMode", "420"),
    ("ConfigMapVolumeSource", "defaultMode", "420"),
    ("DownwardAPIVolumeSource", "defaultMode", "420"),
    ("ProjectedVolumeSource", "defaultMode", "420"),
    ("ServiceAccountTokenProjection", "expirationSeconds", "3600"),
    ("HostPathVolumeSource", "type", r#""""#),
    ("ISCSIVolumeSource", "iscsiInterface", r#""default""#),
    ("ISCSIPersistentVolumeSource", "iscsiInterface", r#""default""#),
    ("RBDVolumeSource", "pool", r#""rbd""#),
    ("RBDVolumeSource", "user", r#""admin""#),
    ("RBDVolumeSource", "keyring", r#""/etc/ceph/keyring""#),
    ("RBDPersistentVolumeSource", "pool", r#""rbd""#),
    ("RBDPersistentVolumeSource", "user", r#""admin""#),
    ("RBDPersistentVolumeSource", "keyring", r#""/etc/ceph/keyring""#),
    ("AzureDiskVolumeSource", "cachingMode", r#""ReadWrite""#),
    ("AzureDiskVolumeSource", "fsType", r#""ext4""#),
    ("AzureDiskVolumeSource", "readOnly", "false"),
    ("AzureDiskVolumeSource", "kind", r#""Shared""#),
    ("ScaleIOVolumeSource", "storageMode", r#""ThinProvisioned""#),
    ("ScaleIOVolumeSource", "fsType", r#""xfs""#),
    ("ScaleIOPersistentVolumeSource", "storageMode", r#""ThinProvisioned""#),
    ("ScaleIOPersistentVolumeSource", "fsType", r#""xfs""#),
    ("EndpointPort", "protocol", r#""TCP""#),
    ("ServicePort", "protocol", r#""TCP""#),
    ("PersistentVolumeClaimSpec", "volumeMode", r#""Filesystem""#),
    ("PersistentVolumeSpec", "persistentVolumeReclaimPolicy", r#""Retain""#),
    ("PersistentVolumeSpec", "volumeMode", r#""Filesystem""#),
    ("PersistentVolumeStatus", "phase", r#""Pending""#),
    ("PersistentVolumeClaimStatus", "phase", r#""Pending""#),
    ("NamespaceStatus", "phase", r#""Active""#),
    ("ReplicationControllerSpec", "replicas", "1"),
    ("DeploymentSpec", "replicas", "1"),
    ("DeploymentSpec", "revisionHistoryLimit", "10"),
    ("DeploymentSpec", "progressDeadlineSeconds", "600"),
    ("DeploymentStrategy", "type", r#""RollingUpdate""#),
    ("RollingUpdateDeployment", "maxUnavailable", r#""25%""#),
    ("RollingUpdateDeployment", "maxSurge", r#""25%""#),
    ("ReplicaSetSpec", "replicas", "1"),
    ("StatefulSetSpec", "podManagementPolicy", r#""OrderedReady""#),
    ("StatefulSetSpec", "replicas", "1"),
    ("StatefulSetSpec", "revisionHistoryLimit", "10"),
    ("StatefulSetSpec", "persistentVolumeClaimRetentionPolicy", "{}"),
    ("StatefulSetPersistentVolumeClaimRetentionPolicy", "whenDeleted", r#""Retain""#),
    ("StatefulSetPersistentVolumeClaimRetentionPolicy", "whenScaled", r#""Retain""#),
    ("DaemonSetSpec", "revisionHistoryLimit", "10"),
    ("DaemonSetUpdateStrategy", "type", r#""RollingUpdate""#),
    ("RollingUpdateDaemonSet", "maxUnavailable", "1"),
    ("RollingUpdateDaemonSet", "maxSurge", "0"),
    ("CronJobSpec", "concurrencyPolicy", r#""Allow""#),
    ("CronJobSpec", "suspend", "false"),
    ("CronJobSpec", "successfulJobsHistoryLimit", "3"),
    ("CronJobSpec", "failedJobsHistoryLimit", "1"),
    ("PodFailurePolicyOnPodConditionsPattern", "status", r#""True""#),
    ("HorizontalPodAutoscalerSpec", "minReplicas", "1"),
    ("NetworkPolicyPort", "protocol", r#""TCP""#),
    ("IngressClassParametersReference", "scope", r#""Cluster""#),
    ("RoleRef", "apiGroup", r#""rbac.authorization.k8s.io""#),
    ("PriorityClass", "preemptionPolicy", r#""PreemptLowerPriority""#),
    ("StorageClass", "reclaimPolicy", r#""Delete""#),
    ("StorageClass", "volumeBindingMode", r#""Immediate""#),
    ("CSIDriverSpec", "attachRequired", "true"),
    ("CSIDriverSpec", "podInfoOnMount", "false"),
    ("CSIDriverSpec", "storageCapacity", "false"),
    ("CSIDriverSpec", "fsGroupPolicy", r#""ReadWriteOnceWithFSType""#),
    ("CSIDriverSpec", "volumeLifecycleModes", r#"["Persistent"]"#),
    ("CSIDriverSpec", "requiresRepublish", "false"),
    ("CSIDriverSpec", "seLinuxMount", "false"),
    ("CSIDriverSpec", "preventPodSchedulingIfMissing", "false"),
    ("ValidatingWebhook", "failurePolicy", r#""Fail""#),
    ("ValidatingWebhook", "matchPolicy", r#""Equivalent""#),
    ("ValidatingWebhook", "namespaceSelector", "{}"),
    ("ValidatingWebhook", "objectSelector", "{}"),
    ("ValidatingWebhook", "timeoutSeconds", "10"),
    ("MutatingWebhook", "failurePolicy", r#""Fail""#),
    ("MutatingWebhook", "matchPolicy", r#""Equivalent""#),
    ("MutatingWebhook", "namespaceSelector", "{}"),
    ("MutatingWebhook", "objectSelector", "{}"),
    ("MutatingWebhook", "timeoutSeconds", "10"),
    ("MutatingWebhook", "reinvocationPolicy", r#""Never""#),
    ("RuleWithOperations", "scope", r#""*""#),
    ("NamedRuleWithOperations", "scope", r#""*""#),
    ("ValidatingAdmissionPolicySpec", "failurePolicy", r#""Fail""#),
    ("MatchResources", "matchPolicy", r#""Equivalent""#),
    ("MatchResources", "namespaceSelector", "{}"),
    ("MatchResources", "objectSelector", "{}"),
    ("Secret", "type", r#""Opaque""#),
];

type Setter = fn(&mut Map<String, Value>);

/// The defaults that depend on other fields. They are set before those of the table.
const SETTERS: &[(&str, Setter)] = &[
    ("PodSpec", service_account),
    ("Container", pull_policy),
    ("EphemeralContainer", pull_policy),
    ("Volume", volume),
    ("PodStatus", addresses),
    ("ServicePort", target_port),
    ("NodeSpec", ranges),
    ("StatefulSetSpec", claim_templates),
    ("DeploymentStrategy", rolling_update),
    ("DaemonSetUpdateStrategy", rolling_update),
    ("StatefulSetUpdateStrategy", stateful_update),
    ("NetworkPolicySpec", policy_types),
    ("Subject", subject),
    ("WebhookClientConfig", webhook_port),
    ("LimitRangeItem", limits),
    ("NodeStatus", allocatable),
];

#[derive(Default)]
struct Rules {
    setters: Vec<Setter>,
    defaults: Vec<(&'static str, Value)>,
}

static RULES: LazyLock<HashMap<&'static str, Rules>> = LazyLock::new(|| {
    let mut rules: HashMap<&'static str, Rules> = HashMap::new();
    for (name, setter) in SETTERS {
        rules.entry(name).or_default().setters.push(*setter);
    }
    for (name, field, default) in DEFAULTS {
        if let Ok(default) = serde_json::from_str(default) {
            rules.entry(name).or_default().defaults.push((field, default));
        }
    }
    rules
});

/// Sets the defaults of a message that are not given.
pub(super) fn set_defaults(message: &Message, object: &mut Map<String, Value>) {
    let Some(rules) = RULES.get(message.name()) else { return };
    for setter in &rules.setters {
        setter(object);
    }
    for (field, default) in &rules.defaults {
        if let Some(of) = message.find(field) {
            set_value(object, field, default, of.zero);
        }
    }
}

/// Sets a field that is absent, or an empty text of a type that cannot be absent.
fn set_value(object: &mut Map<String, Value>, field: &str, default: &Value, zero: Zero) {
    match object.get_mut(field) {
        Some(Value::String(text)) if text.is_empty() && matches!(zero, Zero::Omitted | Zero::Written) => {}
        Some(Value::Null) | None => {}
        Some(_) => return,
    }
    object.insert(field.to_owned(), default.clone());
}

/// Sets a field that is absent.
pub(super) fn set(object: &mut Map<String, Value>, field: &str, default: impl Into<Value>) {
    set_value(object, field, &default.into(), Zero::Unset);
}

/// Sets a text that is absent or empty.
pub(super) fn set_text(object: &mut Map<String, Value>, field: &str, default: &str) {
    set_value(object, field, &default.into(), Zero::Omitted);
}

fn member<'a>(object: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(field).and_then(Value::as_object_mut)
}

fn service_account(spec: &mut Map<String, Value>) {
    let old = spec.get("serviceAccount").cloned();
    if spec.text("serviceAccountName").is_empty()
        && let Some(old) = old.filter(|old| old != "")
    {
        spec.insert("serviceAccountName".into(), old);
    }
    match spec.get("serviceAccountName").cloned() {
        Some(name) => spec.insert("serviceAccount".into(), name),
        None => spec.remove("serviceAccount"),
    };
}

/// Whether an image is pulled each time: its tag is `latest`, or it has no tag and no digest.
fn is_latest(image: &str) -> bool {
    let is_name = |image: &str| {
        !image.is_empty() && image.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@".contains(c))
    };
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let path = name.rsplit('/').next().unwrap_or(name);
    let (repository, tag) = path.split_once(':').map_or((path, None), |(path, tag)| (path, Some(tag)));
    let is_lower = !repository.chars().any(|c| c.is_ascii_uppercase());
    is_name(image) && is_lower && (tag == Some("latest") || (tag.is_none() && digest.is_none()))
}

fn pull_policy(container: &mut Map<String, Value>) {
    let policy = if is_latest(container.text("image")) { "Always" } else { "IfNotPresent" };
    set_text(container, "imagePullPolicy", policy);
}

fn volume(volume: &mut Map<String, Value>) {
    if volume.keys().all(|field| field == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
    if let Some(image) = member(volume, "image") {
        let policy = if is_latest(image.text("reference")) { "Always" } else { "IfNotPresent" };
        set_text(image, "pullPolicy", policy);
    }
}

fn addresses(status: &mut Map<String, Value>) {
    let address = status.text("podIP").to_owned();
    let first = status.items("podIPs").first().map(|first| first.text("ip").to_owned());
    match (address.is_empty(), first) {
        (false, first) if first.as_ref() != Some(&address) => {
            status.insert("podIPs".into(), json!([{"ip": address}]));
        }
        (true, Some(first)) => {
            status.insert("podIP".into(), first.into());
        }
        _ => {}
    }
}

fn target_port(port: &mut Map<String, Value>) {
    let target = port.of("targetPort");
    if target.is_null() || target == 0 || target == "" {
        port.insert("targetPort".into(), port.int("port").unwrap_or(0).into());
    }
}

fn rolling_update(strategy: &mut Map<String, Value>) {
    if matches!(strategy.text("type"), "" | "RollingUpdate") {
        strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
    }
}

fn stateful_update(strategy: &mut Map<String, Value>) {
    if strategy.text("type").is_empty() {
        strategy.insert("type".into(), "RollingUpdate".into());
        strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
    }
    if strategy.text("type") == "RollingUpdate"
        && let Some(update) = member(strategy, "rollingUpdate")
    {
        set(update, "partition", 0);
        set(update, "maxUnavailable", 1);
    }
}

/// The first of the ranges is the range.
fn ranges(spec: &mut Map<String, Value>) {
    let range = spec.text("podCIDR").to_owned();
    let first = spec.items("podCIDRs").first().and_then(Value::as_str).unwrap_or("").to_owned();
    if range.is_empty() && !first.is_empty() {
        spec.insert("podCIDR".into(), first.into());
    } else if !range.is_empty() && range != first {
        spec.insert("podCIDRs".into(), json!([range]));
    }
}

fn claim_templates(spec: &mut Map<String, Value>) {
    let templates = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten();
    for template in templates.filter_map(Value::as_object_mut) {
        set(template, "apiVersion", "v1");
        set(template, "kind", "PersistentVolumeClaim");
    }
}

fn policy_types(spec: &mut Map<String, Value>) {
    if spec.items("policyTypes").is_empty() {
        let has_egress = !spec.items("egress").is_empty();
        let types = if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".into(), types);
    }
}

fn subject(subject: &mut Map<String, Value>) {
    // flow schemas have subjects of another form
    let is_of_binding = !subject.has("user") && !subject.has("group");
    if matches!(subject.text("kind"), "User" | "Group") && is_of_binding {
        set_text(subject, "apiGroup", "rbac.authorization.k8s.io");
    }
}

fn webhook_port(config: &mut Map<String, Value>) {
    if let Some(service) = member(config, "service") {
        set(service, "port", 443);
    }
}

fn limits(item: &mut Map<String, Value>) {
    if item.text("type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(from) = item.get(from).and_then(Value::as_object).cloned() else { continue };
        let to = item.entry(to).or_insert_with(|| json!({}));
        if let Value::Object(to) = to {
            for (name, quantity) in from {
                to.entry(name).or_insert(quantity);
            }
        }
    }
}

fn allocatable(status: &mut Map<String, Value>) {
    if let (None, Some(capacity)) = (status.get("allocatable"), status.get("capacity").cloned()) {
        status.insert("allocatable".into(), capacity);
    }
}
