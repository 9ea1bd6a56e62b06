//! When a list is repeated that was incomplete or left objects out.

use std::time::Duration;

use kinformer_core::{KnownObjects, Object, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::SourceError;
use crate::backoff::{Backoff, FOREVER, RunningBackoff, after};
use crate::history::left_out::LeftOut;

/// The next list that repeats the last one.
pub(crate) struct Repetition {
    /// Separate from the backoff of watches, so that incomplete lists do not lengthen the delays of watches that fail
    /// meanwhile.
    backoff: RunningBackoff,
    left_out: LeftOut,
    /// The time at which the last list is repeated, if it was incomplete or objects were left out.
    at: Option<Instant>,
}

impl Repetition {
    pub(crate) fn new(backoff: &Backoff) -> Self {
        // The delays start over with a complete list only.
        let backoff = backoff.clone().reset_after(FOREVER).start();
        Self { backoff, left_out: LeftOut::default(), at: None }
    }

    /// The time at which the last list is repeated, if it is.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.at
    }

    pub(crate) fn time_has_come(&self) -> bool {
        self.at.is_some_and(|due| due <= Instant::now())
    }

    /// Schedules another list, after an incomplete one or after this error of a repetition. Returns the delay.
    pub(crate) fn schedule(&mut self, error: Option<&SourceError>) -> Duration {
        let delay = self.backoff.next_delay();
        let delay = error.map_or(delay, |error| after(error, delay));
        self.at = Some(Instant::now() + delay.min(FOREVER));
        delay
    }

    /// Ends the repetition after a complete list.
    pub(crate) fn end(&mut self) {
        self.at = None;
        self.backoff.start_over();
    }

    /// Schedules a list for an object that the event after this version left out.
    pub(crate) fn leave_out(&mut self, key: ObjectKey, version: &ResourceVersion) {
        let is_wanted = self.left_out.add(key, version);
        self.request_again(is_wanted);
    }

    /// Schedules another list for the objects that a list left out, unless that list was itself requested for them.
    pub(crate) fn listed_without(&mut self, left_out: Vec<ObjectKey>, version: &ResourceVersion) {
        let is_wanted = self.left_out.listed(left_out, version);
        self.request_again(is_wanted);
    }

    fn request_again(&mut self, is_wanted: bool) {
        if is_wanted && self.at.is_none() {
            self.schedule(None);
        }
    }

    /// Returns whether an incomplete list is to be repeated now, or objects that were left out are to be requested again.
    pub(crate) fn take_due<T: Object>(
        &mut self,
        is_incomplete: bool,
        known: Option<&dyn KnownObjects<T>>,
    ) -> bool {
        if !self.time_has_come() {
            return false;
        }
        let is_due = self.left_out.is_pending(known) || is_incomplete;
        if !is_due {
            self.at = None;
        }
        is_due
    }
}
