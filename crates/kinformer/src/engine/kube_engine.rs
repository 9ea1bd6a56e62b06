//! The only informer type for Kubernetes objects.

use std::fmt;
use std::sync::Arc;

use kinformer_core::{PartOrKey, ResourceVersion};
use kinformer_kube::{DecodeAs, FieldPath, PackedObject};
use kinformer_processor::{ListenerBuilder, Registration};
use kinformer_shared_informer::{AwaitedList, Error, InformerMetrics, Part, Phase, SharedIndexInformer};
use kinformer_store::{Error as StoreError, IndexFunction};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::arrival::Arrival;
use crate::engine::handlers::{BoxFuture, Events, Handler, HandlerSpec, Object, ObjectIndex, Polled};
use crate::engine::projection::{Projection, Switch, WHOLE_OBJECTS};
use crate::engine::started::Started;
use crate::engine::state::{Objects, State};
use crate::engine::whole_objects::{SwitchedEngine, WholeObjects};
use crate::engine::without_switch::WithoutSwitch;
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
    /// `Some` if the informer was created to fetch only metadata.
    switched: Option<Switched>,
    started: Arc<Started>,
    field_paths: FieldPaths,
}

struct Switched {
    switch: Switch,
    /// The list of whole objects, once these are requested.
    list: Mutex<Option<AwaitedList>>,
}

impl Switched {
    fn list(&self) -> Option<AwaitedList> {
        self.list.lock().clone()
    }
}

impl KubeEngine {
    pub(crate) fn shared(
        informer: SharedIndexInformer<PackedObject>,
        arrival: Arc<Arrival>,
        (parts, has_transform, dropped_fields): (Vec<Selected>, bool, Vec<FieldPath>),
        switch: Option<Switch>,
    ) -> Arc<dyn Engine> {
        let switched = switch.map(|switch| Switched { switch, list: Mutex::new(None) });
        let resource = informer.resource().into();
        Arc::new(Self {
            informer,
            resource,
            arrival,
            parts,
            has_transform,
            dropped_fields,
            switched,
            started: Arc::default(),
            field_paths: FieldPaths::default(),
        })
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

    fn builder(&self, spec: HandlerSpec, type_name: &'static str) -> ListenerBuilder<'_, PackedObject> {
        let HandlerSpec { name, resync, buffer, filter, first_list } = spec;
        let builder = self.informer.handler().name(name.unwrap_or_else(|| type_name.into())).buffer(buffer);
        let builder = match resync {
            Some(period) => builder.resync(period),
            None => builder,
        };
        let builder = match filter {
            Some(filter) => builder.filter(filter),
            None => builder,
        };
        if first_list { builder.sync_with_first_list() } else { builder }
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

    fn whole_objects(self: Arc<Self>) -> Arc<dyn Engine> {
        let Some(Switched { switch, list }) = &self.switched else { return self };
        // Under one lock, so that a caller that sees whole objects requested also sees the awaited list.
        let list = list.lock().get_or_insert_with(|| self.informer.await_list(WHOLE_OBJECTS)).clone();
        // Outside the lock, since this wakes tasks. Idempotent.
        switch.request_whole();
        Arc::new(WholeObjects::new(self.clone(), list))
    }

    fn add(
        &self,
        mut spec: HandlerSpec,
        name: &'static str,
        handler: Handler,
    ) -> Result<Registration, Error> {
        spec.first_list = true;
        let handler = if self.switched.is_some() { handler.without_switch() } else { handler };
        self.add_with_switch(spec, name, handler)
    }

    fn events(&self, mut spec: HandlerSpec) -> Result<Box<dyn Events>, Error> {
        spec.first_list = true;
        let events = self.events_with_switch(spec)?;
        Ok(if self.switched.is_some() { Box::new(WithoutSwitch(events)) } else { events })
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
        self.decode_projection(to, Projection::Metadata);
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

impl SwitchedEngine for KubeEngine {
    fn add_with_switch(
        &self,
        spec: HandlerSpec,
        name: &'static str,
        handler: Handler,
    ) -> Result<Registration, Error> {
        let builder = self.builder(spec, name);
        Ok(match handler {
            Handler::Blocking(handler) => builder.add(handler),
            Handler::Inline(handler) => builder.inline().add(handler),
            Handler::Async(handler) => builder.add_async(Polled(handler)),
        }?)
    }

    fn events_with_switch(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error> {
        Ok(Box::new(self.builder(spec, "stream").stream()?))
    }

    fn decode_projection(&self, to: DecodeAs, projection: Projection) {
        if self.arrival.decode_as(to, projection) {
            self.for_each(&mut |object| _ = self.arrival.decode(object));
        }
    }

    fn wait_for_list<'a>(
        &'a self,
        list: &'a AwaitedList,
        place: PartOrKey<'a>,
        deadline: Option<Instant>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.check(place)?;
            self.informer.wait_for_list_of(list, place, deadline).await
        })
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
            self.started.set_ran();
            self.informer.run(cancel).await
        })
    }

    fn discard(&self) {
        self.started.set_ran();
        self.informer.discard();
    }

    fn set_started(&self, started: bool) {
        self.started.set_begun(started);
    }

    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>> {
        Managed::wait_for_sync(&self.informer, deadline)
    }

    fn wait_for_all(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>> {
        let Some(list) = self.switched.as_ref().and_then(Switched::list) else {
            return self.wait_for_sync(deadline);
        };
        Box::pin(async move {
            self.wait_for_sync(deadline).await?;
            self.informer.wait_for_list(&list, deadline).await
        })
    }
}

impl fmt::Debug for KubeEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.informer.fmt(f)
    }
}
