//! Builds and adds handlers.

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
use crate::handler::{AsyncEventHandler, AsyncFnWith, EventHandler, WithState};
use crate::listener::Task;
use crate::listeners::DoneGuard;
use crate::own_code::OwnCode;
use crate::publisher::{NewHandler, Publisher};
use crate::registration::Registration;
use crate::run;
use crate::stream::ListenerStream;

/// Builds and adds a handler.
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_processor::{Buffer, Error, Keyed, SharedProcessor};
///
/// # fn example(ports: &SharedProcessor<Keyed<u16>>) -> Result<(), Error> {
/// let handler = ports
///     .handler()
///     .name("printer")
///     .buffer(Buffer::Coalesced) // one pending event for each key
///     .filter(|port| ***port < 1024)
///     .resync(Duration::from_secs(600))
///     .for_each(|event| println!("{}", event.key()))?;
/// assert_eq!(handler.name(), "printer");
/// # Ok(())
/// # }
/// # example(&SharedProcessor::new("ports")).unwrap();
/// ```
#[must_use = "nothing is added yet"]
pub struct ListenerBuilder<'p, T> {
    publisher: &'p Publisher<T>,
    name: Option<Arc<str>>,
    resync: Option<Duration>,
    buffer: Buffer,
    filter: Option<Filter<T>>,
}

/// A [`ListenerBuilder`] for a handler that never blocks.
#[must_use = "nothing is added yet"]
pub struct InlineListenerBuilder<'p, T>(ListenerBuilder<'p, T>);

impl<'p, T: Object> ListenerBuilder<'p, T> {
    pub(crate) fn new(publisher: &'p Publisher<T>) -> Self {
        Self { publisher, name: None, resync: None, buffer: Buffer::default(), filter: None }
    }

    /// Sets the name of the handler in logs, errors and metrics. By default it is the name of its type.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the period after which the handler receives every object again, as an update to the same state. Zero and
    /// [`Duration::MAX`] mean never; the default is the processor's period. Periods below a second count as a second.
    /// The check interval is the smallest period requested before the start. Handlers added later cannot shorten it; if
    /// no handler requested a period before the start, there are no resyncs.
    ///
    /// Each resync delivers each object once, however long that takes. If the handler is due again before its resync
    /// starts, it receives one resync. Only a resync delivers unchanged objects; a relist does not.
    ///
    /// Follows client-go 0.37 (`AddEventHandlerWithResyncPeriod`), which ignores the period of a handler if the
    /// informer has none.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets the buffer policy for undelivered events.
    pub fn buffer(mut self, buffer: Buffer) -> Self {
        self.buffer = buffer;
        self
    }

    /// Delivers only objects for which `keep` returns `true`. An object that starts to pass the filter is delivered as
    /// an addition, and an object that stops passing as a deletion. A panic of the filter counts as a panic of the
    /// handler.
    ///
    /// Follows client-go 0.37 (`FilteringResourceEventHandler`), which filters a deletion by the final state, so that
    /// its handler may miss it.
    pub fn filter(mut self, keep: impl Fn(&Arc<T>) -> bool + Send + 'static) -> Self {
        self.filter = Some(Box::new(keep));
        self
    }

