//! What an accessor gives: an informer, read as one of a kind.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use kinformer_core::{BoxError, KeyRef, PartOrKey, ResourceVersion};
use kinformer_kube::{DecodeAs, Packed, PackedObject, PackedRef};
use kinformer_processor::{Event, Registration};
use kinformer_shared_informer::{Error, InformerMetrics, Part, Phase};
use kinformer_store::IndexValues;
use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::entry::Entry;
use crate::factory::{SharedInformerFactory, WeakFactory};
use crate::handler::{EventStream, HandlerBuilder};
use crate::index_by_field::by_field;
use crate::kind::{resource_name, versioned_name};
use crate::lister::Lister;
use crate::snapshot::Snapshot;
use crate::target::{Bound, Target};

/// The informer of one resource, whose objects are read as `K`.
///
/// All informers of one resource that a factory gives out are views of one, whatever their types: of a built-in kind, of
/// a [dynamic object](Self::dynamic), of a type of one's own with some of the fields. They share one watch, one store and
/// its indexes. Cheap to clone.
///
/// An informer runs from the factory's next [start](SharedInformerFactory::start) on. With the first use of it, which is
/// any method but [`lease`](Self::lease) and [`remove`](Self::remove), the factory keeps it until its shutdown, and this view
/// and its clones are bound to it: they never become views of another informer, also when it is removed.
///
/// Follows client-go 1.37 (`SharedIndexInformer`, `GenericInformer`, and `PodInformer` and its like).
pub struct Informer<K> {
    view: Arc<View>,
    kind: PhantomData<fn() -> K>,
}

/// An [`Informer`], without its type.
pub(crate) struct View {
    /// Informers do not keep a factory alive.
    factory: WeakFactory,
    target: Target,
    bound: OnceLock<Bound>,
}

impl View {
    fn new(factory: &SharedInformerFactory, target: Target) -> Arc<Self> {
        factory.request(&target);
        Arc::new(Self { factory: factory.downgrade(), target, bound: OnceLock::new() })
    }

    /// The engine. From now on the factory keeps it.
    fn engine(&self) -> &Arc<dyn Engine> {
        &self.bound.get_or_init(|| self.factory.bound(&self.target, Entry::keep)).engine
    }

    fn lease(&self) -> Lease {
        let bound = match self.bound.get() {
            Some(bound) => {
                // One that was removed stays stopped, and is not held by anything.
                bound.entry.lease();
                bound.clone()
            }
            None => self.factory.bound(&self.target, Entry::lease),
        };
        let entry = bound.entry.clone();
        let view =
            Self { factory: self.factory.clone(), target: self.target.clone(), bound: OnceLock::from(bound) };
        Lease { view: Arc::new(view), entry }
    }

    async fn remove(&self) -> bool {
        let Some(factory) = self.factory.upgrade() else { return false };
        match self.bound.get() {
            Some(bound) => factory.remove_entry(&bound.entry).await,
            None => factory.remove_target(&self.target).await,
        }
    }
}

impl<K> Informer<K> {
    pub(crate) fn new(factory: &SharedInformerFactory, target: Target) -> Self {
        Self::of(View::new(factory, target))
    }

    fn of(view: Arc<View>) -> Self {
        Self { view, kind: PhantomData }
    }

    fn engine(&self) -> &Arc<dyn Engine> {
        self.view.engine()
    }

    /// The same informer, whose objects are read as another type: a type of one's own with some of the fields.
    pub fn cast<M>(&self) -> Informer<M> {
        Informer::of(self.view.clone())
    }

    /// The same informer, whose objects are read as dynamic objects.
    pub fn dynamic(&self) -> Informer<DynamicObject> {
        self.cast()
    }

    /// The same informer, whose objects are read as their metadata. Whole objects are fetched all the same: see
    /// [`SharedInformerFactory::metadata`].
    pub fn metadata(&self) -> Informer<PartialObjectMeta<DynamicObject>> {
        self.cast()
    }

    /// Its name, in messages and metrics.
    pub fn name(&self) -> &str {
        self.engine().name()
    }

    /// The resource, as people write it: `pods`, `deployments.apps`.
    pub fn resource(&self) -> String {
        resource_name(&self.view.target.resource)
    }

    /// Which of the resource's objects it holds; empty for all.
    pub fn scope(&self) -> &str {
        self.engine().scope()
    }

    /// A handler to be added, with what is particular about it: its name, resync period, buffer, filter.
    pub fn handler(&self) -> HandlerBuilder<'_, K>
    where
        K: 'static,
    {
        HandlerBuilder::new(&**self.engine())
    }

