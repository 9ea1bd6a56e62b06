//! Who sends a request.

use kinformer_apiserver::{Access, AccessUser, ApiServer, Error};
use serde_json::{Value, json};

use super::{get, post, server};
use crate::common::Client;

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

// contract: E-25b
#[tokio::test]
async fn tokens_identify_users() {
    let server = server().await;
    let client = Client::new(&server);
    let who =
        async |token: &str| post(&client, token, SELF, json!({})).await.ok()["status"]["userInfo"].clone();
    let all = |groups: &[&str]| groups.iter().map(|group| json!(group)).collect::<Value>();
    let alice = who("alice-token").await;
    assert_eq!((&alice["username"], &alice["uid"]), (&json!("alice"), &json!("1")));
    assert_eq!(alice["groups"], all(&["dev", "system:authenticated"]));
    assert_eq!(who("root-token").await["groups"], all(&["system:masters", "system:authenticated"]));
    assert_eq!(get(&client, "other-token", "/version").await.status(401, "Unauthorized"), "Unauthorized");

    // Without a token, only public paths are allowed.
    assert!(get(&client, "", "/readyz").await.code.is_success());
    let denied = post(&client, "", SELF, json!({})).await.status(403, "Forbidden");
    assert!(denied.contains("User \"system:anonymous\" cannot create resource"), "{denied}");

    // A request is logged with its user.
    let users: Vec<String> = server.requests().iter().map(|request| request.user.clone()).collect();
    assert_eq!(users, ["alice", "kinformer", "", "system:anonymous", "system:anonymous"]);
    let shown = server.requests().user("alice").to_string();
    assert!(shown.contains(" as alice: 201"), "{shown}");
}

// contract: E-25b
#[tokio::test]
async fn tokens_of_users_are_checked_and_not_printed() {
    let access = |token: &str| Access::rbac().user(AccessUser::new(token, "alice"));
    let error = ApiServer::builder().access(access("s3cret\n")).start().await.unwrap_err();
    assert!(matches!(error, Error::Token) && !error.to_string().contains("s3cret"));
    let shown = format!("{:?}", ApiServer::builder().access(access("s3cret")));
    assert!(shown.contains("alice") && !shown.contains("s3cret"), "{shown}");
}

// contract: E-25i
#[tokio::test]
async fn without_access_every_request_is_allowed() {
    let server = ApiServer::builder().start().await.unwrap();
    let client = Client::new(&server);
    assert_eq!(server.count("rbac.authorization.k8s.io/v1", "ClusterRole").unwrap(), 0);
    assert_eq!(server.count("v1", "ServiceAccount").unwrap(), 0);
    let who = client.post(SELF, &json!({})).await.ok();
    assert_eq!(who["status"]["userInfo"]["username"], "kinformer");
    let attributes = json!({"verb": "delete", "resource": "secrets"});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = json!({"spec": {"user": "anyone", "resourceAttributes": attributes}});
    assert_eq!(client.post(path, &review).await.ok()["status"], json!({"allowed": true}));
    // An unknown token is no matter, as before.
    assert!(get(&client, "unknown", "/api/v1/pods").await.code.is_success());
}

/// Requests without a token are protected from web pages as those to a server without tokens.
// contract: E-25b
#[tokio::test]
async fn anonymous_requests_of_other_hosts_are_refused() {
    let server = server().await;
    let client = Client::new(&server);
    let from = |token: &'static str| {
        let client = client.clone();
        async move {
            let bearer = format!("Bearer {token}");
            let mut headers = vec![("host", "evil.example")];
            if !token.is_empty() {
                headers.push(("authorization", &bearer));
            }
            client.send(http::Method::GET, "/version", &headers, "").await.code.as_u16()
        }
    };
    assert_eq!((from("").await, from("alice-token").await), (403, 200));
}
