//! Answers of webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Reply, WebhookServer, configure, warnings};
use crate::common::{Client, config_map, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

// contract: E-27e
#[tokio::test]
async fn denials_have_the_status_of_the_webhook() {
    let details = json!({"kind": "ConfigMap", "causes": [{"reason": "x", "message": "y", "field": "z"}]});
    let status = json!({"code": 429, "reason": "TooManyRequests", "message": "later", "details": details});
    let given = status.clone();
    let webhooks = WebhookServer::start(move |_, request| match request["name"].as_str() {
        Some("full") => Reply::denied(given.clone()),
        Some("reason") => Reply::denied(json!({"reason": "Because", "code": 200})),
        _ => Reply::Response(json!({"allowed": false})),
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    configure(
        &server,
        "Validating",
        "all",
        json!([webhooks.hook("all", &json!({"failurePolicy": "Ignore"}))]),
    );
    let full = client.post(MAPS, &config_map("full", "1")).await;
    assert_eq!(
        full.status(429, "TooManyRequests"),
        "admission webhook \"all.example.com\" denied the request: later"
    );
    assert_eq!(full.body["details"], status["details"]);
    let reason = client.post(MAPS, &config_map("reason", "1")).await.status(400, "Because");
    assert_eq!(reason, "admission webhook \"all.example.com\" denied the request: Because");
    let bare = client.post(MAPS, &config_map("bare", "1")).await.status(400, "");
    assert_eq!(bare, "admission webhook \"all.example.com\" denied the request without explanation");
    assert_eq!(client.get(MAPS).await.ok()["items"], json!([]));
}

// contract: E-27e
#[tokio::test]
async fn warnings_of_webhooks_are_sent() {
    let webhooks = WebhookServer::start(|path, request| {
        let is_denied = request["name"] == "denied" && path == "check";
        Reply::Response(json!({"allowed": !is_denied, "warnings": [format!("from {path}"), "both"],
            "auditAnnotations": {"a": "b"}}))
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    configure(&server, "Mutating", "all", json!([webhooks.hook("change", &json!({}))]));
    configure(&server, "Validating", "all", json!([webhooks.hook("check", &json!({}))]));
    let expected = ["299 - \"from change\"", "299 - \"both\"", "299 - \"from check\""];
    for name in ["allowed", "denied"] {
        let answer = client.post(MAPS, &config_map(name, "1")).await;
        assert_eq!(warnings(&answer), expected);
        assert_eq!(answer.code.is_success(), name == "allowed");
    }
    assert_eq!(warnings(&client.delete(&format!("{MAPS}/allowed")).await), expected);
}

// contract: E-27h
#[tokio::test]
async fn dry_runs_are_refused_for_webhooks_with_side_effects() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    let hook =
        |effects: &str| json!([webhooks.hook(&effects.to_lowercase(), &json!({"sideEffects": effects}))]);
    configure(&server, "Mutating", "a", hook("NoneOnDryRun"));
    let path = format!("{MAPS}?dryRun=All");
    client.post(&path, &config_map("a", "1")).await.ok();
    assert_eq!(webhooks.take()[0]["dryRun"], true);
    assert_eq!(client.get(MAPS).await.ok()["items"], json!([]));
    // Only an object from another version of Kubernetes has this value.
    let mut some = webhooks.hook("some", &json!({"failurePolicy": "Ignore"}));
    some["sideEffects"] = "Some".into();
    let unchecked = kinformer_apiserver::ApiServer::builder()
        .validation(kinformer_apiserver::Validation::Off)
        .start()
        .await
        .unwrap();
    configure(&unchecked, "Validating", "a", json!([some]));
    let client = Client::new(&unchecked);
    assert_eq!(
        client.post(&path, &config_map("a", "1")).await.status(400, "BadRequest"),
        "admission webhook \"some.example.com\" does not support dry run"
    );
    client.post(MAPS, &config_map("a", "1")).await.ok();
    assert_eq!(webhooks.take().len(), 1);
}

/// Each answer that is none, with the message of kube-apiserver; the failure policy decides.
// contract: E-27i
#[tokio::test]
async fn malformed_answers_are_failures() {
    let review = |response: Value| {
        let body =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        Reply::Raw(200, "application/json", body.to_string())
    };
    let webhooks = WebhookServer::start(move |_, request| {
        let uid = &request["uid"];
        let patch = STANDARD.encode("[{\"op\": \"add\", \"path\": \"/data\", \"value\": {}}]");
        match request["name"].as_str().unwrap() {
            "absent" => review(Value::Null),
            "uid" => review(json!({"uid": "x", "allowed": true})),
            "version" => Reply::Raw(
                200,
                "application/json",
                json!({"response": {"uid": uid, "allowed": true}}).to_string(),
            ),
            "no-type" => review(json!({"uid": uid, "allowed": true, "patch": patch})),
            "no-patch" => review(json!({"uid": uid, "allowed": true, "patchType": "JSONPatch"})),
            "type" => review(json!({"uid": uid, "allowed": true, "patch": patch, "patchType": "Merge"})),
            "empty" => Reply::Raw(200, "application/json", String::new()),
            "text" => Reply::Raw(500, "text/plain", "broken\n".into()),
            "missing" => Reply::Raw(404, "text/plain", "none".into()),
            name => unreachable!("{name}"),
        }
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &json!({}))]));
    let call = "failed to call webhook";
    let response = "received invalid webhook response";
    let cases = [
        ("absent", format!("{response}: webhook response was absent")),
        (
            "version",
            format!(
                "{response}: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
            ),
        ),
        ("no-type", format!("{response}: webhook returned response.patch but not response.patchType")),
        ("no-patch", format!("{response}: webhook returned response.patchType but not response.patch")),
        ("type", "unsupported patch type \"Merge\"".to_owned()),
        (
            "text",
            format!("{call}: an error on the server (\"broken\") has prevented the request from succeeding"),
        ),
        ("missing", format!("{call}: the server could not find the requested resource")),
    ];
    for (name, why) in &cases {
        let message = client.post(MAPS, &config_map(name, "1")).await.status(500, "InternalError");
        assert_eq!(
            message,
            format!("Internal error occurred: failed calling webhook \"all.example.com\": {why}")
        );
    }
    let uid = client.post(MAPS, &config_map("uid", "1")).await.status(500, "InternalError");
    assert!(
        uid.contains(&format!("{response}: expected response.uid=")) && uid.ends_with("got \"x\""),
        "{uid}"
    );
    let empty = client.post(MAPS, &config_map("empty", "1")).await.status(500, "InternalError");
    assert!(empty.contains("0-length response with status code: 200"), "{empty}");
    server.delete("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "all").unwrap();
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &json!({"failurePolicy": "Ignore"}))]));
    for (name, _) in &cases {
        client.post(MAPS, &config_map(name, "1")).await.ok();
    }
}

