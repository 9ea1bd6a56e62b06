//! Access: web pages, users, roles, reviews and tokens.

mod impersonation;
mod operator;
mod reviews;
mod roles;
mod users;
mod web_pages;

use kinformer_apiserver::{Access, AccessUser, ApiServer};
use serde_json::{Value, json};

use crate::common::{Answer, Client};
use http::Method;

/// Alice in the group `dev`, and Bob.
pub(crate) async fn server() -> ApiServer {
    let alice = AccessUser::new("alice-token", "alice").groups(["dev"]).uid("1");
    let access = Access::rbac().user(alice).user(AccessUser::new("bob-token", "bob"));
    ApiServer::builder().token("root-token").access(access).request_log(100).start().await.unwrap()
}

/// Sends a request with a token; none if it is empty.
pub(crate) async fn send(
    client: &Client,
    token: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Answer {
    let bearer = format!("Bearer {token}");
    let mut headers = headers.to_vec();
    if !token.is_empty() {
        headers.push(("authorization", &bearer));
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.send(method, path, &headers, body).await
}

async fn get(client: &Client, token: &str, path: &str) -> Answer {
    send(client, token, Method::GET, path, &[], &Value::Null).await
}

pub(crate) async fn post(client: &Client, token: &str, path: &str, body: Value) -> Answer {
    send(client, token, Method::POST, path, &[], &body).await
}

/// Binds a cluster role with these rules to a user, in the namespace `default`.
pub(crate) fn bind(server: &ApiServer, name: &str, user: &str, rules: Value) {
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let role =
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    server.create(role).unwrap();
    let binding = json!({"apiVersion": version, "kind": "RoleBinding", "metadata": {"name": name, "namespace": "default"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": user}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name}});
    server.create(binding).unwrap();
}
