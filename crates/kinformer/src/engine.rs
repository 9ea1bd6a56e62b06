//! The informer of Kubernetes objects, whatever their kind.
//!
//! Nothing here is generic, so that store, queue, processor and informer are compiled in this crate, and once: behind the
//! trait, a program that uses them compiles neither their methods nor their drops.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kinformer_core::internal::contain;
use kinformer_core::{BoxError, KeyRef, ObjectKey, PartOrKey, ResourceVersion, Versions};
use kinformer_kube::{DecodeAs, PackedObject};
use kinformer_processor::{AsyncEventHandler, Buffer, Event, Registration, Updated};
use kinformer_reflector::{ApiError, DecodeError, Failure};
use kinformer_shared_informer::{AwaitedList, Error, InformerMetrics, Part, SharedIndexInformer};
use kinformer_store::{Error as StoreError, IndexFunction, IndexValues, Snapshot};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::entry::{BoxFuture, Managed};
use crate::lister::Objects;
use crate::options::ErrorHook;
use crate::projection::{Projection, Switches};
use crate::whole::WholeObjects;

pub(crate) type Object = Arc<PackedObject>;
pub(crate) type Filter = Box<dyn Fn(&Object) -> bool + Send>;
/// A function that gives an object's values in an index.
pub(crate) type ObjectIndex = Box<dyn Fn(&Object, &mut IndexValues) -> Result<(), BoxError> + Send + Sync>;
pub(crate) type Callback = Box<dyn FnMut(&Event<Object>) + Send>;

/// What a [`HandlerBuilder`](crate::HandlerBuilder) has collected.
#[derive(Default)]
pub(crate) struct HandlerSpec {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) resync: Option<Duration>,
    pub(crate) buffer: Buffer,
    pub(crate) filter: Option<Filter>,
}

/// A handler, without its type.
pub(crate) enum Handler {
    Blocking(Callback),
    Inline(Callback),
    Async(Box<dyn AsyncHandler>),
}

/// A handler whose callbacks are futures, kept in one place that is used again for each event.
pub(crate) trait AsyncHandler: Send {
    /// Makes the future of the next event.
    fn begin(&mut self, event: Event<Object>);
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()>;
    /// Drops the future.
    fn end(&mut self);
}

pub(crate) trait Events: Stream<Item = Event<Object>> + Send + Unpin {
    fn registration(&self) -> &Registration;
    fn is_terminated(&self) -> bool;
}

/// One state of the store.
pub(crate) trait State: Send + Sync {
    fn get(&self, key: KeyRef<'_>) -> Option<&Object>;
    fn len(&self) -> usize;
    fn revision(&self) -> u64;
    fn resource_versions(&self) -> &Versions;
    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a Object));
    fn iter(&self) -> Box<dyn Iterator<Item = &Object> + '_>;
    fn ordered(&self) -> Vec<&Object>;
    fn keys(&self) -> Vec<ObjectKey>;
    fn by_index<'a>(
        &'a self,
        index: &str,
        value: &str,
        visit: &mut dyn FnMut(&'a Object),
    ) -> Result<(), StoreError>;
    fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, StoreError>;
    fn index_names(&self) -> Vec<Arc<str>>;
    fn index_len(&self, index: &str, value: &str) -> Result<usize, StoreError>;
}

impl State for Snapshot<PackedObject> {
    fn get(&self, key: KeyRef<'_>) -> Option<&Object> {
        Snapshot::get(self, key)
    }

    fn len(&self) -> usize {
        Snapshot::len(self)
    }

    fn revision(&self) -> u64 {
        Snapshot::revision(self)
    }

    fn resource_versions(&self) -> &Versions {
        Snapshot::resource_versions(self)
    }

    fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&'a Object)) {
        Snapshot::for_each(self, visit);
    }

    fn iter(&self) -> Box<dyn Iterator<Item = &Object> + '_> {
        Box::new(Snapshot::iter(self))
    }

    fn ordered(&self) -> Vec<&Object> {
        Snapshot::ordered(self)
    }

    fn keys(&self) -> Vec<ObjectKey> {
        Snapshot::keys(self)
    }

    fn by_index<'a>(
        &'a self,
        index: &str,
        value: &str,
        visit: &mut dyn FnMut(&'a Object),
    ) -> Result<(), StoreError> {
        Snapshot::by_index(self, index, value)?.for_each(visit);
        Ok(())
    }

    fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(Snapshot::index_values(self, index)?.cloned().collect())
    }

    fn index_names(&self) -> Vec<Arc<str>> {
        Snapshot::index_names(self).cloned().collect()
    }

    fn index_len(&self, index: &str, value: &str) -> Result<usize, StoreError> {
        Snapshot::index_len(self, index, value)
    }
}

/// The boundary between this crate and a program: see the module.
pub(crate) trait Engine: Managed + fmt::Debug {
    fn scope(&self) -> &str;
    /// A view of the whole objects of the same informer, which fetches them from now on.
    fn whole(self: Arc<Self>) -> Arc<dyn Engine>;
    fn add(&self, spec: HandlerSpec, name: &'static str, handler: Handler) -> Result<Registration, Error>;
    fn events(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error>;
    fn remove_handler<'a>(&'a self, registration: &'a Registration) -> BoxFuture<'a, bool>;
    fn add_index(&self, name: Arc<str>, index: ObjectIndex) -> Result<(), Error>;
    fn get(&self, key: KeyRef<'_>) -> Option<Object>;
    fn objects(&self) -> Objects;
    fn len(&self) -> usize;
    fn for_each(&self, visit: &mut dyn FnMut(&Object));
    fn snapshot(&self) -> Arc<dyn State>;
    fn has_synced(&self) -> bool;
    fn wait_for<'a>(
        &'a self,
        place: PartOrKey<'a>,
        version: &'a ResourceVersion,
        deadline: Option<Instant>,
    ) -> BoxFuture<'a, Result<(), Error>>;
    fn stopped(&self) -> BoxFuture<'_, ()>;
    fn parts(&self) -> &[Part];
    fn metrics(&self) -> InformerMetrics;
    fn decode_on_arrival(&self, to: DecodeAs);
    fn undecoded(&self) -> u64;
    #[cfg(feature = "prometheus")]
    fn add_to(
        &self,
        collector: &kinformer_shared_informer::prometheus::InformerCollector,
    ) -> Result<(), Error>;
}

/// What is done with each object that arrives.
pub(crate) struct Arrival {
    /// The name of the informer.
    informer: Arc<str>,
    /// The type as which objects are decoded on arrival; those of metadata alone too, if the projection says so.
    decode: OnceLock<(DecodeAs, Projection)>,
    failed: AtomicU64,
    hook: Option<Arc<ErrorHook>>,
}

impl Arrival {
    pub(crate) fn new(informer: Arc<str>, decode: Option<DecodeAs>, hook: Option<Arc<ErrorHook>>) -> Self {
        let decode = decode.map_or_else(OnceLock::new, |to| OnceLock::from((to, Projection::Whole)));
        Self { informer, decode, failed: AtomicU64::new(0), hook }
    }

    /// Decodes the object if that is the policy. It is stored whatever comes of it.
    pub(crate) fn arrived(&self, object: &PackedObject) {
        let Some((to, projection)) = self.decode.get() else { return };
        if *projection == Projection::Whole && object.is_metadata_only() {
            return;
        }
        // Decoding is the type's own code.
        let decoded = contain(|| object.keep_decoded(*to));
        if let Err(error) = decoded.and_then(|decoded| decoded.map_err(BoxError::from)) {
            self.undecodable(object, *to, error);
        }
    }

    fn undecodable(&self, object: &PackedObject, to: DecodeAs, error: BoxError) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let informer = &*self.informer;
        tracing::warn!(informer, key = %object.key(), to = to.type_name(), %error, "object not decoded on arrival");
        let Some(hook) = &self.hook else { return };
        let error = DecodeError::new(error).resource_version(object.resource_version());
        let error = match ObjectKey::try_from(object.key()) {
            Ok(key) => error.key(key),
            Err(_) => error,
        };
        let error = ApiError::Undecodable(error);
        if let Err(panic) = contain(|| hook(&Failure::skipped(informer, &error))) {
            tracing::error!(informer, %panic, "the error hook panicked");
        }
    }
}

/// The only informer of Kubernetes objects.
pub(crate) struct KubeEngine {
    informer: SharedIndexInformer<PackedObject>,
    arrival: Arc<Arrival>,
    /// Of an informer that has begun with metadata.
    switched: Option<Switched>,
}

struct Switched {
    switches: Switches,
    /// The list of whole objects, once they are requested.
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
        switches: Option<Switches>,
    ) -> Arc<dyn Engine> {
        let switched = switches.map(|switches| Switched { switches, list: Mutex::new(None) });
        Arc::new(Self { informer, arrival, switched })
    }

