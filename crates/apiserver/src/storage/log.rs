//! The events of one resource, as far back as the history window goes.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::registry::FieldPath;

use super::{EventKind, Stored};

/// One change: the state it led to and the state before.
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    /// The new state; of a deletion the final one, at the version of the deletion.
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
    left_view: OnceLock<Arc<Stored>>,
}

impl Event {
    pub(crate) fn new(kind: EventKind, object: Arc<Stored>, previous: Option<Arc<Stored>>) -> Self {
        Self { kind, object, previous, left_view: OnceLock::new() }
    }

    pub(crate) fn version(&self) -> u64 {
        self.object.version()
    }

    /// The state before, as a deletion at this event's version: what a watcher gets whose selector the
    /// object has left. Made at most once per event.
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
            Arc::new(Stored::new(key, self.version(), EventKind::Deleted, &object, fields))
        }))
    }
}

/// A ring of the newest events, oldest first.
pub(crate) struct EventLog {
    events: VecDeque<Arc<Event>>,
    limit: usize,
    /// Events up to this version are gone. Who has read up to here has missed nothing.
    floor: u64,
    /// Nobody may start before this version any more.
    compacted: u64,
}

impl EventLog {
    pub(crate) fn new(limit: usize, floor: u64) -> Self {
        Self { events: VecDeque::new(), limit: limit.max(1), floor, compacted: floor }
    }

    /// Appends; gives back what fell out of the window, to be dropped outside the lock.
    pub(crate) fn push(&mut self, event: Arc<Event>) -> Option<Arc<Event>> {
        let dropped = if self.events.len() >= self.limit { self.events.pop_front() } else { None };
        if let Some(event) = &dropped {
            self.floor = event.version();
        }
        self.events.push_back(event);
        dropped
    }

    /// Forgets everything up to `version`, which is at least that of the newest event.
    pub(crate) fn compact(&mut self, version: u64) -> VecDeque<Arc<Event>> {
        self.floor = self.events.back().map_or(self.floor, |event| event.version());
        self.compacted = version;
        std::mem::take(&mut self.events)
    }

    /// Whoever has read up to here can read on.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// The oldest version from which a list or a watch may start.
    pub(crate) fn oldest(&self) -> u64 {
        self.floor.max(self.compacted)
    }

    /// Appends up to `limit` events newer than `version` to `into`. O(log n) to find the place.
    pub(crate) fn read_after(&self, version: u64, limit: usize, into: &mut Vec<Arc<Event>>) {
        let start = self.events.partition_point(|event| event.version() <= version);
        into.extend(self.events.range(start..).take(limit).cloned());
    }

    /// The events newer than `version`, newest first.
    pub(crate) fn back_to(&self, version: u64) -> impl Iterator<Item = &Arc<Event>> {
        self.events.iter().rev().take_while(move |event| event.version() > version)
    }
}
