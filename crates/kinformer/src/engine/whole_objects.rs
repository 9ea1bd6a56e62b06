//! The view of the whole objects of an informer that started with metadata only.

use std::fmt;
use std::sync::Arc;

use kinformer_core::{KeyRef, ObjectKey, PartOrKey, ResourceVersion, Versions};
use kinformer_kube::{DecodeAs, FieldPath, PackedObject};
use kinformer_processor::Registration;
use kinformer_shared_informer::{AwaitedList, Error, InformerMetrics, Part, Phase};
use kinformer_store::{Error as StoreError, Snapshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::handlers::{BoxFuture, Events, Filter, Handler, HandlerSpec, Object, ObjectIndex};
use crate::engine::projection::Projection;
use crate::engine::started::Started;
use crate::engine::state::{Objects, State, Store};
use crate::engine::{Engine, FieldPaths, Managed};

/// An informer that switches from metadata to whole objects.
pub(crate) trait SwitchedEngine: Engine {
    /// Adds a handler that receives the switch from metadata to a whole object as an update.
    fn add_with_switch(
        &self,
        spec: HandlerSpec,
        name: &'static str,
        handler: Handler,
    ) -> Result<Registration, Error>;

    /// As [`Self::add_with_switch`], as a stream.
    fn events_with_switch(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error>;

    /// Decodes objects on arrival. With [`Projection::Metadata`], metadata-only objects are decoded too.
    fn decode_projection(&self, to: DecodeAs, projection: Projection);

    /// Waits until all objects of this part in the list are stored.
    fn wait_for_list<'a>(
        &'a self,
        list: &'a AwaitedList,
        place: PartOrKey<'a>,
        deadline: Option<Instant>,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// The view of whole objects. It does not show objects that are stored as metadata only, so it is empty and has not
/// synced until the store has the list of whole objects.
pub(crate) struct WholeObjects {
    engine: Arc<dyn SwitchedEngine>,
    list: AwaitedList,
}

impl WholeObjects {
    pub(crate) fn new(engine: Arc<dyn SwitchedEngine>, list: AwaitedList) -> Self {
        Self { engine, list }
    }

    fn only_whole(mut spec: HandlerSpec) -> HandlerSpec {
        let filter: Option<Filter> = spec.filter.take();
        spec.filter = Some(Box::new(move |object| {
            is_whole(object) && filter.as_ref().is_none_or(|filter| filter(object))
        }));
        spec
    }
}

fn is_whole(object: &Object) -> bool {
    !object.is_metadata_only()
}

impl Engine for WholeObjects {
    fn scope(&self) -> &str {
        self.engine.scope()
    }

    fn has_namespace(&self, namespace: &str) -> bool {
        self.engine.has_namespace(namespace)
    }

    fn selects(&self, object: &Object) -> bool {
        self.engine.selects(object)
    }

    fn has_transform(&self) -> bool {
        self.engine.has_transform()
    }

    fn dropped_fields(&self) -> &[FieldPath] {
        self.engine.dropped_fields()
    }

    fn selectors(&self, namespace: &str) -> [Option<Arc<str>>; 2] {
        self.engine.selectors(namespace)
    }

    fn resource(&self) -> &Arc<str> {
        self.engine.resource()
    }

    fn whole_objects(self: Arc<Self>) -> Arc<dyn Engine> {
        self
    }

    fn add(&self, spec: HandlerSpec, name: &'static str, handler: Handler) -> Result<Registration, Error> {
        self.engine.add_with_switch(Self::only_whole(spec), name, handler)
    }

    fn events(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error> {
        self.engine.events_with_switch(Self::only_whole(spec))
    }

    fn remove_handler<'a>(&'a self, registration: &'a Registration) -> BoxFuture<'a, bool> {
        self.engine.remove_handler(registration)
    }

    fn add_index(&self, name: Arc<str>, index: ObjectIndex) -> Result<(), Error> {
        let index_whole: ObjectIndex = Box::new(move |object, values| match object.is_metadata_only() {
            true => Ok(()),
            false => index(object, values),
        });
        self.engine.add_index(name, index_whole)
    }

    fn field_paths(&self) -> &FieldPaths {
        self.engine.field_paths()
    }

    fn objects(&self) -> Objects {
        self.engine.objects().map(|store| Arc::new(OnlyWhole(store)))
    }

    fn started(&self) -> &Started {
        self.engine.started()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Object)) {
        self.engine.for_each(&mut |object| visit_whole(object, visit));
    }

    fn snapshot(&self) -> Arc<dyn State> {
        Arc::new(OnlyWhole(self.engine.snapshot()))
    }

    fn has_synced(&self) -> bool {
        self.engine.has_synced() && self.list.is_stored()
    }

    fn wait_for<'a>(
        &'a self,
        place: PartOrKey<'a>,
        version: &'a ResourceVersion,
        deadline: Option<Instant>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            // Only for this part: other parts may be behind.
            self.engine.wait_for_list(&self.list, place, deadline).await?;
            self.engine.wait_for(place, version, deadline).await
        })
    }

    fn changed(&self, revision: u64) -> BoxFuture<'_, bool> {
        self.engine.changed(revision)
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        self.engine.stopped()
    }

    fn parts(&self) -> &[Part] {
        self.engine.parts()
    }

    fn metrics(&self) -> InformerMetrics {
        self.engine.metrics()
    }

    fn decode_on_arrival(&self, to: DecodeAs) {
        self.engine.decode_projection(to, Projection::Full);
    }

    fn undecoded(&self) -> u64 {
        self.engine.undecoded()
    }

    #[cfg(feature = "prometheus")]
    fn add_to(
        &self,
        collector: &kinformer_shared_informer::prometheus::InformerCollector,
    ) -> Result<(), Error> {
        self.engine.add_to(collector)
    }
}

