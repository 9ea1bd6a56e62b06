//! The deletion of CustomResourceDefinitions.

use serde_json::{Value, json};

use super::World;
use crate::common::{WatchEnd, names, pair, widget, widget_definition};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn terminating(definition: &Value) -> (String, String) {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|condition| condition["type"] == "Terminating").unwrap();
    let text = |field: &str| condition[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

/// The objects are deleted first; one with a finalizer holds the definition, which then takes no new objects.
// contract: E-14n, E-18c
#[tokio::test]
async fn objects_are_deleted_first() {
    let world = World::new().await;
    world.client.post(DEFINITIONS, &widget_definition()).await.ok();
    world.client.post(WIDGETS, &widget("free")).await.ok();
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.client.post(WIDGETS, &held).await.ok();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let before = world.server.version();
    let mut objects = world.client.watch(&format!("{WIDGETS}?watch=1&resourceVersion={before}")).await;
    let url = format!("{DEFINITIONS}?watch=1&resourceVersion={before}");
    let mut definitions = world.client.watch(&url).await;

    let answer = world.client.delete(&path).await.ok();
    assert_eq!(answer["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(terminating(&answer), ("True".into(), "InstanceDeletionPending".into()));
    assert_eq!(names(&world.client.get(WIDGETS).await.ok()), ["held"]);
    let current = world.client.get(&path).await.ok();
    assert_eq!(terminating(&current), ("True".into(), "InstanceDeletionInProgress".into()));
    let refused = world.client.post(WIDGETS, &widget("late")).await;
    assert_eq!(
        refused.status(403, "Forbidden"),
        "widgets.example.com \"late\" is forbidden: create not allowed while custom resource definition is terminating"
    );
    let discovered = world.client.get("/apis/example.com/v1").await.ok();
    assert_eq!(
        discovered["resources"][0]["verbs"],
        json!(["delete", "deletecollection", "get", "list", "watch"])
    );
    let again = world.client.post(DEFINITIONS, &widget_definition()).await.status(409, "AlreadyExists");
    assert!(again.starts_with("object is being deleted: "), "{again}");

    let free = json!({"metadata": {"finalizers": null}});
    world.client.patch(&format!("{WIDGETS}/held"), "merge-patch", &free).await.ok();
    assert_eq!(objects.kind_and_name().await, pair("DELETED", "free"));
    assert_eq!(objects.kind_and_name().await, pair("MODIFIED", "held"));
    assert_eq!(objects.kind_and_name().await, pair("DELETED", "held"));
    assert_eq!(objects.next().await, Err(WatchEnd::Regular));
    for kind in ["MODIFIED", "MODIFIED", "DELETED"] {
        assert_eq!(definitions.kind_and_name().await, pair(kind, "widgets.example.com"));
    }
    world.client.get(WIDGETS).await.status(404, "NotFound");
    world.client.post(DEFINITIONS, &widget_definition()).await.ok();
    assert!(names(&world.client.get(WIDGETS).await.ok()).is_empty());
}

/// A definition whose storage version is not served.
// contract: E-14n
#[tokio::test]
async fn objects_of_a_version_that_is_not_served() {
    let world = World::new().await;
    let mut definition = widget_definition();
    definition["spec"]["versions"][0]["served"] = false.into();
    world.client.post(DEFINITIONS, &definition).await.ok();
    let beta = "/apis/example.com/v1beta1/namespaces/default/widgets";
    let mut widget = widget("w");
    widget["apiVersion"] = "example.com/v1beta1".into();
    world.client.post(beta, &widget).await.ok();
    world.client.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.ok();
    world.client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.status(404, "NotFound");
    world.client.get(beta).await.status(404, "NotFound");
}

// contract: E-14n
#[tokio::test]
async fn dry_run_of_a_definition() {
    let world = World::new().await;
    world.client.post(DEFINITIONS, &widget_definition()).await.ok();
    world.client.post(WIDGETS, &widget("w")).await.ok();
    let before = world.server.version();
    world.client.delete(&format!("{DEFINITIONS}/widgets.example.com?dryRun=All")).await.ok();
    assert_eq!(world.server.version(), before);
    assert_eq!(names(&world.client.get(WIDGETS).await.ok()), ["w"]);
}
