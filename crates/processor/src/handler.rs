//! The handler traits.

use std::fmt;
use std::future::Future;

use crate::event::{Added, Deleted, Event, Left, Updated};

/// A handler with synchronous callbacks.
///
/// `O` is the handle of the objects it receives: `Arc<T>` for objects of a custom type.
///
/// A handler receives one event at a time, in order, so it may have mutable state without a lock. Every
/// `FnMut(&Event<O>)` is a handler. A handler may block: it runs on a dedicated thread, unless it was added with
/// [`inline`](crate::ListenerBuilder::inline). A panic skips the current event; the handler continues with the next one
/// after a second.
///
/// Follows client-go 0.37 (`ResourceEventHandler`), with the same callbacks.
#[doc(alias("ResourceEventHandler", "TypedResourceEventHandler"))]
pub trait EventHandler<O>: Send + 'static {
    /// Called when an object was added, from this handler's point of view.
    fn on_add(&mut self, added: &Added<O>) {
        let _ = added;
    }

    /// Called when an object was changed, and for each unchanged object at a resync.
    fn on_update(&mut self, updated: &Updated<O>) {
        let _ = updated;
    }

    /// Called when an object was deleted.
    fn on_delete(&mut self, deleted: &Deleted<O>) {
        let _ = deleted;
    }

    /// Called when an object has left the scope of the informer, without having been deleted.
    fn on_leave(&mut self, left: &Left<O>) {
        let _ = left;
    }

    /// Called for every event. The default implementation calls the method for the variant.
    fn on_event(&mut self, event: &Event<O>) {
        match event {
            Event::Added(added) => self.on_add(added),
            Event::Updated(updated) => self.on_update(updated),
            Event::Deleted(deleted) => self.on_delete(deleted),
            Event::Left(left) => self.on_leave(left),
        }
    }
}

impl<O, F: FnMut(&Event<O>) + Send + 'static> EventHandler<O> for F {
    fn on_event(&mut self, event: &Event<O>) {
        self(event);
    }
}

/// A handler with asynchronous callbacks. The next event is delivered when the future of the previous one has ended.
///
/// Every `FnMut(Event<O>) -> impl Future` is a handler. The futures must not block. When the processor ends, a callback
/// future that has not ended within the grace period is dropped at its await point.
#[doc(alias = "ResourceEventHandler")]
pub trait AsyncEventHandler<O: Send + Sync + 'static>: Send + 'static {
    /// Called when an object was added, from this handler's point of view.
    ///
    /// # Cancel safety
    /// The future is dropped at its await point if it runs when the grace period after the end of the processor is
    /// over, or when the future of [`SharedProcessor::run`](crate::SharedProcessor::run) is dropped. The event then
    /// does not count as delivered, and is not delivered again.
    fn on_add(&mut self, added: Added<O>) -> impl Future<Output = ()> + Send {
        let _ = added;
        async {}
    }

    /// Called when an object was changed, and for each unchanged object at a resync.
    ///
    /// # Cancel safety
    /// The event is not delivered again if the future is dropped: see [`Self::on_add`].
    fn on_update(&mut self, updated: Updated<O>) -> impl Future<Output = ()> + Send {
        let _ = updated;
        async {}
    }

    /// Called when an object was deleted.
    ///
    /// # Cancel safety
    /// The event is not delivered again if the future is dropped: see [`Self::on_add`].
    fn on_delete(&mut self, deleted: Deleted<O>) -> impl Future<Output = ()> + Send {
        let _ = deleted;
        async {}
    }

    /// Called when an object has left the scope of the informer, without having been deleted.
    ///
    /// # Cancel safety
    /// The event is not delivered again if the future is dropped: see [`Self::on_add`].
    fn on_leave(&mut self, left: Left<O>) -> impl Future<Output = ()> + Send {
        let _ = left;
        async {}
    }

