//! A cursor into the log of one resource.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Event, ResourceStore};

/// The largest number of events in a batch.
const BATCH: usize = 256;

/// The result of a read by a watcher.
pub(crate) enum Next {
    /// New events.
    Events,
    /// A spurious wake-up.
    Nothing,
    /// The history has overtaken the watcher.
    Overtaken,
    /// The resource is no longer served.
    Closed,
}

/// Reads the events of a resource in order, starting after a version.
///
/// A watcher holds no events but the current batch; unread events are in the history. A watcher that falls behind the
/// history is closed, so a slow reader costs no memory.
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

    /// The version up to which all events have been read.
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Waits for events newer than the cursor.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event has been consumed: the cursor moves only when it completes.
    pub(crate) async fn next(&mut self, into: &mut Vec<Arc<Event>>) -> Next {
        self.written.mark_unchanged();
        // Read before the events, so that events written before the close are still delivered.
        let closed = self.store.is_closed();
        if let Some(next) = self.poll_events(into) {
            return next;
        }
        if closed || self.written.changed().await.is_err() {
            return Next::Closed;
        }
        self.poll_events(into).unwrap_or(Next::Nothing)
    }

    fn poll_events(&mut self, into: &mut Vec<Arc<Event>>) -> Option<Next> {
        match self.catch_up(into) {
            Err(_) => Some(Next::Overtaken),
            Ok(()) if !into.is_empty() => Some(Next::Events),
            Ok(()) => None,
        }
    }

    /// Reads the available events without waiting. The cursor moves to the current version if no further events
    /// exist.
    pub(crate) fn catch_up(&mut self, into: &mut Vec<Arc<Event>>) -> Result<(), u64> {
        let read_to = self.store.read_after(self.cursor, BATCH, into)?;
        self.cursor = self.cursor.max(read_to);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::storage::{Change, Key, Versions, Window};

    /// A wait that is dropped has read nothing: the next one reads the events from the same cursor.
    // contract: E-12a
    #[test]
    fn dropped_wait_consumes_no_event() {
        let window = Window { events: 100, bytes: usize::MAX };
        let store = Arc::new(ResourceStore::new(Arc::new(Versions::starting_at(1)), Vec::new(), window));
        let mut watcher = Watcher::new(store.clone(), 1);
        let mut events = Vec::new();
        let mut wait = Box::pin(watcher.next(&mut events));
        assert!((&mut wait).now_or_never().is_none());
        let object = json!({"metadata": {"name": "a"}}).as_object().unwrap().clone();
        store.write(&Key::raw("a"), |_| Ok(Change::Put(object))).map_err(drop).unwrap();
        // Woken, and dropped before the next poll.
        drop(wait);
        assert_eq!((watcher.cursor(), events.len()), (1, 0));
        assert!(matches!(watcher.next(&mut events).now_or_never(), Some(Next::Events)));
        assert_eq!((watcher.cursor(), events.len()), (2, 1));
    }
}
