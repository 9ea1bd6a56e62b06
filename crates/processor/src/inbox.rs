//! What comes next for one handler: the initial list, then the log.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering as Atomic;

use kinformer_core::{Object, contain};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::event::Notification;
use crate::listener::{Listener, Moment, Undelivered};
use crate::log::{Cursor, Place};
use crate::{DueHandlers, State};

/// What is published at once.
pub(crate) struct Batch<T> {
    /// The position of its first notification.
    pub(crate) first: u64,
    /// The revision of the state that includes all of it.
    pub(crate) revision: Option<u64>,
    pub(crate) notifications: SmallVec<[Notification<T>; 1]>,
    /// The handlers that it is for, if it is (a part of) a resync; else it is for all of them.
    pub(crate) due: Option<DueHandlers>,
    /// Whether the initial list ends here.
    pub(crate) synced: bool,
    pub(crate) published: Moment,
}

impl<T> Drop for Batch<T> {
    /// Whoever is the last to hold it, a publisher or some handler, must not pay for what its objects do.
    fn drop(&mut self) {
        std::mem::take(&mut self.notifications).into_iter().for_each(Notification::drop_contained);
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
    /// The initial list, until all of it was told.
    initial: Option<Arc<Initial<T>>>,
    /// The revision of the initial list: all up to it is known.
    joined: Option<u64>,
    joined_at: Moment,
    cursor: Cursor<Batch<T>>,
    /// The batch under the cursor while it is being read: see [`Self::rest`].
    batch: Option<Arc<Batch<T>>>,
    /// The next notification of the batch under the cursor.
    at: usize,
    /// Whether the end of the initial list has been passed.
    synced: bool,
}

impl<T: Object> Inbox<T> {
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
        listener.holds(cursor.place());
        let initial = initial.map(|state| Arc::new(Initial(Mutex::new(Some(state)))));
        if let Some(initial) = &initial {
            listener.holds(initial);
        }
        Self { listener, initial, joined, joined_at, cursor, batch: None, at: 0, synced }
    }

    /// Lets go of the batch that is being read, which a removal cannot reach: to be called wherever the reader may stay
    /// for long.
    pub(crate) fn rest(&mut self) {
        self.batch = None;
    }

    /// Tells the next notification and when it was published, if there is one. What was told before is finished
    /// by now. Passes the end of the initial list in a step of its own.
    pub(crate) fn next_with<R>(&mut self, tell: impl FnOnce(&Notification<T>, Moment) -> R) -> Next<R> {
        if let Some(initial) = &self.initial {
            let Some(object) = initial.next(&self.listener) else {
                self.initial = None;
                return Next::Passed;
            };
            let notification = Notification::initial(object, self.joined.unwrap_or_default());
            let told = tell(&notification, self.joined_at);
            notification.drop_contained();
            return Next::Told(told);
        }
        loop {
            if self.batch.is_none() {
                self.batch = self.cursor.batch();
            }
            let Some(batch) = &self.batch else {
                return Next::Empty;
            };
            if !self.concerns(batch) {
                self.at = batch.notifications.len();
            }
            if let Some(notification) = batch.notifications.get(self.at) {
                self.at += 1;
                self.listener.has_read(batch.first + self.at as u64);
                return Next::Told(tell(notification, batch.published));
            }
            self.listener.has_read(batch.first + batch.notifications.len() as u64);
            let synced = batch.synced;
            self.at = 0;
            self.batch = None;
            self.cursor.advance();
            if synced {
                self.synced = true;
                return Next::Passed;
            }
        }
    }

    /// Whether a batch is for this listener, and not a part of its initial list.
    fn concerns(&self, batch: &Batch<T>) -> bool {
        let known = batch.revision.zip(self.joined).map(|(revision, joined)| revision.cmp(&joined));
        match &batch.due {
            None => known.is_none_or(Ordering::is_gt),
            // A resync changes no state: that it is about the state of the initial list is as it should be.
            Some(due) => known.is_none_or(Ordering::is_ge) && due.contains(self.listener.id),
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

/// The initial list of one handler, out of which a removal takes it.
struct Initial<T>(Mutex<Option<State<T>>>);

impl<T> Initial<T> {
    /// The next object, if there is one. The iterator is the user's: it runs without the lock.
    fn next(&self, listener: &Listener) -> Option<Arc<T>> {
        let state = self.0.lock().take();
        let mut taken = Taken { list: self, listener, state };
        let state = taken.state.as_mut()?;
        let next = state.objects.next();
        listener.initial.store(state.objects.len(), Atomic::Relaxed);
        next
    }
}

/// Puts the list back, whatever its iterator does, unless the listener was removed meanwhile.
struct Taken<'a, T> {
    list: &'a Initial<T>,
    listener: &'a Listener,
    state: Option<State<T>>,
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let mut list = self.list.0.lock();
        // A removal says so before it takes the list.
        if !self.listener.is_stopped() {
            *list = self.state.take();
        }
        drop(list);
        drop_contained(self.state.take());
    }
}

impl<T> Undelivered for Initial<T> {
    fn release(&self) {
        let state = self.0.lock().take();
        drop_contained(state);
    }
}

impl<T: Send + Sync> Undelivered for Place<Batch<T>> {
    fn release(&self) {
        Self::release(self);
    }
}

fn drop_contained<T>(state: Option<State<T>>) {
    if let Err(error) = contain(|| drop(state)) {
        tracing::error!(%error, "an initial list panicked when it was dropped");
    }
}
