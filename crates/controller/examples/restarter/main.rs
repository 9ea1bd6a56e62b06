//! Restarts what runs with an old configuration: a port of the restart controllers of Stackable's commons-operator, whose labels and
//! annotations it takes. [docs/ports.md](../../../../docs/ports.md) compares the two. It runs on the cluster of the kubeconfig until
//! it receives SIGTERM or Ctrl-C. `WATCH_NAMESPACE` restricts it to one namespace.

mod pod;
pub(crate) mod stateful_set;

use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Secret};
use k8s_openapi::jiff::Timestamp;
use kinformer_controller::events::{EventRecorder, EventType};
use kinformer_controller::kinformer::{self, SharedInformerFactory};
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::kinformer_serve::Server;
use kinformer_controller::{Action, Manager, ReconcileError};
use kube_client::Client;

/// The name of the Lease, and the one that reports events.
pub(crate) const NAME: &str = "restarter";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let client = kinformer::client(kinformer::config()?)?;
    let factory = factory(&client, std::env::var("WATCH_NAMESPACE").ok());
    let elector = LeaderElector::builder(client.clone(), client.default_namespace(), NAME).build()?;
    let events = EventRecorder::new(client.clone(), NAME, elector.identity());
    let server = Server::builder().metrics_only().listen(([0, 0, 0, 0], 8080).into());
    let manager = manager(&factory, &elector.client(&client), &events, Timestamp::now)?;
    Ok(manager.leader_election(&elector).serve(server).await?.run_until_signal().await?)
}

/// Only StatefulSets that are enabled, and config maps and secrets that are not ignored, are fetched.
pub(crate) fn factory(client: &Client, namespace: Option<String>) -> SharedInformerFactory {
    const NOT_IGNORED: &str = "restarter.stackable.tech/ignore!=true";
    let builder = SharedInformerFactory::builder(client.clone())
        .of_kind::<StatefulSet>(|sets| sets.labels("restarter.stackable.tech/enabled=true"))
        .of_kind::<ConfigMap>(|config_maps| config_maps.labels(NOT_IGNORED))
        .of_kind::<Secret>(|secrets| secrets.labels(NOT_IGNORED));
    match namespace {
        Some(namespace) => builder.namespace(namespace).build(),
        None => builder.build(),
    }
}

pub(crate) fn manager(
    factory: &SharedInformerFactory,
    client: &Client,
    events: &EventRecorder,
    now: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> Result<Manager, Box<dyn Error>> {
    Ok(Manager::new()
        .factory(factory)
        .events(events, Duration::from_secs(5))
        .add(stateful_set::controller(factory, client, events)?)?
        .add(pod::controller(factory, client, events, now))?)
}

/// Reports an error as an event of the object, too.
fn reported(
    result: Result<Action, ReconcileError>,
    events: &EventRecorder,
    object: &ObjectReference,
) -> Result<Action, ReconcileError> {
    result.inspect_err(|error| {
        if !error.is_conflict() {
            events.event(object, EventType::Warning, "ReconcileFailed", "Reconcile", &error.to_string());
        }
    })
}
