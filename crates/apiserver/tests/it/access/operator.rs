//! Whether the rules of an operator are enough: the recipe of docs/testing.md.

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{Access, AccessUser, TestCluster};
use kube_client::api::{Api, Patch, PatchParams};
use serde_json::json;

const RULES: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: operator}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: operator}
subjects: [{kind: ServiceAccount, name: operator}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: operator}
";

// contract: E-25k
#[tokio::test(start_paused = true)]
async fn an_operator_has_the_rights_of_its_manifests() {
    let cluster = TestCluster::builder().access(Access::rbac()).yaml(RULES).start().await.unwrap();
    cluster.create_yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}").unwrap();
    let operator = cluster.client_as("system:serviceaccount:default:operator").unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(operator);
    maps.get("settings").await.unwrap();
    let patch = Patch::Merge(json!({"data": {"a": "b"}}));
    maps.patch("settings", &PatchParams::default(), &patch).await.unwrap();
    let denied = maps.delete("settings", &Default::default()).await.unwrap_err();
    assert!(denied.to_string().contains("cannot delete resource \"configmaps\""), "{denied}");

    let refused = cluster.requests().user("system:serviceaccount:default:operator");
    let refused = refused.filter(|request| request.code == Some(403));
    assert_eq!(refused.len(), 1, "{refused}");
    // The test itself may do everything.
    Api::<ConfigMap>::default_namespaced(cluster.client()).get("settings").await.unwrap();
}

// contract: E-25k
#[tokio::test]
async fn clients_of_users_have_their_tokens() {
    let alice = AccessUser::new("t0ken", "alice").groups(["system:masters"]);
    let cluster = TestCluster::builder().access(Access::rbac().user(alice)).start().await.unwrap();
    let maps = |user: &str| Api::<ConfigMap>::default_namespaced(cluster.client_as(user).unwrap());
    assert!(maps("alice").list(&Default::default()).await.is_ok());
    assert!(maps("bob").list(&Default::default()).await.is_err());
    let open = TestCluster::start().await.unwrap();
    let error = open.client_as("alice").err().unwrap().to_string();
    assert!(error.contains("every user may do everything"), "{error}");
}
