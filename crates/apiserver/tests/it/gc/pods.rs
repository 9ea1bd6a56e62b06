//! The graceful deletion of pods.

use kinformer_apiserver::{ApiServer, Kubelets};
use serde_json::{Value, json};

use super::{MAPS, World, blocking};
use crate::common::pod;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn scheduled(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = "node".into();
    pod
}

fn grace_of(pod: &Value) -> &Value {
    &pod["metadata"]["deletionGracePeriodSeconds"]
}

/// A server without kubelets, where scheduled pods stay.
async fn without_kubelets() -> World {
    World::of(ApiServer::builder().kubelets(Kubelets::Absent)).await
}

/// A pod that is not scheduled is marked and then removed; the response has the pod.
// contract: E-14o
#[tokio::test]
async fn pods_without_a_node_are_removed_at_once() {
    let world = without_kubelets().await;
    world.client.post(PODS, &pod("a")).await.ok();
    let before = world.server.version();
    let answer = world.delete(&format!("{PODS}/a"), json!({"gracePeriodSeconds": 60})).await.ok();
    assert_eq!((&answer["kind"], grace_of(&answer)), (&json!("Pod"), &json!(0)));
    assert_eq!(answer["metadata"]["generation"], 2);
    assert_eq!(world.events(PODS, before).await, ["MODIFIED a", "DELETED a"]);
}

/// The kubelet ends a scheduled pod: its deletion sets the grace period to 0, and removes it.
// contract: E-14o
#[tokio::test]
async fn kubelets_end_scheduled_pods() {
    let world = World::new().await;
    world.client.post(PODS, &scheduled("a")).await.ok();
    let before = world.server.version();
    let answer = world.client.delete(&format!("{PODS}/a")).await.ok();
    assert_eq!(grace_of(&answer), 30, "the default");
    assert_eq!(world.events(PODS, before).await, ["MODIFIED a", "MODIFIED a", "DELETED a"]);
    world.server.create(scheduled("b")).unwrap();
    let deleted = world.server.delete("v1", "Pod", "default", "b").unwrap();
    assert_eq!(grace_of(&deleted), 30);
    assert_eq!(world.server.count("v1", "Pod").unwrap(), 0);
    // Also by an eviction.
    world.client.post(PODS, &scheduled("c")).await.ok();
    let eviction = json!({"metadata": {"name": "c"}});
    assert_eq!(world.client.post(&format!("{PODS}/c/eviction"), &eviction).await.code, 201);
    world.client.get(&format!("{PODS}/c")).await.status(404, "NotFound");
}

/// Without grace periods, a pod is removed by one write, with its last state.
// contract: E-14s
#[tokio::test]
async fn grace_periods_can_be_skipped() {
    let world = World::of(ApiServer::builder().kubelets(Kubelets::Skipped)).await;
    for pod in [pod("a"), scheduled("a")] {
        world.client.post(PODS, &pod).await.ok();
        let before = world.server.version();
        let answer = world.client.delete(&format!("{PODS}/a")).await.ok();
        assert_eq!((&answer["kind"], answer["metadata"].get("deletionTimestamp")), (&json!("Pod"), None));
        assert_eq!(world.events(PODS, before).await, ["DELETED a"]);
    }
}

