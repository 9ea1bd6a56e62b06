//! Conditions of a status, with an event for each change.

use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kinformer::{Informer, ResourceVersion};
use kube_client::Client;
use kube_core::Resource;
use kube_core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::action::ReconcileError;
use crate::events::{EventRecorder, EventType};
use crate::{apply, condition};

/// Reports what a controller has found out about its objects: as conditions of their status, and as events.
///
/// ```no_run
/// # use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// # use kinformer::SharedInformerFactory;
/// # use kinformer_controller::events::{EventRecorder, EventType};
/// # use kinformer_controller::{ReconcileError, Reporter, condition};
/// # #[derive(kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize)]
/// # #[kube(group = "example.com", version = "v1", kind = "Foo", namespaced, status = "FooStatus", schema = "disabled")]
/// # struct FooSpec {}
/// # #[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
/// # struct FooStatus { conditions: Vec<Condition> }
/// # async fn example(factory: SharedInformerFactory, client: kube_client::Client, events: EventRecorder, foo: &Foo) -> Result<(), ReconcileError> {
/// let reporter = Reporter::new(&factory.informer::<Foo>(), client, events, "foos", |status| &mut status.conditions);
/// let ready = condition::new("Ready", condition::Status::False, "Starting", "0 of 3 pods");
/// reporter.report(foo, EventType::Normal, ready).await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "StatusWriter")]
pub struct Reporter<K: HasStatus> {
    informer: Informer<K>,
    client: Client,
    events: EventRecorder,
    field_manager: Arc<str>,
    conditions: fn(&mut K::Status) -> &mut Vec<Condition>,
}

impl<K> Reporter<K>
where
    K: Resource<DynamicType = ()> + HasStatus<Status: Default> + Clone + Serialize + DeserializeOwned + Debug,
{
    /// Creates a reporter for the objects of an informer. `client` writes the status: with a leader election it is that of the
    /// elector. `conditions` returns those of a status.
    pub fn new(
        informer: &Informer<K>,
        client: Client,
        events: EventRecorder,
        field_manager: impl Into<Arc<str>>,
        conditions: fn(&mut K::Status) -> &mut Vec<Condition>,
    ) -> Self {
        Self { informer: informer.clone(), client, events, field_manager: field_manager.into(), conditions }
    }

    /// Sets a condition of an object, which was read from the informer, and its observed generation. If anything has changed, the
    /// status is [applied](apply::status), and the call returns when the informer has it: a reconciliation that reads an older
    /// status would report the change again. The other fields of the status are applied as they are in `object`.
    ///
    /// If the status or the reason of the condition is another one than before, an event with its reason and message is recorded
    /// after the write.
    ///
    /// # Errors
    /// A [`WriteError`](crate::WriteError), and [`kinformer::Error`] if the informer stops first.
    ///
    /// # Cancel safety
    /// The status may have been written without an event. Calling it again is safe.
    #[doc(alias = "SetStatusCondition")]
    pub async fn report(
        &self,
        object: &K,
        event_type: EventType,
        mut condition: Condition,
    ) -> Result<(), ReconcileError> {
        condition.observed_generation = object.meta().generation;
        let Condition { status, reason, message, type_, .. } = condition.clone();
        let mut changed = object.clone();
        let conditions = (self.conditions)(changed.status_mut().get_or_insert_default());
        let before = condition::find(conditions, &type_);
        let is_other = before.is_none_or(|before| (&before.status, &before.reason) != (&status, &reason));
        if !condition::set(conditions, condition) {
            return Ok(());
        }
        let written = apply::status_of(&self.client, &changed, &self.field_manager).await?;
        let meta = written.meta();
        let key = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        let version = ResourceVersion::from(meta.resource_version.as_deref().unwrap_or_default());
        self.informer.wait_for(key, &version).await?;
        if is_other {
            self.events.event(&object.object_ref(&()), event_type, &reason, "Reconcile", &message);
        }
        Ok(())
    }
}

impl<K: HasStatus> fmt::Debug for Reporter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter")
            .field("informer", &self.informer)
            .field("field_manager", &self.field_manager)
            .finish_non_exhaustive()
    }
}
