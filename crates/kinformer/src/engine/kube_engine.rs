//! The only informer type for Kubernetes objects.

use std::fmt;
use std::sync::Arc;

use kinformer_core::{PartOrKey, ResourceVersion};
use kinformer_kube::{DecodeAs, FieldPath, PackedObject};
use kinformer_processor::{HandlerBuilder, Registration};
use kinformer_shared_informer::{Error, InformerMetrics, Part, Phase, SharedIndexInformer};
use kinformer_store::{Error as StoreError, IndexFunction};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::arrival::Arrival;
use crate::engine::handlers::{BoxFuture, Events, Handler, HandlerSpec, Object, ObjectIndex, Polled};
use crate::engine::projection::{Decision, Projection};
use crate::engine::started::Started;
use crate::engine::state::{Objects, State};
use crate::engine::{Engine, FieldPaths, Managed};
use crate::selection::{self, Selected};

/// The only informer type for Kubernetes objects.
pub(crate) struct KubeEngine {
    informer: SharedIndexInformer<PackedObject>,
    resource: Arc<str>,
    arrival: Arc<Arrival>,
    /// The objects of each part.
    parts: Vec<Selected>,
    has_transform: bool,
    dropped_fields: Vec<FieldPath>,
    projection: Decision,
    started: Arc<Started>,
    field_paths: FieldPaths,
}

impl KubeEngine {
    pub(crate) fn shared(
        informer: SharedIndexInformer<PackedObject>,
        arrival: Arc<Arrival>,
        (parts, has_transform, dropped_fields): (Vec<Selected>, bool, Vec<FieldPath>),
        resource: Arc<str>,
        projection: Decision,
    ) -> Arc<dyn Engine> {
        Arc::new(Self {
            informer,
            resource,
            arrival,
            parts,
            has_transform,
            dropped_fields,
            projection,
            started: Arc::default(),
            field_paths: FieldPaths::default(),
        })
    }

    /// The informer runs, or was ended.
    fn set_ran(&self) {
        self.projection.start();
        self.started.set_ran();
    }

    /// Refuses a key of another namespace, as an informer of several namespaces does.
    fn check(&self, place: PartOrKey<'_>) -> Result<(), Error> {
        let (Some(namespace), PartOrKey::Key(key)) = (selection::only_namespace(&self.parts), place) else {
            return Ok(());
        };
        if key.namespace() == Some(namespace) {
            return Ok(());
        }
        let source = StoreError::NoPart { place: place.to_string(), parts: 1 };
        Err(Error::VersionNotReached { informer: self.informer.name().into(), source: Arc::new(source) })
    }

    fn builder(&self, spec: HandlerSpec, type_name: &'static str) -> HandlerBuilder<'_, PackedObject> {
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
}

impl Engine for KubeEngine {
    fn scope(&self) -> &str {
        self.informer.scope()
    }

    fn has_namespace(&self, namespace: &str) -> bool {
        self.parts.iter().any(|part| part.has_namespace(namespace))
    }

    fn selects(&self, object: &Object) -> bool {
        selection::selects(&self.parts, object)
    }

    fn has_transform(&self) -> bool {
        self.has_transform
    }

    fn dropped_fields(&self) -> &[FieldPath] {
        &self.dropped_fields
    }

    fn selectors(&self, namespace: &str) -> [Option<Arc<str>>; 2] {
        selection::selectors(&self.parts, namespace)
    }

    fn resource(&self) -> &Arc<str> {
        &self.resource
    }

    fn projection(&self) -> Projection {
        self.projection.get()
    }

    fn request_whole(&self) -> bool {
        self.projection.request_whole()
    }

    fn add(&self, spec: HandlerSpec, name: &'static str, handler: Handler) -> Result<Registration, Error> {
        let builder = self.builder(spec, name);
        Ok(match handler {
            Handler::Blocking(handler) => builder.add(handler),
            Handler::Inline(handler) => builder.inline().add(handler),
            Handler::Async(handler) => builder.add_async(Polled(handler)),
        }?)
    }

    fn events(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error> {
        Ok(Box::new(self.builder(spec, "stream").stream()?))
    }

    fn remove_handler<'a>(&'a self, registration: &'a Registration) -> BoxFuture<'a, bool> {
        Box::pin(self.informer.remove_handler(registration))
    }

    fn add_index(&self, name: Arc<str>, index: ObjectIndex) -> Result<(), Error> {
        self.informer.add_indexers([(name, IndexFunction::fallible(index))])
    }

    fn field_paths(&self) -> &FieldPaths {
        &self.field_paths
    }

    fn objects(&self) -> Objects {
        Objects::new(self.informer.store(), self.resource.clone(), self.started.clone())
    }

    fn started(&self) -> &Started {
        &self.started
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Object)) {
        self.informer.snapshot().for_each(visit);
    }

    fn snapshot(&self) -> Arc<dyn State> {
        Arc::new(self.informer.snapshot())
    }

    fn has_synced(&self) -> bool {
        self.informer.has_synced()
    }

    fn wait_for<'a>(
        &'a self,
        place: PartOrKey<'a>,
        version: &'a ResourceVersion,
        deadline: Option<Instant>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.check(place)?;
            match deadline {
                Some(deadline) => self.informer.wait_for_until(place, version, deadline).await,
                None => self.informer.wait_for(place, version).await,
            }
        })
    }

    fn changed(&self, revision: u64) -> BoxFuture<'_, bool> {
        Box::pin(self.informer.changed(revision))
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.informer.stopped())
    }

    fn parts(&self) -> &[Part] {
        self.informer.parts()
    }

    fn metrics(&self) -> InformerMetrics {
        self.informer.metrics()
    }

    fn decode_on_arrival(&self, to: DecodeAs) {
        if self.arrival.decode_as(to) {
            self.for_each(&mut |object| _ = self.arrival.decode(object));
        }
    }

    fn undecoded(&self) -> u64 {
        self.arrival.failed()
    }

    #[cfg(feature = "prometheus")]
    fn add_to(
        &self,
        collector: &kinformer_shared_informer::prometheus::InformerCollector,
    ) -> Result<(), Error> {
        collector.add(&self.informer)
    }
}

impl Managed for KubeEngine {
    fn name(&self) -> &str {
        self.informer.name()
    }

    fn phase(&self) -> Phase {
        self.informer.phase()
    }

    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.set_ran();
            self.informer.run(cancel).await
        })
    }

    fn discard(&self) {
        self.set_ran();
        self.informer.discard();
    }

    fn set_started(&self, started: bool) {
        if started {
            self.projection.start();
        }
        self.started.set_begun(started);
    }

    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>> {
        Managed::wait_for_sync(&self.informer, deadline)
    }
}

impl fmt::Debug for KubeEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.informer.fmt(f)
    }
}
