//! One writer's batches for any number of readers.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::bell::{Bell, Sleeper};
use crate::sync::{Mutex, OnceLock};

/// A linked list of frozen batches. It holds the end only: a batch lives until the last cursor has left it.
pub(crate) struct Log<B> {
    tail: Mutex<Arc<Link<B>>>,
    bell: Arc<Bell>,
}

/// Where the next batch will be, or is. The batch is counted by itself, so that a reader can hold one without those
/// behind it.
struct Link<B>(OnceLock<(Arc<B>, Arc<Self>)>);

/// Where a reader is. It stands on the empty link behind what it has read, so that an idle one keeps no batch
/// alive.
pub(crate) struct Cursor<B> {
    log: Arc<Log<B>>,
    place: Arc<Place<B>>,
    sleeper: Sleeper,
}

/// The place of a reader in the log, which keeps all batches from there on: until it is released.
pub(crate) struct Place<B>(Mutex<Option<Arc<Link<B>>>>);

impl<B> Link<B> {
    fn new() -> Arc<Self> {
        Arc::new(Self(OnceLock::new()))
    }
}

impl<B> Drop for Link<B> {
    /// Without this, the drop of a long backlog would recurse once for each link.
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

    /// Appends a batch, which is made under the lock that writers and joiners share.
    pub(crate) fn publish(&self, batch: impl FnOnce() -> B) {
        let next = Link::new();
        let mut tail = self.tail.lock();
        let frozen = tail.0.set((Arc::new(batch()), next.clone()));
        debug_assert!(frozen.is_ok(), "the tail is always empty");
        let left = std::mem::replace(&mut *tail, next);
        drop(tail);
        // If no cursor stands there, the batch ends here, and what it holds with it: not under the lock.
        drop(left);
        self.bell.ring();
    }

    /// A cursor at the end of the log, and what `read` returns at the same moment.
    pub(crate) fn cursor<R>(self: &Arc<Self>, read: impl FnOnce() -> R) -> (Cursor<B>, R) {
        let tail = self.tail.lock();
        let state = read();
        let place = Arc::new(Place(Mutex::new(Some(tail.clone()))));
        (Cursor { log: self.clone(), place, sleeper: Sleeper::default() }, state)
    }

    /// Rung for each batch.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

impl<B> Cursor<B> {
    /// What keeps batches for this cursor.
    pub(crate) fn place(&self) -> &Arc<Place<B>> {
        &self.place
    }

    /// The batch under the cursor, if there is one.
    pub(crate) fn batch(&self) -> Option<Arc<B>> {
        self.place.0.lock().as_ref()?.0.get().map(|(batch, _)| batch.clone())
    }

    /// Leaves the batch under the cursor, if there is one. The last cursor to leave a batch drops it.
    pub(crate) fn advance(&self) {
        let mut place = self.place.0.lock();
        let next = place.as_ref().and_then(|link| link.0.get()).map(|(_, next)| next.clone());
        let left = next.and_then(|next| place.replace(next));
        drop(place);
        // What the batch holds ends here: not under the lock.
        drop(left);
    }

    /// Whether nothing will come any more, apart from what is there.
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
    /// Whether there may be a batch later, and is none now.
    fn is_empty(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|link| link.0.get().is_none())
    }

    /// Keeps nothing from now on: there are no more batches for the cursor.
    pub(crate) fn release(&self) {
        let link = self.0.lock().take();
        drop(link);
    }
}
