//! What webhooks do to objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Reply, WebhookServer, configure};
use crate::common::{Client, config_map, server, widget_definition};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn add(path: &str, value: impl Into<Value>) -> Value {
    json!([{"op": "add", "path": path, "value": value.into()}])
}

/// The object is validated, and defaulted, after the webhooks.
// contract: E-27d
#[tokio::test]
async fn mutated_objects_are_completed_and_validated() {
    let webhooks = WebhookServer::start(|path, request| match request["name"].as_str() {
        _ if path == "check" => Reply::allowed(),
        Some("good") => {
            Reply::patch(&add("/spec/template/spec/containers", json!([{"name": "c", "image": "i"}])))
        }
        Some("bad") => Reply::patch(&add("/spec/template/spec/containers", json!([{"name": "C"}]))),
        _ => Reply::allowed(),
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    let rules = json!([{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}]);
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &json!({"rules": rules}))]));
    configure(&server, "Validating", "all", json!([webhooks.hook("check", &json!({"rules": rules}))]));
    let deployment = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}}})
    };
    let created = client.post(DEPLOYMENTS, &deployment("good")).await.ok();
    assert_eq!(created["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always");
    let [mutating, validating] = &webhooks.take()[..] else { panic!("two reviews") };
    // The first webhook sees the defaults, and the managers, but not what the storage sets.
    assert_eq!(mutating["object"]["spec"]["replicas"], 1);
    assert!(mutating["object"]["metadata"]["managedFields"].is_array());
    assert_eq!(mutating["object"]["metadata"]["uid"], Value::Null);
    assert_eq!(validating["object"]["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(validating["object"]["spec"], created["spec"]);
    let refused = client.post(DEPLOYMENTS, &deployment("bad")).await.status(422, "Invalid");
    assert!(refused.contains("containers[0].name") && refused.contains("containers[0].image"), "{refused}");
    // It is not valid, so it is not sent to validating webhooks.
    assert_eq!(webhooks.take().len(), 1);
    client.post(DEPLOYMENTS, &deployment("other")).await.status(422, "Invalid");
}

// contract: E-27d
#[tokio::test]
async fn custom_resources_are_completed_by_webhooks() {
    let webhooks =
        WebhookServer::start(|_, _| Reply::patch(&add("/spec", json!({"size": 1, "unknown": true})))).await;
    let server = server().await;
    let client = Client::new(&server);
    let mut definition = widget_definition();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"] = json!({"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": {
            "type": "object", "required": ["size"],
            "properties": {"size": {"type": "integer"}, "color": {"type": "string", "default": "red"}}}}}});
    }
    server.create(definition).unwrap();
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["widgets"]}]);
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &json!({"rules": rules}))]));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let created = client.post("/apis/example.com/v1/namespaces/default/widgets", &widget).await.ok();
    assert_eq!(created["spec"], json!({"size": 1, "color": "red"}));
}

/// Mutating webhooks are called in the order of their configurations, and once more after a change, if they ask for it.
// contract: E-27f
#[tokio::test]
async fn webhooks_are_reinvoked_after_changes() {
    let webhooks = WebhookServer::start(|path, request| {
        let seen = request["object"]["data"]["seen"].as_str().unwrap_or("");
        match path {
            "quiet" => Reply::allowed(),
            // Its second call changes nothing.
            "once" if seen.contains("once") => Reply::allowed(),
            path => Reply::patch(&add("/data/seen", format!("{seen} {path}"))),
        }
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    let needed = json!({"reinvocationPolicy": "IfNeeded"});
    configure(&server, "Mutating", "b", json!([webhooks.hook("last", &json!({}))]));
    let first =
        [webhooks.hook("quiet", &needed), webhooks.hook("once", &needed), webhooks.hook("never", &json!({}))];
    configure(&server, "Mutating", "a", json!(first));
    let created = client.post(MAPS, &config_map("a", "1")).await.ok();
    assert_eq!(created["data"]["seen"], " once never last");
    let called: Vec<String> = webhooks
        .take_paths()
        .iter()
        .map(|path| path.trim_matches('/').split('?').next().unwrap().to_owned())
        .collect();
    assert_eq!(called, ["quiet", "once", "never", "last", "quiet", "once"]);
}

/// A webhook changes the object that is written: the write is decided again, and the webhooks see its new state.
// contract: E-27g
#[tokio::test]
async fn concurrent_writes_are_admitted_again() {
    let (written, calls) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    let webhooks = {
        let (written, calls) = (written.clone(), calls.clone());
        WebhookServer::start(move |_, _| {
            let write: Option<Box<dyn FnOnce() + Send>> = written.lock().take();
            if let Some(write) = write {
                write();
            }
            calls.fetch_add(1, Ordering::Relaxed);
            Reply::allowed()
        })
        .await
    };
    let server = Arc::new(server().await);
    let client = Client::new(&server);
    server.create(config_map("a", "1")).unwrap();
    configure(&server, "Validating", "all", json!([webhooks.hook("all", &json!({}))]));
    let write = |write: Box<dyn FnOnce() + Send>| *written.lock() = Some(write);
    let path = format!("{MAPS}/a");

    let other = server.clone();
    write(Box::new(move || drop(other.update(config_map("a", "2")).unwrap())));
    let patched = client.patch(&path, "merge-patch", &json!({"data": {"b": "3"}})).await.ok();
    assert_eq!(patched["data"], json!({"key": "2", "b": "3"}));
    let reviews = webhooks.take();
    let seen: Vec<&Value> = reviews.iter().map(|review| &review["oldObject"]["data"]["key"]).collect();
    assert_eq!(seen, ["1", "2"]);

    // An update of a version fails, as the object has another one now.
    let other = server.clone();
    write(Box::new(move || drop(other.update(config_map("a", "4")).unwrap())));
    client.put(&path, &patched).await.status(409, "Conflict");
    assert_eq!(webhooks.take().len(), 1);

    let other = server.clone();
    write(Box::new(move || drop(other.delete("v1", "ConfigMap", "default", "a").unwrap())));
    client.delete(&path).await.status(404, "NotFound");
    let other = server.clone();
    write(Box::new(move || drop(other.create(config_map("a", "5")).unwrap())));
    client.post(MAPS, &config_map("a", "6")).await.status(409, "AlreadyExists");
    assert_eq!(calls.load(Ordering::Relaxed), 5);
}

/// The object that validating webhooks have seen is the one that is stored, also if its name was generated.
// contract: E-27g
#[tokio::test]
async fn reviewed_objects_are_stored() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &json!({}))]));
    configure(&server, "Validating", "all", json!([webhooks.hook("all", &json!({}))]));
    let mut created = client.post(MAPS, &json!({"metadata": {"generateName": "g-"}})).await.ok();
    let [first, second] = &webhooks.take()[..] else { panic!("two reviews") };
    assert_eq!(first["name"], Value::Null);
    assert_eq!(second["name"], created["metadata"]["name"]);
    created["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(second["object"], created);
    let stored = client.get(&format!("{MAPS}/{}", second["name"].as_str().unwrap())).await.ok();
    assert_eq!(stored["metadata"]["uid"], second["object"]["metadata"]["uid"]);
}

