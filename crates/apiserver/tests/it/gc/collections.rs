//! Deletions of collections.

use serde_json::json;

use super::{MAPS, World, blocking, owner};
use crate::common::{names, version_of};

/// Each object is deleted with the policy. The response has the objects as they were.
// contract: E-14m
#[tokio::test]
async fn policy_holds_for_each_object() {
    let world = World::new().await;
    for name in ["a", "b"] {
        let root = world.map(name, &[]).await;
        world.map(&format!("{name}-leaf"), &[blocking(&root)]).await;
    }
    let path = format!("{MAPS}?fieldSelector=metadata.name%3Da");
    let listed = world.client.get(&path).await.ok();
    let answer = world.delete(&path, json!({"propagationPolicy": "Orphan"})).await.ok();
    assert_eq!(answer["items"], listed["items"]);
    assert_eq!(version_of(&answer), version_of(&listed), "the version of the list");
    assert_eq!(world.names().await, ["a-leaf", "b", "b-leaf"]);
    let before = world.server.version();
    world.delete(MAPS, json!({"propagationPolicy": "Foreground"})).await.ok();
    // b-leaf is in the collection as well; it has no dependents, but its own policy.
    let events =
        ["MODIFIED a-leaf", "MODIFIED b", "MODIFIED b-leaf", "DELETED a-leaf", "DELETED b-leaf", "DELETED b"];
    assert_eq!(world.events(MAPS, before).await, events);
}

/// With a limit, one page is deleted.
// contract: E-14m
#[tokio::test]
async fn limited_collection() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.map(name, &[]).await;
    }
    let deleted = world.client.delete(&format!("{MAPS}?limit=2")).await.ok();
    assert_eq!(names(&deleted), ["a", "b"]);
    assert!(deleted["metadata"]["continue"].is_string());
    assert_eq!(world.names().await, ["c"]);
}

// contract: E-14m
#[tokio::test]
async fn dry_run_of_a_collection() {
    let world = World::new().await;
    let root = world.map("root", &[]).await;
    world.map("leaf", &[owner(&root)]).await;
    let before = world.server.version();
    let answer = world.delete(MAPS, json!({"dryRun": ["All"]})).await.ok();
    assert_eq!(names(&answer), ["leaf", "root"]);
    assert_eq!(world.server.version(), before);
}

/// Objects with preconditions that do not hold end the deletion.
// contract: E-14m
#[tokio::test]
async fn failed_precondition_ends_the_deletion() {
    let world = World::new().await;
    let a = world.map("a", &[]).await;
    world.map("b", &[]).await;
    let options = json!({"preconditions": {"uid": a["metadata"]["uid"]}});
    world.delete(MAPS, options).await.status(409, "Conflict");
    assert_eq!(world.names().await, ["b"]);
}
