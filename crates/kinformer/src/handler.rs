//! The builder of handlers, and event streams.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::FusedStream;
use futures::{FutureExt as _, Stream};
use kinformer_kube::{Packed, PackedObject, PackedRef};
use kinformer_processor::{
    AsyncEventHandler, AsyncFnWith, Buffer, Event, EventHandler, Registration, WithState,
};

use crate::Error;
use crate::async_handler::{Closure, Methods};
use crate::callbacks::{self, Callback, Handler, HandlerSpec};
use crate::kube_informer::KubeInformer;

/// Builds a handler and adds it to an [`Informer`](crate::Informer).
///
/// The methods have the contract of the same methods of [`kinformer_processor::ListenerBuilder`].
///
/// ```
/// # use k8s_openapi::api::core::v1::Node;
/// use kinformer::{Event, Informer, Registration};
///
/// /// Adds a handler; the registration shows its state, and removes it.
/// fn watch_control_plane(nodes: &Informer<Node>) -> Result<Registration, kinformer::Error> {
///     let role = "node-role.kubernetes.io/control-plane";
///     nodes.handler().name("control-plane").filter(move |node| node.label(role).is_some()).for_each(|event| {
///         if let Event::Deleted(_) = event {
///             println!("{} was deleted", event.key());
///         }
///     })
/// }
/// ```
#[doc(alias("AddEventHandlerWithOptions", "HandlerOptions", "WatchStreamExt"))]
#[must_use = "nothing is added yet"]
pub struct HandlerBuilder<'a, K> {
    informer: &'a KubeInformer,
    spec: HandlerSpec,
    inline: bool,
    kind: PhantomData<fn() -> K>,
}

