//! Where a handler takes its events from, and what its filter makes of them.

use std::sync::Arc;

use kinformer_core::{Object, Tombstone};

use crate::Notification;
use crate::coalesce::Coalescer;
use crate::event::Event;
use crate::inbox::Inbox;
use crate::listener::Listener;

/// Says whether a handler is to know of an object.
pub(crate) type Filter<T> = Box<dyn Fn(&Arc<T>) -> bool + Send>;

/// The log itself, or what was coalesced out of it.
pub(crate) enum Feed<T> {
    Log(Inbox<T>),
    Coalesced(Arc<Coalescer<T>>),
}

/// A feed through a filter.
pub(crate) struct Source<T> {
    pub(crate) feed: Feed<T>,
    pub(crate) filter: Option<Filter<T>>,
    pub(crate) listener: Arc<Listener>,
}

impl<T: Object> Source<T> {
    /// Tells the next event, if there is one: `Some(None)` if the filter holds it back. What was told before is
    /// finished by now.
    pub(crate) fn next_with<R>(&mut self, tell: impl FnOnce(&Event<T>) -> R) -> Option<Option<R>> {
        let Self { feed, filter, listener } = self;
        let tell = |notification: &Notification<T>| match filter {
            None => Some(tell(&notification.event)),
            Some(filter) => match crossing(filter, notification) {
                Crossing::None => None,
                Crossing::AsItIs => Some(tell(&notification.event)),
                Crossing::Becomes(event) => Some(tell(&event)),
            },
        };
        match feed {
            Feed::Log(inbox) => inbox.next_with(tell),
            Feed::Coalesced(coalescer) => {
                if !listener.synced.is_cancelled() && coalescer.is_synced() {
                    listener.synced.cancel();
                }
                coalescer.next_with(tell)
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match &self.feed {
            Feed::Log(inbox) => inbox.is_closed(),
            Feed::Coalesced(coalescer) => coalescer.is_closed(),
        }
    }

    /// Waits until there may be something to tell, nothing will be, or the listener is to stop. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            () = async {
                match &mut self.feed {
                    Feed::Log(inbox) => inbox.wait().await,
                    Feed::Coalesced(coalescer) => coalescer.wait().await,
                }
            } => {}
            () = self.listener.stop.cancelled() => {}
        }
    }
}

enum Crossing<T> {
    None,
    AsItIs,
    Becomes(Event<T>),
}

/// What becomes of an event whose object may cross the filter.
///
/// A deletion is judged by the state that was told last: the final state may differ from it in what
/// the filter looks at.
fn crossing<T>(filter: &Filter<T>, notification: &Notification<T>) -> Crossing<T> {
    let before = notification.before().map(filter);
    match &notification.event {
        Event::Added { object, .. } if filter(object) => Crossing::AsItIs,
        Event::Updated { old, new } => match (before.unwrap_or_default(), filter(new)) {
            (true, true) => Crossing::AsItIs,
            (false, true) => Crossing::Becomes(Event::Added { object: new.clone(), in_initial_list: false }),
            (true, false) => Crossing::Becomes(Event::Deleted(Tombstone::FinalState(old.clone()))),
            (false, false) => Crossing::None,
        },
        // Nothing is known of what it was: rather once too often.
        Event::Deleted(_) if before.unwrap_or(true) => Crossing::AsItIs,
        Event::Added { .. } | Event::Deleted(_) => Crossing::None,
    }
}
