//! The built-in kinds, one row each.

use super::convert::Conversion;

/// One built-in kind.
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) short: &'static str,
    pub(super) categories: &'static str,
    pub(super) scope: Scope,
    /// `s`: status subresource; `c`: scale subresource; `g`: generation.
    pub(super) flags: &'static str,
    /// Fields for selectors besides name and namespace, in the syntax of [`super::FieldPath::parse`].
    pub(super) fields: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Namespaced,
    Cluster,
}
use Scope::{Cluster, Namespaced};

#[expect(clippy::too_many_arguments, reason = "one argument per column keeps the table below readable")]
const fn row(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static str,
    categories: &'static str,
    scope: Scope,
    flags: &'static str,
    fields: &'static str,
) -> Row {
    Row { group, version, plural, kind, short, categories, scope, flags, fields }
}

/// All stored kinds.
#[rustfmt::skip]
pub(super) const KINDS: &[Row] = &[
    row("", "v1", "configmaps", "ConfigMap", "cm", "", Namespaced, "", ""),
    row("", "v1", "endpoints", "Endpoints", "ep", "", Namespaced, "", ""),
    row("", "v1", "events", "Event", "ev", "", Namespaced, "", "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent source@source.component|reportingComponent type"),
    row("", "v1", "limitranges", "LimitRange", "limits", "", Namespaced, "", ""),
    row("", "v1", "namespaces", "Namespace", "ns", "", Cluster, "s", "status.phase name@metadata.name"),
    row("", "v1", "nodes", "Node", "no", "", Cluster, "s", "spec.unschedulable=false"),
    row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "", Namespaced, "s", ""),
    row("", "v1", "persistentvolumes", "PersistentVolume", "pv", "", Cluster, "s", ""),
    row("", "v1", "pods", "Pod", "po", "all", Namespaced, "sg", "spec.nodeName spec.restartPolicy=Always spec.schedulerName=default-scheduler spec.serviceAccountName spec.hostNetwork=false status.phase status.podIP status.nominatedNodeName"),
    row("", "v1", "podtemplates", "PodTemplate", "", "", Namespaced, "g", ""),
    row("", "v1", "replicationcontrollers", "ReplicationController", "rc", "all", Namespaced, "scg", "status.replicas=0"),
    row("", "v1", "resourcequotas", "ResourceQuota", "quota", "", Namespaced, "s", ""),
    row("", "v1", "secrets", "Secret", "", "", Namespaced, "", "type"),
    row("", "v1", "serviceaccounts", "ServiceAccount", "sa", "", Namespaced, "", ""),
    row("", "v1", "services", "Service", "svc", "all", Namespaced, "s", "spec.clusterIP spec.type=ClusterIP"),
    row("apps", "v1", "controllerrevisions", "ControllerRevision", "", "", Namespaced, "", ""),
    row("apps", "v1", "daemonsets", "DaemonSet", "ds", "all", Namespaced, "sg", ""),
    row("apps", "v1", "deployments", "Deployment", "deploy", "all", Namespaced, "scg", ""),
    row("apps", "v1", "replicasets", "ReplicaSet", "rs", "all", Namespaced, "scg", "status.replicas=0"),
    row("apps", "v1", "statefulsets", "StatefulSet", "sts", "all", Namespaced, "scg", ""),
    row("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "", "api-extensions", Cluster, "g", ""),
    row("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "", "api-extensions", Cluster, "sg", ""),
    row("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "", "api-extensions", Cluster, "g", ""),
    row("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "", "api-extensions", Cluster, "g", ""),
    row("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "crd crds", "api-extensions", Cluster, "sg", ""),
    row("apiregistration.k8s.io", "v1", "apiservices", "APIService", "", "api-extensions", Cluster, "s", ""),
    row("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "all", Namespaced, "sg", ""),
    row("batch", "v1", "cronjobs", "CronJob", "cj", "all", Namespaced, "sg", ""),
    row("batch", "v1", "jobs", "Job", "", "all", Namespaced, "sg", "status.successful@status.succeeded=0"),
    row("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", "csr", "", Cluster, "s", "spec.signerName"),
    row("coordination.k8s.io", "v1", "leases", "Lease", "", "", Namespaced, "", ""),
    row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "", "", Namespaced, "g", ""),
    row("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", "", "", Cluster, "sg", ""),
    row("flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", "", "", Cluster, "sg", ""),
    row("networking.k8s.io", "v1", "ingressclasses", "IngressClass", "", "", Cluster, "g", ""),
    row("networking.k8s.io", "v1", "ingresses", "Ingress", "ing", "", Namespaced, "sg", ""),
    row("networking.k8s.io", "v1", "ipaddresses", "IPAddress", "ip", "", Cluster, "", "spec.parentRef"),
    row("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol", "", Namespaced, "g", ""),
    row("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", "", "", Cluster, "s", ""),
    row("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", "", "", Cluster, "", ""),
    row("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "", Namespaced, "sg", ""),
    row("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", "", "", Cluster, "", ""),
    row("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "", "", Cluster, "", ""),
    row("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", "", "", Namespaced, "", ""),
    row("rbac.authorization.k8s.io", "v1", "roles", "Role", "", "", Namespaced, "", ""),
    row("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", "", "", Cluster, "g", ""),
    row("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", "", "", Namespaced, "s", ""),
    row("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", "", "", Namespaced, "", ""),
    row("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", "", "", Cluster, "g", "spec.nodeName spec.driver"),
    row("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", "", Cluster, "g", ""),
    row("storage.k8s.io", "v1", "csidrivers", "CSIDriver", "", "", Cluster, "", ""),
    row("storage.k8s.io", "v1", "csinodes", "CSINode", "", "", Cluster, "", ""),
    row("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", "", "", Namespaced, "", ""),
    row("storage.k8s.io", "v1", "storageclasses", "StorageClass", "sc", "", Cluster, "", ""),
    row("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", "", "", Cluster, "s", ""),
    row("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", "vac", "", Cluster, "", ""),
];

/// Additional versions of stored kinds: the row, the stored group and version, and the conversion.
#[rustfmt::skip]
pub(super) const OTHER_VERSIONS: &[(Row, &str, &str, Conversion)] = &[
    (row("events.k8s.io", "v1", "events", "Event", "ev", "", Namespaced, "", "reason regarding.kind@involvedObject.kind regarding.namespace@involvedObject.namespace regarding.name@involvedObject.name regarding.uid@involvedObject.uid regarding.apiVersion@involvedObject.apiVersion regarding.resourceVersion@involvedObject.resourceVersion regarding.fieldPath@involvedObject.fieldPath reportingController@source.component|reportingComponent type"),
        "", "v1", Conversion::Events),
    (row("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "all", Namespaced, "sg", ""),
        "autoscaling", "v2", Conversion::Autoscalers),
];