/// A webhook that only knows `v1beta1` gets such reviews, whose answers are checked less.
// contract: E-27i
#[tokio::test]
async fn versions_of_reviews_are_negotiated() {
    let webhooks = WebhookServer::start(|_, _| {
        let patch = STANDARD.encode("[{\"op\": \"add\", \"path\": \"/data/b\", \"value\": \"2\"}]");
        Reply::Raw(
            200,
            "application/json",
            json!({"response": {"allowed": true, "patch": patch}}).to_string(),
        )
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    let old = json!({"admissionReviewVersions": ["v2", "v1beta1", "v1"]});
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &old)]));
    let created = client.post(MAPS, &config_map("a", "1")).await.ok();
    assert_eq!(created["data"], json!({"key": "1", "b": "2"}));
}

/// A deletion cannot be changed.
// contract: E-27i
#[tokio::test]
async fn deletions_cannot_be_patched() {
    let webhooks = WebhookServer::start(|_, _| {
        Reply::patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {}}]))
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    server.create(config_map("a", "1")).unwrap();
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &json!({"failurePolicy": "Ignore"}))]));
    let refused = client.delete(&format!("{MAPS}/a")).await.status(500, "InternalError");
    assert_eq!(
        refused,
        "Internal error occurred: admission webhook \"all.example.com\" attempted to modify the object, which is not \
         supported for this operation"
    );
    assert_eq!(client.get(&format!("{MAPS}/a")).await.ok()["data"]["key"], "1");
}
