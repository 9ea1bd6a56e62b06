//! One writer's batches for any number of readers.

use std::sync::Arc;

use crate::bell::Bell;
use crate::sync::{Mutex, OnceLock};

/// A linked list of frozen batches. It holds the end only: a batch lives until the last cursor has left it.
pub(crate) struct Log<B> {
    tail: Mutex<Arc<Link<B>>>,
    bell: Bell,
}

/// Where the next batch will be, or is.
struct Link<B>(OnceLock<(B, Arc<Self>)>);

/// Where a reader is. It stands on the empty link behind what it has read, so that an idle one keeps no batch
/// alive.
pub(crate) struct Cursor<B> {
    log: Arc<Log<B>>,
    link: Arc<Link<B>>,
}

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
        Self { tail: Mutex::new(Link::new()), bell: Bell::new() }
    }

    /// Appends a batch, which is made under the lock that writers and joiners share.
    pub(crate) fn publish(&self, batch: impl FnOnce() -> B) {
        let next = Link::new();
        let mut tail = self.tail.lock();
        let frozen = tail.0.set((batch(), next.clone()));
        debug_assert!(frozen.is_ok(), "the tail is always empty");
        let left = std::mem::replace(&mut *tail, next);
        drop(tail);
        // If no cursor stands there, the batch ends here, and what it holds with it: not under the lock.
        drop(left);
        self.bell.ring();
    }

    /// A cursor that will see all that is published from now on, and what `look` sees at the same moment.
    pub(crate) fn cursor<R>(self: &Arc<Self>, look: impl FnOnce() -> R) -> (Cursor<B>, R) {
        let tail = self.tail.lock();
        let seen = look();
        (Cursor { log: self.clone(), link: tail.clone() }, seen)
    }

    /// Nothing will be published any more; wakes everybody.
    pub(crate) fn close(&self) {
        self.bell.close();
    }

    /// Wakes sleeping readers until the log is closed. One task has to be at it.
    pub(crate) async fn pump(&self) {
        while self.bell.pump_once().await {}
    }
}

impl<B> Cursor<B> {
    /// The batch under the cursor, if there is one.
    pub(crate) fn batch(&self) -> Option<&B> {
        self.link.0.get().map(|(batch, _)| batch)
    }

    /// Leaves the batch under the cursor, if there is one. The last cursor to leave a batch drops it.
    pub(crate) fn advance(&mut self) {
        if let Some((_, next)) = self.link.0.get() {
            let next = next.clone();
            self.link = next;
        }
    }

    /// Whether nothing will come any more, apart from what is there.
    pub(crate) fn is_closed(&self) -> bool {
        self.log.bell.is_closed()
    }

    /// Waits until there is a batch under the cursor, or the log is closed. Cancel-safe.
    pub(crate) async fn wait(&self) {
        while self.batch().is_none() && !self.is_closed() {
            self.log.bell.wait(|| self.batch().is_some()).await;
        }
    }
}
