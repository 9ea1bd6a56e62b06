//! The deletion of namespaces.

use kinformer_apiserver::{ApiServer, Kubelets};
use serde_json::{Value, json};

use super::{World, owner};
use crate::common::{names, widget, widget_definition};

const NAMESPACES: &str = "/api/v1/namespaces";
const INSIDE: &str = "/api/v1/namespaces/x/configmaps";

fn condition(namespace: &Value, kind: &str) -> (String, String, String) {
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    let text = |field: &str| condition[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"), text("message"))
}

impl World {
    /// Creates the namespace x, and an object in it.
    async fn namespace(&self) {
        self.client.post(NAMESPACES, &json!({"metadata": {"name": "x"}})).await.ok();
        self.client.post(INSIDE, &json!({"metadata": {"name": "a"}})).await.ok();
    }
}

/// The response has the terminating namespace. Its content is deleted, its conditions are set, then it is removed.
// contract: E-14p
#[tokio::test]
async fn empty_namespace_is_removed() {
    let world = World::new().await;
    world.namespace().await;
    let before = world.server.version();
    let answer = world.client.delete(&format!("{NAMESPACES}/x")).await.ok();
    assert_eq!((&answer["kind"], &answer["status"]["phase"]), (&json!("Namespace"), &json!("Terminating")));
    assert_eq!(answer["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(answer["metadata"].get("deletionGracePeriodSeconds"), None, "unlike other kinds");
    let url = format!("{NAMESPACES}?watch=1&resourceVersion={before}");
    let mut watch = world.client.watch(&url).await;
    let seen = [watch.next().await.unwrap(), watch.next().await.unwrap(), watch.next().await.unwrap()];
    let kinds = seen.each_ref().map(|event| event["type"].as_str().unwrap());
    assert_eq!(kinds, ["MODIFIED", "MODIFIED", "DELETED"]);
    for kind in [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
    ] {
        assert_eq!(condition(&seen[2]["object"], kind).0, "False", "{kind}");
    }
    world.client.get(&format!("{NAMESPACES}/x")).await.status(404, "NotFound");
}

/// Content with finalizers holds the namespace, whose conditions say so. New content is refused.
// contract: E-14p
#[tokio::test]
async fn held_content_holds_the_namespace() {
    let world = World::new().await;
    world.namespace().await;
    for name in ["h", "i"] {
        let held = json!({"metadata": {"name": name, "finalizers": ["example.com/f"]}});
        world.client.post(INSIDE, &held).await.ok();
    }
    world.client.delete(&format!("{NAMESPACES}/x")).await.ok();
    assert_eq!(names(&world.client.get(INSIDE).await.ok()), ["h", "i"]);
    let namespace = world.client.get(&format!("{NAMESPACES}/x")).await.ok();
    let expected = |status: &str, reason: &str, message: &str| {
        (status.to_owned(), reason.to_owned(), message.to_owned())
    };
    assert_eq!(
        condition(&namespace, "NamespaceContentRemaining"),
        expected(
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances"
        )
    );
    assert_eq!(
        condition(&namespace, "NamespaceFinalizersRemaining"),
        expected(
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/f in 2 resource instances"
        )
    );
    let again = world.client.delete(&format!("{NAMESPACES}/x")).await.ok();
    assert_eq!(again, namespace, "deleting again changes nothing");

    let refused = world.client.post(INSIDE, &json!({"metadata": {"name": "late"}})).await;
    assert_eq!(
        refused.status(403, "Forbidden"),
        "configmaps \"late\" is forbidden: unable to create new content in namespace x because it is being terminated"
    );
    assert_eq!(
        refused.body["details"]["causes"],
        json!([{"reason": "NamespaceTerminating", "message": "namespace x is being terminated",
            "field": "metadata.namespace"}])
    );
    let free = json!({"metadata": {"finalizers": []}});
    world.client.patch(&format!("{INSIDE}/h"), "merge-patch", &free).await.ok();
    let namespace = world.client.get(&format!("{NAMESPACES}/x")).await.ok();
    assert!(condition(&namespace, "NamespaceContentRemaining").2.contains("has 1 resource"));
    world.client.patch(&format!("{INSIDE}/i"), "merge-patch", &free).await.ok();
    world.client.get(&format!("{NAMESPACES}/x")).await.status(404, "NotFound");
}

/// Pods are deleted before the rest, and the rest only when they are gone.
// contract: E-14p, E-14o
#[tokio::test]
async fn pods_are_deleted_first() {
    let world = World::of(ApiServer::builder().kubelets(Kubelets::Absent)).await;
    world.namespace().await;
    let pods = "/api/v1/namespaces/x/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}});
    world.client.post(pods, &pod).await.ok();
    world.client.delete(&format!("{NAMESPACES}/x")).await.ok();
    assert_eq!(names(&world.client.get(INSIDE).await.ok()), ["a"]);
    let namespace = world.client.get(&format!("{NAMESPACES}/x")).await.ok();
    let remaining = condition(&namespace, "NamespaceContentRemaining");
    assert_eq!(remaining.2, "Some resources are remaining: pods. has 1 resource instances");
    world.delete(&format!("{pods}/p"), json!({"gracePeriodSeconds": 0})).await.ok();
    world.client.get(&format!("{NAMESPACES}/x")).await.status(404, "NotFound");

    let world = World::new().await;
    world.namespace().await;
    world.client.post(pods, &pod).await.ok();
    world.client.delete(&format!("{NAMESPACES}/x")).await.ok();
    world.client.get(&format!("{NAMESPACES}/x")).await.status(404, "NotFound");
}

/// All namespaced kinds are content, custom ones too; a namespace of the same prefix is not touched.
// contract: E-14p
#[tokio::test]
async fn content_of_all_kinds() {
    let world = World::new().await;
    world.namespace().await;
    world.client.post(NAMESPACES, &json!({"metadata": {"name": "x-y"}})).await.ok();
    let near = "/api/v1/namespaces/x-y/configmaps";
    world.client.post(near, &json!({"metadata": {"name": "a"}})).await.ok();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.client.post(definitions, &widget_definition()).await.ok();
    let widgets = "/apis/example.com/v1/namespaces/x/widgets";
    world.client.post(widgets, &widget("w")).await.ok();
    let job = json!({"metadata": {"name": "j"}});
    world.client.post("/apis/batch/v1/namespaces/x/jobs", &job).await.ok();
    world.client.delete(&format!("{NAMESPACES}/x")).await.ok();
    assert_eq!(world.server.count("example.com/v1", "Widget").unwrap(), 0);
    assert_eq!(world.server.count("batch/v1", "Job").unwrap(), 0);
    assert_eq!(names(&world.client.get(near).await.ok()), ["a"]);
}

/// A namespace is an owner like others; a finalizer on it, or in its specification, holds it.
// contract: E-14p
#[tokio::test]
async fn finalizers_hold_a_namespace() {
    let world = World::new().await;
    world.namespace().await;
    let path = format!("{NAMESPACES}/x");
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let namespace = world.client.patch(&path, "merge-patch", &hold).await.ok();
    let node = json!({"metadata": {"name": "n", "ownerReferences": [owner(&namespace)]}});
    world.client.post("/api/v1/nodes", &node).await.ok();
    let answer = world.delete(&path, json!({"propagationPolicy": "Foreground"})).await.ok();
    assert_eq!(answer["metadata"]["finalizers"], json!(["example.com/hold", "foregroundDeletion"]));
    world.client.get("/api/v1/nodes/n").await.status(404, "NotFound");
    let held = world.client.get(&path).await.ok();
    assert_eq!(held["metadata"]["finalizers"], json!(["example.com/hold"]));
    assert_eq!(held["spec"].get("finalizers").and_then(Value::as_array).map_or(0, Vec::len), 0);
    world.client.patch(&path, "merge-patch", &json!({"metadata": {"finalizers": null}})).await.ok();
    world.client.get(&path).await.status(404, "NotFound");
}

// contract: E-14p
#[tokio::test]
async fn dry_run_of_a_namespace() {
    let world = World::new().await;
    world.namespace().await;
    let before = world.server.version();
    let answer = world.client.delete(&format!("{NAMESPACES}/x?dryRun=All")).await.ok();
    assert_eq!(answer["status"]["phase"], "Terminating");
    assert_eq!(world.server.version(), before);
}
