//! Requests are allowed by roles and bindings.

use http::Method;
use kinformer_apiserver::{Access, ApiServer, TestCluster};
use serde_json::{Value, json};

use super::{bind, get, post, send, server};
use crate::common::Client;

const PODS: &str = "/api/v1/namespaces/default/pods";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

// contract: E-25a
#[tokio::test]
async fn a_right_counts_at_once() {
    let server = server().await;
    let client = Client::new(&server);
    let denied = get(&client, "alice-token", PODS).await;
    assert_eq!(denied.body["details"], json!({"kind": "pods"}));
    assert_eq!(
        denied.status(403, "Forbidden"),
        "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    bind(&server, "reads", "alice", json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]));
    get(&client, "alice-token", PODS).await.ok();
    get(&client, "bob-token", PODS).await.status(403, "Forbidden");
    get(&client, "alice-token", "/api/v1/namespaces/kube-system/pods").await.status(403, "Forbidden");
    server.delete("rbac.authorization.k8s.io/v1", "RoleBinding", "default", "reads").unwrap();
    get(&client, "alice-token", PODS).await.status(403, "Forbidden");
}

/// A role that does not exist gives no rights, and the answer says so.
// contract: E-25a
#[tokio::test]
async fn missing_roles_are_named() {
    let server = server().await;
    let client = Client::new(&server);
    bind(&server, "gone", "alice", json!([]));
    server.delete("rbac.authorization.k8s.io/v1", "ClusterRole", "", "gone").unwrap();
    let message = get(&client, "alice-token", PODS).await.status(403, "Forbidden");
    let why = ": rbac: RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found";
    assert!(message.ends_with(why), "{message}");
}

/// An update or an apply that creates its object needs the right to create.
// contract: E-25l
#[tokio::test]
async fn creating_by_a_write_needs_the_right_to_create() {
    let server = server().await;
    let client = Client::new(&server);
    let rule = |verbs: Value| json!([{"verbs": verbs, "apiGroups": ["", "coordination.k8s.io"], "resources": ["*"]}]);
    bind(&server, "writes", "alice", rule(json!(["patch", "update"])));
    let apply = [("content-type", "application/apply-patch+yaml")];
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let applied = "/api/v1/namespaces/default/configmaps/a?fieldManager=m";
    let lease = json!({"metadata": {"name": "a"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a";
    for (method, path, headers, body) in
        [(Method::PATCH, applied, &apply[..], &map), (Method::PUT, leases, &[][..], &lease)]
    {
        let message = send(&client, "alice-token", method.clone(), path, headers, body).await;
        let message = message.status(403, "Forbidden");
        assert!(message.contains("User \"alice\" cannot create resource"), "{message}");
    }
    bind(&server, "creates", "alice", rule(json!(["create"])));
    send(&client, "alice-token", Method::PATCH, applied, &apply, &map).await.ok();
    send(&client, "alice-token", Method::PUT, leases, &[], &lease).await.ok();
}

// contract: E-25f
#[tokio::test]
async fn rights_are_granted_only_by_users_who_have_them() {
    let server = server().await;
    let client = Client::new(&server);
    let rules = json!([
        {"verbs": ["create", "patch", "update"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["view"]},
    ]);
    bind(&server, "grants", "alice", rules);
    let role = |name: &str, verbs: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]})
    };
    let path = format!("{ROLES}/namespaces/default/roles");
    post(&client, "alice-token", &path, role("own", json!(["get"]))).await.ok();
    let missing = "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"alice\" (groups=[\"dev\" \
        \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], \
        Resources:[\"pods\"], Verbs:[\"delete\" \"list\"]}";
    let more = role("more", json!(["get", "delete", "list"]));
    assert_eq!(post(&client, "alice-token", &path, more.clone()).await.status(403, "Forbidden"), missing);

    // By each kind of write, and nothing is stored.
    let own = format!("{path}/own");
    let (merge, apply) = ("application/merge-patch+json", "application/apply-patch+yaml");
    let mut other = more.clone();
    other["metadata"]["name"] = json!("own");
    for (method, path, content) in [
        (Method::PUT, own.clone(), "application/json"),
        (Method::PATCH, own.clone(), merge),
        (Method::PATCH, format!("{own}?fieldManager=m&force=true"), apply),
    ] {
        let headers = [("content-type", content)];
        let answer = send(&client, "alice-token", method, &path, &headers, &other).await;
        assert!(answer.status(403, "Forbidden").contains("not currently held"));
    }
    let stored = server.get("rbac.authorization.k8s.io/v1", "Role", "default", "own").unwrap().unwrap();
    assert_eq!(stored["rules"][0]["verbs"], json!(["get"]));

    let binding = |role: &str| {
        json!({"metadata": {"generateName": "b-"}, "subjects": [],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    let path = format!("{ROLES}/namespaces/default/rolebindings");
    post(&client, "alice-token", &path, binding("view")).await.ok();
    post(&client, "alice-token", &path, binding("edit")).await.status(403, "Forbidden");
    post(&client, "alice-token", &path, binding("missing")).await.status(404, "NotFound");
    post(&client, "root-token", &path, binding("edit")).await.ok();
}

/// What kube-controller-manager does: aggregated roles, and a service account in each namespace.
// contract: E-25j
#[tokio::test]
async fn controllers_aggregate_roles_and_create_service_accounts() {
    let cluster = TestCluster::builder().access(Access::rbac()).start().await.unwrap();
    let server = cluster.server();
    let version = "rbac.authorization.k8s.io/v1";
    let rules = |name: &str| {
        let role = server.get(version, "ClusterRole", "", name).unwrap().unwrap();
        role["rules"].as_array().map(Vec::len).unwrap_or_default()
    };
    let (view, edit, admin) = (rules("view"), rules("edit"), rules("admin"));
    assert!(0 < view && view < edit && edit < admin, "{view} {edit} {admin}");
    let label = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let rule = json!([{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}]);
    let role = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "widgets", "labels": label},
        "rules": rule});
    server.create(role).unwrap();
    assert_eq!((rules("view"), rules("edit"), rules("admin")), (view + 1, edit + 1, admin + 1));
    server.delete(version, "ClusterRole", "", "widgets").unwrap();
    assert_eq!((rules("view"), rules("edit"), rules("admin")), (view, edit, admin));

    let account =
        |namespace: &str| server.get("v1", "ServiceAccount", namespace, "default").unwrap().is_some();
    assert!(account("default") && account("kube-system"));
    server.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})).unwrap();
    assert!(account("a"));
    server.delete("v1", "ServiceAccount", "a", "default").unwrap();
    assert!(account("a"), "created again");
    server.delete("v1", "Namespace", "", "a").unwrap();
    assert!(server.get("v1", "Namespace", "", "a").unwrap().is_none());
    assert!(!account("a"));

    let access = Access::rbac().without_controllers();
    let server = ApiServer::builder().access(access).start().await.unwrap();
    assert_eq!(server.count("v1", "ServiceAccount").unwrap(), 0);
    let view = server.get(version, "ClusterRole", "", "view").unwrap().unwrap();
    assert_eq!(view["rules"], Value::Null);
}

/// A restored state gets the roles with which a server starts, if it does not have them.
// contract: E-25c
#[tokio::test]
async fn restored_states_have_the_roles_of_the_start() {
    let empty = ApiServer::builder().start().await.unwrap().snapshot();
    let server = server().await;
    let roles = || server.count("rbac.authorization.k8s.io/v1", "ClusterRole").unwrap();
    let count = roles();
    server.restore(&empty);
    assert_eq!(roles(), count);
    let client = Client::new(&server);
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    post(&client, "alice-token", path, json!({})).await.ok();
}