    pub(crate) fn informer(&self) -> &SharedIndexInformer<PackedObject> {
        &self.informer
    }

    /// Adds a handler to which the change from metadata to a whole object is an update.
    pub(crate) fn add_as_it_is(
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

    /// As [`Self::add_as_it_is`], as a stream.
    pub(crate) fn events_as_they_are(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error> {
        Ok(Box::new(self.builder(spec, "stream").stream()?))
    }

    pub(crate) fn decode_as_they_arrive(&self, to: DecodeAs, projection: Projection) {
        if self.arrival.decode.set((to, projection)).is_ok() {
            self.for_each(&mut |object| self.arrival.arrived(object));
        }
    }
}

impl Engine for KubeEngine {
    fn scope(&self) -> &str {
        self.informer.scope()
    }

    fn whole(self: Arc<Self>) -> Arc<dyn Engine> {
        let Some(Switched { switches, list }) = &self.switched else { return self };
        // Under one lock: who finds whole objects requested finds the list awaited.
        let list = list
            .lock()
            .get_or_insert_with(|| {
                let awaited = switches.clone();
                self.informer.await_list(move |snapshot| awaited.are_stored(snapshot))
            })
            .clone();
        // Without the lock, since it wakes; and once more does no harm.
        switches.request_whole();
        Arc::new(WholeObjects::new(self.clone(), list))
    }

    fn add(&self, spec: HandlerSpec, name: &'static str, handler: Handler) -> Result<Registration, Error> {
        let handler = if self.switched.is_some() { handler.without_switch() } else { handler };
        self.add_as_it_is(spec, name, handler)
    }

    fn events(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error> {
        let events = self.events_as_they_are(spec)?;
        Ok(if self.switched.is_some() { Box::new(WithoutSwitch(events)) } else { events })
    }

    fn remove_handler<'a>(&'a self, registration: &'a Registration) -> BoxFuture<'a, bool> {
        Box::pin(self.informer.remove_handler(registration))
    }

    fn add_index(&self, name: Arc<str>, index: ObjectIndex) -> Result<(), Error> {
        self.informer.add_indexers([(name, IndexFunction::fallible(index))])
    }

    fn get(&self, key: KeyRef<'_>) -> Option<Object> {
        self.informer.get(key)
    }

    fn objects(&self) -> Objects {
        Objects::new(self.informer.store(), self.informer.resource())
    }

    fn len(&self) -> usize {
        self.informer.store().len()
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
            match deadline {
                Some(deadline) => self.informer.wait_for_until(place, version, deadline).await,
                None => self.informer.wait_for(place, version).await,
            }
        })
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
        self.decode_as_they_arrive(to, Projection::Metadata);
    }

    fn undecoded(&self) -> u64 {
        self.arrival.failed.load(Ordering::Relaxed)
    }

    #[cfg(feature = "prometheus")]
    fn add_to(
        &self,
        collector: &kinformer_shared_informer::prometheus::InformerCollector,
    ) -> Result<(), Error> {
        collector.add(&self.informer)
    }
}

impl KubeEngine {
    fn builder(
        &self,
        spec: HandlerSpec,
        type_name: &'static str,
    ) -> kinformer_processor::HandlerBuilder<'_, PackedObject> {
        let HandlerSpec { name, resync, buffer, filter } = spec;
        let builder = self.informer.handler().named(name.unwrap_or_else(|| type_name.into())).buffer(buffer);
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

impl Managed for KubeEngine {
    fn name(&self) -> &str {
        self.informer.name()
    }

