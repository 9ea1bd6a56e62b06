//! Owners that form a cycle, and deletions at the same time.

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

/// Deletions at the same time leave nothing, whichever of them does the work.
// contract: E-14a
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_deletions() {
    let world = World::new().await;
    let mut roots = Vec::new();
    for number in 0..16 {
        roots.push(world.map(&format!("root-{number}"), &[]).await);
    }
    for (number, pair) in roots.windows(2).enumerate() {
        let branch = world.map(&format!("branch-{number}"), &[blocking(&pair[0]), owner(&pair[1])]).await;
        world.map(&format!("leaf-{number}"), &[blocking(&branch)]).await;
    }
    let policies = ["Background", "Foreground"];
    let deletions = (0..roots.len()).map(|number| {
        let client = world.client.clone();
        let options = json!({"propagationPolicy": policies[number % 2]}).to_string();
        tokio::spawn(async move {
            let path = format!("{MAPS}/root-{number}");
            client.send(http::Method::DELETE, &path, &[], options).await.ok();
        })
    });
    for deletion in deletions.collect::<Vec<_>>() {
        deletion.await.unwrap();
    }
    assert!(world.names().await.is_empty());
}
