//! The informer of Kubernetes objects, one type for all kinds.
//!
//! Nothing here and in the modules that it uses has the type of a program's objects: [`Informer`](crate::Informer), its
//! listers, snapshots and handlers are the typed edge. So store, queue, processor and informer are compiled once, in this
//! crate, and not again for each kind in the user's program. For the same reason the futures of methods are boxed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kinformer_core::{PartOrKey, ResourceVersion};
use kinformer_kube::{DecodeAs, FieldPath, PackedObject};
use kinformer_processor::{ListenerBuilder, ListenerStream, Registration};
use kinformer_shared_informer::{Error, InformerMetrics, Part, Phase, SharedIndexInformer};
use kinformer_store::{Error as StoreError, IndexFunction};
use parking_lot::Mutex;

use crate::arrival::Arrival;
use crate::callbacks::{BoxFuture, Handler, HandlerSpec, Object, ObjectIndex, Polled};
use crate::changing_scope::ChangingScope;
use crate::objects::{Objects, State};
use crate::projection::{Decision, Projection};
use crate::scope::Scope;
use crate::selection::{self, NamespaceWatches, Selected};
use crate::started::Started;

/// The informer of one resource and projection.
pub(crate) struct KubeInformer {
    informer: SharedIndexInformer<PackedObject>,
    /// The resource name, for errors.
    resource: Arc<str>,
    arrival: Arc<Arrival>,
    changes: Changes,
    scope: ChangingScope,
    projection: Decision,
    started: Arc<Started>,
    /// The paths of the indexes by one field, by the names of the indexes.
    field_paths: Mutex<HashMap<Arc<str>, FieldPath>>,
}

/// How the objects of an informer differ from those on the server.
pub(crate) struct Changes {
    pub(crate) has_transform: bool,
    pub(crate) dropped_fields: Vec<FieldPath>,
}

impl KubeInformer {
    pub(crate) fn new(
        informer: SharedIndexInformer<PackedObject>,
        resource: Arc<str>,
        arrival: Arc<Arrival>,
        changes: Changes,
        projection: Decision,
        scope: ChangingScope,
    ) -> Self {
        let (started, field_paths) = (Arc::default(), Mutex::default());
        Self { informer, resource, arrival, changes, scope, projection, started, field_paths }
    }

    pub(crate) fn shared(&self) -> &SharedIndexInformer<PackedObject> {
        &self.informer
    }

    pub(crate) fn name(&self) -> &str {
        self.informer.name()
    }

    pub(crate) fn resource(&self) -> &Arc<str> {
        &self.resource
    }

    /// The objects of each part, by the scope that was requested last.
    pub(crate) fn selected(&self) -> Arc<[Selected]> {
        self.scope.selected()
    }

    pub(crate) fn has_fixed_scope(&self) -> bool {
        self.scope.is_fixed()
    }

    pub(crate) fn set_scope<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<(), crate::Error>> {
        Box::pin(self.scope.set(&self.informer, &self.resource, scope))
    }

    pub(crate) fn namespace_watches(&self) -> Option<NamespaceWatches> {
        self.scope.watches()
    }

