//! Which owners keep an object.

use kinformer_apiserver::{ApiServer, GarbageCollection};
use serde_json::{Value, json};

use super::{MAPS, World, absent, blocking, owner, owners_of};
use crate::common::{config_map, widget_definition};

const NODES: &str = "/api/v1/nodes";

/// An object stays as long as one of its owners exists, and loses the others.
// contract: E-14e
#[tokio::test]
async fn one_living_owner_keeps_an_object() {
    let world = World::new().await;
    let (a, b, c) = (world.map("a", &[]).await, world.map("b", &[]).await, world.map("c", &[]).await);
    world.map("leaf", &[owner(&a), blocking(&b), owner(&c)]).await;
    world.delete_map("a", "Background").await;
    assert_eq!(owners_of(&world.get("leaf").await.unwrap()), ["b", "c"]);
    // An owner that is deleted in the foreground does not wait for a dependent that another owner keeps.
    let before = world.server.version();
    world.delete_map("b", "Foreground").await;
    assert_eq!(world.events(MAPS, before).await, ["MODIFIED b", "MODIFIED leaf", "DELETED b"]);
    assert_eq!(owners_of(&world.get("leaf").await.unwrap()), ["c"]);
    world.delete_map("c", "Background").await;
    assert_eq!(world.get("leaf").await, None);
}

/// A client's object with an owner that does not exist is deleted after its creation has been answered.
// contract: E-14f
#[tokio::test]
async fn absent_owners() {
    let world = World::new().await;
    let before = world.server.version();
    assert_eq!(owners_of(&world.map("leaf", &[absent("u")]).await), ["absent"]);
    assert_eq!(world.events(MAPS, before).await, ["ADDED leaf", "DELETED leaf"]);
    let root = world.map("root", &[]).await;
    world.map("leaf", &[absent("u"), owner(&root)]).await;
    assert_eq!(owners_of(&world.get("leaf").await.unwrap()), ["root"]);
    let adopted = json!({"metadata": {"ownerReferences": [absent("u")]}});
    world.client.patch(&format!("{MAPS}/leaf"), "merge-patch", &adopted).await.ok();
    assert_eq!(world.names().await, ["root"]);
}

/// The server itself stores objects before their owners, and with owners that never exist.
// contract: E-14r
#[tokio::test]
async fn server_stores_objects_before_their_owners() {
    let world = World::new().await;
    let mut leaf = config_map("leaf", "v");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "root", "uid": "u-1"});
    leaf["metadata"]["ownerReferences"] = json!([owner]);
    let leaf = world.server.create(leaf).unwrap();
    let mut root = config_map("root", "v");
    root["metadata"]["uid"] = "u-1".into();
    world.server.create(root).unwrap();
    world.server.update(leaf).unwrap();
    assert_eq!(world.names().await, ["leaf", "root"]);
    world.server.delete("v1", "ConfigMap", "default", "root").unwrap();
    assert!(world.names().await.is_empty());
}

/// An owner is identified by its UID; its name and namespace must be right as well.
// contract: E-14g
#[tokio::test]
async fn owners_are_identified_by_uid() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    let mut renamed = owner(&root);
    renamed["name"] = "other".into();
    world.map("other", &[]).await;
    world.map("leaf", &[renamed]).await;
    assert_eq!(world.get("leaf").await, None, "the object of that name has another UID");

    // An owner that was created again under its name is another owner.
    world.held("leaf", &[owner(&root)]).await;
    world.delete_map("root", "Orphan").await;
    let again = world.map("root", &[]).await;
    assert_ne!(again["metadata"]["uid"], root["metadata"]["uid"]);
    world.map("late", &[owner(&root)]).await;
    assert_eq!(world.names().await, ["leaf", "other", "root"]);
}

/// An owner in another namespace does not count, and an event reports it.
// contract: E-14g
#[tokio::test]
async fn owner_in_another_namespace() {
    let world = World::new().await;
    let elsewhere = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far"}});
    let far = world.client.post("/api/v1/namespaces/kube-public/configmaps", &elsewhere).await.ok();
    world.map("leaf", &[owner(&far)]).await;
    assert_eq!(world.get("leaf").await, None);
    let events = world.client.get("/api/v1/namespaces/default/events").await.ok();
    let event = &events["items"][0];
    assert_eq!((&event["reason"], &event["type"]), (&json!("OwnerRefInvalidNamespace"), &json!("Warning")));
    let uid = far["metadata"]["uid"].as_str().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: far, uid: {uid}] does not exist in namespace \"default\""
    );
    assert_eq!(event["message"], message);
    assert_eq!(event["involvedObject"]["name"], "leaf");
}

/// A cluster-scoped object cannot have a namespaced owner. It is never collected; an event reports it.
// contract: E-14g
#[tokio::test]
async fn namespaced_owner_of_a_cluster_scoped_object() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    let node = json!({"metadata": {"name": "n", "ownerReferences": [owner(&root)]}});
    world.client.post(NODES, &node).await.ok();
    world.delete_map("root", "Background").await;
    world.client.get(&format!("{NODES}/n")).await.ok();
    let events = world.client.get("/api/v1/namespaces/default/events").await.ok();
    assert_eq!(events["items"][0]["involvedObject"]["kind"], "Node");
    assert_eq!(events["items"].as_array().unwrap().len(), 1, "{events}");
}

