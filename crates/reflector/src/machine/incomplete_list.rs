//! Incomplete lists: they are reported, and repeated until a list is complete.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kinformer_core::{Object, Sink};
use tokio::time::Instant;

use crate::machine::{FOREVER, Machine, Step};
use crate::{DecodeError, Recovery, SourceError};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Reports an incomplete list and schedules the list that repeats it. The watch continues until then.
    pub(super) fn list_is_incomplete(&mut self, unidentified: usize, first: Vec<DecodeError>) {
        let objects = u64::try_from(unidentified).unwrap_or(u64::MAX);
        self.shared.counters.unidentified_objects.store(objects, Ordering::Relaxed);
        let delay = self.next_repeat_delay(None);
        self.schedule_repeat(delay);
        let error = Arc::new(SourceError::IncompleteList { unidentified, first });
        self.shared.set_incomplete_list(Some(error.clone()));
        self.report(error, Recovery::Relist, delay);
    }

    /// Ends the repetition after a complete list.
    pub(super) fn list_is_complete(&mut self) {
        self.repeat_at = None;
        self.incomplete_list_backoff.start_over();
        self.shared.counters.unidentified_objects.store(0, Ordering::Relaxed);
        if self.shared.set_incomplete_list(None) {
            tracing::info!("list is complete again");
        }
    }

    /// Schedules another list after the repetition of an incomplete one has failed. The watch continues.
    pub(super) fn repeated_list_failed(&mut self, error: SourceError) -> Step<T> {
        self.version_unavailable |= error.is_version_unavailable();
        let delay = self.next_repeat_delay(Some(&error));
        self.schedule_repeat(delay);
        self.report(error, Recovery::Relist, delay);
        Step::Watch(None)
    }

    fn schedule_repeat(&mut self, delay: Duration) {
        self.repeat_at = Some(Instant::now() + delay.min(FOREVER));
    }

    /// Returns whether an incomplete list is to be repeated now.
    pub(super) fn repeat_is_due(&self) -> bool {
        self.repeat_at.is_some_and(|due| due <= Instant::now())
    }
}
