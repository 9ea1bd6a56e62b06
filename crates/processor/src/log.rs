//! A log of batches with any number of readers.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::bell::{Bell, Sleeper};
use crate::sync::{Mutex, OnceLock};

/// A linked list of immutable batches. The log holds only its end: a batch lives until the last cursor has left it.
pub(crate) struct Log<B> {
    tail: Mutex<Arc<Link<B>>>,
    bell: Arc<Bell>,
}

/// The place of a batch that is, or will be, published. The batch has its own reference count, so that a reader can
/// hold a batch without the later ones.
struct Link<B>(OnceLock<(Arc<B>, Arc<Self>)>);

/// The position of a reader: the link after the batches it has read. An idle reader is at the empty link at the end and
/// keeps no batch alive.
pub(crate) struct Cursor<B> {
    log: Arc<Log<B>>,
    place: Arc<Place<B>>,
    sleeper: Sleeper,
}

/// The link of a reader, which keeps all later batches alive until it is released.
pub(crate) struct Place<B>(Mutex<Option<Arc<Link<B>>>>);

impl<B> Link<B> {
    fn new() -> Arc<Self> {
        Arc::new(Self(OnceLock::new()))
    }
}

impl<B> Drop for Link<B> {
    /// Drops the following links in a loop: otherwise the drop of a long backlog would recurse once for each link.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut link) = next.and_then(|(_, link)| Arc::into_inner(link)) {
            next = link.0.take();
        }
    }
}

impl<B> Log<B> {
    pub(crate) fn new() -> Self {
        Self { tail: Mutex::new(Link::new()), bell: Arc::new(Bell::new()) }
    }

    /// Appends a batch. The batch is created under the lock that writers and new readers share.
    pub(crate) fn publish(&self, batch: impl FnOnce() -> B) {
        let next = Link::new();
        let mut tail = self.tail.lock();
        let set = tail.0.set((Arc::new(batch()), next.clone()));
        debug_assert!(set.is_ok(), "the tail is always empty");
        let left = std::mem::replace(&mut *tail, next);
        drop(tail);
        // Without a cursor at this link, the batch and its contents are dropped here, after the lock is released.
        drop(left);
        self.bell.ring();
    }

    /// Returns a cursor at the end of the log, and the result of `read` at the same moment.
    pub(crate) fn cursor<R>(self: &Arc<Self>, read: impl FnOnce() -> R) -> (Cursor<B>, R) {
        let tail = self.tail.lock();
        let state = read();
        let place = Arc::new(Place(Mutex::new(Some(tail.clone()))));
        (Cursor { log: self.clone(), place, sleeper: Sleeper::default() }, state)
    }

    /// Returns the bell, which is rung for each batch.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

impl<B> Cursor<B> {
    /// Returns the place that keeps batches alive for this cursor.
    pub(crate) fn place(&self) -> &Arc<Place<B>> {
        &self.place
    }

    /// Returns the batch under the cursor, if there is one.
    pub(crate) fn batch(&self) -> Option<Arc<B>> {
        self.place.0.lock().as_ref()?.0.get().map(|(batch, _)| batch.clone())
    }

    /// Leaves the batch under the cursor, if there is one. The last cursor to leave a batch drops it.
    pub(crate) fn advance(&self) {
        let mut place = self.place.0.lock();
        let next = place.as_ref().and_then(|link| link.0.get()).map(|(_, next)| next.clone());
        let left = next.and_then(|next| place.replace(next));
        drop(place);
        // The contents of the batch are dropped here, after the lock is released.
        drop(left);
    }

    /// Returns whether no further batch will be published. Unread batches may remain.
    pub(crate) fn is_closed(&self) -> bool {
        self.log.bell.is_closed()
    }

    /// Ready when there is a batch under the cursor, its place was released, or the log is closed. Releasing the place
    /// wakes no reader.
    pub(crate) fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { log, place, sleeper } = self;
        while place.is_empty() && !log.bell.is_closed() {
            ready!(log.bell.poll_wait(sleeper, || !place.is_empty(), context));
        }
        Poll::Ready(())
    }
}

impl<B> Place<B> {
    /// Returns whether there is no batch now but may be one later.
    fn is_empty(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|link| link.0.get().is_none())
    }

    /// Releases all batches: the cursor has no batch from now on.
    pub(crate) fn release(&self) {
        let link = self.0.lock().take();
        drop(link);
    }
}
