//! Exports the traces of a controller over OTLP: the event of a watch, the reconciliation to which it leads, and the
//! requests of its writes are the spans of one trace.
//!
//! The controller labels config maps. It runs on an API server in this process, which refuses a write. `cargo run -p
//! kinformer-controller --example otlp` receives the export itself and prints the traces. With the variable
//! `OTEL_EXPORTER_OTLP_ENDPOINT`, such as `http://localhost:4318`, it exports to a collector and prints nothing. `cargo test
//! -p kinformer-controller --example otlp` reads the spans. The program ends by itself.
#![allow(clippy::print_stdout, reason = "an example program prints")]

mod exporter;
mod receiver;

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Lister, ObjectKey, SharedInformerFactory};
use kinformer_apiserver::{ApiServer, Fault, Verb};
use kinformer_controller::{Action, CancellationToken, Controller, ReconcileError, Request, apply};
use kube_client::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;

use crate::receiver::{Receiver, Traces};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Labels a config map with its team, the value of `team` in its data.
async fn reconcile(
    request: Request<ObjectKey>,
    maps: Lister<ConfigMap>,
    client: Client,
) -> Result<Action, ReconcileError> {
    let Some(map) = maps.get_opt(&request.key)? else { return Ok(Action::none()) }; // it was deleted
    let data = map.decode()?;
    let team = data.data.as_ref().and_then(|data| data.get("team"));
    let team = team.ok_or_else(|| ReconcileError::permanent("data.team is missing"))?;
    if map.label("team") == Some(team) {
        return Ok(Action::none());
    }
    let mut label = ConfigMap::default(); // only the fields of this controller
    label.metadata.name = Some(map.name().to_owned());
    label.metadata.labels = Some([("team".to_owned(), team.clone())].into());
    let api = Api::namespaced(client, map.namespace().unwrap_or_default());
    apply::object(&api, &label, "labeler").await?;
    Ok(Action::none())
}

fn controller(client: Client, ended: mpsc::Sender<()>) -> Controller {
    let factory = SharedInformerFactory::new(client.clone());
    let maps = factory.informer::<ConfigMap>().lister();
    let labeler = move |request| {
        let (reconciliation, ended) = (reconcile(request, maps.clone(), client.clone()), ended.clone());
        async move {
            let result = reconciliation.await;
            _ = ended.try_send(());
            result
        }
    };
    Controller::of(&factory).reconciles::<ConfigMap>().build(labeler)
}

/// Runs the controller while a config map is created and changed.
async fn demo() -> Result<(), BoxError> {
    let server = ApiServer::builder().start().await?; // a cluster in this process
    let map = |team| {
        let metadata = json!({"name": "settings", "namespace": "default"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"team": team}})
    };
    server.create(map("storage"))?;
    let (ended, mut reconciled) = mpsc::channel(16); // a message for each reconciliation
    let shutdown = CancellationToken::new();
    // The client of `kinformer::client`, whose requests are spans.
    let controller = controller(kinformer::client(server.config()?)?, ended);
    let running = tokio::spawn(controller.run(shutdown.clone()));
    for _ in 0..2 {
        reconciled.recv().await; // the map of the list, and the change by the controller
    }
    server.faults().inject(Fault::internal_error().on(Verb::Patch).resource("configmaps").times(1));
    server.update(map("network"))?;
    for _ in 0..3 {
        reconciled.recv().await; // it fails, is retried, and the change by the controller
    }
    shutdown.cancel();
    running.await??; // after the running reconciliations
    server.shutdown().await;
    Ok(())
}

/// Runs the demo, exports its spans to a receiver in this process, and returns the traces that this has received.
async fn received() -> Result<Traces, BoxError> {
    let receiver = Receiver::start().await?;
    let provider = exporter::install(receiver.endpoint())?;
    tokio::time::timeout(Duration::from_secs(60), demo()).await??;
    exporter::shut_down(provider).await?;
    Ok(receiver.traces())
}

#[cfg(not(test))]
#[tokio::main]
async fn main() -> Result<(), BoxError> {
    if let Ok(endpoint) = std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT") {
        let provider = exporter::install(&endpoint)?;
        demo().await?;
        return exporter::shut_down(provider).await;
    }
    for trace in received().await?.of_reconciliations() {
        print!("{trace}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "/api/v1/namespaces/default/configmaps/settings";

    /// One trace has the event of the watch, the failed reconciliation in it, and in this the request that was refused.
    // contract: K-19c, K-19e, L-37c
    #[tokio::test(flavor = "multi_thread")]
    async fn an_event_its_reconciliation_and_its_requests_are_one_trace() -> Result<(), BoxError> {
        let traces = received().await?;
        let texts: Vec<_> = traces.of_reconciliations().map(|trace| trace.to_string()).collect();
        let request = |status: &str| format!("    request PATCH {MAP} {status}");
        let update = "event updated configmaps default/settings\n  reconcile settings updated";
        assert_eq!(
            texts,
            [
                format!(
                    "event listed configmaps default/settings\n  reconcile settings listed success\n{}\n",
                    request("200")
                ),
                format!("{update} success\n"),
                format!("{update} error (failed)\n{}\n", request("500 (failed)")),
                format!("reconcile settings failed success\n{}\n", request("200").replace("    ", "  ")),
                format!("{update} success\n"),
            ]
        );

        let failed = traces.of_reconciliations().nth(2).ok_or("no trace of the failed reconciliation")?;
        let [event, reconcile, request] = failed.spans() else { return Err("not three spans".into()) };
        assert_eq!(
            [event, reconcile, request].map(|span| span.name.as_str()),
            ["event", "reconcile", "request"]
        );
        assert_eq!(event.parent_span_id, b"");
        assert_eq!(reconcile.parent_span_id, event.span_id);
        assert_eq!(request.parent_span_id, reconcile.span_id);
        assert!([reconcile, request].iter().all(|span| span.trace_id == event.trace_id));
        let attribute = receiver::attribute;
        assert_eq!(attribute(event, "kinformer.event.key").as_deref(), Some("default/settings"));
        assert_eq!(attribute(reconcile, "kinformer.controller.name").as_deref(), Some("configmap"));
        assert_eq!(attribute(reconcile, "k8s.namespace.name").as_deref(), Some("default"));
        assert_eq!(attribute(request, "k8s.namespace.name").as_deref(), Some("default"));
        assert_eq!(attribute(request, "error.type").as_deref(), Some("500"));
        assert!(attribute(request, "url.query").is_some_and(|query| query.contains("fieldManager=labeler")));
        assert_eq!(request.kind, receiver::CLIENT);
        assert!(reconcile.events.iter().any(|line| line.name == "reconciliation failed"));
        Ok(())
    }
}
