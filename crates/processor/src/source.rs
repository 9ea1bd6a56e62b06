//! Where a handler takes its events from, and what its filter makes of them.

use std::sync::Arc;

use kinformer_core::{BoxError, Object, Tombstone, ask, contain};

use crate::coalesce::Coalescer;
use crate::event::{Event, Notification};
use crate::inbox::{Inbox, Next};
use crate::listener::{DoneGuard, Listener, Moment};

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
    /// Whether the listener was told that it has synced.
    synced: bool,
    /// Dropped last: the source goes wherever the handler runs.
    pub(crate) done: Option<DoneGuard>,
}

/// User code that panicked, and over which object.
pub(crate) struct Panicked {
    pub(crate) key: String,
    pub(crate) error: BoxError,
}

impl Panicked {
    /// Runs user code over an event.
    pub(crate) fn catch<T: Object, R>(
        event: &Event<Arc<T>>,
        user_code: impl FnOnce() -> R,
    ) -> Result<R, Self> {
        contain(user_code).map_err(|error| Self::over(event, error))
    }

    /// What was caught of user code over an event.
    pub(crate) fn over<T: Object>(event: &Event<Arc<T>>, error: BoxError) -> Self {
        Self { key: ask(|| event.key().to_string()).unwrap_or_default(), error }
    }
}

impl<T: Object> Source<T> {
    pub(crate) fn new(feed: Feed<T>, filter: Option<Filter<T>>, listener: Arc<Listener>) -> Self {
        Self { feed, filter, listener, synced: false, done: None }
    }

    /// Tells the next event, if there is one that the filter lets through. What was told before is finished by now.
    pub(crate) fn next_with<R>(
        &mut self,
        tell: impl FnOnce(&Event<Arc<T>>) -> Result<R, Panicked>,
    ) -> Result<Next<R>, Panicked> {
        if !self.synced && self.feed.is_synced() {
            self.synced = true;
            self.listener.synced.cancel();
        }
        let Self { feed, filter, listener, .. } = self;
        let tell = |notification: &Notification<T>, published: Moment| {
            listener.telling(published);
            let event = &notification.event;
            let Some(filter) = filter else {
                return tell(event).map(Next::Told);
            };
            match Panicked::catch(event, || crossing(filter, notification))? {
                Crossing::None => {
                    listener.has_held_back();
                    Ok(Next::Passed)
                }
                Crossing::AsItIs => tell(event).map(Next::Told),
                Crossing::Becomes(event) => tell(&event).map(Next::Told),
            }
        };
        let next = match feed {
            Feed::Log(inbox) => inbox.next_with(tell),
            Feed::Coalesced(coalescer) => coalescer.next_with(tell),
        };
        match next {
            Next::Told(told) => told,
            Next::Passed => Ok(Next::Passed),
            Next::Empty => {
                listener.is_idle();
                Ok(Next::Empty)
            }
        }
    }

    /// Holds nothing that a removal cannot reach until the next event is asked for.
    pub(crate) fn rest(&mut self) {
        if let Feed::Log(inbox) = &mut self.feed {
            inbox.rest();
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

impl<T: Object> Feed<T> {
    /// Whether everything of the initial list has been told.
    fn is_synced(&self) -> bool {
        match self {
            Self::Log(inbox) => inbox.is_synced(),
            Self::Coalesced(coalescer) => coalescer.is_synced(),
        }
    }
}

enum Crossing<T> {
    None,
    AsItIs,
    Becomes(Event<Arc<T>>),
}

/// What becomes of an event whose object may cross the filter.
///
/// A deletion is judged by the state that was told last: the final state may differ from it in what
/// the filter looks at.
fn crossing<T>(filter: &Filter<T>, notification: &Notification<T>) -> Crossing<T> {
    let before = notification.before().map(filter);
    let revision = notification.event.revision();
    match &notification.event {
        Event::Added { object, .. } if filter(object) => Crossing::AsItIs,
        Event::Updated { old, new, .. } => match (before.unwrap_or_default(), filter(new)) {
            (true, true) => Crossing::AsItIs,
            (false, true) => {
                Crossing::Becomes(Event::Added { object: new.clone(), in_initial_list: false, revision })
            }
            (true, false) => {
                let tombstone = Tombstone::FinalState(old.clone());
                Crossing::Becomes(Event::Deleted { tombstone, revision })
            }
            (false, false) => Crossing::None,
        },
        // Nothing is known of what it was: rather once too often.
        Event::Deleted { .. } if before.unwrap_or(true) => Crossing::AsItIs,
        Event::Added { .. } | Event::Deleted { .. } => Crossing::None,
    }
}
