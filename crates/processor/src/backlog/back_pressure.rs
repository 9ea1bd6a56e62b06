//! The policy with back-pressure: every event stays in the log, and the publisher waits while too many are undelivered.

use std::sync::Arc;
use std::task::{Context, Poll};

use kinformer_core::Object;
use tokio::sync::Notify;

use super::policy::{Backlog, Opened, Reading};
use crate::log_reader::{LogReader, Unread};
use crate::undelivered::{Next, Undelivered};

pub(super) fn open<T: Object>(reading: Reading<T>, bound: usize) -> Opened<T> {
    let Reading { reader, space, .. } = reading;
    let bounded = Bounded { unread: reader.unread().clone(), bound: bound.max(1), space };
    Opened { backlog: Box::new(BackPressure { reader, bounded: Arc::new(bounded) }), task: None }
}

struct BackPressure<T> {
    reader: LogReader<T>,
    bounded: Arc<Bounded<T>>,
}

struct Bounded<T> {
    unread: Arc<Unread<T>>,
    bound: usize,
    /// Wakes the publishers that wait.
    space: Arc<Notify>,
}

impl<T: Object> Backlog<T> for BackPressure<T> {
    fn next(&mut self) -> Next<'_, T> {
        let Self { reader, bounded } = self;
        let before = bounded.unread.read();
        let next = reader.next();
        if bounded.unread.read() != before {
            bounded.space.notify_waiters();
        }
        next
    }

    fn drop_previous(&mut self) {
        self.reader.drop_previous();
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.reader.poll_ready(context)
    }

    fn is_closed(&self) -> bool {
        self.reader.is_closed()
    }

    fn undelivered(&self) -> Arc<dyn Undelivered> {
        self.bounded.clone()
    }
}

impl<T: Send + Sync> Undelivered for Bounded<T> {
    fn depth(&self) -> usize {
        self.unread.depth()
    }

    /// Does not count the initial list, which the publisher did not publish.
    fn room(&self) -> Option<usize> {
        Some(self.bound.saturating_sub(self.unread.behind()))
    }

    fn release(&self) {
        self.unread.release();
        self.space.notify_waiters();
    }
}
