//! A large store.

use kinformer_testing::wait::within;
use serde_json::json;

use crate::common::{PODS, World};

/// The pages of one view, while the store changes: each object of the snapshot once, in order.
// contract: H-05
#[tokio::test]
async fn hundred_thousand_objects_are_paged_over_one_snapshot() {
    const OBJECTS: usize = 100_000;
    let world = World::start_large().await;
    let small = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number:06}"), "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
    };
    for number in 0..OBJECTS {
        world.cluster.create(small(number)).unwrap();
        if number % 1000 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let all = async {
        while world.pods.snapshot().unwrap().len() < OBJECTS {
            tokio::task::yield_now().await;
        }
    };
    within("all objects", all).await;
    let mut next = Some(format!("{PODS}/objects?limit=1000&sort=-key"));
    let (mut seen, mut view) = (Vec::with_capacity(OBJECTS), None);
    while let Some(path) = next {
        let page = world.client.ok(&path).await;
        assert_eq!(page["total"], OBJECTS);
        assert_eq!(*view.get_or_insert_with(|| page["view"].clone()), page["view"]);
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()),
        );
        next = page["next"].as_str().map(str::to_owned);
        // An object of each page that is to come, and a new one.
        world.cluster.delete("v1", "Pod", "shop", &format!("p{:06}", OBJECTS - seen.len().max(1))).unwrap();
        world.cluster.create(small(OBJECTS + seen.len())).unwrap();
    }
    let expected: Vec<String> = (0..OBJECTS).rev().map(|number| format!("p{number:06}")).collect();
    assert!(seen == expected, "each object of the snapshot once, in order");
    world.end().await;
}
