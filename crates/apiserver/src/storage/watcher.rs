//! A cursor into the log of one resource.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Event, ResourceStore};

/// How many events a watcher takes at a time.
const BATCH: usize = 256;

/// What a watcher found.
pub(crate) enum Next {
    /// There are events.
    Events,
    /// It was woken for nothing it could see.
    Nothing,
    /// It has been overtaken by the history.
    Behind,
    /// The resource is gone.
    Closed,
}

/// Reads the events of a resource in order, from a version on.
///
/// It holds no events but the batch it is working on: what it has not read is the history's. A watcher that
/// falls behind the history is told so and ends; a slow reader therefore costs no memory.
pub(crate) struct Watcher {
    store: Arc<ResourceStore>,
    written: watch::Receiver<u64>,
    cursor: u64,
}

impl Watcher {
    pub(crate) fn new(store: Arc<ResourceStore>, after: u64) -> Self {
        let written = store.written();
        Self { store, written, cursor: after }
    }

    /// The version up to which everything has been read.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Waits for events newer than the cursor. Cancel safe: nothing is taken before it returns.
    pub(crate) async fn next(&mut self, into: &mut Vec<Arc<Event>>) -> Next {
        self.written.mark_unchanged();
        // Asked before reading, so that what was written before the end is still read.
        let closed = self.store.is_closed();
        if let Some(next) = self.look(into) {
            return next;
        }
        if closed || self.written.changed().await.is_err() {
            return Next::Closed;
        }
        self.look(into).unwrap_or(Next::Nothing)
    }

    fn look(&mut self, into: &mut Vec<Arc<Event>>) -> Option<Next> {
        match self.catch_up(into) {
            Err(_) => Some(Next::Behind),
            Ok(()) if !into.is_empty() => Some(Next::Events),
            Ok(()) => None,
        }
    }

    /// Takes what is there without waiting; the cursor moves to the present when there is nothing more.
    pub(crate) fn catch_up(&mut self, into: &mut Vec<Arc<Event>>) -> Result<(), u64> {
        let read_to = self.store.read_after(self.cursor, BATCH, into)?;
        self.cursor = self.cursor.max(read_to);
        Ok(())
    }
}
