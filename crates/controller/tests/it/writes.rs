//! Writes of objects that are read first, and their errors.

use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{ApiServer, Validation, Verb};
use kinformer_controller::{
    ReconcileError, WriteError, Written, create_or_patch, create_or_update, retry_on_conflict,
};
use kube_client::{Api, Client};
use serde_json::{Value, json};

async fn server() -> (ApiServer, Api<ConfigMap>) {
    server_with(Validation::On).await
}

async fn server_with(validation: Validation) -> (ApiServer, Api<ConfigMap>) {
    let server = ApiServer::builder().validation(validation).start().await.unwrap();
    let api = Api::default_namespaced(Client::try_from(server.config().unwrap()).unwrap());
    (server, api)
}

fn named(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn set(config_map: &mut ConfigMap, value: &str) -> Result<(), WriteError> {
    config_map.data.get_or_insert_default().insert("a".to_owned(), value.to_owned());
    Ok(())
}

fn writes(server: &ApiServer) -> u64 {
    let metrics = server.metrics();
    [Verb::Create, Verb::Update, Verb::Patch]
        .map(|verb| metrics.requests_for(verb, "configmaps"))
        .iter()
        .sum()
}

fn stored(server: &ApiServer) -> Value {
    server.get("v1", "ConfigMap", "default", "a").unwrap().unwrap()
}

/// An object is created, changed, and left alone if it is as it should be.
// contract: K-17a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_or_updates() {
    let (server, api) = server().await;
    let (created, written) = create_or_update(&api, named("a"), |map| set(map, "1")).await.unwrap();
    assert_eq!((written, writes(&server)), (Written::Created, 1));
    for read in [named("a"), created] {
        let (_, written) = create_or_update(&api, read, |map| set(map, "1")).await.unwrap();
        assert_eq!((written, writes(&server)), (Written::Unchanged, 1));
    }
    let (updated, written) = create_or_update(&api, named("a"), |map| set(map, "2")).await.unwrap();
    assert_eq!((written, updated.data.unwrap()["a"].as_str()), (Written::Updated, "2"));
    let (_, written) = create_or_patch(&api, named("b"), |map| set(map, "1")).await.unwrap();
    assert_eq!(written, Written::Created);
    server.shutdown().await;
}

/// A patch has the fields that were changed or removed, and keeps those that the type does not have.
// contract: K-17b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patch_keeps_unknown_fields() {
    let (server, api) = server_with(Validation::Off).await;
    server
        .create(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default",
            "labels": {"x": "1", "y": "1"}}, "data": {"b": "1"}, "unknown": {"field": 1}}),
        )
        .unwrap();
    let change = |map: &mut ConfigMap| {
        map.metadata.labels.as_mut().unwrap().remove("x");
        set(map, "1")
    };
    let (_, written) = create_or_patch(&api, named("a"), change).await.unwrap();
    let object = stored(&server);
    assert_eq!((written, &object["unknown"]), (Written::Updated, &json!({"field": 1})));
    assert_eq!(
        (&object["metadata"]["labels"], &object["data"]),
        (&json!({"y": "1"}), &json!({"a": "1", "b": "1"}))
    );
    let before = writes(&server);
    let (_, written) = create_or_patch(&api, named("a"), |map| set(map, "1")).await.unwrap();
    assert_eq!((written, writes(&server)), (Written::Unchanged, before));
    server.shutdown().await;
}

/// A write of a state that is not the newest one is a conflict. A retry that reads again succeeds.
// contract: K-17c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_state_is_a_conflict() {
    let (server, api) = server().await;
    let (stale, _) = create_or_update(&api, named("a"), |map| set(map, "1")).await.unwrap();
    create_or_update(&api, named("a"), |map| set(map, "2")).await.unwrap();
    let update = create_or_update(&api, stale.clone(), |map| set(map, "3")).await.unwrap_err();
    let patch = create_or_patch(&api, stale.clone(), |map| set(map, "3")).await.unwrap_err();
    assert!(update.is_conflict() && patch.is_conflict(), "{update} {patch}");
    assert_eq!(stored(&server)["data"]["a"], "2");
    let calls = AtomicU32::new(0);
    let written = retry_on_conflict(async || {
        let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        let read = if is_first { stale.clone() } else { named("a") };
        create_or_patch(&api, read, |map| set(map, "3")).await
    });
    assert_eq!(written.await.unwrap().1, Written::Updated);
    let always: Result<(), _> = retry_on_conflict(async || {
        calls.fetch_add(1, Ordering::Relaxed);
        create_or_patch(&api, stale.clone(), |map| set(map, "4")).await.map(drop)
    })
    .await;
    assert!(always.unwrap_err().is_conflict());
    assert_eq!(calls.into_inner(), 2 + 5);
    let renamed = create_or_update(&api, named("a"), |map| {
        map.metadata.name = Some("b".to_owned());
        Ok(())
    });
    assert!(matches!(renamed.await, Err(WriteError::OtherObject { .. })));
    server.shutdown().await;
}

/// Each cause of an error is in its text once, in one line, whatever the chain. A conflict is known as one.
// contract: K-17e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_one_line() {
    let (server, api) = server().await;
    let (stale, _) = create_or_update(&api, named("a"), |map| set(map, "1")).await.unwrap();
    create_or_update(&api, named("a"), |map| set(map, "2")).await.unwrap();
    let error = create_or_update(&api, stale.clone(), |map| set(map, "3")).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(r#""a" was not written: 409 Conflict: "#), "{text}");
    let own = ReconcileError::from(error);
    assert!(own.is_conflict());
    assert_eq!(own.to_string(), text);
    let error = api.replace("a", &Default::default(), &stale).await.unwrap_err();
    let of_client = ReconcileError::from(error);
    assert!(of_client.is_conflict());
    for text in [own.to_string(), of_client.to_string()] {
        assert_eq!(text.matches("409").count(), 1, "{text}");
        assert!(!text.contains('\n') && !text.contains("Status {") && text.len() < 250, "{text}");
    }
    let with_context = own.context("writing the map");
    assert!(
        with_context.is_conflict()
            && with_context.to_string().starts_with("writing the map: \"a\" was not written: 409 ")
    );
    assert!(ReconcileError::permanent("bad").context("parsing").is_permanent());
    let missing = api.get("no-such").await.unwrap_err();
    assert!(!ReconcileError::from(missing).is_conflict());
    server.shutdown().await;
}
