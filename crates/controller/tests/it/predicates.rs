//! Predicates.

use k8s_openapi::api::apps::v1::Deployment;
use kinformer_apiserver::Fault;
use kinformer_controller::{Action, Controller, Predicate, Reason, Trigger};
use serde_json::{Value, json};

use crate::common::{Cluster, Running, key, recorded};

fn deployment(name: &str, labels: Value, annotations: Value, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

/// Returns the updates that pass: of a label, an annotation, the specification, the status, and the begin of a deletion.
async fn passing(predicate: Predicate<Deployment>) -> Vec<String> {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let trigger = Trigger::on(&cluster.factory.informer::<Deployment>()).filter(predicate);
    let running = Running::of(Controller::of(&cluster.factory).reconciles_on(trigger).build(reconcile));
    for name in ["label", "annotation", "spec", "status", "deletion", "end"] {
        let mut created = deployment(name, json!({}), json!({}), 1);
        if name == "deletion" {
            created["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        cluster.create(created);
        assert_eq!(calls.next().await.key, key(name), "additions pass");
    }
    cluster.server.update(deployment("label", json!({"a": "1"}), json!({}), 1)).unwrap();
    cluster.server.update(deployment("annotation", json!({}), json!({"a": "1"}), 1)).unwrap();
    cluster.server.update(deployment("spec", json!({}), json!({}), 2)).unwrap();
    let mut status = deployment("status", json!({}), json!({}), 1);
    status["status"] = json!({"replicas": 1});
    cluster.server.update(status).unwrap();
    for name in ["deletion", "end"] {
        cluster.server.delete("apps/v1", "Deployment", "default", name).unwrap();
    }
    let mut passing = Vec::new();
    loop {
        match calls.next().await.key.name() {
            "end" => break, // deletions pass
            name => passing.push(name.to_owned()),
        }
    }
    running.end().await.unwrap();
    cluster.end().await;
    passing
}

/// The given predicates pass the updates that change their part of the object, and all additions and deletions.
// contract: K-03a, K-03b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn given_predicates() {
    // The annotations of a Deployment are part of its generation.
    assert_eq!(passing(Predicate::generation_changed()).await, ["annotation", "spec", "deletion"]);
    assert_eq!(passing(Predicate::labels_changed()).await, ["label"]);
    assert_eq!(passing(Predicate::annotations_changed()).await, ["annotation"]);
    let all = ["label", "annotation", "spec", "status", "deletion"];
    assert_eq!(passing(Predicate::resource_version_changed()).await, all);
}

// contract: K-03a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_finalizers_pass() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let trigger = Trigger::on(&cluster.factory.informer::<Deployment>());
    let trigger = trigger.filter(Predicate::finalizers_changed());
    let running = Running::of(Controller::of(&cluster.factory).reconciles_on(trigger).build(reconcile));
    let with = |finalizers: Value, replicas: u32| {
        let mut deployment = deployment("a", json!({}), json!({}), replicas);
        deployment["metadata"]["finalizers"] = finalizers;
        deployment
    };
    cluster.create(with(json!([]), 1));
    assert_eq!(calls.next().await.key, key("a"));
    cluster.server.update(with(json!([]), 2)).unwrap();
    cluster.server.update(with(json!(["example.com/hold"]), 2)).unwrap();
    assert!(calls.next().await.reasons.contains(Reason::Updated));
    cluster.server.update(with(json!(["example.com/hold"]), 3)).unwrap();
    cluster.server.update(with(json!(["example.com/other"]), 3)).unwrap();
    assert!(calls.next().await.reasons.contains(Reason::Updated));
    cluster.server.update(with(json!(null), 4)).unwrap();
    assert!(calls.next().await.reasons.contains(Reason::Updated));
    running.end().await.unwrap();
    assert!(calls.rest().is_empty());
    cluster.end().await;
}

/// Also of additions and deletions. An update that takes the labels away passes.
// contract: K-03e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_objects_with_labels_pass() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let selector = "app=web".parse().unwrap();
    let trigger = Trigger::on(&cluster.factory.informer::<Deployment>());
    let trigger = trigger.filter(Predicate::labels_match(selector));
    let running = Running::of(Controller::of(&cluster.factory).reconciles_on(trigger).build(reconcile));
    let (web, other) = (json!({"app": "web"}), json!({"app": "other"}));
    cluster.create(deployment("other", other.clone(), json!({}), 1));
    cluster.create(deployment("web", web.clone(), json!({}), 1));
    assert_eq!(calls.next().await.key, key("web"));
    let changes = [(&other, true), (&other, false), (&web, true), (&web, true)];
    for (replicas, (labels, passes)) in (2..).zip(changes) {
        cluster.server.update(deployment("web", labels.clone(), json!({}), replicas)).unwrap();
        if passes {
            assert_eq!(calls.next().await.key, key("web"));
        }
    }
    cluster.server.delete("apps/v1", "Deployment", "default", "other").unwrap();
    cluster.server.delete("apps/v1", "Deployment", "default", "web").unwrap();
    let deleted = calls.next().await;
    assert_eq!((deleted.key.name(), deleted.reasons.contains(Reason::Deleted)), ("web", true));
    running.end().await.unwrap();
    assert!(calls.rest().is_empty());
    cluster.end().await;
}

/// An object that is deleted and created again while there is no watch is one update.
// contract: K-03d
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_that_replaces_another_one_passes() {
    for predicate in [
        Predicate::generation_changed(),
        Predicate::labels_changed(),
        Predicate::annotations_changed(),
        Predicate::generation_changed().or(Predicate::labels_changed()),
        Predicate::on_update(|_, _| false),
    ] {
        let cluster = Cluster::start().await;
        let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
        let trigger = Trigger::on(&cluster.factory.informer::<Deployment>()).filter(predicate);
        let running = Running::of(Controller::of(&cluster.factory).reconciles_on(trigger).build(reconcile));
        cluster.create(deployment("a", json!({}), json!({}), 1));
        assert_eq!(calls.next().await.key, key("a"));
        let refused = cluster.server.faults().inject(Fault::refuse().resource("deployments").always());
        cluster.server.drop_watches();
        cluster.server.delete("apps/v1", "Deployment", "default", "a").unwrap();
        cluster.create(deployment("a", json!({}), json!({}), 1));
        cluster.server.compact();
        cluster.server.faults().remove(refused);
        assert_eq!(calls.next().await.key, key("a"));
        assert!(calls.rest().is_empty());
        running.end().await.unwrap();
        cluster.end().await;
    }
}

/// Predicates are combined; several filters must all pass.
// contract: K-03b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn combined_predicates() {
    let either = Predicate::generation_changed().or(Predicate::labels_changed());
    assert_eq!(passing(either.clone()).await, ["label", "annotation", "spec", "deletion"]);
    assert_eq!(
        passing(either.and(Predicate::generation_changed())).await,
        ["annotation", "spec", "deletion"]
    );
    let updates = Predicate::on_update(|_, _| false);
    let added_or_deleted = updates.clone();
    assert!(passing(updates).await.is_empty());
    let everything_but_updates = Predicate::new(|event| !matches!(event, kinformer::Event::Updated(_)));
    assert_eq!(passing(added_or_deleted.or(everything_but_updates.not())).await.len(), 5);
}

/// A predicate that panics passes the event.
// contract: K-03c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panicking_predicate_passes() {
    let predicate = Predicate::on_update(|_, new| {
        assert_ne!(new.name(), "spec");
        false
    });
    assert_eq!(passing(predicate).await, ["spec"]);
}
