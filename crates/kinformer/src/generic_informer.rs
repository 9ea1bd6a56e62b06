//! What an accessor gives.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::Object;
use kinformer_kube::{FromWire, KubeListerWatcher, Packed};
use kinformer_shared_informer::SharedIndexInformer;
use kube_client::Client;
use kube_core::discovery::{ApiResource, Scope};
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, Resource};

use crate::entry::{Entry, Held, Key, Managed};
use crate::kind::{resource_name, scope_of, versioned_name};
use crate::{KnownKind, Lister, Objects, SharedInformerFactory};

/// The informer of one resource with objects of type `T`, as the factory has it or will have it: nothing is made until
/// it is asked for.
///
/// Follows client-go 1.37 (`GenericInformer`, and `PodInformer` and its like).
pub struct GenericInformer<T> {
    factory: SharedInformerFactory,
    resource: ApiResource,
    scope: Scope,
    key: Key,
    source: fn(Client, ApiResource) -> KubeListerWatcher<T>,
    /// What stands behind the resource in the informer's name.
    mark: &'static str,
}

const METADATA: &str = " (metadata)";

impl<T: 'static> GenericInformer<T> {
    /// The objects of a kind in the form that the factory has.
    pub(crate) fn of_kind<K, O>(factory: &SharedInformerFactory<O>) -> Self
    where
        K: KnownKind<DynamicType = (), Scope: 'static>,
        O: Objects<Of<K> = T>,
    {
        Self {
            factory: factory.packed(),
            resource: ApiResource::erase::<K>(&()),
            scope: scope_of::<K>(),
            key: Key::of_type::<T>(),
            source: |client, _| O::lister_watcher::<K>(client),
            mark: O::MARK,
        }
    }

    /// A resource that is named.
    fn of_resource(
        factory: SharedInformerFactory,
        resource: ApiResource,
        scope: Scope,
        source: fn(Client, ApiResource) -> KubeListerWatcher<T>,
        mark: &'static str,
    ) -> Self {
        let name = format!("{}/{}", resource.api_version, resource.plural);
        Self { factory, resource, scope, key: Key::of_resource::<T>(name.into()), source, mark }
    }
}

impl<K: Resource<DynamicType = (), Scope: 'static> + Send + Sync + 'static>
    GenericInformer<PartialObjectMeta<K>>
{
    /// Only the metadata of a kind.
    pub(crate) fn of_metadata(factory: SharedInformerFactory) -> Self {
        Self {
            factory,
            resource: ApiResource::erase::<K>(&()),
            scope: scope_of::<K>(),
            key: Key::of_type::<PartialObjectMeta<K>>(),
            source: |client, _| KubeListerWatcher::new(client),
            mark: METADATA,
        }
    }
}

impl GenericInformer<DynamicObject> {
    pub(crate) fn dynamic(factory: SharedInformerFactory, resource: ApiResource, scope: Scope) -> Self {
        Self::of_resource(factory, resource, scope, KubeListerWatcher::dynamic, " (dynamic)")
    }

    /// Only the metadata of the same resource, which is an informer of its own. Nothing is asked of the server.
    pub fn metadata(&self) -> GenericInformer<PartialObjectMeta<DynamicObject>> {
        GenericInformer::dynamic_metadata(self.factory.clone(), self.resource.clone(), self.scope.clone())
    }

    /// The same resource with objects that are kept as they come and decoded when they are read, which is an informer
    /// of its own. Nothing is asked of the server.
    pub fn packed(&self) -> GenericInformer<Packed<DynamicObject>> {
        let (factory, resource, scope) = (self.factory.clone(), self.resource.clone(), self.scope.clone());
        let source = KubeListerWatcher::packed_dynamic;
        GenericInformer::of_resource(factory, resource, scope, source, " (dynamic, packed)")
    }
}

