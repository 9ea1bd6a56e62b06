//! The open streams of events: their number, what they select, and the last change that is published to them.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::memory::Recorded;

/// The period for which the number of changes is limited.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The informers and the object of a stream; `None` for all.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) informers: Option<Vec<usize>>,
    pub(crate) key: Option<String>,
}

impl Selected {
    /// Whether a change with this key is selected. Changes of hidden informers are not recorded.
    pub(crate) fn has(&self, change: &Recorded, key: &LazyCell<String, impl FnOnce() -> String>) -> bool {
        self.informers.as_ref().is_none_or(|informers| informers.contains(&change.informer))
            && self.key.as_ref().is_none_or(|wanted| **key == *wanted)
    }
}

/// The text of the key of a change, made once for all streams that compare it.
pub(crate) fn key_of(change: &Recorded) -> LazyCell<String, impl FnOnce() -> String> {
    LazyCell::new(|| change.key.to_string())
}

/// The open streams.
#[derive(Debug)]
pub(crate) struct Streams {
    most: usize,
    open: Mutex<Vec<Arc<Selected>>>,
    /// Notified when a stream opens.
    opened: Notify,
    /// The identifier of the last published change; `None` after the end.
    published: watch::Sender<Option<u64>>,
}

/// An open stream, until it is dropped.
#[derive(Debug)]
pub(crate) struct Stream {
    streams: Arc<Streams>,
    pub(crate) selected: Arc<Selected>,
    /// The identifier of the last published change; `None` after the end.
    pub(crate) published: watch::Receiver<Option<u64>>,
}

impl Streams {
    /// `last` is the identifier of the last change.
    pub(crate) fn new(most: usize, last: u64) -> Arc<Self> {
        let published = watch::Sender::new(Some(last));
        Arc::new(Self { most, open: Mutex::default(), opened: Notify::new(), published })
    }

    /// Returns `None` if too many streams are open.
    pub(crate) fn open(self: &Arc<Self>, selected: Selected) -> Option<Stream> {
        let selected = Arc::new(selected);
        {
            let mut open = self.open.lock();
            if open.len() >= self.most {
                return None;
            }
            open.push(selected.clone());
        }
        self.opened.notify_one();
        Some(Stream { streams: self.clone(), selected, published: self.published.subscribe() })
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// Waits until a stream opens. May return without one.
    pub(crate) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// Whether a stream selects a change.
    pub(crate) fn select(&self, change: &Recorded) -> bool {
        let key = key_of(change);
        self.open.lock().iter().any(|selected| selected.has(change, &key))
    }

    /// The identifier of the last published change.
    pub(crate) fn published(&self) -> u64 {
        self.published.borrow().unwrap_or(u64::MAX)
    }

    /// Wakes the streams, which send the changes up to this one.
    pub(crate) fn publish(&self, last: u64) {
        self.published.send_replace(Some(last));
    }

    /// Ends the streams, also those that open later.
    pub(crate) fn end(&self) {
        self.published.send_replace(None);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        if let Some(position) = open.iter().position(|selected| Arc::ptr_eq(selected, &self.selected)) {
            open.swap_remove(position);
        }
    }
}

/// How many changes are left for the current second.
#[derive(Debug)]
pub(crate) struct Second {
    began: Instant,
    most: usize,
    pub(crate) left: usize,
}

impl Second {
    pub(crate) fn new(most: usize) -> Self {
        Self { began: Instant::now(), most, left: most }
    }

    pub(crate) fn end(&self) -> Instant {
        self.began + SECOND
    }

    /// Begins the next second if this one is over, and returns whether it was.
    pub(crate) fn renew(&mut self) -> bool {
        let is_over = self.began.elapsed() >= SECOND;
        if is_over {
            *self = Self::new(self.most);
        }
        is_over
    }

    /// Takes one change; `false` if none is left.
    pub(crate) fn take(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}
