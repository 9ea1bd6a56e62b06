//! The unit test of a controller: a small reconciler on an API server in this process, whose next writes fail.
//!
//! The controller keeps a label on each config map. The first scenario makes the server refuse two writes, and checks that
//! the key is retried until the label is written. In the second one an error is permanent: the key is not retried until the
//! object changes. Each scenario is a test, `cargo test -p kinformer-controller --example testing_a_controller`, and `cargo
//! run -p kinformer-controller --example testing_a_controller` prints what they check. Nothing sleeps: a check waits for a
//! state of the store or of the metrics, for at most 30 s. The program ends by itself.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Lister, ObjectKey, Packed, SharedInformerFactory};
use kinformer_apiserver::{ApiServer, Fault, Verb};
use kinformer_controller::{
    Action, CancellationToken, Controller, ControllerMetrics, Monitor, ReconcileError, Request,
};
use kinformer_workqueue::ItemExponential;
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Ends a wait for a state that does not come.
const LIMIT: Duration = Duration::from_secs(30);

/// Labels each config map with its team, the value of `team` in its data.
struct Labeler {
    maps: Lister<ConfigMap>,
    client: Client,
}

impl Labeler {
    async fn reconcile(&self, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Ok(map) = self.maps.get(&request.key) else { return Ok(Action::none()) }; // it was deleted
        let data = map.decode()?;
        let Some(team) = data.data.as_ref().and_then(|data| data.get("team")) else {
            return Err(ReconcileError::permanent("data.team is missing"));
        };
        if map.label("team") != Some(team) {
            let api: Api<ConfigMap> =
                Api::namespaced(self.client.clone(), map.namespace().unwrap_or_default());
            let label = Patch::Merge(json!({"metadata": {"labels": {"team": team}}}));
            api.patch(map.name(), &PatchParams::default(), &label).await?;
        }
        Ok(Action::none())
    }
}

fn controller(factory: &SharedInformerFactory) -> Controller {
    let maps = factory.informer::<ConfigMap>().lister();
    let labeler = Arc::new(Labeler { maps, client: factory.client().clone() });
    // Short delays, so that the test does not take long.
    let delays = ItemExponential::new(Duration::from_millis(1), Duration::from_millis(10));
    Controller::of(factory).reconciles::<ConfigMap>().rate_limiter(delays).build(move |request| {
        let labeler = labeler.clone();
        async move { labeler.reconcile(request).await }
    })
}

/// A server, and the controller that runs on it.
struct Fixture {
    server: ApiServer,
    factory: SharedInformerFactory,
    monitor: Monitor,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), kinformer_controller::Error>>,
}

impl Fixture {
    async fn start() -> Result<Self, Box<dyn Error>> {
        let server = ApiServer::builder().start().await?;
        let factory = SharedInformerFactory::new(kinformer::client(server.config()?)?);
        let (controller, shutdown) = (controller(&factory), CancellationToken::new());
        let monitor = controller.monitor();
        let running = tokio::spawn(controller.run(shutdown.clone()));
        Ok(Self { server, factory, monitor, shutdown, running })
    }

    /// Waits until the metrics of the controller have this property.
    async fn wait_for_metrics(
        &self,
        holds: impl Fn(&ControllerMetrics) -> bool,
    ) -> Result<(), Box<dyn Error>> {
        let wait = async {
            while !holds(&self.monitor.metrics()) {
                tokio::task::yield_now().await;
            }
        };
        Ok(timeout(LIMIT, wait).await?)
    }

    /// Waits until the config map has this label.
    async fn wait_for_label(&self, team: &str) -> Result<(), Box<dyn Error>> {
        let has_label =
            |map: Option<&Packed<ConfigMap>>| map.is_some_and(|map| map.label("team") == Some(team));
        let maps = self.factory.informer::<ConfigMap>();
        let map = timeout(LIMIT, maps.wait_for_condition("default/settings", has_label)).await??;
        check("the map has its label", map.is_some())
    }

    /// Waits for the end of the running reconciliation, and returns the final metrics.
    async fn stop(self) -> Result<ControllerMetrics, Box<dyn Error>> {
        self.shutdown.cancel();
        self.running.await??;
        self.factory.shutdown().await?;
        self.server.shutdown().await;
        Ok(self.monitor.metrics())
    }
}

fn map(data: &Value) -> Value {
    let metadata = json!({"name": "settings", "namespace": "default"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

/// Prints a check that holds; one that does not is an error.
fn check(what: &str, holds: bool) -> Result<(), Box<dyn Error>> {
    println!("  {} {what}", if holds { "ok:" } else { "FAILED:" });
    if holds { Ok(()) } else { Err(what.into()) }
}

#[cfg_attr(test, tokio::test)]
async fn failed_writes_are_retried() -> Result<(), Box<dyn Error>> {
    println!("the server refuses two writes:");
    let fixture = Fixture::start().await?;
    let faults = fixture.server.faults();
    faults.inject(Fault::internal_error().on(Verb::Patch).resource("configmaps").times(2));
    fixture.server.create(map(&json!({"team": "storage"})))?;
    fixture.wait_for_label("storage").await?;
    let metrics = fixture.stop().await?;
    check("two reconciliations failed", metrics.failed == 2 && faults.fired() == 2)?;
    check("the key was retried after each", metrics.queue.retries == 2)
}

#[cfg_attr(test, tokio::test)]
async fn permanent_errors_are_not_retried() -> Result<(), Box<dyn Error>> {
    println!("a map without a team:");
    let fixture = Fixture::start().await?;
    fixture.server.create(map(&json!({})))?;
    fixture.wait_for_metrics(|metrics| metrics.failed > 0).await?;
    fixture.server.update(map(&json!({"team": "network"})))?;
    fixture.wait_for_label("network").await?;
    let metrics = fixture.stop().await?;
    check("the reconciliation failed once, permanently", metrics.failed == 1 && metrics.permanent == 1)?;
    check("the key was not retried", metrics.queue.retries == 0)?;
    check("the next change of the map was reconciled", metrics.succeeded > 0)
}

#[cfg(not(test))]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    failed_writes_are_retried().await?;
    permanent_errors_are_not_retried().await
}
