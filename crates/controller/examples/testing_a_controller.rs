//! The unit test of a controller: a small reconciler on a cluster in this process, whose next writes fail.
//!
//! The controller keeps a label on each config map, by server-side apply. The first scenario makes the server refuse two
//! writes, and checks that the key is retried until the label is written. In the second one an error is permanent: the key is
//! not retried until the object changes. Each scenario is a test, `cargo test -p kinformer-controller --example
//! testing_a_controller`, and `cargo run -p kinformer-controller --example testing_a_controller` prints what they check.
//! Nothing sleeps: a check waits for a state of the cluster or of the controller, for at most 30 s, and a failure has the
//! errors of the reconciliations and the last requests. The tests have a paused clock, so the retries take no time. The
//! program ends by itself.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::error::Error;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Lister, ObjectKey, SharedInformerFactory};
use kinformer_apiserver::{Fault, TestCluster, Verb};
use kinformer_controller::{
    Action, CancellationToken, Controller, ControllerMetrics, Monitor, ReconcileError, Request, apply,
};
use kube_client::{Api, Client};
use tokio::task::JoinHandle;

/// Labels each config map with its team, the value of `team` in its data.
async fn reconcile(
    request: Request<ObjectKey>,
    maps: Lister<ConfigMap>,
    client: Client,
) -> Result<Action, ReconcileError> {
    let Some(map) = maps.get_opt(&request.key)? else { return Ok(Action::none()) }; // it was deleted
    let data = map.decode()?;
    let Some(team) = data.data.as_ref().and_then(|data| data.get("team")) else {
        return Err(ReconcileError::permanent("data.team is missing"));
    };
    let mut label = ConfigMap::default(); // only the fields of this controller
    label.metadata.name = Some(map.name().to_owned());
    label.metadata.labels = Some([("team".to_owned(), team.clone())].into());
    let api = Api::namespaced(client, map.namespace().unwrap_or_default());
    apply::object(&api, &label, "labeler").await?;
    Ok(Action::none())
}

fn controller(factory: &SharedInformerFactory) -> Controller {
    let (maps, client) = (factory.informer::<ConfigMap>().lister(), factory.client().clone());
    let labeler = move |request| reconcile(request, maps.clone(), client.clone());
    Controller::of(factory).reconciles::<ConfigMap>().build(labeler)
}

/// A cluster, and the controller that runs on it.
struct Fixture {
    cluster: TestCluster,
    factory: SharedInformerFactory,
    monitor: Monitor,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), kinformer_controller::Error>>,
}

impl Fixture {
    async fn start() -> Result<Self, Box<dyn Error>> {
        let cluster = TestCluster::start().await?;
        let factory = SharedInformerFactory::new(cluster.client()); // or Manager, with controllers of this factory
        let (controller, shutdown) = (controller(&factory), CancellationToken::new());
        let monitor = controller.monitor();
        cluster.explain(monitor.clone()); // a failed wait has the errors of the reconciliations
        let running = tokio::spawn(controller.run(shutdown.clone()));
        Ok(Self { cluster, factory, monitor, shutdown, running })
    }

    /// The label that the controller has written.
    fn label(&self) -> Result<String, Box<dyn Error>> {
        let settings = self.cluster.get::<ConfigMap>("settings")?;
        let label = settings.metadata.labels.and_then(|labels| labels.get("team").cloned());
        label.ok_or_else(|| "there is no label".into())
    }

    /// Waits for the end of the running reconciliation, and returns the final metrics.
    async fn stop(self) -> Result<ControllerMetrics, Box<dyn Error>> {
        self.shutdown.cancel();
        self.running.await??;
        self.factory.shutdown().await?;
        self.cluster.shutdown().await;
        Ok(self.monitor.metrics())
    }
}

fn settings(data: &[(&str, &str)]) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("settings".to_owned());
    map.data = Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
    map
}

/// Prints a check that holds; one that does not is an error.
fn check(what: &str, holds: bool) -> Result<(), Box<dyn Error>> {
    println!("  {} {what}", if holds { "ok:" } else { "FAILED:" });
    if holds { Ok(()) } else { Err(what.into()) }
}

#[cfg_attr(test, tokio::test(start_paused = true))]
async fn failed_writes_are_retried() -> Result<(), Box<dyn Error>> {
    println!("the server refuses two writes:");
    let fixture = Fixture::start().await?;
    let cluster = &fixture.cluster;
    cluster.faults().inject(Fault::internal_error().on(Verb::Patch).resource("configmaps").times(2));
    cluster.create(&settings(&[("team", "storage")]))?;
    let label = cluster.eventually(|| fixture.label()).await?;
    check("the map has its label", label == "storage")?;
    let patches = cluster.requests().by("labeler").on(Verb::Patch);
    let refused = patches.filter(|patch| patch.code == Some(500));
    check("two writes were refused", refused.len() == 2)?;
    let failures = fixture.monitor.failures();
    let metrics = fixture.stop().await?;
    check("two reconciliations failed", metrics.failed == 2)?;
    check("their errors are known", failures.iter().all(|failure| failure.error.contains("injected fault")))?;
    check("the key was retried after each", metrics.queue.retries == 2)
}

#[cfg_attr(test, tokio::test(start_paused = true))]
async fn permanent_errors_are_not_retried() -> Result<(), Box<dyn Error>> {
    println!("a map without a team:");
    let fixture = Fixture::start().await?;
    let cluster = &fixture.cluster;
    cluster.create(&settings(&[]))?;
    let failure = || fixture.monitor.failures().pop().ok_or("no reconciliation has failed");
    let failure = cluster.eventually(failure).await?;
    check("the error says what is missing", failure.error == "data.team is missing" && failure.attempt == 1)?;
    cluster.modify::<ConfigMap>("settings", |map| map.data = settings(&[("team", "network")]).data)?;
    let label = cluster.eventually(|| fixture.label()).await?;
    check("the map has its label", label == "network")?;
    let metrics = fixture.stop().await?;
    check("the reconciliation failed once, permanently", metrics.failed == 1 && metrics.permanent == 1)?;
    check("the key was not retried", metrics.queue.retries == 0)
}

#[cfg(not(test))]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    failed_writes_are_retried().await?;
    permanent_errors_are_not_retried().await
}