/// A grace period can only be shortened.
// contract: E-14o
#[tokio::test]
async fn grace_periods() {
    let world = without_kubelets().await;
    let mut object = scheduled("a");
    object["spec"]["terminationGracePeriodSeconds"] = 600.into();
    world.client.post(PODS, &object).await.ok();
    let path = format!("{PODS}/a");
    let time = |pod: &Value| -> jiff::Timestamp {
        pod["metadata"]["deletionTimestamp"].as_str().unwrap().parse().unwrap()
    };
    let first = world.client.delete(&path).await.ok();
    assert_eq!((grace_of(&first), &first["metadata"]["generation"]), (&json!(600), &json!(2)));
    for options in [json!({}), json!({"gracePeriodSeconds": 600}), json!({"gracePeriodSeconds": 900})] {
        assert_eq!(world.delete(&path, options).await.ok(), first, "not shorter");
    }
    let shorter = world.delete(&path, json!({"gracePeriodSeconds": 100})).await.ok();
    assert_eq!(grace_of(&shorter), 100);
    assert_eq!(time(&first).as_second() - time(&shorter).as_second(), 500);
    assert_eq!(shorter["metadata"]["generation"], 2, "a deletion that runs");
    let least = world.delete(&path, json!({"gracePeriodSeconds": -5})).await.ok();
    assert_eq!(grace_of(&least), 1, "negative values are one second");
    let before = world.server.version();
    let gone = world.delete(&path, json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!((&gone["kind"], grace_of(&gone)), (&json!("Pod"), &json!(0)));
    assert_eq!(world.events(PODS, before).await, ["MODIFIED a", "DELETED a"]);
}

/// A pod that has ended has no grace period.
// contract: E-14o
#[tokio::test]
async fn ended_pods_are_removed_at_once() {
    let world = without_kubelets().await;
    for phase in ["Succeeded", "Failed"] {
        let mut pod = scheduled("a");
        pod["status"] = json!({"phase": phase});
        world.server.create(pod).unwrap();
        let answer = world.client.delete(&format!("{PODS}/a")).await.ok();
        assert_eq!(grace_of(&answer), 0);
        assert_eq!(world.server.count("v1", "Pod").unwrap(), 0);
    }
}

/// A finalizer holds a pod beyond its grace period; the last finalizer does not remove it during that period.
// contract: E-14o
#[tokio::test]
async fn finalizers_and_grace_periods() {
    let hold = json!(["example.com/hold"]);
    let free = json!({"metadata": {"finalizers": null}});
    let mut object = scheduled("a");
    object["metadata"]["finalizers"] = hold.clone();
    let path = format!("{PODS}/a");
    let world = without_kubelets().await;
    world.client.post(PODS, &object).await.ok();
    world.client.delete(&path).await.ok();
    let freed = world.client.patch(&path, "merge-patch", &free).await.ok();
    assert_eq!(grace_of(&freed), 30);
    assert_eq!(grace_of(&world.client.get(&path).await.ok()), 30, "its kubelet removes it");

    let world = World::new().await;
    world.client.post(PODS, &object).await.ok();
    world.client.delete(&path).await.ok();
    let held = world.client.get(&path).await.ok();
    assert_eq!((grace_of(&held), &held["metadata"]["finalizers"]), (&json!(0), &hold));
    world.client.patch(&path, "merge-patch", &free).await.ok();
    world.client.get(&path).await.status(404, "NotFound");
}

/// An owner that is deleted in the foreground waits for the kubelet.
// contract: E-14c, E-14o
#[tokio::test]
async fn owners_wait_for_scheduled_pods() {
    let world = without_kubelets().await;
    let root = world.map("root", &[]).await;
    let mut dependent = scheduled("a");
    dependent["metadata"]["ownerReferences"] = json!([blocking(&root)]);
    world.client.post(PODS, &dependent).await.ok();
    world.delete_map("root", "Foreground").await;
    assert_eq!(grace_of(&world.client.get(&format!("{PODS}/a")).await.ok()), 30);
    assert_eq!(world.names().await, ["root"]);
    world.delete(&format!("{PODS}/a"), json!({"gracePeriodSeconds": 0})).await.ok();
    assert!(world.names().await.is_empty());
    assert!(world.client.get(MAPS).await.ok()["items"].as_array().unwrap().is_empty());
}

// contract: E-14o
#[tokio::test]
async fn dry_run_of_a_pod() {
    let world = World::new().await;
    world.client.post(PODS, &scheduled("a")).await.ok();
    world.client.post(PODS, &pod("b")).await.ok();
    let before = world.server.version();
    for (name, grace) in [("a", 30), ("b", 0)] {
        let answer = world.client.delete(&format!("{PODS}/{name}?dryRun=All")).await.ok();
        assert_eq!(grace_of(&answer), grace);
    }
    assert_eq!(world.server.version(), before);
}
