//! The steps after an unreadable answer: another watch after a broken event, and healing lists after an incomplete
//! list.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kinformer_core::{Object, Sink};
use tokio::time::Instant;

use crate::machine::{FOREVER, Machine, Step};
use crate::{DecodeError, Recovery, SourceError};

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Chooses the recovery from a broken event. Another watch delivers an event that was damaged in transit. If the
    /// event after one version is broken twice, the server itself cannot send it, and only a list helps.
    pub(crate) fn after_broken_event(&mut self) -> Recovery {
        if self.broken_at.take_if(|version| *version == self.version).is_some() {
            return Recovery::Relist;
        }
        self.broken_at = Some(self.version.clone());
        Recovery::Rewatch
    }

    /// Marks the reflector as degraded after an incomplete list, and schedules a healing list. The watch continues
    /// until then.
    pub(crate) fn degrade(&mut self, unreadable: usize, first: Vec<DecodeError>) {
        let items = u64::try_from(unreadable).unwrap_or(u64::MAX);
        self.shared.counters.unreadable_items.store(items, Ordering::Relaxed);
        let delay = self.next_healing_delay(None);
        self.relist_after(delay);
        let error = Arc::new(SourceError::IncompleteList { unreadable, first });
        self.shared.set_degraded(Some(error.clone()));
        self.report(error, Recovery::Relist, delay);
    }

    /// Clears the degraded state after a complete list.
    pub(crate) fn heal(&mut self) {
        self.relist_at = None;
        self.shared.counters.unreadable_items.store(0, Ordering::Relaxed);
        if self.shared.set_degraded(None) {
            tracing::info!("list is complete again");
        }
    }

    /// Schedules another healing list after one has failed. The watch continues.
    pub(crate) fn healing_failed(&mut self, error: SourceError) -> Step<T> {
        self.version_unavailable |= error.is_version_unavailable();
        let delay = self.next_healing_delay(Some(&error));
        self.relist_after(delay);
        self.report(error, Recovery::Relist, delay);
        Step::Watch(None)
    }

    fn relist_after(&mut self, delay: Duration) {
        self.relist_at = Some(Instant::now() + delay.min(FOREVER));
    }

    /// Returns whether a healing list is due.
    pub(crate) fn relist_is_due(&self) -> bool {
        self.relist_at.is_some_and(|due| due <= Instant::now())
    }
}
