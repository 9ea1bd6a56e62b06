//! Applies one event of a watch.

use std::sync::Arc;
use std::time::Duration;

use kinformer_core::internal::{contain, yield_now};
use kinformer_core::{Delta, Object, ObjectName, ResourceVersion, Sink, Tombstone};

use crate::history::{Sign, went_back};
use crate::machine::Machine;
use crate::machine::sink::SinkOutcome;
use crate::state::count;
use crate::unidentified::{unidentified_event, version_of};
use crate::{DecodeError, EventType, SourceError, StopReason, WatchEvent};

/// The request and the progress of a watch.
pub(super) struct Progress {
    /// The version after which the watch was requested.
    pub(super) requested: ResourceVersion,
    /// The requested duration.
    pub(super) timeout: Duration,
    pub(super) events: u64,
    /// Whether the last version has moved.
    pub(super) moved: bool,
    /// Whether the initial events are over. They describe the state at the start, in no particular order.
    pub(super) past_initial: bool,
}

impl<T: Object, S: Sink<T>> Machine<T, S> {
    /// Delivers one event to the sink. The last version moves only after the sink has taken it.
    pub(super) async fn apply(
        &mut self,
        event: WatchEvent<T>,
        progress: &mut Progress,
    ) -> Result<SinkOutcome, StopReason> {
        count(&self.shared.counters.events);
        progress.events = progress.events.saturating_add(1);
        let may_be_initial = may_be_initial(&event);
        let version = match contain(|| version_of(&event)) {
            Ok(version) => version,
            // As with an object that does not decode, its known state stays.
            Err(source) => {
                let key = object_of(&event).and_then(|object| ObjectName::of(|| object.key()).key());
                key.into_iter().for_each(|key| self.leave_out(key));
                self.report_skipped(SourceError::Panic { operation: "resource_version", source });
                return Ok(SinkOutcome::LeftOut);
            }
        };
        let is_bookmark = matches!(event, WatchEvent::Bookmark { .. });
        // A watch with initial events was requested at no version or at 0, and no version is below these.
        let mut is_known = false;
        if let Some(error) = went_back(&progress.requested, &version) {
            is_known = !self.source_versions.is_ignored(Sign::Event) && self.is_known_state(&event).await;
            let sign = if is_bookmark { Sign::Bookmark } else { Sign::Event };
            if !is_known && self.source_versions.alarm(sign) {
                return Ok(SinkOutcome::Refused(error));
            }
        }
        let moves_version = object_of(&event).is_some() && !is_known;
        let mut outcome = self.deliver_event(event, &version)?;
        progress.past_initial |= !may_be_initial;
        if matches!(outcome, SinkOutcome::LeftOut) && progress.past_initial && !version.is_unset() {
            // The sink received no object of this version but must reach the version.
            outcome = self.deliver_bookmark(version.clone())?;
        }
        if matches!(outcome, SinkOutcome::Applied | SinkOutcome::LeftOut) && progress.past_initial {
            let moved = self.version.advance(&version);
            if moved {
                self.shared.set_version(version);
            }
            if moved && !progress.moved {
                progress.moved = true;
                // Here and not only at its end: the watch may go on for minutes.
                self.reset_failures();
            }
            if moves_version && matches!(outcome, SinkOutcome::Applied) {
                self.source_versions.applied(moved);
            }
            if is_bookmark && moved {
                self.source_versions.bookmarked();
            }
        }
        Ok(outcome)
    }

    fn deliver_event(
        &mut self,
        event: WatchEvent<T>,
        version: &ResourceVersion,
    ) -> Result<SinkOutcome, StopReason> {
        match event {
            WatchEvent::Added(object) => self.deliver("add", Delta::Added(object)),
            WatchEvent::Modified(object) => self.deliver("update", Delta::Updated(object)),
            WatchEvent::Deleted(object) => {
                self.deliver("delete", Delta::Deleted(Tombstone::FinalState(object)))
            }
            WatchEvent::Bookmark { .. } => {
                count(&self.shared.counters.bookmarks);
                self.deliver_bookmark(version.clone())
            }
            WatchEvent::Undecodable(error) => self.deliver_undecodable(error),
            WatchEvent::Unexpected { what, .. } => {
                self.unexpected(what);
                Ok(SinkOutcome::LeftOut)
            }
        }
    }

    /// Returns whether an event is about the state of its object that the consumer of the sink knows, or deletes an object
    /// that it does not know.
    async fn is_known_state(&self, event: &WatchEvent<T>) -> bool {
        let (Some(known), Some(object)) = (&self.known, object_of(event)) else { return false };
        let is_deletion = matches!(event, WatchEvent::Deleted(_));
        let is_known = || match known.get_by_key(object.key()) {
            Some(known) => {
                known.resource_version() == object.resource_version() && known.uid() == object.uid()
            }
            None => is_deletion,
        };
        if contain(is_known).unwrap_or_default() {
            return true;
        }
        // The sink may be a queue, from which the consumer has not taken the list yet.
        yield_now().await;
        contain(is_known).unwrap_or_default()
    }

    /// Reports an event with an object that could not be decoded. Only a deletion is delivered: it needs no state.
    fn deliver_undecodable(&mut self, error: DecodeError) -> Result<SinkOutcome, StopReason> {
        count(&self.shared.counters.decode_errors);
        if let Some(unidentified) = unidentified_event(&error) {
            return Ok(SinkOutcome::Refused(unidentified));
        }
        let outcome = match (&error.key, error.event_type) {
            (Some(key), Some(EventType::Deleted)) => {
                let tombstone = Tombstone::final_state_unknown(key.clone(), None);
                self.deliver("delete", Delta::Deleted(tombstone))?
            }
            (Some(key), _) => {
                self.leave_out(key.clone());
                SinkOutcome::LeftOut
            }
            _ => SinkOutcome::LeftOut,
        };
        self.report_skipped(SourceError::Undecodable(error));
        // A tombstone without a state carries no version: a bookmark must follow.
        Ok(if matches!(outcome, SinkOutcome::Applied) { SinkOutcome::LeftOut } else { outcome })
    }

    fn deliver_bookmark(&mut self, version: ResourceVersion) -> Result<SinkOutcome, StopReason> {
        self.deliver("bookmark", Delta::bookmark(version))
    }
}

/// Returns the object of an event that adds, changes or deletes one.
fn object_of<T>(event: &WatchEvent<T>) -> Option<&Arc<T>> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            Some(object)
        }
        _ => None,
    }
}

/// Returns whether an event may belong to the initial events of a watch.
fn may_be_initial<T>(event: &WatchEvent<T>) -> bool {
    match event {
        WatchEvent::Added(_) => true,
        WatchEvent::Undecodable(error) => error.event_type.is_none_or(|event| event == EventType::Added),
        WatchEvent::Unexpected { resource_version, .. } => resource_version.is_unset(),
        _ => false,
    }
}
