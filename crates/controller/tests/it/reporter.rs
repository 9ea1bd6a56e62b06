//! Conditions of a status, with events.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kinformer_apiserver::TestCluster;
use kinformer_controller::condition::{self, Status};
use kinformer_controller::events::{EventRecorder, EventType};
use kinformer_controller::kinformer::SharedInformerFactory;
use kinformer_controller::{ReconcileError, Reporter};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A kind without namespaces.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Zone", status = "ZoneStatus", schema = "disabled")]
struct ZoneSpec {}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct ZoneStatus {
    nodes: i32,
    conditions: Vec<Condition>,
}

async fn cluster() -> TestCluster {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "zones.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "zones", "kind": "Zone"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]},
    });
    TestCluster::builder().crd(definition).start().await.unwrap()
}

/// The status is written if it differs, and is read from the informer then. Each other status and reason is an event.
// contract: K-24a, K-24b
#[tokio::test(start_paused = true)]
async fn a_condition_is_written_and_recorded_once() {
    let cluster = cluster().await;
    let factory = SharedInformerFactory::new(cluster.client());
    let zones = factory.informer::<Zone>();
    factory.start().unwrap();
    zones.wait_for_sync().await.unwrap();
    let events = EventRecorder::new(cluster.client(), "zones", "test");
    let reporter =
        Reporter::new(&zones, cluster.client(), events.clone(), "zones", |status| &mut status.conditions);
    cluster.create(&Zone::new("east", ZoneSpec {})).unwrap();
    let version = cluster.get::<Zone>("east").unwrap().metadata.resource_version.unwrap();
    zones.wait_for(("", "east"), &version.into()).await.unwrap();

    let read = || Zone::clone(&zones.lister().get("east").unwrap().decode_arc().unwrap());
    let report = async |status, reason, message: &str| {
        let condition = condition::new("Ready", status, reason, message);
        reporter.report(&read(), EventType::Normal, condition).await.unwrap();
        let zone = read();
        let ready = zone.status.unwrap().conditions.remove(0);
        assert_eq!((&*ready.reason, &*ready.message), (reason, message), "the informer has it");
        assert_eq!(ready.observed_generation, zone.metadata.generation);
        zone.metadata.resource_version
    };
    let first = report(Status::False, "Starting", "0 of 2 nodes").await;
    assert_eq!(report(Status::False, "Starting", "0 of 2 nodes").await, first, "nothing is written");
    assert_ne!(report(Status::False, "Starting", "1 of 2 nodes").await, first);
    report(Status::True, "Ready", "2 of 2 nodes").await;
    report(Status::False, "Ready", "a status without another reason").await;

    // Other fields are applied as they are.
    let mut zone = read();
    zone.status.as_mut().unwrap().nodes = 2;
    let ready = condition::new("Ready", Status::True, "Ready", "2 of 2 nodes");
    reporter.report(&zone, EventType::Warning, ready).await.unwrap();
    assert_eq!(read().status.unwrap().nodes, 2);

    assert!(events.shutdown(Duration::from_secs(5)).await);
    let mut recorded = cluster.list::<Event>().unwrap();
    recorded.sort_by(|a, b| a.event_time.cmp(&b.event_time));
    let recorded: Vec<_> =
        recorded.iter().map(|event| (event.note.as_deref(), event.type_.as_deref())).collect();
    let (normal, warning) = (Some("Normal"), Some("Warning"));
    let notes = ["0 of 2 nodes", "2 of 2 nodes", "2 of 2 nodes"].map(Some);
    assert_eq!(recorded, [(notes[0], normal), (notes[1], normal), (notes[2], warning)]);
    factory.shutdown().await.unwrap();
    cluster.shutdown().await;
}

/// A status that cannot be written is an error, and no event.
// contract: K-24b
#[tokio::test(start_paused = true)]
async fn a_refused_status_is_no_event() {
    let cluster = cluster().await;
    let factory = SharedInformerFactory::new(cluster.client());
    let events = EventRecorder::new(cluster.client(), "zones", "test");
    let zones = factory.informer::<Zone>();
    let reporter =
        Reporter::new(&zones, cluster.client(), events.clone(), "zones", |status| &mut status.conditions);
    let gone = cluster.create(&Zone::new("east", ZoneSpec {})).unwrap();
    cluster.delete::<Zone>("east").unwrap();
    let ready = condition::new("Ready", Status::True, "Ready", "");
    let error: ReconcileError = reporter.report(&gone, EventType::Normal, ready).await.unwrap_err();
    assert!(error.to_string().contains("east"), "{error}");
    assert!(events.shutdown(Duration::from_secs(5)).await);
    assert!(cluster.list::<Event>().unwrap().is_empty());
    cluster.shutdown().await;
}
