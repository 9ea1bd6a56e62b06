//! What listens.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use kinformer_core::Tombstone;

use crate::Event;

/// A handler whose callbacks return when they are done.
///
/// One handler is told one event at a time, in order, so it may keep state of its own without a lock. Every
/// `FnMut(&Event<Arc<T>>)` is one as well. It may block: it is run on a thread where that harms nobody, unless
/// [`inline`](crate::HandlerBuilder::inline) says that it never does. A panic ends the event it
/// was in and nothing else.
///
/// Follows client-go 1.37 (`ResourceEventHandler`), whose callbacks these are.
pub trait EventHandler<T>: Send + 'static {
    /// The object is there, and this handler did not know.
    fn on_add(&mut self, object: &Arc<T>, in_initial_list: bool) {
        let _ = (object, in_initial_list);
    }

    /// The object has changed; or has not, at a resync.
    fn on_update(&mut self, old: &Arc<T>, new: &Arc<T>) {
        let _ = (old, new);
    }

    /// The object is gone.
    fn on_delete(&mut self, tombstone: &Tombstone<Arc<T>>) {
        let _ = tombstone;
    }

    /// Any of these. Calls the one that it is, unless it is written anew.
    fn on_event(&mut self, event: &Event<Arc<T>>) {
        match event {
            Event::Added { object, in_initial_list, .. } => self.on_add(object, *in_initial_list),
            Event::Updated { old, new, .. } => self.on_update(old, new),
            Event::Deleted { tombstone, .. } => self.on_delete(tombstone),
        }
    }
}

impl<T, F: FnMut(&Event<Arc<T>>) + Send + 'static> EventHandler<T> for F {
    fn on_event(&mut self, event: &Event<Arc<T>>) {
        self(event);
    }
}

/// A handler whose callbacks are futures. The next event is told when the future of the last one has ended.
///
/// Every `FnMut(Event<Arc<T>>) -> impl Future` is one as well. The futures must not block. At the end of the informer a
/// callback that has not ended within the grace period is dropped where it waits.
pub trait AsyncEventHandler<T: Send + Sync + 'static>: Send + 'static {
    /// The object is there, and this handler did not know.
    fn on_add(&mut self, object: Arc<T>, in_initial_list: bool) -> impl Future<Output = ()> + Send {
        let _ = (object, in_initial_list);
        async {}
    }

    /// The object has changed; or has not, at a resync.
    fn on_update(&mut self, old: Arc<T>, new: Arc<T>) -> impl Future<Output = ()> + Send {
        let _ = (old, new);
        async {}
    }

    /// The object is gone.
    fn on_delete(&mut self, tombstone: Tombstone<Arc<T>>) -> impl Future<Output = ()> + Send {
        let _ = tombstone;
        async {}
    }

    /// Any of these. Calls the one that it is, unless it is written anew.
    fn on_event(&mut self, event: Event<Arc<T>>) -> impl Future<Output = ()> + Send {
        async move {
            match event {
                Event::Added { object, in_initial_list, .. } => self.on_add(object, in_initial_list).await,
                Event::Updated { old, new, .. } => self.on_update(old, new).await,
                Event::Deleted { tombstone, .. } => self.on_delete(tombstone).await,
            }
        }
    }
}

impl<T, F, Fut> AsyncEventHandler<T> for F
where
    T: Send + Sync + 'static,
    F: FnMut(Event<Arc<T>>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    async fn on_event(&mut self, event: Event<Arc<T>>) {
        self(event).await;
    }
}

/// A handler put together from closures; an event without one is passed over.
///
/// ```
/// use kinformer_processor::EventHandlerFuncs;
///
/// let handler = EventHandlerFuncs::new()
///     .on_add(|pod: &std::sync::Arc<String>, in_initial_list| println!("{pod} {in_initial_list}"))
///     .on_delete(|tombstone| println!("{tombstone:?}"));
/// ```
///
/// Follows client-go 1.37 (`ResourceEventHandlerDetailedFuncs`).
#[must_use]
pub struct EventHandlerFuncs<T> {
    on_add: Option<Box<OnAdd<T>>>,
    on_update: Option<Box<OnUpdate<T>>>,
    on_delete: Option<Box<OnDelete<T>>>,
}

type OnAdd<T> = dyn FnMut(&Arc<T>, bool) + Send;
type OnUpdate<T> = dyn FnMut(&Arc<T>, &Arc<T>) + Send;
type OnDelete<T> = dyn FnMut(&Tombstone<Arc<T>>) + Send;

impl<T> EventHandlerFuncs<T> {
    /// A handler that passes over everything.
    pub fn new() -> Self {
        Self { on_add: None, on_update: None, on_delete: None }
    }

    /// Called for additions, with whether the object is part of the initial list.
    pub fn on_add(mut self, call: impl FnMut(&Arc<T>, bool) + Send + 'static) -> Self {
        self.on_add = Some(Box::new(call));
        self
    }

    /// Called for updates, with the state before and since.
    pub fn on_update(mut self, call: impl FnMut(&Arc<T>, &Arc<T>) + Send + 'static) -> Self {
        self.on_update = Some(Box::new(call));
        self
    }

    /// Called for deletions.
    pub fn on_delete(mut self, call: impl FnMut(&Tombstone<Arc<T>>) + Send + 'static) -> Self {
        self.on_delete = Some(Box::new(call));
        self
    }
}

impl<T> Default for EventHandlerFuncs<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: 'static> EventHandler<T> for EventHandlerFuncs<T> {
    fn on_add(&mut self, object: &Arc<T>, in_initial_list: bool) {
        if let Some(call) = &mut self.on_add {
            call(object, in_initial_list);
        }
    }

    fn on_update(&mut self, old: &Arc<T>, new: &Arc<T>) {
        if let Some(call) = &mut self.on_update {
            call(old, new);
        }
    }

    fn on_delete(&mut self, tombstone: &Tombstone<Arc<T>>) {
        if let Some(call) = &mut self.on_delete {
            call(tombstone);
        }
    }
}

impl<T> fmt::Debug for EventHandlerFuncs<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHandlerFuncs")
            .field("on_add", &self.on_add.is_some())
            .field("on_update", &self.on_update.is_some())
            .field("on_delete", &self.on_delete.is_some())
            .finish()
    }
}
