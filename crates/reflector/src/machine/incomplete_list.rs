//! Incomplete lists: they are reported, and repeated until a list is complete. Objects that were left out lead to one more list.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kinformer_core::{Object, ObjectKey, Sink};

use crate::machine::{Machine, Step};
use crate::{DecodeError, Recovery, SourceError};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Reports an incomplete list and schedules the list that repeats it. The watch continues until then.
    pub(super) fn list_is_incomplete(&mut self, unidentified: usize, first: Vec<DecodeError>) {
        let objects = u64::try_from(unidentified).unwrap_or(u64::MAX);
        self.shared.counters.unidentified_objects.store(objects, Ordering::Relaxed);
        let delay = self.repetition.schedule(None);
        let error = Arc::new(SourceError::IncompleteList { unidentified, first });
        self.shared.set_incomplete_list(Some(error.clone()));
        self.report(error, Recovery::Relist, delay);
    }

    /// Ends the repetition after a complete list.
    pub(super) fn list_is_complete(&mut self) {
        self.repetition.end();
        self.shared.counters.unidentified_objects.store(0, Ordering::Relaxed);
        if self.shared.set_incomplete_list(None) {
            tracing::info!("list is complete again");
        }
    }

    /// Schedules another list after the repetition of an incomplete one has failed. The watch continues.
    pub(super) fn repeated_list_failed(&mut self, error: SourceError) -> Step<T> {
        if error.is_version_unavailable() {
            self.version.set_unavailable();
        }
        let delay = self.repetition.schedule(Some(&error));
        self.report(error, Recovery::Relist, delay);
        Step::Watch(None)
    }

    /// Schedules a list for an object that the last event left out.
    pub(super) fn leave_out(&mut self, key: ObjectKey) {
        self.repetition.leave_out(key, self.version.get());
    }

    /// Returns whether an incomplete list is to be repeated now, or objects that were left out are to be requested again.
    pub(super) fn repeat_is_due(&mut self) -> bool {
        let is_incomplete = self.shared.counters.unidentified_objects.load(Ordering::Relaxed) > 0;
        self.repetition.take_due(is_incomplete, self.known.as_deref())
    }
}