    /// Runs the handler on the runtime's own threads, which saves a thread switch for each wake-up. The handler must
    /// not block: while it blocks, other tasks of the runtime wait.
    ///
    /// ```
    /// use kinformer_processor::{Error, Keyed, SharedProcessor};
    ///
    /// # fn example(ports: &SharedProcessor<Keyed<u16>>) -> Result<(), Error> {
    /// let (sender, changed) = tokio::sync::watch::channel(0);
    /// ports.handler().inline().for_each(move |event| _ = sender.send_replace(event.revision()))?;
    /// # _ = changed;
    /// # Ok(())
    /// # }
    /// # example(&SharedProcessor::new("ports")).unwrap();
    /// ```
    pub fn inline(self) -> InlineListenerBuilder<'p, T> {
        InlineListenerBuilder(self)
    }

    /// Adds the handler.
    ///
    /// The handler first receives every object of the store, as additions of the initial list, and then every later
    /// change. Nothing is lost, nothing is delivered twice, and no other handler waits. Delivery starts when the
    /// processor runs. A handler that is added twice counts as two handlers.
    ///
    /// Its callbacks may block. They run on a pool of threads of this process, not on tokio's threads, in the context
    /// of the runtime: `tokio::spawn` and `Handle::current().block_on` work. If there are more handlers than threads,
    /// handlers take turns of some milliseconds. A callback that runs for longer than 1 second does not count against
    /// the size of the pool ([`ThreadMetrics`](crate::ThreadMetrics)).
    ///
    /// # Errors
    /// [`Error::Stopped`] if the processor has stopped. The handler is dropped.
    pub fn add<H: EventHandler<Arc<T>>>(self, handler: H) -> Result<Registration, Error> {
        self.add_task(type_name::<H>(), |delivery| Box::pin(run::blocking(handler, delivery)))
    }

    /// Adds a closure as a handler, as [`Self::add`]. Its argument needs no type annotation.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the processor has stopped. The closure is dropped.
    pub fn for_each(
        self,
        handler: impl FnMut(&Event<Arc<T>>) + Send + 'static,
    ) -> Result<Registration, Error> {
        self.add(handler)
    }

    /// Adds a handler with asynchronous callbacks. It receives the same events as with [`Self::add`], and runs as a
    /// task on the runtime.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the processor has stopped. The handler is dropped.
    pub fn add_async<H: AsyncEventHandler<Arc<T>>>(self, handler: H) -> Result<Registration, Error> {
        self.add_task(type_name::<H>(), |delivery| Box::pin(deliver_async(handler, delivery)))
    }

    /// Adds an asynchronous closure with a state of its own, as [`Self::add_async`]. The arguments need no type
    /// annotations, and delivery allocates nothing per event.
    ///
    /// ```
    /// use kinformer_processor::{Error, Keyed, SharedProcessor};
    ///
    /// # fn example(ports: &SharedProcessor<Keyed<u16>>) -> Result<(), Error> {
    /// ports.handler().for_each_async_with(0, async |events, event| {
    ///     *events += 1;
    ///     println!("{}: event {events}", event.key());
    ///     tokio::task::yield_now().await;
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The state is everything that the futures may borrow: the closure itself captures nothing. After a panic of the
    /// closure the next event is delivered with the state as the panic left it.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the processor has stopped. The closure and the state are dropped.
    pub fn for_each_async_with<S, F>(self, state: S, handler: F) -> Result<Registration, Error>
    where
        S: Send + 'static,
        F: AsyncFnMut(&mut S, Event<Arc<T>>) + for<'a> AsyncFnWith<'a, S, Event<Arc<T>>> + Send + 'static,
    {
        self.add_task(type_name::<F>(), |delivery| {
            Box::pin(deliver_async(WithState::new(state, handler), delivery))
        })
    }

    /// Returns the events as a stream, which starts with every object of the store. The processor must run for the
    /// stream to be woken.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the processor has stopped.
    pub fn stream(self) -> Result<ListenerStream<T>, Error> {
        let mut feed = None;
        let registration = self.add_with("stream", |delivery| {
            feed = Some(EventFeed::of_stream(delivery));
            None
        })?;
        // The closure has run, since there was no error.
        let Some(feed) = feed else {
            return Err(Error::Stopped { processor: registration.listener.name.clone() });
        };
        Ok(ListenerStream::new(registration, feed))
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

impl<T: Object> InlineListenerBuilder<'_, T> {
    /// Adds the handler: see [`ListenerBuilder::add`].
    ///
    /// # Errors
    /// [`Error::Stopped`] if the processor has stopped. The handler is dropped.
    pub fn add<H: EventHandler<Arc<T>>>(self, handler: H) -> Result<Registration, Error> {
        self.0.add_task(type_name::<H>(), |delivery| Box::pin(run::inline(handler, delivery)))
    }

    /// Adds a closure as a handler: see [`ListenerBuilder::for_each`].
    ///
    /// # Errors
    /// [`Error::Stopped`] if the processor has stopped. The closure is dropped.
    pub fn for_each(
        self,
        handler: impl FnMut(&Event<Arc<T>>) + Send + 'static,
    ) -> Result<Registration, Error> {
        self.add(handler)
    }
}

impl<T> fmt::Debug for ListenerBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerBuilder")
            .field("name", &self.name)
            .field("resync", &self.resync)
            .field("buffer", &self.buffer)
            .field("filter", &self.filter.is_some())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for InlineListenerBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InlineListenerBuilder").field(&self.0).finish()
    }
}
