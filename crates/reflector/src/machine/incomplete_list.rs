//! Incomplete lists: they are reported, and repeated until a list is complete. Objects that were left out lead to one more list.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kinformer_core::{Object, ObjectKey, Sink};
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

    /// Schedules a list for an object that the last event left out.
    pub(super) fn leave_out(&mut self, key: ObjectKey) {
        let is_wanted = self.left_out.add(key, &self.version);
        self.request_again(is_wanted);
    }

    /// Schedules another list for the objects that the last list left out, unless that list was itself requested for them.
    pub(super) fn listed_without(&mut self, left_out: Vec<ObjectKey>) {
        let is_wanted = self.left_out.listed(left_out, &self.version);
        self.request_again(is_wanted);
    }

    fn request_again(&mut self, is_wanted: bool) {
        if is_wanted && self.repeat_at.is_none() {
            let delay = self.next_repeat_delay(None);
            self.schedule_repeat(delay);
        }
    }

    /// Returns whether an incomplete list is to be repeated now, or objects that were left out are to be requested again.
    pub(super) fn repeat_is_due(&mut self) -> bool {
        if !self.repeat_time_has_come() {
            return false;
        }
        let is_incomplete = self.shared.counters.unidentified_objects.load(Ordering::Relaxed) > 0;
        let is_due = self.left_out.is_pending(self.known.as_deref()) || is_incomplete;
        if !is_due {
            self.repeat_at = None;
        }
        is_due
    }

    pub(super) fn repeat_time_has_come(&self) -> bool {
        self.repeat_at.is_some_and(|due| due <= Instant::now())
    }
}
