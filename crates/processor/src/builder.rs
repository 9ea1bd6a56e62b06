//! Adding a handler.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::Object;

use crate::backlog::Buffer;
use crate::delivery::{Delivery, Filter};
use crate::error::Error;
use crate::event::Event;
use crate::feed::{EventFeed, deliver_async};
use crate::handler::{AsyncEventHandler, EventHandler};
use crate::listener::Task;
use crate::listeners::DoneGuard;
use crate::own_code::OwnCode;
use crate::publisher::{NewHandler, Publisher};
use crate::registration::Registration;
use crate::run;
use crate::stream::EventStream;

/// A handler to be added, and its settings.
#[must_use = "nothing is added yet"]
pub struct HandlerBuilder<'p, T> {
    publisher: &'p Publisher<T>,
    name: Option<Arc<str>>,
    resync: Option<Duration>,
    buffer: Buffer,
    filter: Option<Filter<T>>,
}

/// A [`HandlerBuilder`] for a handler that never blocks.
#[must_use = "nothing is added yet"]
pub struct InlineHandlerBuilder<'p, T>(HandlerBuilder<'p, T>);

impl<'p, T: Object> HandlerBuilder<'p, T> {
    pub(crate) fn new(publisher: &'p Publisher<T>) -> Self {
        Self { publisher, name: None, resync: None, buffer: Buffer::default(), filter: None }
    }

    /// The name of the handler in messages and metrics; that of its type by default.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How often the handler receives every object again, as an update to the same state. Zero means never, and so does
    /// [`Duration::MAX`]; the default is the processor's. Less than a second counts as one. The check interval is the
    /// smallest period requested before the start. Handlers added later cannot shorten it; if none was requested, there
    /// are no resyncs.
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

    /// What happens to undelivered events.
    pub fn buffer(mut self, buffer: Buffer) -> Self {
        self.buffer = buffer;
        self
    }

    /// Delivers only objects for which `keep` returns true. An object that begins to pass is an addition, one that ceases
    /// to pass is a deletion. A panic of the filter counts as one of the handler.
    ///
    /// Follows client-go 1.37 (`FilteringResourceEventHandler`), which judges a deletion by the final state, so that
    /// its handler may miss it.
    pub fn filter(mut self, keep: impl Fn(&Arc<T>) -> bool + Send + 'static) -> Self {
        self.filter = Some(Box::new(keep));
        self
    }

    /// The handler never blocks: it runs on the runtime's own threads, which saves a change of threads whenever it has new
    /// events. If it does block, other tasks wait.
    pub fn inline(self) -> InlineHandlerBuilder<'p, T> {
        InlineHandlerBuilder(self)
    }

    /// Adds the handler.
    ///
    /// It first receives every object of the store, as additions of the initial list, and then every change since:
    /// nothing is lost, nothing is delivered twice, and no other handler waits. Delivery begins when the processor runs.
    /// The same handler added twice is two handlers.
    ///
    /// Its callbacks may block. They run on threads of one pool for the process, not on tokio's, in the context of the
    /// runtime: `tokio::spawn` and `Handle::current().block_on` work. Handlers take turns of some milliseconds there when
    /// there are more of them than threads; one that is in a callback for longer than 1 second does not count
    /// ([`ThreadMetrics`](crate::ThreadMetrics)).
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[expect(clippy::should_implement_trait, reason = "it adds a handler, and is no operator")]
    pub fn add<H: EventHandler<Arc<T>>>(self, handler: H) -> Result<Registration, Error> {
        self.add_task(type_name::<H>(), |delivery| Box::pin(run::blocking(handler, delivery)))
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
    pub fn add_async<H: AsyncEventHandler<Arc<T>>>(self, handler: H) -> Result<Registration, Error> {
        self.add_task(type_name::<H>(), |delivery| Box::pin(deliver_async(handler, delivery)))
    }

    /// The events as a stream, which begins with every object of the store. The processor has to run for the stream to be
    /// woken.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn stream(self) -> Result<EventStream<T>, Error> {
        let mut kept = None;
        let registration = self.add_with("stream", |delivery| {
            kept = Some(EventFeed::of_stream(delivery));
            None
        })?;
        // The closure runs unless there was an error.
        let Some(feed) = kept else {
            return Err(Error::Stopped { processor: registration.listener.name.clone() });
        };
        Ok(EventStream::new(registration, feed))
    }

    fn add_task(
        self,
        default_name: &str,
        task: impl FnOnce(Delivery<T>) -> Task,
    ) -> Result<Registration, Error> {
        let listeners = Arc::downgrade(self.publisher.listeners());
        self.add_with(default_name, |mut delivery| {
            let listener = delivery.listener.clone();
            delivery.done = Some(DoneGuard { listener: listener.clone(), listeners });
            Some(Box::pin(OwnCode::new(listener, task(delivery))))
        })
    }

    fn add_with(
        self,
        default_name: &str,
        task: impl FnOnce(Delivery<T>) -> Option<Task>,
    ) -> Result<Registration, Error> {
        let Self { publisher, name, resync, buffer, filter } = self;
        let name = name.unwrap_or_else(|| default_name.into());
        publisher.join(NewHandler { name, resync, buffer, filter }, task)
    }
}

impl<T: Object> InlineHandlerBuilder<'_, T> {
    /// As [`HandlerBuilder::add`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[expect(clippy::should_implement_trait, reason = "it adds a handler, and is no operator")]
    pub fn add<H: EventHandler<Arc<T>>>(self, handler: H) -> Result<Registration, Error> {
        self.0.add_task(type_name::<H>(), |delivery| Box::pin(run::inline(handler, delivery)))
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
