//! What follows when a part of an answer cannot be read: a broken event, or a list that is incomplete.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kinformer_core::internal::ask;
use kinformer_core::{Object, Sink};
use tokio::time::Instant;

use crate::machine::{FOREVER, Machine, Step};
use crate::pager::WholeList;
use crate::{ApiError, DecodeError, Recovery};

/// How many unreadable items an error describes.
const DESCRIBED: usize = 10;

/// The error of an event that may be about any object.
pub(crate) fn broken(event: &DecodeError) -> Option<ApiError> {
    let is_broken = event.key.is_none() || event.event_type.is_none();
    is_broken.then(|| ApiError::BrokenEvent { source: Box::new(event.clone()) })
}

/// Takes the objects without a readable key out of a list: how many there are, and the first of them.
pub(crate) fn take_unreadable<T: Object>(list: &mut WholeList<T>) -> (usize, Vec<DecodeError>) {
    let mut bad_positions: Vec<_> = list.undecodable.iter().filter_map(|error| error.position).collect();
    bad_positions.sort_unstable();
    let mut unreadable = Vec::new();
    let mut count = 0;
    let mut note = |error: DecodeError| {
        count += 1;
        if unreadable.len() < DESCRIBED {
            unreadable.push(error);
        }
    };
    for error in list.undecodable.extract_if(.., |error| error.key.is_none()) {
        note(error);
    }
    let mut among_objects = 0;
    list.objects.retain(|object| {
        let position = among_objects;
        among_objects += 1;
        let error = match ask(|| object.key().check()) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.into(),
            Err(panic) => panic,
        };
        note(DecodeError::new(error).position(in_list(position, &bad_positions)));
        false
    });
    (count, unreadable)
}

/// The position in the list of the object that is at this position among those that were decoded.
fn in_list(among_objects: usize, undecodable: &[usize]) -> usize {
    undecodable.iter().fold(among_objects, |position, bad| position + usize::from(*bad <= position))
}

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Watching again brings what was lost on the way. What the server itself cannot send well takes a list.
    pub(crate) fn after_broken_event(&mut self) -> Recovery {
        if self.broken_at.take_if(|version| *version == self.version).is_some() {
            return Recovery::Relist;
        }
        self.broken_at = Some(self.version.clone());
        Recovery::Rewatch
    }

    /// The last list was incomplete: there will be another one, and the watch goes on until then.
    pub(crate) fn degrade(&mut self, unreadable: usize, first: Vec<DecodeError>) {
        let items = u64::try_from(unreadable).unwrap_or(u64::MAX);
        self.shared.counters.unreadable_items.store(items, Ordering::Relaxed);
        let delay = self.next_healing_delay(None);
        self.relist_after(delay);
        let error = Arc::new(ApiError::IncompleteList { unreadable, first });
        self.shared.set_degraded(Some(error.clone()));
        self.report(error, Recovery::Relist, delay);
    }

    /// The last list was complete.
    pub(crate) fn heal(&mut self) {
        self.relist_at = None;
        self.shared.counters.unreadable_items.store(0, Ordering::Relaxed);
        if self.shared.set_degraded(None) {
            tracing::info!(reflector = %self.shared.name, "a list is complete again");
        }
    }

    /// A list that was to heal has failed: the watch goes on.
    pub(crate) fn healing_failed(&mut self, error: ApiError) -> Step<T> {
        self.version_unavailable |= error.is_version_unavailable();
        let delay = self.next_healing_delay(Some(&error));
        self.relist_after(delay);
        self.report(error, Recovery::Relist, delay);
        Step::Watch(None)
    }

    fn relist_after(&mut self, delay: Duration) {
        self.relist_at = Some(Instant::now() + delay.min(FOREVER));
    }

    /// Whether it is time for a list that may be complete.
    pub(crate) fn relist_is_due(&self) -> bool {
        self.relist_at.is_some_and(|due| due <= Instant::now())
    }
}
