//! Triggers by the objects that the reconciled ones own, or refer to.

#[cfg(feature = "ring")]
use kinformer::ShardField;
use kinformer::{FieldPath, ObjectKey};
use kube_core::Resource;

use crate::controller::{ControllerBuilder, Invalid};
use crate::error::Error;
use crate::owner::OwnerKind;
#[cfg(feature = "ring")]
use crate::sharding::Sharding;
#[cfg(feature = "ring")]
use crate::trigger::Source;
use crate::trigger::{InformerTrigger, Trigger};

impl ControllerBuilder<ObjectKey> {
    /// Also enqueues the owner of each object of kind `D` that changes: the object of the reconciled kind whose reference in
    /// it has `controller: true`.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # fn example(factory: &kinformer::SharedInformerFactory) {
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use k8s_openapi::api::core::v1::Service;
    /// use kinformer_controller::{Action, Controller};
    ///
    /// // Another client deletes the service: its owner is reconciled, and creates it again.
    /// let controller = Controller::of(factory)
    ///     .reconciles::<ConfigMap>()
    ///     .owns::<Deployment>()
    ///     .owns::<Service>()
    ///     .build(async |_| Ok(Action::none()));
    /// # _ = controller;
    /// # }
    /// ```
    ///
    /// Follows controller-runtime 0.25 (`Owns`).
    #[doc(alias = "owns_shared_stream")]
    pub fn owns<D: Resource<DynamicType = (), Scope: 'static> + 'static>(self) -> Self {
        let informer = self.factory.informer::<D>();
        self.owns_on(Trigger::on(&informer))
    }

    /// As [`Self::owns`], with predicates and other options of the trigger.
    #[doc(alias("owns_shared_stream_with", "owns_stream", "owns_stream_with", "owns_with", "OwnsInput"))]
    pub fn owns_on<D: 'static>(self, objects: InformerTrigger<D>) -> Self {
        let Some(reconciled) = &self.reconciled else { return self.without_kind() };
        let selection = reconciled.selection();
        let owner = OwnerKind::of(selection.api_resource(), selection.is_namespaced());
        self.trigger(objects.owner_kind(owner))
    }

    /// Also enqueues the objects of the reconciled kind that refer to an object of kind `D` that changes: those whose field has
    /// its name, and that are in its namespace, if it is in one. An object that is created or deleted counts as well.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
    /// use kinformer_controller::{Action, Controller};
    ///
    /// # fn example(factory: &kinformer::SharedInformerFactory) {
    /// let controller = Controller::of(factory)
    ///     .reconciles::<Pod>()
    ///     .refers_to::<ServiceAccount>(&["spec", "serviceAccountName"])
    ///     .build(async |_| Ok(Action::none()));
    /// # _ = controller;
    /// # }
    /// ```
    ///
    /// It adds an index by the field to the informer of the reconciled kind, with the names of the path and dots between them,
    /// as in `spec.serviceAccountName`, unless there is the same. That another index has this name is an error of the run. For
    /// lists and other references see [`watches`](Self::watches).
    ///
    /// controller-runtime 0.25 has a field index and a map function for this.
    pub fn refers_to<D: Resource<DynamicType = (), Scope: 'static> + 'static>(self, field: &[&str]) -> Self {
        let informer = self.factory.informer::<D>();
        self.refers_to_on(Trigger::on(&informer), field)
    }

    /// As [`Self::refers_to`], with predicates and other options of the trigger.
    pub fn refers_to_on<D: 'static>(self, objects: InformerTrigger<D>, field: &[&str]) -> Self {
        let Some(reconciled) = self.reconciled.clone() else { return self.without_kind() };
        let index = field.join(".");
        if let Err(source) = reconciled.index_by_field(&*index, field)
            && reconciled.field_path(&index) != Some(FieldPath::new(field))
        {
            return self.invalid(Box::new(|controller| Error::Informer { controller, source }));
        }
        let referring = reconciled.lister();
        self.trigger(objects.map(move |object, keys| {
            for referring in referring.by_index(&index, object.name())? {
                if object.namespace().is_none_or(|namespace| referring.namespace() == Some(namespace)) {
                    keys.push(referring.key().try_into()?);
                }
            }
            Ok(())
        }))
    }

    /// Reconciles only objects that this process owns: see [`Sharding`]. That there is no [reconciled
    /// kind](crate::NewController::reconciles) is an error of the run.
    #[cfg(feature = "ring")]
    pub fn sharded(mut self, sharding: &Sharding) -> Self {
        let Some(reconciled) = self.reconciled.clone() else { return self.without_kind() };
        let sharding = sharding.clone();
        let controller = sharding.next_controller();
        if sharding.ring().params().field == ShardField::Uid {
            self.triggers.push(sharding.deletions(controller, &reconciled));
        }
        self.sharded = Some(Box::new(move |queue, triggers, reconcile| {
            let others = triggers.iter().filter_map(|trigger| match &trigger.source {
                Source::Informer { informer, .. } => Some(informer.clone()),
                Source::Stream(_) => None,
            });
            sharding.add(controller, queue, &reconciled, others, reconcile)
        }));
        self
    }

    fn without_kind(self) -> Self {
        self.invalid(Box::new(|controller| Error::NoReconciledKind { controller }))
    }

    fn invalid(mut self, invalid: Invalid) -> Self {
        self.invalid = Some(invalid);
        self
    }
}
