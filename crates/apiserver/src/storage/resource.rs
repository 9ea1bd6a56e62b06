//! The objects of one resource and what happened to them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use imbl::OrdMap;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::registry::FieldPath;
use crate::status::Status;

use super::log::EventLog;
use super::{Event, EventKind, Key, Stored, Versions};

/// How many states are kept for lists that go on page by page. Further ones are made from the history.
const KEPT_SNAPSHOTS: usize = 16;

/// All objects of a resource at one version. Cloning is O(1).
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) version: u64,
    pub(crate) objects: OrdMap<Key, Arc<Stored>>,
}

/// What a write wants to become of the present state.
pub(crate) enum Change {
    /// Nothing changes; no event.
    Keep,
    /// This becomes the object.
    Put(Map<String, Value>),
    /// The object goes; this is its final state.
    Remove(Map<String, Value>),
}

/// What a write has done.
pub(crate) enum Outcome {
    /// Nothing; this is the present state, if there is one.
    Kept(Option<Arc<Stored>>),
    /// This is the object now.
    Stored(Arc<Stored>),
    /// It is gone; this was its final state.
    Removed(Arc<Stored>),
}

struct State {
    objects: OrdMap<Key, Arc<Stored>>,
    log: EventLog,
    kept: VecDeque<Snapshot>,
}

/// One resource: a persistent map of its objects and a window of its events.
///
/// Every operation holds the lock for O(log n) plus, for a write, one parse and one serialization of the
/// object concerned. Events are dropped outside of it.
pub(crate) struct ResourceStore {
    state: Mutex<State>,
    versions: Arc<Versions>,
    fields: Vec<FieldPath>,
    written: watch::Sender<u64>,
    closed: AtomicBool,
}

impl ResourceStore {
    pub(crate) fn new(versions: Arc<Versions>, fields: Vec<FieldPath>, history: usize) -> Self {
        let floor = versions.current();
        let state =
            State { objects: OrdMap::new(), log: EventLog::new(history, floor), kept: VecDeque::new() };
        Self {
            state: Mutex::new(state),
            versions,
            fields,
            written: watch::Sender::new(floor),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn fields(&self) -> &[FieldPath] {
        &self.fields
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        self.state.lock().objects.get(key).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().objects.len()
    }

    /// The present state. O(1).
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        Snapshot { version: self.versions.current(), objects: state.objects.clone() }
    }

    /// The state as it was at `version`, as long as the history reaches back to it.
    ///
    /// O(1) for a state that was kept, else O(events since).
    pub(crate) fn snapshot_at(&self, version: u64) -> Option<Snapshot> {
        let state = self.state.lock();
        if version < state.log.oldest() {
            return None;
        }
        if let Some(kept) = state.kept.iter().find(|kept| kept.version == version) {
            return Some(kept.clone());
        }
        let mut objects = state.objects.clone();
        let undo: Vec<Arc<Event>> = state.log.back_to(version).cloned().collect();
        drop(state);
        for event in undo {
            match &event.previous {
                Some(previous) => objects.insert(previous.key().clone(), previous.clone()),
                None => objects.remove(event.object.key()),
            };
        }
        Some(Snapshot { version, objects })
    }

    /// Keeps a state for the pages to come.
    pub(crate) fn keep(&self, snapshot: &Snapshot) {
        let mut dropped = None;
        let mut state = self.state.lock();
        if snapshot.version >= state.log.oldest()
            && !state.kept.iter().any(|kept| kept.version == snapshot.version)
        {
            if state.kept.len() >= KEPT_SNAPSHOTS {
                dropped = state.kept.pop_front();
            }
            state.kept.push_back(snapshot.clone());
        }
        drop(state);
        drop(dropped);
    }

    /// Forgets the history: older versions can neither be listed nor watched from.
    pub(crate) fn compact(&self) {
        let mut state = self.state.lock();
        let version = self.versions.current();
        let events = state.log.compact(version);
        let kept = std::mem::take(&mut state.kept);
        drop(state);
        drop((events, kept));
        // A watcher that had not read everything yet must notice that it has been left behind.
        self.written.send_replace(version);
    }

    /// Reads, decides and writes as one step.
    ///
    /// `decide` sees the present state and says what is to become of it. What it puts or removes gets the
    /// next version; nothing has changed when it fails.
    pub(crate) fn write(
        &self,
        key: &Key,
        decide: impl FnOnce(Option<&Arc<Stored>>) -> Result<Change, Status>,
    ) -> Result<Outcome, Status> {
        let mut state = self.state.lock();
        let previous = state.objects.get(key).cloned();
        let (outcome, event) = match decide(previous.as_ref())? {
            Change::Keep => return Ok(Outcome::Kept(previous)),
            Change::Put(object) => {
                let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
                let stored = self.serialize(key, kind, object);
                state.objects.insert(key.clone(), stored.clone());
                (Outcome::Stored(stored.clone()), Event::new(kind, stored, previous))
            }
            Change::Remove(object) => {
                let stored = self.serialize(key, EventKind::Deleted, object);
                state.objects.remove(key);
                (Outcome::Removed(stored.clone()), Event::new(EventKind::Deleted, stored, previous))
            }
        };
        let version = event.version();
        let dropped = state.log.push(Arc::new(event));
        drop(state);
        drop(dropped);
        self.written.send_replace(version);
        Ok(outcome)
    }

    fn serialize(&self, key: &Key, kind: EventKind, mut object: Map<String, Value>) -> Arc<Stored> {
        let version = self.versions.next();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), version.to_string().into());
        }
        Arc::new(Stored::new(key.clone(), version, kind, &object, &self.fields))
    }

    /// Signals each write. The value itself is only a hint; read the log.
    pub(crate) fn written(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    /// Reads on after `version`: up to `limit` events into `into`, and the version up to which this is
    /// everything. `Err` carries the floor when the history no longer reaches back to `version`.
    pub(crate) fn read_after(
        &self,
        version: u64,
        limit: usize,
        into: &mut Vec<Arc<Event>>,
    ) -> Result<u64, u64> {
        let state = self.state.lock();
        if version < state.log.floor() {
            return Err(state.log.floor());
        }
        state.log.read_after(version, limit, into);
        if into.len() < limit {
            return Ok(self.versions.current());
        }
        Ok(into.last().map_or(version, |event| event.version()))
    }

    /// The oldest version from which one can watch.
    pub(crate) fn oldest(&self) -> u64 {
        self.state.lock().log.oldest()
    }

    /// Ends every watch once it has read what there is.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.written.send_replace(self.versions.current());
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