    /// Called for every event. The default implementation calls the method for the variant.
    ///
    /// # Cancel safety
    /// The default implementation has one await, that of the method for the variant: see [`Self::on_add`].
    fn on_event(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send {
        async move {
            match event {
                Event::Added(added) => self.on_add(added).await,
                Event::Updated(updated) => self.on_update(updated).await,
                Event::Deleted(deleted) => self.on_delete(deleted).await,
                Event::Left(left) => self.on_leave(left).await,
            }
        }
    }
}

impl<O, F, Fut> AsyncEventHandler<O> for F
where
    O: Send + Sync + 'static,
    F: FnMut(Event<O>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    async fn on_event(&mut self, event: Event<O>) {
        self(event).await;
    }
}

/// An asynchronous closure or function with a mutable state, `async |state: &mut S, event| ...`, whose futures are
/// `Send`. Implemented for all of these; see
/// [`ListenerBuilder::for_each_async_with`](crate::ListenerBuilder::for_each_async_with).
pub trait AsyncFnWith<'a, S: 'a, E>: FnMut(&'a mut S, E) -> Self::Future {
    /// The future of one call.
    type Future: Future<Output = ()> + Send + 'a;
}

impl<'a, S: 'a, E, F, Fut> AsyncFnWith<'a, S, E> for F
where
    F: FnMut(&'a mut S, E) -> Fut,
    Fut: Future<Output = ()> + Send + 'a,
{
    type Future = Fut;
}

/// The [`AsyncEventHandler`] of a state and an asynchronous closure that changes it.
///
/// After a panic of the closure the next event is delivered with the state as the panic left it.
#[derive(Debug)]
pub struct WithState<S, F> {
    state: S,
    call: F,
}

impl<S, F> WithState<S, F> {
    /// Creates a handler that calls `call` with the state and each event.
    pub fn new(state: S, call: F) -> Self {
        Self { state, call }
    }
}

impl<O, S, F> AsyncEventHandler<O> for WithState<S, F>
where
    O: Send + Sync + 'static,
    S: Send + 'static,
    F: for<'a> AsyncFnWith<'a, S, Event<O>> + Send + 'static,
{
    async fn on_event(&mut self, event: Event<O>) {
        (self.call)(&mut self.state, event).await;
    }
}

/// A handler that consists of closures. Events without a closure are ignored.
///
/// ```
/// use std::sync::Arc;
///
/// use kinformer_processor::EventHandlerFuncs;
///
/// let handler = EventHandlerFuncs::<Arc<String>>::new()
///     .on_add(|added| println!("{} at revision {}", added.object, added.revision))
///     .on_delete(|deleted| println!("{:?}", deleted.tombstone));
/// ```
///
/// Follows client-go 0.37 (`ResourceEventHandlerDetailedFuncs`).
#[doc(alias(
    "ResourceEventHandlerDetailedFuncs",
    "ResourceEventHandlerFuncs",
    "TypedResourceEventHandlerDetailedFuncs",
    "TypedResourceEventHandlerFuncs"
))]
#[must_use]
pub struct EventHandlerFuncs<O> {
    on_add: Option<Box<OnAdd<O>>>,
    on_update: Option<Box<OnUpdate<O>>>,
    on_delete: Option<Box<OnDelete<O>>>,
    on_leave: Option<Box<OnLeave<O>>>,
}

type OnAdd<O> = dyn FnMut(&Added<O>) + Send;
type OnUpdate<O> = dyn FnMut(&Updated<O>) + Send;
type OnDelete<O> = dyn FnMut(&Deleted<O>) + Send;
type OnLeave<O> = dyn FnMut(&Left<O>) + Send;

impl<O> EventHandlerFuncs<O> {
    /// Creates a handler that ignores all events.
    pub fn new() -> Self {
        Self { on_add: None, on_update: None, on_delete: None, on_leave: None }
    }

    /// Sets the closure that is called for additions.
    #[doc(alias = "AddFunc")]
    pub fn on_add(mut self, call: impl FnMut(&Added<O>) + Send + 'static) -> Self {
        self.on_add = Some(Box::new(call));
        self
    }

    /// Sets the closure that is called for updates.
    #[doc(alias = "UpdateFunc")]
    pub fn on_update(mut self, call: impl FnMut(&Updated<O>) + Send + 'static) -> Self {
        self.on_update = Some(Box::new(call));
        self
    }

    /// Sets the closure that is called for deletions.
    #[doc(alias = "DeleteFunc")]
    pub fn on_delete(mut self, call: impl FnMut(&Deleted<O>) + Send + 'static) -> Self {
        self.on_delete = Some(Box::new(call));
        self
    }

    /// Sets the closure that is called for objects that leave the scope of the informer.
    pub fn on_leave(mut self, call: impl FnMut(&Left<O>) + Send + 'static) -> Self {
        self.on_leave = Some(Box::new(call));
        self
    }
}

impl<O> Default for EventHandlerFuncs<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: 'static> EventHandler<O> for EventHandlerFuncs<O> {
    fn on_add(&mut self, added: &Added<O>) {
        if let Some(call) = &mut self.on_add {
            call(added);
        }
    }

    fn on_update(&mut self, updated: &Updated<O>) {
        if let Some(call) = &mut self.on_update {
            call(updated);
        }
    }

    fn on_delete(&mut self, deleted: &Deleted<O>) {
        if let Some(call) = &mut self.on_delete {
            call(deleted);
        }
    }

    fn on_leave(&mut self, left: &Left<O>) {
        if let Some(call) = &mut self.on_leave {
            call(left);
        }
    }
}

impl<O> fmt::Debug for EventHandlerFuncs<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHandlerFuncs")
            .field("on_add", &self.on_add.is_some())
            .field("on_update", &self.on_update.is_some())
            .field("on_delete", &self.on_delete.is_some())
            .field("on_leave", &self.on_leave.is_some())
            .finish()
    }
}
