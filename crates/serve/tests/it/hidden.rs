//! Secrets and hidden fields.

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kinformer_apiserver::Verb;
use kinformer_serve::{Error, Server};
use kinformer_testing::wait::within;
use serde_json::json;

use crate::common::{PODS, World, pod};

const SECRETS: &str = "/api/v1/informers/secrets";
/// A value that must not be in any response.
const VALUE: &str = "c2VjcmV0";

fn secret(name: &str, value: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"},
        "data": {"password": value}, "type": "Opaque",
    })
}

/// Adds an informer of secrets with one secret that has a history.
async fn with_secrets(show: bool) -> World {
    let world =
        World::with(1, |factory| factory, |server| if show { server.show_secrets() } else { server }).await;
    let secrets = world.factory.core().v1().secrets();
    secrets.index_by_field("password", &["data", "password"]).unwrap();
    world.cluster.create(secret("token", "Zmlyc3Q=")).unwrap();
    world.server.add(&secrets).unwrap();
    world.factory.start().unwrap();
    within("sync", world.factory.wait_for_cache_sync()).await.into_result().unwrap();
    let written = world.cluster.update(secret("token", VALUE)).unwrap();
    let version = written["metadata"]["resourceVersion"].as_str().unwrap();
    secrets.wait_for(("shop", "token"), &version.into()).await.unwrap();
    let _: kinformer::Informer<Secret> = secrets;
    world
}

// contract: H-15a
#[tokio::test]
async fn secrets_are_not_shown() {
    let world = with_secrets(false).await;
    let state = world.client.ok(SECRETS).await;
    assert_eq!((&state["hidden"], &state["objects"]), (&true.into(), &1.into()));
    for path in [
        "objects",
        "objects?sort=name",
        "objects/shop/token",
        "objects/shop/token?format=yaml",
        "objects/shop/token/history",
        "objects/shop/token/explain",
        "objects/shop/none/explain",
        "indexes/password",
        "objects?index=password&value=x",
    ] {
        let message = world.client.get(&format!("{SECRETS}/{path}")).await.fails(403, "Hidden");
        assert!(message.contains("--show-secrets"), "{message}");
    }
    let indexes = world.client.ok(&format!("{SECRETS}/indexes")).await;
    assert!(indexes["indexes"][0]["values"].is_null(), "{indexes}");
    world.client.get("/api/v1/events?informer=secrets").await.fails(403, "Hidden");
    let asked = world.client.request(Method::POST, &format!("{SECRETS}/objects/shop/token/ask"), &[]).await;
    asked.fails(403, "Hidden");
    assert_eq!(world.cluster.metrics().requests_for(Verb::Get, "secrets"), 0);
    // A stream of all informers has the other changes only.
    let mut stream = world.client.stream("/api/v1/events?since=1", &[]).await;
    world.put(pod("web-7")).await;
    let change = stream.next_of(&["change"]).await;
    assert_eq!(change.data["name"], "web-7", "{change:?}");
    for path in ["/api/v1/informers", "/metrics", "/readyz?verbose", SECRETS] {
        let text = world.client.get(path).await.text();
        assert!(!text.contains(VALUE) && !text.contains("shop/token"), "{text}");
    }
    drop(stream);
    world.end().await;
}

// contract: H-15b
#[tokio::test]
async fn secrets_are_shown_on_request() {
    let world = with_secrets(true).await;
    let object = world.client.ok(&format!("{SECRETS}/objects/shop/token")).await;
    assert_eq!(object["data"]["password"], VALUE);
    let list = world.client.ok(&format!("{SECRETS}/objects?index=password&value={VALUE}")).await;
    assert_eq!(list["total"], 1);
    let history = world.client.ok(&format!("{SECRETS}/objects/shop/token/history")).await;
    assert_eq!(history["items"][0]["diff"][0]["new"], VALUE);
    world.end().await;
}

