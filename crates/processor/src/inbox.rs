//! What comes next for one handler: the initial list, then the log.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering as Atomic;

use smallvec::SmallVec;

use crate::event::Audience;
use crate::listener::{Listener, Moment};
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
    pub(crate) published: Moment,
}

impl<T> Drop for Batch<T> {
    /// Whoever is the last to hold it, a publisher or some handler, must not pay for what its objects do.
    fn drop(&mut self) {
        std::mem::take(&mut self.notifications).into_iter().for_each(Notification::bury);
    }
}

/// What came of looking for the next notification.
pub(crate) enum Next<R> {
    /// There is nothing now.
    Empty,
    /// Something was passed that is not told: look again.
    Passed,
    Told(R),
}

/// Reads the log for one listener. What it is asked to tell is told by reference.
pub(crate) struct Inbox<T> {
    listener: Arc<Listener>,
    initial: Option<State<T>>,
    /// The revision of the initial list: all up to it is known.
    joined: Option<u64>,
    joined_at: Moment,
    cursor: Cursor<Batch<T>>,
    /// The next notification of the batch under the cursor.
    at: usize,
    /// Whether the end of the initial list has been passed.
    synced: bool,
}

impl<T> Inbox<T> {
    /// `synced`: whether the end of the initial list was published before the cursor was made.
    pub(crate) fn new(
        listener: Arc<Listener>,
        cursor: Cursor<Batch<T>>,
        initial: Option<State<T>>,
        synced: bool,
    ) -> Self {
        let joined = initial.as_ref().map(|state| state.revision);
        listener.initial.store(initial.as_ref().map_or(0, |state| state.objects.len()), Atomic::Relaxed);
        let joined_at = listener.now();
        Self { listener, initial, joined, joined_at, cursor, at: 0, synced }
    }

    /// Tells the next notification and when it was published, if there is one. What was told before is finished
    /// by now. Passes the end of the initial list in a step of its own.
    pub(crate) fn next_with<R>(&mut self, tell: impl FnOnce(&Notification<T>, Moment) -> R) -> Next<R> {
        if let Some(state) = &mut self.initial {
            let next = state.objects.next();
            self.listener.initial.store(state.objects.len(), Atomic::Relaxed);
            let Some(object) = next else {
                self.initial = None;
                return Next::Passed;
            };
            let notification = Notification::added(object).in_initial_list();
            let told = tell(&notification, self.joined_at);
            notification.bury();
            return Next::Told(told);
        }
        loop {
            let Some(batch) = self.cursor.batch() else {
                return Next::Empty;
            };
            let known = batch.revision.zip(self.joined).map(|(revision, joined)| revision.cmp(&joined));
            if known == Some(Ordering::Less) {
                self.at = batch.notifications.len();
            }
            while let Some(notification) = batch.notifications.get(self.at) {
                self.at += 1;
                let position = batch.first + self.at as u64;
                let concerned = match notification.audience {
                    Audience::Everyone => known != Some(Ordering::Equal),
                    // A resync changes no state: that it is about the state of the initial list is as it should be.
                    Audience::DueForResync => {
                        batch.due.as_ref().is_some_and(|due| due.binary_search(&self.listener.id).is_ok())
                    }
                };
                if concerned {
                    self.listener.has_read(position);
                    return Next::Told(tell(notification, batch.published));
                }
            }
            self.listener.has_read(batch.first + batch.notifications.len() as u64);
            let synced = batch.synced;
            self.at = 0;
            self.cursor.advance();
            if synced {
                self.synced = true;
                return Next::Passed;
            }
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
