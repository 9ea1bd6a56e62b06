//! What kubectl prints about access.

use serde_json::json;

use super::super::super::kubectl::{Kubectl, compare};
use super::super::report;
use super::{Both, GROUP};

const LINES: [&str; 22] = [
    "auth whoami",
    "auth whoami --token alice-token",
    "auth whoami --token unknown",
    "auth whoami --as bob --as-group dev --as-uid 7 --as-user-extra acme.io/scope=x",
    "auth whoami --as system:serviceaccount:default:op",
    "auth whoami --as bob --token alice-token",
    "auth can-i list pods",
    "auth can-i list pods --token alice-token",
    "auth can-i list pods -n kube-system --token alice-token",
    "auth can-i get pods/log --token alice-token",
    "auth can-i get deployments.apps/web --token alice-token",
    "auth can-i create clusterroles --token alice-token",
    "auth can-i get /healthz --token alice-token",
    "auth can-i get /metrics --token alice-token",
    "auth can-i * * --as system:serviceaccount:default:op",
    "auth can-i list pods --as system:serviceaccount:default:op",
    "auth can-i list unknowns --token alice-token",
    "auth can-i --list --token alice-token",
    "auth can-i --list --token bob-token -n default",
    "get pods --token alice-token",
    "get secrets -A --token alice-token",
    "get pods --token unknown",
];

// contract: E-25a, E-25d, E-25e
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_prints_the_same_about_access() {
    let both = Both::start().await;
    let root = format!("/apis/{GROUP}/v1");
    both.create("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "op"}})).await;
    let rules = json!([
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
        {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["web"]},
    ]);
    let subjects = json!([
        {"kind": "User", "apiGroup": GROUP, "name": "alice"},
        {"kind": "ServiceAccount", "namespace": "default", "name": "op"},
    ]);
    let reference = json!({"apiGroup": GROUP, "kind": "Role", "name": "reads"});
    let role = json!({"metadata": {"name": "reads"}, "rules": rules});
    both.create(&format!("{root}/namespaces/default/roles"), &role).await;
    let binding = json!({"metadata": {"name": "reads"}, "subjects": subjects, "roleRef": reference});
    both.create(&format!("{root}/namespaces/default/rolebindings"), &binding).await;
    both.settle().await;

    let real = Kubectl::new(both.control_plane.kubeconfig());
    let ours = Kubectl::of(&both.server, both.folder.path());
    let mut problems = Vec::new();
    for line in LINES {
        let (theirs, ours) = tokio::join!(real.run(line), ours.run(line));
        let differences = compare::differences(&theirs, &ours);
        if !differences.is_empty() {
            problems.push(format!("kubectl {line}\n    {}", differences.join("\n    ")));
        }
    }
    report(&problems);
    both.server.shutdown().await;
}
