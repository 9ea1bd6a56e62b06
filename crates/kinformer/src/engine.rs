//! The informer of Kubernetes objects, whatever their kind.
//!
//! Nothing here is generic, so that store, queue, processor and informer are compiled in this crate, and once: behind the
//! trait, a program that uses them compiles neither their methods nor their drops.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kinformer_core::{KeyRef, ObjectKey, PartOrKey, ResourceVersion, Versions};
use kinformer_kube::{DecodeAs, PackedObject};
use kinformer_processor::{AsyncEventHandler, Buffer, Event, Registration};
use kinformer_shared_informer::{Error, InformerMetrics, Part, SharedIndexInformer};
use kinformer_store::{Error as StoreError, IndexFunction, Snapshot};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::entry::{BoxFuture, Managed};
use crate::lister::Objects;

pub(crate) type Object = Arc<PackedObject>;
pub(crate) type Filter = Box<dyn Fn(&Object) -> bool + Send>;
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
    fn add(&self, spec: HandlerSpec, name: &'static str, handler: Handler) -> Result<Registration, Error>;
    fn events(&self, spec: HandlerSpec) -> Result<Box<dyn Events>, Error>;
    fn remove_handler<'a>(&'a self, registration: &'a Registration) -> BoxFuture<'a, bool>;
    fn add_index(&self, name: Arc<str>, function: IndexFunction<PackedObject>) -> Result<(), Error>;
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
#[derive(Default)]
pub(crate) struct Arrival {
    /// The type as which objects are decoded on arrival.
    decode: Mutex<Option<DecodeAs>>,
    failed: AtomicU64,
}

impl Arrival {
    pub(crate) fn new(decode: Option<DecodeAs>) -> Self {
        Self { decode: Mutex::new(decode), failed: AtomicU64::new(0) }
    }

    /// Decodes the object if that is the policy. It is stored whatever comes of it.
    pub(crate) fn arrived(&self, informer: &str, object: &PackedObject) {
        let Some(to) = *self.decode.lock() else { return };
        if let Err(error) = object.keep_decoded(to) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%informer, key = %object.key(), to = to.type_name(), %error, "object not decoded on arrival");
        }
    }
}

/// The only informer of Kubernetes objects.
pub(crate) struct KubeEngine {
    informer: SharedIndexInformer<PackedObject>,
    arrival: Arc<Arrival>,
}

impl KubeEngine {
    pub(crate) fn shared(
        informer: SharedIndexInformer<PackedObject>,
        arrival: Arc<Arrival>,
    ) -> Arc<dyn Engine> {
        Arc::new(Self { informer, arrival })
    }
}

impl Engine for KubeEngine {
    fn scope(&self) -> &str {
        self.informer.scope()
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

    fn add_index(&self, name: Arc<str>, function: IndexFunction<PackedObject>) -> Result<(), Error> {
        self.informer.add_indexers([(name, function)])
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
        {
            let mut decode = self.arrival.decode.lock();
            if decode.is_some() {
                return;
            }
            *decode = Some(to);
        }
        self.for_each(&mut |object| self.arrival.arrived(self.informer.name(), object));
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
