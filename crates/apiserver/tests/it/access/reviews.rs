//! Reviews, and tokens of service accounts.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer_apiserver::{Access, ApiServer, TestCluster};
use kube_client::api::{Api, ListParams};
use serde_json::json;

use super::{bind, get, post, server};
use crate::common::Client;

const ACCESS: &str = "/apis/authorization.k8s.io/v1";
const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";

// contract: E-25d
#[tokio::test]
async fn reviews_say_what_is_allowed() {
    let server = server().await;
    let client = Client::new(&server);
    bind(&server, "reads", "alice", json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]));
    let asked = |namespace: &str| json!({"verb": "list", "resource": "pods", "namespace": namespace});
    let review = json!({"spec": {"resourceAttributes": asked("default")}});
    let path = format!("{ACCESS}/selfsubjectaccessreviews");
    let own = post(&client, "alice-token", &path, review).await.ok();
    let reason = "RBAC: allowed by RoleBinding \"reads/default\" of ClusterRole \"reads\" to User \"alice\"";
    assert_eq!(own["status"], json!({"allowed": true, "reason": reason}));
    assert_eq!(own["metadata"]["managedFields"][0]["operation"], "Update");

    let path = format!("{ACCESS}/subjectaccessreviews");
    let review = json!({"spec": {"user": "alice", "resourceAttributes": asked("kube-system")}});
    assert_eq!(
        post(&client, "root-token", &path, review.clone()).await.ok()["status"],
        json!({"allowed": false})
    );
    post(&client, "alice-token", &path, review).await.status(403, "Forbidden");
    let invalid = post(&client, "root-token", &path, json!({"spec": {"user": "a"}})).await;
    assert!(
        invalid.status(422, "Invalid").contains("exactly one of nonResourceAttributes or resourceAttributes")
    );

    let path = format!("{ACCESS}/selfsubjectrulesreviews");
    let rules = post(&client, "alice-token", &path, json!({"spec": {"namespace": "default"}})).await.ok();
    let listed = rules["status"]["resourceRules"].as_array().unwrap();
    assert!(
        listed.contains(&json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]})),
        "{rules}"
    );
}

// contract: E-25h
#[tokio::test(start_paused = true)]
async fn tokens_of_service_accounts_end() {
    let cluster = TestCluster::builder().access(Access::rbac()).start().await.unwrap();
    let issue = async |seconds: u32| {
        let request = json!({"spec": {"expirationSeconds": seconds}}).to_string().into_bytes();
        let request = http::Request::post(TOKEN).body(request).unwrap();
        let answer: serde_json::Value = cluster.client().request(request).await.unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    };
    let check = async |token: &str| {
        let review = json!({"spec": {"token": token}}).to_string().into_bytes();
        let request = http::Request::post(TOKENS).body(review).unwrap();
        let answer: serde_json::Value = cluster.client().request(request).await.unwrap();
        answer["status"].clone()
    };
    let (short, long) = (issue(600).await, issue(3600).await);
    assert_eq!(check(&short).await["user"]["username"], "system:serviceaccount:default:default");
    assert_eq!(check(&format!("{short}x")).await["authenticated"], serde_json::Value::Null);
    tokio::time::advance(Duration::from_secs(700)).await;
    let error = check(&short).await["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("service account token has expired"), "{error}");
    assert_eq!(check(&long).await["authenticated"], true);
    // A service account of the same name is another one.
    cluster.server().delete("v1", "ServiceAccount", "default", "default").unwrap();
    let error = check(&long).await["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("does not match claim"), "{error}");
}

// contract: E-25h
#[tokio::test]
async fn tokens_of_service_accounts_are_those_of_their_users() {
    let server = server().await;
    let client = Client::new(&server);
    let issued = post(&client, "root-token", TOKEN, json!({})).await.ok();
    let token = issued["status"]["token"].as_str().unwrap();
    let message = get(&client, token, "/api/v1/namespaces/default/pods").await.status(403, "Forbidden");
    assert!(message.contains("User \"system:serviceaccount:default:default\""), "{message}");
    bind(
        &server,
        "reads",
        "system:serviceaccount:default:default",
        json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]),
    );
    get(&client, token, "/api/v1/namespaces/default/pods").await.ok();
    // Another server does not know it.
    let other = ApiServer::builder().token("root-token").access(Access::rbac()).start().await.unwrap();
    get(&Client::new(&other), token, "/version").await.status(401, "Unauthorized");
}

/// A token that is bound to a pod ends with it.
// contract: E-25h
#[tokio::test]
async fn bound_tokens_end_with_their_objects() {
    let server = server().await;
    let client = Client::new(&server);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"serviceAccountName": "default", "containers": [{"name": "a", "image": "a"}]}});
    server.create(pod).unwrap();
    let bound =
        |kind: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": "p"}}});
    let issued = post(&client, "root-token", TOKEN, bound("Pod")).await.ok();
    let review = json!({"spec": {"token": issued["status"]["token"]}});
    let user = post(&client, "root-token", TOKENS, review.clone()).await.ok()["status"]["user"].clone();
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    server.delete("v1", "Pod", "default", "p").unwrap();
    let ended = post(&client, "root-token", TOKENS, review).await.ok();
    assert_eq!(
        ended["status"]["error"],
        "[invalid bearer token, service account token has been invalidated]"
    );
    post(&client, "root-token", TOKEN, bound("Secret")).await.status(404, "NotFound");
    let hook = json!({"spec": {"boundObjectRef": {"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "name": "p"}}});
    post(&client, "root-token", TOKEN, hook).await.status(501, "NotImplemented");
}

/// Without access control, a token of a service account is that of its user.
// contract: E-25i
#[tokio::test]
async fn tokens_are_issued_without_access_control() {
    let server = ApiServer::builder().start().await.unwrap();
    let client = Client::new(&server);
    server
        .create(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}))
        .unwrap();
    let issued = client.post(TOKEN, &json!({})).await.ok();
    let token = issued["status"]["token"].as_str().unwrap();
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let who = post(&client, token, path, json!({})).await.ok();
    assert_eq!(who["status"]["userInfo"]["username"], "system:serviceaccount:default:default");
    assert!(get(&client, token, "/api/v1/pods").await.code.is_success());
}

/// kube-rs sends and reads reviews as Rust types.
// contract: E-25g
#[tokio::test]
async fn reviews_work_with_typed_clients() {
    use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
    let cluster = TestCluster::builder().access(Access::rbac()).start().await.unwrap();
    let operator = cluster.client_as("system:serviceaccount:default:operator").unwrap();
    let review: SelfSubjectAccessReview =
        serde_json::from_value(json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}))
            .unwrap();
    let reviews = Api::<SelfSubjectAccessReview>::all(operator.clone());
    let answer = reviews.create(&Default::default(), &review).await.unwrap();
    assert!(!answer.status.unwrap().allowed);
    assert!(Api::<Pod>::all(operator).list(&ListParams::default()).await.is_err());
}
