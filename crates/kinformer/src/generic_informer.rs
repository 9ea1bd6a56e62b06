//! What an accessor gives.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kinformer_core::Object;
use kinformer_shared_informer::SharedIndexInformer;
use kube_core::discovery::Scope;
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, Resource};

use crate::entry::{Entry, Held, Key, Managed};
use crate::kind::{Kind, KnownKind, resource_name, scope_of};
use crate::{Lister, SharedInformerFactory};

/// The informer of one kind, as the factory has it or will have it: nothing is made until it is asked for.
///
/// Follows client-go 1.37 (`GenericInformer`, and `PodInformer` and its like).
pub struct GenericInformer<K: Resource> {
    factory: SharedInformerFactory,
    dynamic_type: K::DynamicType,
    scope: Scope,
}

impl<K: Resource<DynamicType = (), Scope: 'static>> GenericInformer<K> {
    pub(crate) fn new(factory: &SharedInformerFactory) -> Self {
        Self::of(factory, (), scope_of::<K>())
    }
}

impl<K: Resource> GenericInformer<K> {
    pub(crate) fn of(factory: &SharedInformerFactory, dynamic_type: K::DynamicType, scope: Scope) -> Self {
        Self { factory: factory.clone(), dynamic_type, scope }
    }
}

impl GenericInformer<DynamicObject> {
    /// Only the metadata of the same resource, which is an informer of its own. Nothing is asked of the server.
    pub fn metadata(&self) -> GenericInformer<PartialObjectMeta<DynamicObject>> {
        GenericInformer::of(&self.factory, self.dynamic_type.clone(), self.scope.clone())
    }
}

impl<K: KnownKind> GenericInformer<K>
where
    K::DynamicType: Kind<K>,
{
    /// The informer. From now on the factory keeps it for as long as it lives. It runs from the next
    /// [start](SharedInformerFactory::start) on.
    pub fn informer(&self) -> SharedIndexInformer<K> {
        self.held(Entry::keep).1
    }

    /// Reads what the informer has stored. The factory keeps the informer from now on.
    pub fn lister(&self) -> Lister<K> {
        Lister::new(self.informer().store()).of_resource(self.resource())
    }

    /// The informer for as long as somebody needs it: when the last lease of it is given back or dropped, it stops,
    /// and its watch and its objects go. If the factory [keeps](Self::informer) it, it goes on.
    pub fn lease(&self) -> InformerLease<K> {
        let (entry, informer) = self.held(Entry::lease);
        InformerLease { informer, key: self.key(), entry, factory: self.factory.clone() }
    }

    /// Stops the informer, whoever holds it, and waits until it has stopped. Asked for again, it is a new one. Says
    /// whether there was one.
    pub async fn remove(&self) -> bool {
        self.factory.remove(&self.key()).await
    }

    /// What it is about, as people write it: `pods`, `deployments.apps`.
    pub fn resource(&self) -> String {
        resource_name::<K>(&self.dynamic_type)
    }

    fn held(&self, hold: fn(&Entry) -> Held) -> (Arc<Entry>, SharedIndexInformer<K>) {
        let Ok(held) = self.factory.held(&self.key(), hold, || Ok::<_, Infallible>(self.make()));
        held
    }

    fn key(&self) -> Key {
        match self.dynamic_type.resource() {
            Some(resource) => Key::of_resource::<K>(resource.into()),
            None => Key::of_type::<K>(),
        }
    }

    fn make(&self) -> Arc<dyn Managed> {
        let source = self.factory.lister_watcher::<K>(&self.dynamic_type, &self.scope);
        Arc::new(self.factory.kubernetes_informer(source, &self.resource()))
    }
}

impl<K: Resource> Clone for GenericInformer<K>
where
    K::DynamicType: Clone,
{
    fn clone(&self) -> Self {
        Self::of(&self.factory, self.dynamic_type.clone(), self.scope.clone())
    }
}

impl<K: Resource> fmt::Debug for GenericInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenericInformer")
            .field("resource", &resource_name::<K>(&self.dynamic_type))
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
