//! Runs the controller on the cluster of the current kubeconfig, or of the pod that it runs in, until Ctrl-C or SIGTERM.

use kinformer_controller::Manager;
use kinformer_controller::kinformer::{self, SharedInformerFactory};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let factory = SharedInformerFactory::new(kinformer::client(kinformer::config()?)?);
    Manager::new().add({{crate_name}}::controller(&factory))?.run_until_signal().await?;
    factory.shutdown().await?;
    Ok(())
}
