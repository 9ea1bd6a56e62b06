//! Adding a handler.

use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use kinformer_core::Object;

use crate::coalesce::Coalescer;
use crate::handler::{AsyncEventHandler, EventHandler};
use crate::listener::DoneGuard;
use crate::own_code::OwnCode;
use crate::run::Runner;
use crate::source::{Feed, Filter, Source};
use crate::{Error, Event, EventStream, Registration, SharedProcessor, run};

/// What happens to events that a handler has not been told yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Buffer {
    /// They wait, every one of them: memory grows with how far the handler is behind, and its
    /// [statistics](Registration::stats) say how far that is. The default, as upstream.
    #[default]
    EveryEvent,
    /// At most one event for each key waits: the newest state takes the place of what waits. `old` stays what
    /// the handler was told last; an addition and a deletion that both wait cancel out; a deletion and an
    /// addition become one update. Keys come in the order in which they began to wait.
    Coalesced,
    /// Every event waits, and whoever [sends](SharedProcessor::send) is held up while so many do (at least 1):
    /// this handler's slowness then slows down everything before it, the store included.
    BackPressure(usize),
}

/// A handler to be added, with what is particular about it.
#[must_use = "nothing is added yet"]
pub struct HandlerBuilder<'p, T> {
    processor: &'p SharedProcessor<T>,
    name: Option<Arc<str>>,
    resync: Option<Duration>,
    buffer: Buffer,
    filter: Option<Filter<T>>,
}

/// A [`HandlerBuilder`] for a handler that never blocks.
#[must_use = "nothing is added yet"]
pub struct InlineHandlerBuilder<'p, T>(HandlerBuilder<'p, T>);