impl<'a, K: 'static> HandlerBuilder<'a, K> {
    pub(crate) fn new(informer: &'a KubeInformer) -> Self {
        Self { informer, spec: HandlerSpec::default(), inline: false, kind: PhantomData }
    }

    /// Sets the name of the handler in messages and metrics. The default is the name of its type.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.spec.name = Some(name.into());
        self
    }

    /// Sets how often the handler receives every object again. Zero means never. The default is the informer's period.
    ///
    /// ```
    /// # fn example(pods: &kinformer::Informer<()>) -> Result<(), kinformer::Error> {
    /// use std::time::Duration;
    ///
    /// use kinformer::Event;
    ///
    /// // Exports the state of each pod every 5 minutes, also if it has not changed.
    /// pods.handler().name("exporter").resync(Duration::from_secs(300)).for_each(|event| match event {
    ///     Event::Added(added) => println!("{} is new", added.object.key()),
    ///     Event::Updated(updated) => println!("{} again, or changed", updated.new.key()),
    ///     Event::Deleted(_) | Event::Left(_) => println!("{} is gone", event.key()),
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("AddEventHandlerWithResyncPeriod", "ResyncPeriod"))]
    pub fn resync(mut self, period: Duration) -> Self {
        self.spec.resync = Some(period);
        self
    }

    /// Sets the buffer policy for undelivered events.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// # let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    /// use kinformer::Buffer;
    ///
    /// // For a slow handler that only needs the newest state of each object.
    /// let handler = pods.handler().buffer(Buffer::Coalesced).for_each(move |event| {
    ///     _ = sender.send(event.key().name().to_owned());
    /// })?;
    /// handler.synced().await?;
    /// assert_eq!(received.try_recv()?, "web-0");
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer(mut self, buffer: Buffer) -> Self {
        self.spec.buffer = buffer;
        self
    }

    /// Delivers only events of objects for which `filter` returns `true`. An object that starts to match is delivered
    /// as an addition; one that ceases to match, as a deletion.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// # let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    /// let handler = pods.handler().filter(|pod| pod.label("app") == Some("api")).for_each(move |event| {
    ///     _ = sender.send(event.key().name().to_owned());
    /// })?;
    /// handler.synced().await?;
    /// assert!(received.try_recv().is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("FilteringResourceEventHandler", "PredicateFilter", "TypedFilteringResourceEventHandler"))]
    pub fn filter(mut self, filter: impl Fn(PackedRef<'_, K>) -> bool + Send + 'static) -> Self {
        self.spec.filter = Some(Box::new(move |object| filter(PackedRef::new(object))));
        self
    }

    /// Runs the handler on the threads of the tokio runtime. For handlers that never block: one that blocks delays
    /// other tasks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let namespaces = factory.core().v1().namespaces();
    /// use tokio::sync::watch;
    ///
    /// let (sender, count) = watch::channel(0);
    /// let handler = namespaces.handler().inline();
    /// let handler = handler.for_each(move |_| sender.send_modify(|count| *count += 1))?;
    /// factory.start()?;
    /// handler.synced().await?;
    /// assert_eq!(*count.borrow(), namespaces.snapshot()?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn inline(mut self) -> Self {
        self.inline = true;
        self
    }

    /// Adds a handler. It receives all stored objects as additions of the initial list, then every change, one event at
    /// a time and in order. It may block, unless it is [inline](Self::inline). It borrows the objects, so that delivery
    /// changes no reference counts; [`PackedRef::into_owned`] returns a shared reference to keep.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// # let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    /// let handler = pods.handler().for_each(move |event| {
    ///     _ = sender.send(event.key().name().to_owned());
    /// })?;
    /// handler.synced().await?;
    /// assert_eq!(received.try_recv()?, "web-0");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
    pub fn for_each<F: FnMut(Event<PackedRef<'_, K>>) + Send + 'static>(
        self,
        mut handler: F,
    ) -> Result<Registration, Error> {
        let call: Callback = Box::new(move |event| handler(event.as_ref().map(PackedRef::new)));
        let handler = if self.inline { Handler::Inline(call) } else { Handler::Blocking(call) };
        Ok(self.informer.add(self.spec, type_name::<F>(), handler)?)
    }

    /// Adds a handler with a method for each kind of event; see [`Self::for_each`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// # let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::{Added, EventHandlerFuncs, Packed};
    ///
    /// let handler = pods.handler().add(EventHandlerFuncs::new().on_add(move |added: &Added<Packed<Pod>>| {
    ///     _ = sender.send(added.object.name().to_owned());
    /// }))?;
    /// handler.synced().await?;
    /// assert_eq!(received.try_recv()?, "web-0");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
    pub fn add<H: EventHandler<Packed<K>>>(self, mut handler: H) -> Result<Registration, Error> {
        let call: Callback = Box::new(move |event| handler.on_event(&event.clone().map(Packed::new)));
        let handler = if self.inline { Handler::Inline(call) } else { Handler::Blocking(call) };
        Ok(self.informer.add(self.spec, type_name::<H>(), handler)?)
    }

    /// Adds a handler whose callbacks are futures; see [`Self::for_each`]. The next event is delivered when the future
    /// of the previous one has completed. The futures must not block. Delivery allocates nothing per event.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// # let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    /// let handler = pods.handler().for_each_async(move |event| {
    ///     let sender = sender.clone();
    ///     async move {
    ///         _ = sender.send(event.key().name().to_owned());
    ///     }
    /// })?;
    /// handler.synced().await?;
    /// assert_eq!(received.try_recv()?, "web-0");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
    pub fn for_each_async<H, F>(self, handler: H) -> Result<Registration, Error>
    where
        H: FnMut(Event<Packed<K>>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let call = Handler::Async(Box::new(Closure::<K, H, F>::new(handler)));
        Ok(self.informer.add(self.spec, type_name::<H>(), call)?)
    }

    /// Adds an asynchronous closure with a state of its own: see [`Self::for_each_async`]. The state is
    /// everything that the futures may borrow: the closure itself captures nothing. After a panic of the closure the
    /// next event is delivered with the state as the panic left it.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::Informer;
    ///
    /// # fn example(pods: &Informer<Pod>) -> Result<(), kinformer::Error> {
    /// pods.handler().for_each_async_with(0, async |events, event| {
    ///     *events += 1;
    ///     println!("{}: event {events}", event.key());
    ///     tokio::task::yield_now().await;
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
    pub fn for_each_async_with<S, F>(mut self, state: S, handler: F) -> Result<Registration, Error>
    where
        S: Send + 'static,
        F: AsyncFnMut(&mut S, Event<Packed<K>>)
            + for<'s> AsyncFnWith<'s, S, Event<Packed<K>>>
            + Send
            + 'static,
    {
        self.spec.name.get_or_insert_with(|| type_name::<F>().into());
        self.add_async(WithState::new(state, handler))
    }

    /// Adds an asynchronous handler with a method for each kind of event; see [`Self::for_each_async`]. A handler that
    /// panics is called again with the next event.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::{Added, AsyncEventHandler, Deleted, Informer, Packed};
    /// use tokio::sync::mpsc::Sender;
    ///
    /// struct Audit(Sender<String>);
    ///
    /// impl AsyncEventHandler<Packed<Pod>> for Audit {
    ///     async fn on_add(&mut self, added: Added<Packed<Pod>>) {
    ///         _ = self.0.send(format!("{} was added", added.object.key())).await; // waits for a slow receiver
    ///     }
    ///
    ///     async fn on_delete(&mut self, deleted: Deleted<Packed<Pod>>) {
    ///         _ = self.0.send(format!("{} was deleted", deleted.tombstone.key())).await;
    ///     }
    /// }
    ///
    /// # fn example(pods: &Informer<Pod>, sender: Sender<String>) -> Result<(), kinformer::Error> {
    /// pods.handler().add_async(Audit(sender))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
    pub fn add_async<H: AsyncEventHandler<Packed<K>>>(self, handler: H) -> Result<Registration, Error> {
        let on_event = async |mut handler: H, event| {
            let ended = AssertUnwindSafe(handler.on_event(event)).catch_unwind().await;
            (handler, ended)
        };
        let call = Handler::Async(Box::new(Methods::<K, H, _, _>::new(handler, on_event)));
        Ok(self.informer.add(self.spec, type_name::<H>(), call)?)
    }

    /// Returns the events as a stream, which begins with all stored objects. Without a [name](Self::name), the stream
    /// is named after the source location of this call.
    ///
    /// ```
    /// # async fn example(pods: &kinformer::Informer<()>) -> Result<(), kinformer::Error> {
    /// use futures::StreamExt as _;
    /// use kinformer::Buffer;
    ///
    /// let pods = pods.handler().name("web").buffer(Buffer::Coalesced);
    /// let mut events = pods.filter(|pod| pod.label("app") == Some("web")).stream()?;
    /// while let Some(event) = events.next().await {
    ///     println!("{}", event.key());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
    #[track_caller]
    pub fn stream(mut self) -> Result<EventStream<K>, Error> {
        let caller = Location::caller();
        self.spec.name.get_or_insert_with(|| format!("stream at {}:{}", caller.file(), caller.line()).into());
        Ok(EventStream { events: self.informer.events(self.spec)?, kind: PhantomData })
    }
}