    /// Adds a handler as it is: see [`HandlerBuilder::for_each`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn for_each(
        &self,
        handler: impl FnMut(Event<PackedRef<'_, K>>) + Send + 'static,
    ) -> Result<Registration, Error>
    where
        K: 'static,
    {
        self.handler().for_each(handler)
    }

    /// All events as a stream: see [`HandlerBuilder::stream`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[track_caller]
    pub fn stream(&self) -> Result<EventStream<K>, Error>
    where
        K: 'static,
    {
        self.handler().stream()
    }

    /// Removes a handler of this informer, and waits for the callback that is running. Says whether it was one of its own
    /// and not removed before.
    pub async fn remove_handler(&self, registration: &Registration) -> bool {
        self.engine().remove_handler(registration).await
    }

    /// Reads what the informer has stored.
    pub fn lister(&self) -> Lister<K> {
        Lister::of(self.engine().objects())
    }

    /// What the informer has stored now.
    pub fn snapshot(&self) -> Snapshot<K> {
        Snapshot::new(self.engine().snapshot())
    }

    /// The object with this key. O(1).
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Packed<K>> {
        self.engine().get(key.into()).map(Packed::new)
    }

    /// How many objects are stored. O(1), unless the informer has begun with [metadata](SharedInformerFactory::metadata).
    pub fn len(&self) -> usize {
        self.engine().len()
    }

    /// Whether no objects are stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an index by the values that the function gives of an object; before the start and after it.
    ///
    /// # Errors
    /// [`Error::Indexers`]: the name is taken, and nothing has changed. [`Error::Stopped`].
    ///
    /// Follows client-go 1.37 (`AddIndexers`).
    pub fn index(
        &self,
        name: impl Into<Arc<str>>,
        function: impl Fn(PackedRef<'_, K>, &mut IndexValues) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Result<(), Error>
    where
        K: 'static,
    {
        let index = Box::new(move |object: &Arc<PackedObject>, values: &mut IndexValues| {
            function(PackedRef::new(object), values)
        });
        self.engine().add_index(name.into(), index)
    }

    /// Adds an index by one field: `index_by_field("node", &["spec", "nodeName"])`. No object is decoded for it but for
    /// that field.
    ///
    /// The field is named by its names in JSON, also where it is in JSON within protobuf, and is a text, a number or a
    /// boolean, the same in both encodings and as in the whole object. An object that does not have it, or has null there, is
    /// in the index under no value. If it is something else, or the object is broken, that object is reported and is not in
    /// the index.
    ///
    /// # Errors
    /// As [`Self::index`].
    ///
    /// Follows controller-runtime 0.25 (`FieldIndexer`).
    pub fn index_by_field(&self, name: impl Into<Arc<str>>, path: &[&str]) -> Result<(), Error> {
        self.engine().add_index(name.into(), by_field(path))
    }

    /// Decodes every object as a `K` when it arrives, and keeps the value: for kinds of which most objects are read all
    /// the time. Objects that are stored already are decoded now. Without it objects are decoded when they are read.
    ///
    /// It is the informer's, for all its views, and is not taken back. One value is kept for each object: it is of the type
    /// for which this was called first, by any view or [option](crate::SharedInformerFactoryBuilder::decode), and other types
    /// are decoded when they are read.
    ///
    /// An object that does not decode, or over which the type panics, is reported in the log and to the factory's
    /// [error hook](crate::SharedInformerFactoryBuilder::on_error), [counted](Self::undecoded), and stored and delivered all
    /// the same: other views read it, and [`Packed::decode`] gives the error.
    pub fn decode_on_arrival(&self) -> &Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        self.engine().decode_on_arrival(DecodeAs::of::<K>());
        self
    }

    /// How many objects did not decode when they arrived.
    pub fn undecoded(&self) -> u64 {
        self.engine().undecoded()
    }

    /// Runs the informer until the token is cancelled, for a caller that does not [start](SharedInformerFactory::start) it
    /// by the factory; see [`SharedIndexInformer::run`](crate::SharedIndexInformer::run).
    ///
    /// # Errors
    /// [`Error::Running`] or [`Error::Stopped`] at once: an informer runs once. [`Error::Stuck`] at the end.
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        self.engine().run(cancel).await
    }

    /// Whether it has stopped.
    pub fn is_stopped(&self) -> bool {
        self.phase() == Phase::Stopped
    }

    /// Where it is in its life.
    pub fn phase(&self) -> Phase {
        self.engine().phase()
    }