impl Managed for WholeObjects {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn phase(&self) -> Phase {
        self.engine.phase()
    }

    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>> {
        self.engine.run(cancel)
    }

    fn discard(&self) {
        self.engine.discard();
    }

    fn set_started(&self, started: bool) {
        self.engine.set_started(started);
    }

    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>> {
        self.engine.wait_for_all(deadline)
    }
}

impl fmt::Debug for WholeObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.fmt(f)
    }
}

fn visit_whole<'a>(object: &'a Object, visit: &mut (dyn FnMut(&'a Object) + '_)) {
    if is_whole(object) {
        visit(object);
    }
}

/// A store, or one state of it, without the objects that are stored as metadata only.
struct OnlyWhole<S: ?Sized>(Arc<S>);

impl Store for OnlyWhole<dyn Store> {
    fn get(&self, key: KeyRef<'_>) -> Option<Object> {
        self.0.get(key).filter(is_whole)
    }

    fn list(&self) -> Vec<Object> {
        let mut objects = self.0.list();
        objects.retain(is_whole);
        objects
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Object)) {
        self.0.for_each(&mut |object| visit_whole(object, visit));
    }

    fn by_index(&self, index: &str, value: &str, visit: &mut dyn FnMut(&Object)) -> Result<(), StoreError> {
        self.0.by_index(index, value, &mut |object| visit_whole(object, visit))
    }
}

impl State for OnlyWhole<dyn State> {
    fn get(&self, key: KeyRef<'_>) -> Option<&Object> {
        self.0.get(key).filter(|object| is_whole(object))
    }

    fn len(&self) -> usize {
        self.iter().count()
    }

    fn revision(&self) -> u64 {
        self.0.revision()
    }

    fn resource_versions(&self) -> &Versions {
        self.0.resource_versions()
    }

    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a Object)) {
        self.0.for_each(&mut |object| visit_whole(object, visit));
    }

    fn iter(&self) -> Box<dyn Iterator<Item = &Object> + '_> {
        Box::new(self.0.iter().filter(|object| is_whole(object)))
    }

    fn ordered(&self) -> Vec<&Object> {
        let mut objects = self.0.ordered();
        objects.retain(|object| is_whole(object));
        objects
    }

    fn keys(&self) -> Vec<ObjectKey> {
        self.iter().filter_map(|object| ObjectKey::try_from(object.key()).ok()).collect()
    }

    fn by_index<'a>(
        &'a self,
        index: &str,
        value: &str,
        visit: &mut dyn FnMut(&'a Object),
    ) -> Result<(), StoreError> {
        self.0.by_index(index, value, &mut |object| visit_whole(object, visit))
    }

    fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, StoreError> {
        let mut values = self.0.index_values(index)?;
        values.retain(|value| self.index_len(index, value).is_ok_and(|objects| objects > 0));
        Ok(values)
    }

    fn index_names(&self) -> Vec<Arc<str>> {
        self.0.index_names()
    }

    fn index_len(&self, index: &str, value: &str) -> Result<usize, StoreError> {
        let mut objects = 0;
        self.by_index(index, value, &mut |_| objects += 1)?;
        Ok(objects)
    }

    fn stored(&self) -> &Snapshot<PackedObject> {
        self.0.stored()
    }

    fn shows(&self, object: &Object) -> bool {
        is_whole(object)
    }
}
