//! What comes next for one handler: the initial list, then the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::event::Audience;
use crate::listener::Listener;
use crate::log::Cursor;
use crate::{Notification, State};

/// What is published at once.
pub(crate) struct Batch<T> {
    /// The position of its first notification.
    pub(crate) first: u64,
    /// The revision of the state that includes all of it.
    pub(crate) revision: Option<u64>,
    pub(crate) notifications: SmallVec<[Notification<T>; 1]>,
    /// The ids of those that resyncs are for, in order.
    pub(crate) due: Option<Arc<[u64]>>,
    /// Whether the initial list ends here.
    pub(crate) synced: bool,
    pub(crate) published: Instant,
}

/// Reads the log for one listener. What it is asked to tell is told by reference.
pub(crate) struct Inbox<T> {
    listener: Arc<Listener>,
    initial: Option<State<T>>,
    /// The revision of the initial list: all up to it is known.
    joined: Option<u64>,
    joined_at: Instant,
    cursor: Cursor<Batch<T>>,
    /// The next notification of the batch under the cursor.
    at: usize,
    /// Whether the end of the initial list has been passed.
    synced: bool,
    /// Whether what is read here has been told when the next is asked for.
    tells: Tells,
    /// Whether the listener was told that it has synced.
    announced: bool,
}

/// Who reads an inbox.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tells {
    /// The handler itself: it has finished what it was told when it asks again.
    Handler,
    /// What gathers for it.
    Coalescer,
}

impl<T> Inbox<T> {
    /// `synced`: whether the end of the initial list was published before the cursor was made.
    pub(crate) fn new(
        listener: Arc<Listener>,
        cursor: Cursor<Batch<T>>,
        initial: Option<State<T>>,
        synced: bool,
        tells: Tells,
    ) -> Self {
        let joined = initial.as_ref().map(|state| state.revision);
        listener.initial.store(initial.as_ref().map_or(0, |state| state.objects.len()), Ordering::Relaxed);
        Self {
            listener,
            initial,
            joined,
            joined_at: Instant::now(),
            cursor,
            at: 0,
            synced,
            tells,
            announced: false,
        }
    }

    /// Tells the next notification, if there is one.
    pub(crate) fn next_with<R>(&mut self, tell: impl FnOnce(&Notification<T>) -> R) -> Option<R> {
        if let Some(state) = &mut self.initial {
            let next = state.objects.next();
            self.listener.initial.store(state.objects.len(), Ordering::Relaxed);
            match next {
                Some(object) => {
                    self.listener.telling(Some(self.joined_at));
                    return Some(tell(&Notification::added(object).in_initial_list()));
                }
                None => self.initial = None,
            }
        }
        loop {
            if self.synced && self.tells == Tells::Handler && !self.announced {
                self.announced = true;
                self.listener.synced.cancel();
            }
            let Some(batch) = self.cursor.batch() else {
                self.listener.telling(None);
                return None;
            };
            if self.at == 0 {
                self.listener.telling(Some(batch.published));
                if batch.revision.is_some_and(|revision| self.joined.is_some_and(|joined| revision <= joined))
                {
                    self.at = batch.notifications.len();
                }
            }
            while let Some(notification) = batch.notifications.get(self.at) {
                self.at += 1;
                let position = batch.first + self.at as u64;
                let concerned = match notification.audience {
                    Audience::Everyone => true,
                    Audience::DueForResync => {
                        batch.due.as_ref().is_some_and(|due| due.binary_search(&self.listener.id).is_ok())
                    }
                };
                if concerned {
                    // Also when the listener panics: it has been told.
                    let _read = OnDrop(|| self.listener.has_read(position));
                    return Some(tell(notification));
                }
            }
            self.listener.has_read(batch.first + batch.notifications.len() as u64);
            self.synced |= batch.synced;
            self.at = 0;
            self.cursor.advance();
        }
    }

    /// Whether the initial list has been told.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced && self.initial.is_none()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.cursor.is_closed()
    }

    /// Waits until there may be something to tell, or nothing will be. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        if self.initial.is_none() {
            self.cursor.wait().await;
        }
    }
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
