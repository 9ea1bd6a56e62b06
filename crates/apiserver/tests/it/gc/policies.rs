//! Background, foreground and orphan.

use serde_json::json;

use super::{MAPS, World, blocking, owner, owners_of};
use crate::common::version_of;

/// The answer is that of the owner's deletion; each dependent is deleted by a write of its own, level by level.
// contract: E-14a, E-14b
#[tokio::test]
async fn background() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    let (b, a) = (world.map("b", &[owner(&root)]).await, world.map("a", &[owner(&root)]).await);
    world.map("a-leaf", &[owner(&a)]).await;
    world.map("b-leaf", &[blocking(&b)]).await;
    world.map("other", &[]).await;
    let before = world.server.version();
    let answer = world.delete_map("root", "Background").await;
    assert_eq!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Success")));
    let deleted = ["root", "a", "b", "a-leaf", "b-leaf"].map(|name| format!("DELETED {name}"));
    assert_eq!(world.events(MAPS, before).await, deleted);
    assert_eq!(world.names().await, ["other"]);
    // It is the default.
    let root = world.map("root", &[]).await;
    world.map("leaf", &[owner(&root)]).await;
    world.client.delete(&format!("{MAPS}/root")).await.ok();
    assert_eq!(world.names().await, ["other"]);
    // So it is for the server itself.
    let root = world.map("root", &[]).await;
    world.map("leaf", &[owner(&root)]).await;
    world.server.delete("v1", "ConfigMap", "default", "root").unwrap();
    assert_eq!(world.names().await, ["other"]);
}

/// The owner waits for the dependents that block it, on each level.
// contract: E-14c
#[tokio::test]
async fn foreground() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    let branch = world.map("branch", &[blocking(&root)]).await;
    world.map("leaf", &[blocking(&branch)]).await;
    world.map("free", &[owner(&root)]).await;
    let before = world.server.version();
    let answer = world.delete_map("root", "Foreground").await;
    assert_eq!(answer["kind"], "ConfigMap");
    assert_eq!(answer["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(answer["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(version_of(&answer), before + 1);
    let events = [
        "MODIFIED root",
        "MODIFIED branch",
        "DELETED free",
        "DELETED leaf",
        "DELETED branch",
        "DELETED root",
    ];
    assert_eq!(world.events(MAPS, before).await, events);
}

/// An owner that is deleted in the foreground waits for a dependent that a user holds, not for one that does not block.
// contract: E-14c
#[tokio::test]
async fn foreground_waits_for_held_dependents() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    world.held("free", &[owner(&root)]).await;
    world.held("blocks", &[blocking(&root)]).await;
    world.held("unblocks", &[blocking(&root)]).await;
    world.delete_map("root", "Foreground").await;
    let is_terminating = async |name: &str| {
        world.get(name).await.map(|object| object["metadata"]["deletionTimestamp"].is_string())
    };
    for name in ["root", "free", "blocks", "unblocks"] {
        assert_eq!(is_terminating(name).await, Some(true), "{name}");
    }
    let unblocked = json!({"metadata": {"ownerReferences": [owner(&root)]}});
    world.client.patch(&format!("{MAPS}/unblocks"), "merge-patch", &unblocked).await.ok();
    assert_eq!(is_terminating("root").await, Some(true));
    world.release("blocks").await;
    assert_eq!(world.names().await, ["free", "unblocks"]);
}

/// Without dependents that block it, the owner does not stay.
// contract: E-14c
#[tokio::test]
async fn foreground_without_dependents() {
    let world = World::new().await;
    world.map("root", &[]).await;
    let before = world.server.version();
    assert_eq!(world.delete_map("root", "Foreground").await["kind"], "ConfigMap");
    assert_eq!(world.events(MAPS, before).await, ["MODIFIED root", "DELETED root"]);
}

/// Dependents lose the owner, and keep others.
// contract: E-14d
#[tokio::test]
async fn orphan() {
    let world = World::new().await;
    let (root, other) = (world.map("root", &[]).await, world.map("other", &[]).await);
    world.map("a", &[blocking(&root)]).await;
    world.map("b", &[owner(&other), owner(&root)]).await;
    let before = world.server.version();
    let answer = world.delete_map("root", "Orphan").await;
    assert_eq!(answer["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(
        world.events(MAPS, before).await,
        ["MODIFIED root", "MODIFIED a", "MODIFIED b", "DELETED root"]
    );
    let a = world.get("a").await.unwrap();
    assert_eq!(a["metadata"].get("ownerReferences"), None, "{a}");
    assert_eq!(owners_of(&world.get("b").await.unwrap()), ["other"]);
}

/// A finalizer of garbage collection on the object decides if the request says nothing.
// contract: E-14c, E-14d
#[tokio::test]
async fn finalizers_of_the_object_decide() {
    let world = World::new().await;
    for (finalizer, survivors) in [("orphan", vec!["leaf"]), ("foregroundDeletion", vec![])] {
        let root = world.map("root", &[]).await;
        world.map("leaf", &[blocking(&root)]).await;
        let patch = json!({"metadata": {"finalizers": [finalizer]}});
        world.client.patch(&format!("{MAPS}/root"), "merge-patch", &patch).await.ok();
        let answer = world.client.delete(&format!("{MAPS}/root")).await.ok();
        assert_eq!(answer["metadata"]["finalizers"], json!([finalizer]));
        assert_eq!(world.names().await, survivors);
        world.client.delete(&format!("{MAPS}/leaf")).await;
        // The request overrides it.
        world.map("root", &[]).await;
        world.client.patch(&format!("{MAPS}/root"), "merge-patch", &patch).await.ok();
        assert_eq!(world.delete_map("root", "Background").await["kind"], "Status");
    }
}

/// A second deletion with another policy replaces the first.
// contract: E-14c
#[tokio::test]
async fn second_deletion_changes_the_policy() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    world.held("leaf", &[blocking(&root)]).await;
    let first = world.delete_map("root", "Foreground").await;
    let again = world.delete_map("root", "Foreground").await;
    assert_eq!(again, first, "deleting again changes nothing");
    assert_eq!(world.delete_map("root", "Background").await["kind"], "Status");
    assert_eq!(world.names().await, ["leaf"]);
}

/// A dependent that a user holds outlives its owner, and is deleted when it is released.
// contract: E-14b
#[tokio::test]
async fn held_dependents_stay_until_they_are_released() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    let held = world.held("held", &[owner(&root)]).await;
    world.map("leaf", &[owner(&held)]).await;
    world.delete_map("root", "Background").await;
    assert_eq!(world.names().await, ["held", "leaf"], "an owner that is held keeps its dependents");
    world.release("held").await;
    assert!(world.names().await.is_empty());
}
