//! What happens when a website changes.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kinformer_controller::condition::{self, Status};
use kinformer_controller::events::{EventRecorder, EventType};
use kinformer_controller::kinformer::kube_client::{Api, Client};
use kinformer_controller::kinformer::{Lister, ObjectKey, SharedInformerFactory};
use kinformer_controller::{Action, Controller, ReconcileError, Reporter, Request, apply, finalizer};
use kube::{Resource, ResourceExt};

use crate::website::Website;
use crate::{NAME, resources};

/// Its cleanup runs before a website is gone.
const FINALIZER: &str = "example.com/cleanup";
const READY: &str = "Ready";

struct Reconciler {
    /// Reads the store of the informer; no request is sent.
    websites: Lister<Website>,
    client: Client,
    events: EventRecorder,
    reporter: Reporter<Website>,
}

/// Returns the controller. `client` writes; with a leader election it is that of the elector.
pub fn controller(factory: &SharedInformerFactory, client: Client, events: EventRecorder) -> Controller {
    let websites = factory.informer::<Website>();
    let reconciler = Arc::new(Reconciler {
        websites: websites.lister(),
        client: client.clone(),
        events: events.clone(),
        reporter: Reporter::new(&websites, client, events, NAME, |status| &mut status.conditions),
    });
    Controller::of(factory)
        .reconciles::<Website>()
        .owns::<Deployment>()
        .owns::<Service>()
        .workers(4)
        .build(move |request| reconciler.clone().reconcile(request))
}

impl Reconciler {
    /// Makes the cluster as the website asks for. An error is retried with backoff.
    async fn reconcile(self: Arc<Self>, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Some(website) = self.websites.get_opt(&request.key)? else { return Ok(Action::none()) };
        let api = Api::namespaced(self.client.clone(), request.namespace().unwrap_or_default());
        let apply = |website| self.apply(website);
        let cleanup = |website| self.cleanup(website);
        finalizer::finalize(&api, website.decode_arc()?, FINALIZER, apply, cleanup).await
    }

    async fn apply(&self, website: Arc<Website>) -> Result<Action, ReconcileError> {
        let namespace = website.namespace().unwrap_or_default();
        let deployments = Api::namespaced(self.client.clone(), &namespace);
        let deployment = apply::object(&deployments, &resources::deployment(&website)?, NAME).await?;
        let services = Api::namespaced(self.client.clone(), &namespace);
        apply::object(&services, &resources::service(&website)?, NAME).await?;
        let available = deployment.status.and_then(|status| status.available_replicas).unwrap_or_default();
        let wanted = website.spec.replicas;
        let message = format!("{available} of {wanted} replicas are available");
        let ready = match available >= wanted {
            true => condition::new(READY, Status::True, "Available", message),
            false => condition::new(READY, Status::False, "Progressing", message),
        };
        self.reporter.report(&website, EventType::Normal, ready).await?;
        Ok(Action::none())
    }

    /// Removes what Kubernetes does not collect, such as a name in a DNS of another provider.
    async fn cleanup(&self, website: Arc<Website>) -> Result<(), ReconcileError> {
        tracing::info!("cleaning up");
        self.events.event(&website.object_ref(&()), EventType::Normal, "CleanedUp", "Cleanup", "");
        Ok(())
    }
}