    /// Makes the parts of the present scope again. Returns `false` if it has none.
    pub(crate) fn replace_parts(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.scope.replace(&self.informer))
    }

    /// Waits until the part with the objects of a namespace has reached a version. Returns at once if there is no such part, or
    /// the informer does not run.
    pub(crate) async fn reached(&self, namespace: &str, version: &ResourceVersion) {
        if self.phase() != Phase::Running || self.has_fixed_scope() {
            return;
        }
        let name = selection::part_of(&self.selected(), namespace).map(|part| Arc::<str>::from(part.name()));
        let part = name.and_then(|name| self.parts().iter().find(|part| *part.name() == *name).map(Part::id));
        if let Some(part) = part {
            _ = self.informer.wait_for(part, version).await;
        }
    }

    pub(crate) fn wait_for_parts(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.informer.wait_for_parts())
    }

    pub(crate) fn wait_for_part<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.informer.wait_for_part(name).await })
    }

    /// Returns the outcome of `wait_for_part` at a deadline that passes now.
    pub(crate) fn part_at_deadline(&self, name: &str) -> Result<(), Error> {
        self.informer.wait_for_part(name).at_deadline()
    }

    /// Returns the outcome of `wait_for_parts` at a deadline that passes now.
    pub(crate) fn parts_at_deadline(&self) -> Result<(), Error> {
        self.informer.wait_for_parts().at_deadline()
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The projection now.
    pub(crate) fn projection(&self) -> Projection {
        self.projection.get()
    }

    /// Makes the informer fetch whole objects. Returns `false` if it has started with metadata.
    pub(crate) fn request_whole(&self) -> bool {
        self.projection.request_whole()
    }

    pub(crate) fn started(&self) -> &Started {
        &self.started
    }

    /// Notes that the factory has started the informer, or that its start was lost.
    pub(crate) fn set_started(&self, started: bool) {
        if started {
            self.projection.start();
        }
        self.started.set_begun(started);
    }

    /// Notes that the informer runs, or was ended.
    pub(crate) fn set_ran(&self) {
        self.projection.start();
        self.started.set_ran();
    }

    pub(crate) fn phase(&self) -> Phase {
        self.informer.phase()
    }

    pub(crate) fn add(
        &self,
        spec: HandlerSpec,
        name: &'static str,
        handler: Handler,
    ) -> Result<Registration, Error> {
        let builder = self.handler(spec, name);
        Ok(match handler {
            Handler::Blocking(handler) => builder.add(handler),
            Handler::Inline(handler) => builder.inline().add(handler),
            Handler::Async(handler) => builder.add_async(Polled(handler)),
        }?)
    }

    pub(crate) fn events(&self, spec: HandlerSpec) -> Result<ListenerStream<PackedObject>, Error> {
        Ok(self.handler(spec, "stream").stream()?)
    }

    fn handler(&self, spec: HandlerSpec, type_name: &'static str) -> ListenerBuilder<'_, PackedObject> {
        let HandlerSpec { name, resync, buffer, filter } = spec;
        let builder = self.informer.handler().name(name.unwrap_or_else(|| type_name.into())).buffer(buffer);
        let builder = match resync {
            Some(period) => builder.resync(period),
            None => builder,
        };
        match filter {
            Some(filter) => builder.filter(filter),
            None => builder,
        }
    }

    pub(crate) fn remove_handler<'a>(&'a self, registration: &'a Registration) -> BoxFuture<'a, bool> {
        Box::pin(self.informer.remove_handler(registration))
    }

    pub(crate) fn add_index(&self, name: Arc<str>, index: ObjectIndex) -> Result<(), Error> {
        self.informer.add_indexers([(name, IndexFunction::fallible(index))])
    }

    /// Adds the index by one field.
    pub(crate) fn add_field_index(
        &self,
        name: Arc<str>,
        path: FieldPath,
        index: ObjectIndex,
    ) -> Result<(), Error> {
        self.add_index(name.clone(), index)?;
        self.field_paths.lock().insert(name, path);
        Ok(())
    }

    /// The path of an index by one field.
    pub(crate) fn field_path(&self, index: &str) -> Option<FieldPath> {
        self.field_paths.lock().get(index).cloned()
    }

    pub(crate) fn objects(&self) -> Objects {
        Objects::new(self.informer.store(), self.resource.clone(), self.started.clone())
    }

    pub(crate) fn snapshot(&self) -> State {
        State::new(self.informer.snapshot())
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.informer.has_synced()
    }

    pub(crate) fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.informer.wait_for_sync())
    }

    /// Returns the outcome of `wait_for_sync` at a deadline that passes now.
    pub(crate) fn sync_at_deadline(&self) -> Result<(), Error> {
        self.informer.wait_for_sync().at_deadline()
    }

    pub(crate) fn wait_for<'a>(
        &'a self,
        place: PartOrKey<'a>,
        version: &'a ResourceVersion,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.check(place)?;
            self.informer.wait_for(place, version).await
        })
    }

    /// Returns the outcome of `wait_for` at a deadline that passes now.
    pub(crate) fn version_at_deadline(
        &self,
        place: PartOrKey<'_>,
        version: &ResourceVersion,
    ) -> Result<(), Error> {
        self.informer.wait_for(place, version).at_deadline()
    }

    /// Refuses a key of another namespace, as an informer of several namespaces does.
    fn check(&self, place: PartOrKey<'_>) -> Result<(), Error> {
        let selected = self.selected();
        let only = selection::only_namespace(&selected);
        let (Some(namespace), PartOrKey::Key(key)) = (only, place) else {
            return Ok(());
        };
        if key.namespace() == Some(namespace) {
            return Ok(());
        }
        let source = StoreError::NoPart { place: place.to_string(), parts: 1 };
        Err(Error::VersionNotReached { informer: self.informer.name().into(), source: Arc::new(source) })
    }

    /// Waits until the store has a state after this revision; `false` if the informer stops first.
    pub(crate) fn changed(&self, revision: u64) -> BoxFuture<'_, bool> {
        Box::pin(self.informer.changed(revision))
    }

    /// Waits until the informer has ended.
    pub(crate) fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.informer.stopped())
    }

    pub(crate) fn parts(&self) -> Arc<[Part]> {
        self.informer.parts()
    }

    pub(crate) fn metrics(&self) -> InformerMetrics {
        self.informer.metrics()
    }

    pub(crate) fn bytes(&self) -> Option<u64> {
        self.informer.bytes()
    }

    /// Decodes objects to this type on arrival, unless another type was set before.
    pub(crate) fn decode_on_arrival(&self, to: DecodeAs) {
        if self.arrival.decode_as(to) {
            self.informer.snapshot().for_each(|object: &Object| _ = self.arrival.decode(object));
        }
    }

    /// The number of objects that could not be decoded on arrival.
    pub(crate) fn undecoded(&self) -> u64 {
        self.arrival.failed()
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn add_to(
        &self,
        collector: &kinformer_shared_informer::prometheus::InformerCollector,
    ) -> Result<(), Error> {
        let arrival = Arc::downgrade(&self.arrival);
        collector.add_with(&self.informer, move || arrival.upgrade().map_or(0, |arrival| arrival.failed()))
    }
}

impl fmt::Debug for KubeInformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.informer.fmt(f)
    }
}