    fn phase(&self) -> kinformer_shared_informer::Phase {
        self.informer.phase()
    }

    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.informer.run(cancel))
    }

    fn discard(&self) {
        self.informer.discard();
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

impl Events for kinformer_processor::EventStream<PackedObject> {
    fn registration(&self) -> &Registration {
        self.registration()
    }

    fn is_terminated(&self) -> bool {
        futures::stream::FusedStream::is_terminated(self)
    }
}

/// Whether the event is no more than that the metadata of an object has become the whole object.
fn is_switch(event: &Event<Object>) -> bool {
    let Event::Updated(Updated { old, new, .. }) = event else { return false };
    old.is_metadata_only()
        && !new.is_metadata_only()
        && old.resource_version() == new.resource_version()
        && old.uid() == new.uid()
}

impl Handler {
    /// The handler of a view of metadata, for which nothing has changed then.
    fn without_switch(self) -> Self {
        let passed_on = |mut call: Callback| -> Callback {
            Box::new(move |event| {
                if !is_switch(event) {
                    call(event);
                }
            })
        };
        match self {
            Self::Blocking(call) => Self::Blocking(passed_on(call)),
            Self::Inline(call) => Self::Inline(passed_on(call)),
            Self::Async(handler) => Self::Async(Box::new(WithoutSwitch(handler))),
        }
    }
}

/// As [`Handler::without_switch`].
struct WithoutSwitch<H>(H);

impl AsyncHandler for WithoutSwitch<Box<dyn AsyncHandler>> {
    fn begin(&mut self, event: Event<Object>) {
        if !is_switch(&event) {
            self.0.begin(event);
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context)
    }

    fn end(&mut self) {
        self.0.end();
    }
}

impl Stream for WithoutSwitch<Box<dyn Events>> {
    type Item = Event<Object>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.0.poll_next_unpin(context)) {
                Some(event) if is_switch(&event) => {}
                event => return Poll::Ready(event),
            }
        }
    }
}

impl Events for WithoutSwitch<Box<dyn Events>> {
    fn registration(&self) -> &Registration {
        self.0.registration()
    }

    fn is_terminated(&self) -> bool {
        self.0.is_terminated()
    }
}

struct Polled(Box<dyn AsyncHandler>);

impl AsyncEventHandler<Object> for Polled {
    async fn on_event(&mut self, event: Event<Object>) {
        /// Drops the future of the event, whether it has ended, has panicked or is given up.
        struct Running<'a>(&'a mut dyn AsyncHandler);

        impl Drop for Running<'_> {
            fn drop(&mut self) {
                self.0.end();
            }
        }

        let running = Running(&mut *self.0);
        running.0.begin(event);
        std::future::poll_fn(|context| running.0.poll(context)).await;
    }
}

/// Polls events for a stream of another type.
pub(crate) fn poll_next(
    events: &mut Box<dyn Events>,
    context: &mut Context<'_>,
) -> Poll<Option<Event<Object>>> {
    events.poll_next_unpin(context)
}