/// The namespace of an object is that of its request; an object that has lost it gets it again.
// contract: E-27n
#[tokio::test]
async fn webhooks_cannot_move_objects() {
    let webhooks = WebhookServer::start(|_, request| match request["object"]["data"]["key"].as_str() {
        Some("other") => Reply::patch(&add("/metadata/namespace", "other")),
        Some("none") => Reply::patch(&json!([{"op": "remove", "path": "/metadata/namespace"}])),
        _ => Reply::allowed(),
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &json!({}))]));
    let other = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(client.post(MAPS, &config_map("a", "other")).await.status(400, "BadRequest"), other);
    let created = client.post(MAPS, &config_map("a", "none")).await.ok();
    assert_eq!(created["metadata"]["namespace"], "default");
    let path = format!("{MAPS}/a");
    let patched = client.patch(&path, "merge-patch", &json!({"data": {"key": "other"}})).await;
    assert_eq!(patched.status(400, "BadRequest"), other);
}

// contract: E-27n
#[tokio::test]
async fn owners_that_webhooks_duplicate_are_dropped() {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "1"});
    let owners = json!([owner, owner]);
    let webhooks =
        WebhookServer::start(move |_, _| Reply::patch(&add("/metadata/ownerReferences", owners.clone())))
            .await;
    let server = server().await;
    let client = Client::new(&server);
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &json!({}))]));
    let created = client.post(MAPS, &config_map("a", "1")).await;
    let [warning] = super::warnings(&created)[..] else { panic!("one warning") };
    assert!(warning.contains("duplicate entries after mutating admission happens"), "{warning}");
    assert_eq!(created.ok()["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
}

/// A patch that changes nothing of what is decoded of an object does not count as a change.
// contract: E-27f
#[tokio::test]
async fn patches_without_an_effect_cause_no_second_call() {
    let webhooks = WebhookServer::start(|path, _| match path {
        "first" => Reply::patch(&add("/data/first", "1")),
        "empty" => Reply::patch(&json!([
            {"op": "add", "path": "/binaryData", "value": {}},
            {"op": "add", "path": "/unknown", "value": 1},
            {"op": "add", "path": "/metadata/labels", "value": null},
        ])),
        _ => Reply::allowed(),
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    let needed = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks = [
        webhooks.hook("first", &json!({})),
        webhooks.hook("needed", &needed),
        webhooks.hook("empty", &json!({})),
    ];
    configure(&server, "Mutating", "all", json!(hooks));
    let created = client.post(MAPS, &config_map("a", "1")).await.ok();
    assert_eq!(created["unknown"], Value::Null);
    let called = webhooks.take_paths();
    let called: Vec<&str> =
        called.iter().map(|path| path.trim_matches('/').split('?').next().unwrap()).collect();
    assert_eq!(called, ["first", "needed", "empty"]);
}

/// Managers with a set that cannot be parsed are restored, with a warning.
// contract: E-27n
#[tokio::test]
async fn sets_of_managers_that_webhooks_break_are_restored() {
    let webhooks = WebhookServer::start(|_, _| {
        Reply::patch(&add("/metadata/managedFields/0/fieldsV1", json!({"x": {}})))
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    configure(&server, "Mutating", "all", json!([webhooks.hook("all", &json!({}))]));
    let created = client.post(&format!("{MAPS}?fieldManager=m"), &config_map("a", "1")).await;
    let [warning] = super::warnings(&created)[..] else { panic!("one warning") };
    let start = "299 - \".metadata.managedFields was in an invalid state after admission; this could be caused by an \
        outdated mutating admission controller; please fix your requests: error decoding versioned set from {m Update v1 20";
    assert!(warning.starts_with(start), "{warning}");
    let end = " +0000 UTC FieldsV1 {\\\"x\\\":{}} }: error decoding set: key must be 2 characters long:\"";
    assert!(warning.ends_with(end), "{warning}");
    let set = &created.ok()["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*set, json!({"f:data": {".": {}, "f:key": {}}}));
}
