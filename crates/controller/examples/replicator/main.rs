//! Copies secrets and config maps into other namespaces, as their annotations say: a port of kubernetes-replicator, whose manifests
//! it takes. [docs/ports.md](../../../../docs/ports.md) compares the two. It runs on the cluster of the kubeconfig until it receives
//! SIGTERM or Ctrl-C. `ALLOW_ALL=true` permits all copies, `EXCLUDE_NAMESPACES` has patterns of namespaces that get none.

mod kinds;
pub(crate) mod replicator;
mod rules;

use std::error::Error;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer_controller::Manager;
use kinformer_controller::kinformer::{self, SharedInformerFactory};
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::kinformer_serve::Server;
use kube_client::Client;
use regex::Regex;

/// The name of the Lease, and of the field manager.
pub(crate) const NAME: &str = "replicator";

#[derive(Default)]
pub(crate) struct Options {
    /// Sources need no permission to be copied by others.
    pub(crate) allow_all: bool,
    /// Nothing is pushed into namespaces whose name matches one of these.
    pub(crate) excluded: Vec<Regex>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let variable = |name| std::env::var(name).unwrap_or_default();
    let excluded = variable("EXCLUDE_NAMESPACES");
    let excluded = excluded.split(',').filter(|pattern| !pattern.is_empty()).map(Regex::new);
    let options =
        Options { allow_all: variable("ALLOW_ALL") == "true", excluded: excluded.collect::<Result<_, _>>()? };

    let client = kinformer::client(kinformer::config()?)?;
    let factory = SharedInformerFactory::new(client.clone());
    let elector = LeaderElector::builder(client.clone(), client.default_namespace(), NAME).build()?;
    let server = Server::builder().metrics_only().listen(([0, 0, 0, 0], 9102).into());
    let manager = manager(&factory, &elector.client(&client), options)?.leader_election(&elector);
    Ok(manager.serve(server).await?.run_until_signal().await?)
}

pub(crate) fn manager(
    factory: &SharedInformerFactory,
    client: &Client,
    options: Options,
) -> Result<Manager, Box<dyn Error>> {
    let options = Arc::new(options);
    Ok(Manager::new()
        .factory(factory)
        .add(replicator::controller::<Secret>(factory, client, &options)?)?
        .add(replicator::controller::<ConfigMap>(factory, client, &options)?)?)
}
