//! Pods with a time at which they expire, such as that of a certificate: they are evicted, so that disruption budgets are kept.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use k8s_openapi::jiff::{self, Timestamp};
use kinformer_controller::events::{EventRecorder, EventType};
use kinformer_controller::kinformer::{
    Lister, ObjectKey, Packed, PackedMetadata as _, PackedObject, SharedInformerFactory, WireError,
};
use kinformer_controller::{Action, Controller, Predicate, ReconcileError, Request, Trigger};
use kube_client::api::PostParams;
use kube_client::{Api, Client};
use kube_core::{PartialObjectMeta, Resource as _, Status};

/// What the annotations begin with. The first of several times counts.
const EXPIRES_AT: &str = "restarter.stackable.tech/expires-at.";
/// When an eviction is tried again that a disruption budget does not allow yet.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{annotation}: {source}")]
    Time { annotation: String, source: jiff::Error },
    #[error(transparent)]
    Unreadable(#[from] WireError),
}

struct Restarter {
    pods: Lister<PartialObjectMeta<Pod>>,
    client: Client,
    events: EventRecorder,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

pub(crate) fn controller(
    factory: &SharedInformerFactory,
    client: &Client,
    events: &EventRecorder,
    now: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> Controller {
    let pods = factory.metadata::<Pod>();
    let restarter = Arc::new(Restarter {
        pods: pods.lister(),
        client: client.clone(),
        events: events.clone(),
        now: Box::new(now),
    });
    let expires = Predicate::new(|event| event.object().is_some_and(|pod| !matches!(expiry(pod), Ok(None))));
    Controller::of(factory)
        .reconciles_on(Trigger::on(&pods).filter(expires))
        .build(move |request| restarter.clone().reconcile(request))
}

impl Restarter {
    async fn reconcile(self: Arc<Self>, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Some(pod) = self.pods.get_opt(&request.key)? else { return Ok(Action::none()) };
        super::reported(self.evict_expired(&pod).await, &self.events, &pod.decode()?.object_ref(&()))
    }

    async fn evict_expired(&self, pod: &Packed<PartialObjectMeta<Pod>>) -> Result<Action, ReconcileError> {
        if pod.deletion_timestamp()?.is_some() {
            return Ok(Action::none());
        }
        let Some(expiry) = expiry(pod).map_err(ReconcileError::permanent)? else { return Ok(Action::none()) };
        let left = expiry.duration_since((self.now)());
        if let Ok(left) = Duration::try_from(left)
            && !left.is_zero()
        {
            return Ok(Action::requeue_after(left));
        }
        match self.evict(pod).await {
            Ok(_) => {
                let note = format!("the pod has expired at {expiry}");
                self.events.event(
                    &pod.decode()?.object_ref(&()),
                    EventType::Normal,
                    "Expired",
                    "Evict",
                    &note,
                );
                Ok(Action::none())
            }
            Err(kube_client::Error::Api(status)) if status.code == 429 => {
                tracing::info!(reason = status.message, "the pod is not evicted yet");
                Ok(Action::requeue_after(RETRY))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Not by `Api::evict`, whose options the API server does not read, so that a new pod of this name could be evicted.
    async fn evict(&self, pod: &PackedObject) -> Result<Status, kube_client::Error> {
        let uid = pod.uid().map(str::to_owned);
        let preconditions = Some(Preconditions { uid, ..Preconditions::default() });
        let eviction = Eviction {
            metadata: ObjectMeta { name: Some(pod.name().to_owned()), ..ObjectMeta::default() },
            delete_options: Some(DeleteOptions { preconditions, ..DeleteOptions::default() }),
        };
        let api = Api::<Pod>::namespaced(self.client.clone(), pod.namespace().unwrap_or_default());
        api.create_subresource("eviction", pod.name(), &PostParams::default(), &eviction).await
    }
}

fn expiry(pod: &PackedObject) -> Result<Option<Timestamp>, Error> {
    let mut first = None;
    for (annotation, value) in pod.annotations()? {
        if annotation.starts_with(EXPIRES_AT) {
            let time: Timestamp = value
                .parse()
                .map_err(|source| Error::Time { annotation: annotation.into_owned(), source })?;
            first = Some(first.map_or(time, |first: Timestamp| first.min(time)));
        }
    }
    Ok(first)
}