// contract: H-16a
#[tokio::test]
async fn hidden_fields_are_left_out() {
    let hide = |server: kinformer_serve::ServerBuilder| {
        server
            .hide_field("spec.containers.env")
            .hide_field("spec.activeDeadlineSeconds")
            .hide_field("metadata.annotations.example.com/key")
            .hide_field("status")
    };
    let world = World::with(0, |factory| factory, hide).await;
    let with_value = |value: &str, seconds: u32| {
        let mut pod = pod("web-0");
        pod["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "before"}]);
        pod["spec"]["activeDeadlineSeconds"] = seconds.into();
        pod["metadata"]["annotations"] = json!({
            "example.com/key": value, "other": "shown",
            "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"value\":\"{value}\"}}"),
        });
        pod["status"]["message"] = value.into();
        pod
    };
    world.put(with_value("before", 20)).await;
    let mut stream = world.client.stream("/api/v1/events?informer=pods", &[]).await;
    stream.next_of(&["state"]).await;
    world.put(with_value(VALUE, 10)).await;
    let change = stream.next_of(&["change"]).await;
    assert_eq!(change.data["type"], "updated");
    let shown = json!([{"path": "metadata.generation", "old": 1, "new": 2}]);
    assert_eq!(change.data["diff"], shown, "the hidden fields changed too");
    let path = format!("{PODS}/objects/shop/web-0");
    let object = world.client.ok(&path).await;
    assert_eq!(object["metadata"]["annotations"], json!({"other": "shown"}));
    assert_eq!(object["spec"]["containers"][0]["image"], "i:1");
    assert!(object.get("status").is_none());
    let row = &world.client.ok(&format!("{PODS}/objects")).await["items"][0];
    assert_eq!(row["status"], "");
    for path in [
        path.clone(),
        format!("{path}?format=yaml"),
        format!("{path}/history"),
        format!("{path}/explain"),
        format!("{PODS}/objects"),
        PODS.to_owned(),
    ] {
        let text = world.client.get(&path).await.text();
        assert!(!text.contains(VALUE) && !text.contains("before"), "{path}: {text}");
    }
    let asked = world.client.request(Method::POST, &format!("{path}/ask"), &[]).await.text();
    assert!(asked.contains("\"found\":true") && !asked.contains(VALUE), "{asked}");
    drop(stream);
    world.end().await;
}

// contract: H-16b
#[tokio::test]
async fn hidden_fields_select_nothing() {
    let hide = |server: kinformer_serve::ServerBuilder| {
        let server = server.hide_field("spec").hide_field("metadata.labels").hide_field("status.phase");
        server.hide_field("metadata.creationTimestamp").index_fields("node", ["spec.nodeName"])
    };
    let world = World::with(2, |factory| factory, hide).await;
    world.pods.index_by_field("phase", &["status", "phase"]).unwrap();
    for path in [
        "indexes/node",
        "objects?index=node&value=node-1",
        "indexes/phase",
        "objects?labelSelector=app%3Dweb",
        "objects?sort=status",
        "objects?sort=-created",
    ] {
        world.client.get(&format!("{PODS}/{path}")).await.fails(403, "Hidden");
    }
    let indexes = world.client.ok(&format!("{PODS}/indexes")).await;
    assert_eq!(
        indexes["indexes"],
        json!([{"name": "namespace", "values": 1}, {"name": "node", "values": null}, {"name": "phase", "values": null}])
    );
    assert_eq!(world.client.ok(&format!("{PODS}/indexes/namespace")).await["total"], 1);
    let page = world.client.ok(&format!("{PODS}/objects?index=namespace&value=shop")).await;
    assert_eq!((&page["total"], &page["items"][0]["created"]), (&2.into(), &serde_json::Value::Null));
    world.end().await;

    // An index of fields that are shown can be used.
    let show = |server: kinformer_serve::ServerBuilder| {
        server.hide_field("status").index_fields("node", ["spec.nodeName"])
    };
    let world = World::with(2, |factory| factory, show).await;
    assert_eq!(world.client.ok(&format!("{PODS}/indexes/node")).await["total"], 1);
    world.end().await;
}

// contract: H-16c
#[tokio::test]
async fn identifying_fields_cannot_be_hidden() {
    for field in ["metadata", "metadata.name", "kind", ""] {
        let builder = Server::builder().listen("127.0.0.1:0".parse().unwrap()).hide_field(field);
        let error = builder.bind().await.unwrap_err();
        assert!(matches!(error, Error::NotHideable { .. }), "{field}: {error}");
    }
    let builder =
        Server::builder().listen("127.0.0.1:0".parse().unwrap()).hide_field("spec.containers[*].env");
    let error = builder.bind().await.unwrap_err();
    assert!(
        matches!(error, Error::InvalidField { .. }) && error.to_string().contains("goes through lists"),
        "{error}"
    );
}
