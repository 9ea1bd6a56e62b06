//! Owner references and finalizers that are refused.

use serde_json::{Value, json};

use super::{MAPS, World};
use crate::common::config_map;

fn reference(change: Value) -> Value {
    let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"});
    owner.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    owner
}

// contract: E-14q
#[tokio::test]
async fn owner_references() {
    let world = World::new().await;
    let event = "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"a\",\"uid\":\"u\"}";
    for (change, message) in [
        (json!({"apiVersion": ""}), "[0].apiVersion: Required value: must not be empty".to_owned()),
        (json!({"kind": ""}), "[0].kind: Required value: must not be empty".to_owned()),
        (json!({"name": ""}), "[0].name: Required value: must not be empty".to_owned()),
        (json!({"uid": ""}), "[0].uid: Required value: must not be empty".to_owned()),
        (
            json!({"apiVersion": "a/b/c"}),
            "[0].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>".to_owned(),
        ),
        (
            json!({"kind": "Event"}),
            format!("[0]: Invalid value: {event}: /v1, Kind=Event is disallowed from being an owner"),
        ),
    ] {
        let mut map = config_map("m", "v");
        map["metadata"]["ownerReferences"] = json!([reference(change)]);
        let refused = world.client.post(MAPS, &map).await.status(422, "Invalid");
        assert_eq!(refused, format!("ConfigMap \"m\" is invalid: metadata.ownerReferences{message}"));
    }
    // Events of the other group are not checked.
    let mut map = config_map("m", "v");
    map["metadata"]["ownerReferences"] =
        json!([reference(json!({"apiVersion": "events.k8s.io/v1", "kind": "Event"}))]);
    world.client.post(MAPS, &map).await.ok();
}

// contract: E-14q
#[tokio::test]
async fn controllers() {
    let world = World::new().await;
    let controller = |name: &str| reference(json!({"name": name, "uid": name, "controller": true}));
    let mut map = config_map("m", "v");
    map["metadata"]["ownerReferences"] = json!([controller("a"), reference(json!({})), controller("b")]);
    let refused = world.client.post(MAPS, &map).await.status(422, "Invalid");
    assert!(
        refused.ends_with(
            "Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/a and \
             ConfigMap/b"
        ),
        "{refused}"
    );
    assert!(
        refused.contains("metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\""),
        "{refused}"
    );
    // An update is checked as well.
    world.map("m", &[]).await;
    let patch = json!({"metadata": {"ownerReferences": [controller("a"), controller("b")]}});
    world.client.patch(&format!("{MAPS}/m"), "merge-patch", &patch).await.status(422, "Invalid");
}

// contract: E-14q
#[tokio::test]
async fn finalizers() {
    let world = World::new().await;
    let with = |finalizers: Value| {
        let mut map = config_map("m", "v");
        map["metadata"]["finalizers"] = finalizers;
        map
    };
    let refused = world.client.post(MAPS, &with(json!(["no/such/name"]))).await.status(422, "Invalid");
    assert!(refused.contains("metadata.finalizers: Invalid value: \"no/such/name\""), "{refused}");
    let refused = world.client.post(MAPS, &with(json!(["orphan", "foregroundDeletion"]))).await;
    assert_eq!(
        refused.status(422, "Invalid"),
        "ConfigMap \"m\" is invalid: metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer \
         orphan and foregroundDeletion cannot be both set"
    );
}