/// What runs a handler, until it ends.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<'p, T: Object> HandlerBuilder<'p, T> {
    pub(crate) fn new(processor: &'p SharedProcessor<T>) -> Self {
        Self { processor, name: None, resync: None, buffer: Buffer::default(), filter: None }
    }

    /// The name of the handler in messages and metrics; that of its type by default.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How often the handler is told of every object again, as an update to the same state. Zero means never, and so
    /// does [`Duration::MAX`]; the default is the processor's. Less than a second counts as one. The smallest period that is asked for
    /// before the start is how often it is checked; asked later, none is shorter than that, and without any
    /// there is none.
    ///
    /// Each resync brings each object once, however long it takes. If the handler is due again before it begins, the two
    /// are one. Nothing else delivers an object that has not changed: a relist does not.
    ///
    /// Follows client-go 1.37 (`AddEventHandlerWithResyncPeriod`), which ignores the period of a handler if
    /// the informer has none of its own.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// What happens to events that have not been told yet.
    pub fn buffer(mut self, buffer: Buffer) -> Self {
        self.buffer = buffer;
        self
    }

    /// Lets the handler know only of objects that `keep` keeps. An object that comes to be kept is an
    /// addition, one that ceases to be is a deletion. A panic of it counts as one of the handler.
    ///
    /// Follows client-go 1.37 (`FilteringResourceEventHandler`), which judges a deletion by the final state,
    /// so that its handler may never hear of it.
    pub fn filter(mut self, keep: impl Fn(&Arc<T>) -> bool + Send + 'static) -> Self {
        self.filter = Some(Box::new(keep));
        self
    }

    /// The handler never blocks: it is run on the runtime's own threads, which saves it a change of threads
    /// whenever it begins to be told something. If it does block, others wait.
    pub fn inline(self) -> InlineHandlerBuilder<'p, T> {
        InlineHandlerBuilder(self)
    }

    /// Adds the handler.
    ///
    /// It is first told of every object that there is, as additions of the initial list, and then of every change
    /// since: nothing is lost, nothing comes twice, and no one else is held up. It begins when the processor
    /// runs. The same handler added twice is two handlers.
    ///
    /// Its callbacks may block. They run on threads of one pool for the process, not on tokio's, in the context of the
    /// runtime: `tokio::spawn` and `Handle::current().block_on` work. Handlers take turns of some milliseconds there when
    /// there are more of them than threads; one that is in a callback for longer than 1 second does not count
    /// ([`ThreadMetrics`](crate::ThreadMetrics)).
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[expect(
        clippy::should_implement_trait,
        reason = "it is handlers that are added, and nobody adds two of these"
    )]
    pub fn add<H: EventHandler<T>>(self, handler: H) -> Result<Registration, Error> {
        self.add_task(type_name::<H>(), |source| Box::pin(run::blocking(Runner { handler, source })))
    }

    /// As [`Self::add`], for a closure without type annotations.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn for_each(
        self,
        handler: impl FnMut(&Event<Arc<T>>) + Send + 'static,
    ) -> Result<Registration, Error> {
        self.add(handler)
    }

    /// As [`Self::add`], for a handler whose callbacks are futures.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn add_async<H: AsyncEventHandler<T>>(self, handler: H) -> Result<Registration, Error> {
        self.add_task(type_name::<H>(), |source| Box::pin(run::asynchronous(Runner { handler, source })))
    }

    /// The events as a stream instead, which begins with every object that there is. Needs no running
    /// processor of its own to be made, but one to be woken.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn stream(self) -> Result<EventStream<T>, Error> {
        let mut kept = None;
        let registration = self.add_with("stream", |source| {
            kept = Some(source);
            None
        })?;
        // The closure runs unless there was an error.
        let Some(source) = kept else {
            return Err(Error::Stopped { processor: registration.listener.name.clone() });
        };
        Ok(EventStream::new(registration, source))
    }

    fn add_task(self, type_name: &str, task: impl FnOnce(Source<T>) -> Task) -> Result<Registration, Error> {
        self.add_with(type_name, |mut source| {
            let listener = source.listener.clone();
            source.done = Some(DoneGuard(listener.clone()));
            Some(Box::pin(OwnCode::new(listener, task(source))))
        })
    }

    fn add_with(
        self,
        type_name: &str,
        task: impl FnOnce(Source<T>) -> Option<Task>,
    ) -> Result<Registration, Error> {
        let Self { processor, name, resync, buffer, filter } = self;
        let name = name.unwrap_or_else(|| type_name.into());
        let bound = match buffer {
            Buffer::BackPressure(bound) => Some(bound.max(1)),
            Buffer::EveryEvent | Buffer::Coalesced => None,
        };
        processor.join(name, resync, bound, |listener, inbox| {
            if buffer != Buffer::Coalesced {
                return task(Source::new(Feed::Log(inbox), filter, listener));
            }
            let coalescer = Arc::new(Coalescer::new(listener.clone()));
            listener.holds(&coalescer);
            let source = Source::new(Feed::Coalesced(coalescer.clone()), filter, listener);
            let absorber: Task = Box::pin(async move { coalescer.absorb(inbox).await });
            // Beside the handler in one task, so that one cannot be left without the other.
            Some(match task(source) {
                Some(task) => Box::pin(async move {
                    if let Either::Right(((), task)) = select(task, absorber).await {
                        task.await;
                    }
                }),
                None => absorber,
            })
        })
    }
}

impl<T: Object> InlineHandlerBuilder<'_, T> {
    /// As [`HandlerBuilder::add`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[expect(
        clippy::should_implement_trait,
        reason = "it is handlers that are added, and nobody adds two of these"
    )]
    pub fn add<H: EventHandler<T>>(self, handler: H) -> Result<Registration, Error> {
        self.0.add_task(type_name::<H>(), |source| Box::pin(run::inline(Runner { handler, source })))
    }

    /// As [`HandlerBuilder::for_each`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn for_each(
        self,
        handler: impl FnMut(&Event<Arc<T>>) + Send + 'static,
    ) -> Result<Registration, Error> {
        self.add(handler)
    }
}

impl<T> fmt::Debug for HandlerBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerBuilder")
            .field("name", &self.name)
            .field("resync", &self.resync)
            .field("buffer", &self.buffer)
            .field("filter", &self.filter.is_some())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for InlineHandlerBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InlineHandlerBuilder").field(&self.0).finish()
    }
}
