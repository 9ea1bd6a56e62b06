//! Users who are others: `kubectl --as`.

use http::Method;
use serde_json::{Value, json};

use super::{bind, send, server};
use crate::common::Client;

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const PODS: &str = "/api/v1/namespaces/default/pods";

// contract: E-25e
#[tokio::test]
async fn headers_replace_the_user() {
    let server = server().await;
    let client = Client::new(&server);
    let who = async |headers: &[(&str, &str)]| {
        send(&client, "root-token", Method::POST, SELF, headers, &json!({})).await.ok()["status"]["userInfo"]
            .clone()
    };
    let all = [
        ("impersonate-user", "carol"),
        ("impersonate-group", "dev"),
        ("impersonate-group", "ops"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-acme.io%2fscope", "x"),
    ];
    let expected = json!({"username": "carol", "uid": "7", "groups": ["dev", "ops", "system:authenticated"],
        "extra": {"acme.io/scope": ["x"]}});
    assert_eq!(who(&all).await, expected);
    let account = who(&[("impersonate-user", "system:serviceaccount:default:op")]).await;
    assert_eq!(
        account["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    let message =
        send(&client, "root-token", Method::GET, PODS, &[("impersonate-group", "dev")], &Value::Null).await;
    assert_eq!(
        message.status(400, "BadRequest"),
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"dev\"}, \
         Extra:map[string][]string(nil)} without impersonating a user name"
    );
    // The log has the user whose rights count.
    assert_eq!(server.requests().user("carol").len(), 1);
}

// contract: E-25e
#[tokio::test]
async fn being_another_user_is_a_right() {
    let server = server().await;
    let client = Client::new(&server);
    let list = async |user: &str| {
        send(&client, "alice-token", Method::GET, PODS, &[("impersonate-user", user)], &Value::Null).await
    };
    assert_eq!(
        list("bob").await.status(403, "Forbidden"),
        "pods is forbidden: User \"alice\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" in \
         the namespace \"default\""
    );
    let pods = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]);
    bind(&server, "reads", "bob", pods);
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}]);
    let version = format!("{group}/v1");
    let name = json!({"name": "be-bob"});
    server
        .create(json!({"apiVersion": version, "kind": "ClusterRole", "metadata": name, "rules": rules}))
        .unwrap();
    server
        .create(json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": name,
            "subjects": [{"kind": "Group", "apiGroup": group, "name": "dev"}],
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "be-bob"}}))
        .unwrap();
    list("bob").await.ok();
    // The mode that was successful last is tried first, so that its error is shown.
    let message = list("carol").await.status(403, "Forbidden");
    assert!(message.contains("cannot impersonate resource \"users\""), "{message}");
}
