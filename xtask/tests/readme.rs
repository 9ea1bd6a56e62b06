//! The second program of the README, with its test. The README shows everything from the first `use` on.
#![allow(dead_code, reason = "the test does not call main")]

use kinformer_controller::kinformer::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinformer_controller::kinformer::kube_client::{Api, Client};
use kinformer_controller::kinformer::{self, Lister, ObjectKey, SharedInformerFactory};
use kinformer_controller::{
    Action, Controller, Manager, ReconcileError, Request, apply, set_controller_reference,
};

/// Keeps a config map with the name "about" in each namespace.
fn controller(factory: &SharedInformerFactory) -> Controller {
    let (namespaces, client) = (factory.informer::<Namespace>().lister(), factory.client().clone());
    Controller::of(factory)
        .reconciles::<Namespace>()
        .owns::<ConfigMap>() // a change of the config map reconciles its namespace
        .build(move |request| reconcile(request, namespaces.clone(), client.clone()))
}

async fn reconcile(
    request: Request<ObjectKey>,
    namespaces: Lister<Namespace>, // reads from memory
    client: Client,
) -> Result<Action, ReconcileError> {
    let Some(namespace) = namespaces.get_opt(&request.key)? else { return Ok(Action::none()) }; // it was deleted
    let mut about = ConfigMap::default();
    about.metadata.name = Some("about".to_owned());
    about.data = Some([("namespace".to_owned(), namespace.name().to_owned())].into());
    set_controller_reference(&*namespace.decode()?, &mut about)?;
    apply::object(&Api::namespaced(client, namespace.name()), &about, "about-controller").await?;
    Ok(Action::none()) // an error would be retried with backoff
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let factory = SharedInformerFactory::new(kinformer::client(kinformer::config()?)?);
    Manager::new().factory(&factory).add(controller(&factory))?.run_until_signal().await?;
    Ok(())
}

#[tokio::test(start_paused = true)] // retries and timeouts take no time
async fn a_deleted_config_map_is_created_again() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = kinformer_apiserver::TestCluster::start().await?; // an API server in this process
    let controller = controller(&SharedInformerFactory::new(cluster.client()));
    cluster.explain(controller.monitor()); // a failed wait has the errors of the controller
    let running = tokio::spawn(controller.run(Default::default()));
    cluster.eventually(|| cluster.get::<ConfigMap>("about")).await?;
    cluster.delete::<ConfigMap>("about")?;
    cluster.eventually(|| cluster.get::<ConfigMap>("about")).await?;
    running.abort();
    Ok(())
}
