//! Runs the operator on the cluster of the current kubeconfig, or of the pod that it runs in, until SIGTERM or Ctrl-C.

use std::time::Duration;

use {{crate_name}}::{NAME, controller::controller};
use kinformer_controller::Manager;
use kinformer_controller::events::EventRecorder;
use kinformer_controller::kinformer::{self, SharedInformerFactory};
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::kinformer_serve::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let client = kinformer::client(kinformer::config()?)?;
    let factory = SharedInformerFactory::new(client.clone());
    let elector = LeaderElector::builder(client.clone(), client.default_namespace(), NAME).build()?;
    let events = EventRecorder::new(client.clone(), NAME, elector.identity());
    let controller = controller(&factory, elector.client(&client), events.clone());
    let server = Server::builder()
        .metrics_only()
        .listen(([0, 0, 0, 0], 8080).into())
        .probes_on(([0, 0, 0, 0], 8081).into());
    Manager::new()
        .factory(&factory)
        .leader_election(&elector)
        .events(&events, Duration::from_secs(5))
        .add(controller)?
        .serve(server)
        .await?
        .run_until_signal()
        .await?;
    Ok(())
}