impl GenericInformer<PartialObjectMeta<DynamicObject>> {
    pub(crate) fn dynamic_metadata(
        factory: SharedInformerFactory,
        resource: ApiResource,
        scope: Scope,
    ) -> Self {
        Self::of_resource(factory, resource, scope, KubeListerWatcher::dynamic, " (dynamic, metadata)")
    }
}

impl<T: Object + FromWire> GenericInformer<T> {
    /// The informer. From now on the factory keeps it for as long as it lives. It runs from the next
    /// [start](SharedInformerFactory::start) on.
    pub fn informer(&self) -> SharedIndexInformer<T> {
        self.held(Entry::keep).1
    }

    /// Reads what the informer has stored. The factory keeps the informer from now on.
    pub fn lister(&self) -> Lister<T> {
        Lister::new(self.informer().store()).of_resource(self.resource())
    }

    /// The informer for as long as somebody needs it: when the last lease of it is given back or dropped, it stops,
    /// and its watch and its objects go. If the factory [keeps](Self::informer) it, it goes on.
    pub fn lease(&self) -> InformerLease<T> {
        let (entry, informer) = self.held(Entry::lease);
        InformerLease { informer, key: self.key.clone(), entry, factory: self.factory.clone() }
    }

    /// Stops the informer, whoever holds it, and waits until it has stopped. Asked for again, it is a new one. Says
    /// whether there was one.
    pub async fn remove(&self) -> bool {
        self.factory.remove(&self.key).await
    }

    /// What it is about, as people write it: `pods`, `deployments.apps`.
    pub fn resource(&self) -> String {
        resource_name(&self.resource)
    }

    fn held(&self, hold: fn(&Entry) -> Held) -> (Arc<Entry>, SharedIndexInformer<T>) {
        let Ok(held) = self.factory.held(&self.key, hold, || Ok::<_, Infallible>(self.make()));
        held
    }

    fn make(&self) -> Arc<dyn Managed> {
        let source = (self.source)(self.factory.client().clone(), self.resource.clone());
        let name = format!("{}{}", versioned_name(&self.resource), self.mark);
        Arc::new(self.factory.kubernetes_informer(source, &self.scope, &self.resource(), &name))
    }
}

impl<T> Clone for GenericInformer<T> {
    fn clone(&self) -> Self {
        Self {
            factory: self.factory.clone(),
            resource: self.resource.clone(),
            scope: self.scope.clone(),
            key: self.key.clone(),
            source: self.source,
            mark: self.mark,
        }
    }
}

impl<T> fmt::Debug for GenericInformer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenericInformer")
            .field("resource", &format_args!("{}{}", versioned_name(&self.resource), self.mark))
            .finish_non_exhaustive()
    }
}

/// Holds an informer of the factory; it stops with its last holder.
pub struct InformerLease<K: Object> {
    informer: SharedIndexInformer<K>,
    key: Key,
    entry: Arc<Entry>,
    factory: SharedInformerFactory,
}

impl<K: Object> InformerLease<K> {
    /// Gives the lease back, and waits until the informer has stopped if it was the last. Cancel-safe: the lease is
    /// given back at once.
    pub async fn release(self) {
        let entry = self.entry.clone();
        drop(self);
        if entry.is_released() {
            entry.ended().await;
        }
    }
}

impl<K: Object> Deref for InformerLease<K> {
    type Target = SharedIndexInformer<K>;

    fn deref(&self) -> &SharedIndexInformer<K> {
        &self.informer
    }
}

impl<K: Object> Clone for InformerLease<K> {
    fn clone(&self) -> Self {
        // It is held, by this one: so it has not been released, unless it was removed, and then it has stopped.
        self.entry.lease();
        Self {
            informer: self.informer.clone(),
            key: self.key.clone(),
            entry: self.entry.clone(),
            factory: self.factory.clone(),
        }
    }
}

impl<K: Object> Drop for InformerLease<K> {
    fn drop(&mut self) {
        self.factory.give_back(&self.key, &self.entry);
    }
}

impl<K: Object> fmt::Debug for InformerLease<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerLease").field(&self.informer).finish()
    }
}
