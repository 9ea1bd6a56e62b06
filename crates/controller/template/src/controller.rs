//! What happens when a website changes.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kinformer_controller::condition::{self, Status};
use kinformer_controller::events::{EventRecorder, EventType};
use kinformer_controller::kinformer::kube_client::{Api, Client};
use kinformer_controller::kinformer::{Informer, Lister, ObjectKey, ResourceVersion, SharedInformerFactory};
use kinformer_controller::{Action, Controller, ReconcileError, Request, apply, finalizer};
use kube::{Resource, ResourceExt};

use crate::website::Website;
use crate::{NAME, resources};

/// Its cleanup runs before a website is gone.
const FINALIZER: &str = "example.com/cleanup";
const READY: &str = "Ready";

struct Reconciler {
    websites: Informer<Website>,
    /// Reads the store of the informer; no request is sent.
    deployments: Lister<Deployment>,
    client: Client,
    events: EventRecorder,
}

/// Returns the controller. `client` writes; with a leader election it is that of the elector.
pub fn controller(factory: &SharedInformerFactory, client: Client, events: EventRecorder) -> Controller {
    let reconciler = Arc::new(Reconciler {
        websites: factory.informer(),
        deployments: factory.informer().lister(),
        client,
        events,
    });
    Controller::of(factory)
        .reconciles::<Website>()
        .owns::<Deployment>()
        .owns::<Service>()
        .workers(4)
        .build(move |request| {
            let reconciler = reconciler.clone();
            async move { reconciler.reconcile(request).await }
        })
}

impl Reconciler {
    /// Makes the cluster as the website asks for. An error is retried with backoff.
    async fn reconcile(&self, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Ok(website) = self.websites.lister().get(&request.key) else { return Ok(Action::none()) };
        let api = Api::namespaced(self.client.clone(), request.namespace().unwrap_or_default());
        let apply = |website| self.apply(website);
        let cleanup = |website| self.cleanup(website);
        finalizer::finalize(&api, website.decode_arc()?, FINALIZER, apply, cleanup).await
    }

    async fn apply(&self, website: Arc<Website>) -> Result<Action, ReconcileError> {
        let namespace = website.namespace().unwrap_or_default();
        let deployments = Api::namespaced(self.client.clone(), &namespace);
        apply::object(&deployments, &resources::deployment(&website)?, NAME).await?;
        let services = Api::namespaced(self.client.clone(), &namespace);
        apply::object(&services, &resources::service(&website)?, NAME).await?;
        let stored = self.deployments.get((&*namespace, &*website.name_any())).ok();
        let stored = stored.map(|stored| stored.decode_arc()).transpose()?;
        let status = stored.as_ref().and_then(|stored| stored.status.as_ref());
        let available = status.and_then(|status| status.available_replicas).unwrap_or_default();
        let wanted = website.spec.replicas;
        let message = format!("{available} of {wanted} replicas are available");
        let ready = match available >= wanted {
            true => condition::new(READY, Status::True, "Available", message),
            false => condition::new(READY, Status::False, "Progressing", message),
        };
        self.report(&website, ready).await?;
        Ok(Action::none())
    }

    /// Removes what Kubernetes does not collect, such as a name in a DNS of another provider.
    async fn cleanup(&self, website: Arc<Website>) -> Result<(), ReconcileError> {
        tracing::info!("cleaning up");
        self.events.event(&website.object_ref(&()), EventType::Normal, "CleanedUp", "Cleanup", "");
        Ok(())
    }

    /// Writes the condition if it has changed, and records an event if its reason has.
    async fn report(
        &self,
        website: &Website,
        mut ready: k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition,
    ) -> Result<(), ReconcileError> {
        let mut changed = website.clone();
        let generation = website.metadata.generation.unwrap_or_default();
        ready.observed_generation = Some(generation);
        let (reason, message) = (ready.reason.clone(), ready.message.clone());
        let status = changed.status.get_or_insert_default();
        let before = condition::find(&status.conditions, READY).map(|before| before.reason.clone());
        if !condition::set(&mut status.conditions, ready) && status.observed_generation == generation {
            return Ok(());
        }
        status.observed_generation = generation;
        let (namespace, name) = (website.namespace().unwrap_or_default(), website.name_any());
        let api: Api<Website> = Api::namespaced(self.client.clone(), &namespace);
        let written = apply::status(&api, &changed, NAME).await?;
        if before.as_ref() != Some(&reason) {
            self.events.event(&website.object_ref(&()), EventType::Normal, &reason, "Reconcile", &message);
        }
        // The next reconciliation reads this status.
        let version = ResourceVersion::from(written.resource_version().unwrap_or_default());
        self.websites.wait_for((&*namespace, &*name), &version).await?;
        Ok(())
    }
}