/// A cluster-scoped owner has dependents in all namespaces, and other cluster-scoped ones.
// contract: E-14g
#[tokio::test]
async fn cluster_scoped_owners() {
    let world = World::new().await;
    let node = world.client.post(NODES, &json!({"metadata": {"name": "n"}})).await.ok();
    world.map("leaf", &[owner(&node)]).await;
    let dependent = json!({"metadata": {"name": "m", "ownerReferences": [owner(&node)]}});
    world.client.post(NODES, &dependent).await.ok();
    world.client.delete(&format!("{NODES}/n")).await.ok();
    assert!(world.names().await.is_empty());
    world.client.get(&format!("{NODES}/m")).await.status(404, "NotFound");
}

/// An owner of a kind that is not served may exist: its dependents stay until the kind is served.
// contract: E-14h
#[tokio::test]
async fn owners_of_unknown_kinds() {
    let world = World::new().await;
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u"});
    world.map("leaf", &[unknown.clone(), absent("v")]).await;
    world.map("gone", &[unknown]).await;
    world.delete_map("gone", "Background").await;
    assert_eq!(owners_of(&world.get("leaf").await.unwrap()), ["w", "absent"]);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let before = world.server.version();
    world.client.post(definitions, &widget_definition()).await.ok();
    assert_eq!(world.events(MAPS, before).await, ["DELETED leaf"]);
}

/// Dependents are collected with custom resources, also when the definition is deleted with them.
// contract: E-14h, E-14n
#[tokio::test]
async fn custom_resources_as_owners_and_dependents() {
    let world = World::new().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.client.post(definitions, &widget_definition()).await.ok();
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let root = world.map("root", &[]).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "ownerReferences": [blocking(&root)]}});
    let widget = world.client.post(widgets, &widget).await.ok();
    let mut beta = owner(&widget);
    beta["apiVersion"] = "example.com/v1beta1".into();
    world.map("leaf", &[beta.clone()]).await;
    world.delete_map("root", "Foreground").await;
    assert!(world.names().await.is_empty());
    world.client.get(&format!("{widgets}/w")).await.status(404, "NotFound");

    let free = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widget = world.client.post(widgets, &free).await.ok();
    world.map("leaf", &[owner(&widget)]).await;
    world.client.delete(&format!("{definitions}/widgets.example.com")).await.ok();
    assert!(world.names().await.is_empty());
}

/// Events are not collected, as in Kubernetes.
// contract: E-14f
#[tokio::test]
async fn events_are_not_collected() {
    let world = World::new().await;
    let event = json!({"metadata": {"name": "e", "ownerReferences": [absent("u")]}, "reason": "R"});
    world.client.post("/api/v1/namespaces/default/events", &event).await.ok();
    world.client.get("/api/v1/namespaces/default/events/e").await.ok();
}

/// The collector can be switched off: dependents stay, and a policy has no effect but a warning.
// contract: E-14i
#[tokio::test]
async fn collection_can_be_switched_off() {
    let builder = ApiServer::builder().garbage_collection(GarbageCollection::Off);
    let world = World::of(builder).await;
    let root = world.map("root", &[]).await;
    world.map("leaf", &[blocking(&root)]).await;
    world.map("alone", &[absent("u")]).await;
    let options = json!({"propagationPolicy": "Foreground"});
    let answer = world.delete(&format!("{MAPS}/root"), options).await;
    let warning = answer.headers.get("warning").unwrap().to_str().unwrap().to_owned();
    assert!(warning.starts_with("299 - \"garbage collection is switched off"), "{warning}");
    assert_eq!(answer.ok()["kind"], "Status");
    assert_eq!(world.names().await, ["alone", "leaf"]);
    let silent = world.client.delete(&format!("{MAPS}/leaf")).await;
    assert_eq!(silent.headers.get("warning"), None);
    // Namespaces are deleted with their content in any case.
    let namespaces = "/api/v1/namespaces";
    world.client.post(namespaces, &json!({"metadata": {"name": "x"}})).await.ok();
    world.delete(&format!("{namespaces}/x"), json!({"propagationPolicy": "Foreground"})).await.ok();
    world.client.get(&format!("{namespaces}/x")).await.status(404, "NotFound");
}

/// A dependent that is created while its owner is deleted in the foreground is deleted as well.
// contract: E-14c
#[tokio::test]
async fn dependent_of_a_waiting_owner() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    world.held("held", &[blocking(&root)]).await;
    world.delete_map("root", "Foreground").await;
    world.map("late", &[blocking(&root)]).await;
    assert_eq!(world.names().await, ["held", "root"]);
    world.release("held").await;
    assert_eq!(world.names().await, Vec::<Value>::new());
}
