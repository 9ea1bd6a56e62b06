//! Adding a handler.

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
use kinformer_kube::{Packed, PackedRef};
use kinformer_processor::{AsyncEventHandler, Buffer, Event, EventHandler, Registration};
use kinformer_shared_informer::Error;

use crate::async_handler::{Closure, Methods};
use crate::engine::Engine;
use crate::engine::handlers::{self, Callback, Events, Handler, HandlerSpec};

/// A handler to be added to an [`Informer`](crate::Informer), with what is particular about it.
///
/// What the methods promise is said at those of the same name of [`kinformer_processor::HandlerBuilder`].
#[must_use = "nothing is added yet"]
pub struct HandlerBuilder<'a, K> {
    engine: &'a dyn Engine,
    spec: HandlerSpec,
    inline: bool,
    kind: PhantomData<fn() -> K>,
}

impl<'a, K: 'static> HandlerBuilder<'a, K> {
    pub(crate) fn new(engine: &'a dyn Engine) -> Self {
        Self { engine, spec: HandlerSpec::default(), inline: false, kind: PhantomData }
    }

    /// The name of the handler in messages and metrics; that of its type by default.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.spec.name = Some(name.into());
        self
    }

    /// How often the handler receives every object again; zero means never. The default is the informer's.
    pub fn resync(mut self, period: Duration) -> Self {
        self.spec.resync = Some(period);
        self
    }

    /// What happens to events that the handler has not received yet.
    pub fn buffer(mut self, buffer: Buffer) -> Self {
        self.spec.buffer = buffer;
        self
    }

    /// Delivers only events about objects that `keep` keeps. An object that comes to be kept is an addition, one that
    /// ceases to be is a deletion.
    pub fn filter(mut self, keep: impl Fn(PackedRef<'_, K>) -> bool + Send + 'static) -> Self {
        self.spec.filter = Some(Box::new(move |object| keep(PackedRef::new(object))));
        self
    }

    /// The handler never blocks: it is run on the runtime's own threads. If it does block, others wait.
    pub fn inline(mut self) -> Self {
        self.inline = true;
        self
    }

    /// Adds a handler. It receives every object that there is, as additions of the initial list, and then every change,
    /// one event at a time and in order. It may block, unless it is [inline](Self::inline). It borrows the objects, so that
    /// delivery touches no reference count: [`PackedRef::into_owned`] keeps one.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn for_each<F: FnMut(Event<PackedRef<'_, K>>) + Send + 'static>(
        self,
        mut handler: F,
    ) -> Result<Registration, Error> {
        let call: Callback = Box::new(move |event| handler(event.as_ref().map(PackedRef::new)));
        let handler = if self.inline { Handler::Inline(call) } else { Handler::Blocking(call) };
        self.engine.add(self.spec, type_name::<F>(), handler)
    }

    /// As [`Self::for_each`], for a handler with a method for each kind of event.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[expect(clippy::should_implement_trait, reason = "it is handlers that are added, not two of these")]
    pub fn add<H: EventHandler<Packed<K>>>(self, mut handler: H) -> Result<Registration, Error> {
        let call: Callback = Box::new(move |event| handler.on_event(&event.clone().map(Packed::new)));
        let handler = if self.inline { Handler::Inline(call) } else { Handler::Blocking(call) };
        self.engine.add(self.spec, type_name::<H>(), handler)
    }

    /// As [`Self::for_each`], for a handler whose callbacks are futures. The next event is delivered when the future of
    /// the last one has ended. They must not block. Nothing is allocated for an event.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn for_each_async<H, F>(self, handler: H) -> Result<Registration, Error>
    where
        H: FnMut(Event<Packed<K>>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let call = Handler::Async(Box::new(Closure::<K, H, F>::new(handler)));
        self.engine.add(self.spec, type_name::<H>(), call)
    }

    /// As [`Self::for_each_async`], for a handler with a method for each kind of event. A handler that panics is called
    /// again with the next event.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn add_async<H: AsyncEventHandler<Packed<K>>>(self, handler: H) -> Result<Registration, Error> {
        let on_event = async |mut handler: H, event| {
            let ended = AssertUnwindSafe(handler.on_event(event)).catch_unwind().await;
            (handler, ended)
        };
        let call = Handler::Async(Box::new(Methods::<K, H, _, _>::new(handler, on_event)));
        self.engine.add(self.spec, type_name::<H>(), call)
    }

    /// The events as a stream instead, which begins with every object that there is. Without a [name](Self::name) its name
    /// says where this was called.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[track_caller]
    pub fn stream(mut self) -> Result<EventStream<K>, Error> {
        let at = Location::caller();
        self.spec.name.get_or_insert_with(|| format!("stream at {}:{}", at.file(), at.line()).into());
        Ok(EventStream { events: self.engine.events(self.spec)?, kind: PhantomData })
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

/// The events of an [`Informer`](crate::Informer), to be taken one by one; see [`kinformer_processor::EventStream`].
#[must_use = "streams do nothing unless polled"]
pub struct EventStream<K> {
    events: Box<dyn Events>,
    kind: PhantomData<fn() -> K>,
}

impl<K> EventStream<K> {
    /// To see how far behind it is, and whether it has taken the initial list.
    pub fn registration(&self) -> &Registration {
        self.events.registration()
    }
}

impl<K> Stream for EventStream<K> {
    type Item = Event<Packed<K>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = handlers::poll_next(&mut self.events, context);
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
