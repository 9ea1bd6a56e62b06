//! Owners that form a cycle.

use serde_json::{Value, json};

use super::{MAPS, World, blocking, owner};

impl World {
    async fn adopt(&self, name: &str, owners: &[Value]) {
        let patch = json!({"metadata": {"ownerReferences": owners}});
        self.client.patch(&format!("{MAPS}/{name}"), "merge-patch", &patch).await.ok();
    }
}

// contract: E-14j
#[tokio::test]
async fn cycles_are_deleted_in_the_background() {
    let world = World::new().await;
    let a = world.map("a", &[]).await;
    let b = world.map("b", &[owner(&a)]).await;
    let c = world.map("c", &[owner(&b)]).await;
    world.adopt("a", &[owner(&c)]).await;
    assert_eq!(world.names().await, ["a", "b", "c"], "each has an owner");
    let before = world.server.version();
    world.delete_map("b", "Background").await;
    assert_eq!(world.events(MAPS, before).await, ["DELETED b", "DELETED c", "DELETED a"]);
}

/// A cycle of objects that block each other does not wait forever.
// contract: E-14j
#[tokio::test]
async fn cycles_are_deleted_in_the_foreground() {
    let world = World::new().await;
    let a = world.map("a", &[]).await;
    let b = world.map("b", &[blocking(&a)]).await;
    world.adopt("a", &[blocking(&b)]).await;
    let before = world.server.version();
    world.delete_map("a", "Foreground").await;
    // b no longer blocks a, and is then deleted in the foreground itself.
    let events = ["MODIFIED a", "MODIFIED b", "MODIFIED b", "DELETED a", "DELETED b"];
    assert_eq!(world.events(MAPS, before).await, events);
}

// contract: E-14j
#[tokio::test]
async fn object_that_owns_itself() {
    let world = World::new().await;
    let a = world.map("a", &[]).await;
    world.adopt("a", &[owner(&a)]).await;
    assert_eq!(world.names().await, ["a"]);
    world.delete_map("a", "Background").await;
    assert!(world.names().await.is_empty());
    let a = world.map("a", &[]).await;
    world.adopt("a", &[owner(&a)]).await;
    world.delete_map("a", "Orphan").await;
    assert!(world.names().await.is_empty());
}
