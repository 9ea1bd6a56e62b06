//! The objects with which the operator runs in a cluster.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::NAME;
use crate::website::Website;

/// The namespace of the operator.
pub const NAMESPACE: &str = "{{project-name}}-system";

/// The definitions of its kinds.
pub fn definitions() -> Vec<Value> {
    vec![json!(Website::crd())]
}

/// The rights of the operator: the verbs that it uses, and no others.
pub fn roles() -> Vec<Value> {
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let subject = json!({"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata()}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NAME},
            "rules": [
                rule("example.com", "websites", &["list", "watch", "patch"]),
                rule("example.com", "websites/status", &["patch"]),
                rule("example.com", "websites/finalizers", &["update"]),
                rule("apps", "deployments", &["list", "watch", "create", "patch"]),
                rule("", "services", &["list", "watch", "create", "patch"]),
                rule("events.k8s.io", "events", &["create", "patch"]),
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [subject],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata(),
            "rules": [rule("coordination.k8s.io", "leases", &["get", "create", "update"])],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata(),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            "subjects": [subject],
        }),
    ]
}

/// The Deployment of the operator, with probes and two replicas: one leads, the other one is ready to.
pub fn deployment(image: &str) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "probes"}});
    let container = json!({
        "name": "operator",
        "image": image,
        "ports": [{"name": "metrics", "containerPort": 8080}, {"name": "probes", "containerPort": 8081}],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels()},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [container],
                },
            },
        },
    })
}

/// What Prometheus scrapes: a Service, and a ServiceMonitor for the Prometheus operator.
pub fn monitoring() -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(),
            "spec": {"selector": labels(), "ports": [{"name": "metrics", "port": 8080, "targetPort": "metrics"}]},
        }),
        json!({
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": metadata(),
            "spec": {"selector": {"matchLabels": labels()}, "endpoints": [{"port": "metrics"}]},
        }),
    ]
}

/// The namespace of the operator.
pub fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": NAME})
}

fn metadata() -> Value {
    json!({"name": NAME, "namespace": NAMESPACE, "labels": labels()})
}