impl<K> fmt::Debug for HandlerBuilder<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerBuilder")
            .field("name", &self.spec.name)
            .field("resync", &self.spec.resync)
            .field("buffer", &self.spec.buffer)
            .field("filter", &self.spec.filter.is_some())
            .finish_non_exhaustive()
    }
}

/// A stream of the events of an [`Informer`](crate::Informer); see [`kinformer_processor::ListenerStream`].
///
/// ```
/// # use k8s_openapi::api::core::v1::{Node, Pod};
/// # use kinformer::Informer;
/// # async fn example(pods: &Informer<Pod>, nodes: &Informer<Node>) -> Result<(), kinformer::Error> {
/// use futures::{StreamExt as _, stream};
///
/// let pods = pods.stream()?.map(|event| format!("pod {}", event.key()));
/// let nodes = nodes.stream()?.map(|event| format!("node {}", event.key()));
/// let mut changes = stream::select(pods, nodes);
/// while let Some(change) = changes.next().await {
///     println!("{change}");
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct EventStream<K> {
    events: kinformer_processor::ListenerStream<PackedObject>,
    kind: PhantomData<fn() -> K>,
}

impl<K> EventStream<K> {
    /// The registration, which shows the lag of the stream and whether it has returned the initial list.
    pub fn registration(&self) -> &Registration {
        self.events.registration()
    }
}

impl<K> Stream for EventStream<K> {
    type Item = Event<Packed<K>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = callbacks::poll_next(&mut self.events, context);
        next.map(|event| event.map(|event| event.map(Packed::new)))
    }
}

impl<K> FusedStream for EventStream<K> {
    fn is_terminated(&self) -> bool {
        self.events.is_terminated()
    }
}

impl<K> fmt::Debug for EventStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("registration", self.registration()).finish_non_exhaustive()
    }
}
