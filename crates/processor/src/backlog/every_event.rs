//! The policy that keeps every event: they stay in the log.

use std::sync::Arc;
use std::task::{Context, Poll};

use kinformer_core::Object;

use super::policy::{Backlog, Opened, Reading};
use crate::log_reader::LogReader;
use crate::undelivered::{Next, Undelivered};

pub(super) fn open<T: Object>(reading: Reading<T>) -> Opened<T> {
    Opened { backlog: Box::new(reading.reader), task: None }
}

impl<T: Object> Backlog<T> for LogReader<T> {
    fn next(&mut self) -> Next<'_, T> {
        Self::next(self)
    }

    fn drop_previous(&mut self) {
        Self::drop_previous(self);
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Self::poll_ready(self, context)
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn undelivered(&self) -> Arc<dyn Undelivered> {
        self.unread().clone()
    }
}
