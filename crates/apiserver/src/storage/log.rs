//! The events of one resource within the history window.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::registry::FieldPath;

use super::{EventType, Stored};

/// One change: the new and the previous state.
pub(crate) struct Event {
    pub(crate) event_type: EventType,
    /// The new state; for a deletion, the final state at the version of the deletion.
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
    left_view: OnceLock<Arc<Stored>>,
}

impl Event {
    pub(crate) fn new(event_type: EventType, object: Arc<Stored>, previous: Option<Arc<Stored>>) -> Self {
        Self { event_type, object, previous, left_view: OnceLock::new() }
    }

    pub(crate) fn version(&self) -> u64 {
        self.object.version()
    }

    /// The bytes of both states.
    fn bytes(&self) -> usize {
        self.object.len() + self.previous.as_ref().map_or(0, |previous| previous.len())
    }

    /// Returns the previous state as a deletion at this event's version, for watches whose selector the object no
    /// longer matches. Built at most once per event.
    ///
    /// Follows Kubernetes 1.37 (`cacher.convertToWatchEvent`).
    pub(crate) fn left_view(&self, fields: &[FieldPath]) -> Option<&Arc<Stored>> {
        let previous = self.previous.as_ref()?;
        Some(self.left_view.get_or_init(|| {
            let mut object = previous.parse();
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("resourceVersion".into(), self.version().to_string().into());
            }
            let key = previous.key().clone();
            Arc::new(Stored::new(key, self.version(), EventType::Deleted, &object, fields, None))
        }))
    }
}

/// The limits of the history of a resource. The newest event is always kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) events: usize,
    /// The bytes of the states of all events.
    pub(crate) bytes: usize,
}

/// A ring buffer of the newest events, oldest first.
pub(crate) struct EventLog {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    window: Window,
    /// Events up to this version have been dropped. A reader that has read up to here has missed nothing.
    floor: u64,
    /// Lists and watches can no longer start before this version.
    compacted: u64,
}

impl EventLog {
    pub(crate) fn new(window: Window, floor: u64) -> Self {
        Self { events: VecDeque::new(), bytes: 0, window, floor, compacted: floor }
    }

    /// Appends an event, and returns the events that left the window, to be dropped outside the lock.
    pub(crate) fn push(&mut self, event: Arc<Event>) -> Vec<Arc<Event>> {
        self.bytes += event.bytes();
        self.events.push_back(event);
        let mut dropped = Vec::new();
        while self.events.len() > 1
            && (self.events.len() > self.window.events || self.bytes > self.window.bytes)
        {
            let Some(event) = self.events.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(event.bytes());
            self.floor = event.version();
            dropped.push(event);
        }
        dropped
    }

    /// Drops all events up to `version`, which is at least the version of the newest event.
    pub(crate) fn compact(&mut self, version: u64) -> VecDeque<Arc<Event>> {
        self.floor = self.events.back().map_or(self.floor, |event| event.version());
        self.compacted = version;
        self.bytes = 0;
        std::mem::take(&mut self.events)
    }

    /// Whether an event has a state up to a version.
    pub(crate) fn has_states_until(&self, version: u64) -> bool {
        self.events.iter().any(|event| {
            let first = event.previous.as_ref().map_or(event.version(), |previous| previous.version());
            first <= version
        })
    }

    /// Whether a reader that has read up to this version can continue.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the oldest version from which a list or a watch can start.
    pub(crate) fn oldest(&self) -> u64 {
        self.floor.max(self.compacted)
    }

    /// Appends up to `limit` events newer than `version` to `into`. Finds the position in O(log n).
    pub(crate) fn read_after(&self, version: u64, limit: usize, into: &mut Vec<Arc<Event>>) {
        let start = self.events.partition_point(|event| event.version() <= version);
        into.extend(self.events.range(start..).take(limit).cloned());
    }

    /// Returns the events newer than `version`, newest first.
    pub(crate) fn back_to(&self, version: u64) -> impl Iterator<Item = &Arc<Event>> {
        self.events.iter().rev().take_while(move |event| event.version() > version)
    }
}