    /// Waits until it has stopped. Cancel-safe.
    pub async fn stopped(&self) {
        self.engine().stopped().await;
    }

    /// Whether the store has had everything of the first list.
    pub fn has_synced(&self) -> bool {
        self.engine().has_synced()
    }

    /// Waits until the store has had everything of the first list. Cancel-safe; any number may wait.
    ///
    /// # Errors
    /// [`Error::NotSynced`]: it stopped first; with the last error it met.
    pub async fn wait_for_sync(&self) -> Result<(), Error> {
        self.engine().wait_for_sync(None).await
    }

    /// As [`Self::wait_for_sync`], until a deadline.
    ///
    /// # Errors
    /// [`Error::NotSynced`], with how far it has come and the last error it met.
    pub async fn wait_for_sync_until(&self, deadline: Instant) -> Result<(), Error> {
        self.engine().wait_for_sync(Some(deadline)).await
    }

    /// Waits until the store reflects at least this version, for example that of one's own write. Cancel-safe.
    ///
    /// # Errors
    /// [`Error::VersionNotReached`]: it stopped first, or the versions do not compare; at once for a part that there is not,
    /// and for a key of a namespace that the informer does not have.
    pub async fn wait_for<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
    ) -> Result<(), Error> {
        self.engine().wait_for(place.into(), version, None).await
    }

    /// As [`Self::wait_for`], until a deadline.
    ///
    /// # Errors
    /// As [`Self::wait_for`], and at the deadline.
    pub async fn wait_for_until<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
        deadline: Instant,
    ) -> Result<(), Error> {
        self.engine().wait_for(place.into(), version, Some(deadline)).await
    }

    /// Its parts, by number: one for each namespace that it is restricted to, or one. Each has its own reflector.
    pub fn parts(&self) -> &[Part] {
        self.engine().parts()
    }

    /// Its figures.
    pub fn metrics(&self) -> InformerMetrics {
        self.engine().metrics()
    }

    /// Adds it to a collector of metrics.
    ///
    /// # Errors
    /// [`Error::DuplicateMetrics`]: another informer of this name was added.
    #[cfg(feature = "prometheus")]
    pub fn add_to(
        &self,
        collector: &kinformer_shared_informer::prometheus::InformerCollector,
    ) -> Result<(), Error> {
        self.engine().add_to(collector)
    }

    /// The informer for as long as somebody needs it: when the last lease of it is given back or dropped, it stops,
    /// and its watch and its objects go. If the factory keeps it, since it was used, it goes on.
    ///
    /// The lease is of the informer to which this view is bound, though that may have stopped, and else of the one that the
    /// factory has.
    pub fn lease(&self) -> InformerLease<K> {
        let lease = self.view.lease();
        InformerLease { informer: Self::of(lease.view.clone()), lease }
    }

    /// Stops the informer, whoever holds it, and waits until it has stopped. Returns whether it had not been stopped by this
    /// before.
    ///
    /// All views that are bound to it stay with the informer that has stopped, and so do their leases. An informer that the
    /// factory is asked for later is a new one.
    pub async fn remove(&self) -> bool {
        self.view.remove().await
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self::of(self.view.clone())
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view.bound.get() {
            Some(bound) => bound.engine.fmt(f),
            None => f
                .debug_struct("Informer")
                .field("resource", &versioned_name(&self.view.target.resource))
                .finish_non_exhaustive(),
        }
    }
}

/// Holds an informer of the factory; it stops with its last holder.
pub struct InformerLease<K> {
    informer: Informer<K>,
    lease: Lease,
}

/// A lease, without its type.
struct Lease {
    view: Arc<View>,
    entry: Arc<Entry>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(factory) = self.view.factory.upgrade() {
            factory.give_back_entry(&self.entry);
        }
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        // It is held, by this one: so it has not been released, unless it was removed, and then it has stopped.
        self.entry.lease();
        Self { view: self.view.clone(), entry: self.entry.clone() }
    }
}

impl<K> InformerLease<K> {
    /// Gives the lease back, and waits until the informer has stopped if it was the last. Cancel-safe: the lease is
    /// given back at once.
    pub async fn release(self) {
        let entry = self.lease.entry.clone();
        drop(self);
        if entry.is_released() {
            entry.ended().await;
        }
    }
}

impl<K> Deref for InformerLease<K> {
    type Target = Informer<K>;

    fn deref(&self) -> &Informer<K> {
        &self.informer
    }
}

impl<K> Clone for InformerLease<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), lease: self.lease.clone() }
    }
}

impl<K> fmt::Debug for InformerLease<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerLease").field(&self.informer).finish()
    }
}
