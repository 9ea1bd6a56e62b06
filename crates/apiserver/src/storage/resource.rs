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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::storage::{Next, Watcher};

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, u32),
        Remove(u8),
        Compact,
        Elsewhere,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0..6u8, any::<u32>()).prop_map(|(key, value)| Step::Put(key, value)),
            4 => (0..6u8).prop_map(Step::Remove),
            1 => Just(Step::Compact),
            1 => Just(Step::Elsewhere),
        ];
        proptest::collection::vec(step, 1..80)
    }

    fn object(key: u8, value: u32) -> Map<String, Value> {
        json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": key.to_string()}, "value": value})
            .as_object()
            .unwrap()
            .clone()
    }

    fn value_of(stored: &Stored) -> u32 {
        u32::try_from(stored.parse()["value"].as_u64().unwrap()).unwrap()
    }

    type Model = BTreeMap<String, u32>;

    fn contents(snapshot: &Snapshot) -> Model {
        snapshot.objects.iter().map(|(key, stored)| (key.as_str().to_owned(), value_of(stored))).collect()
    }

    /// What a watcher makes of the events after `version`; `None` when it cannot begin there.
    fn replay(store: &Arc<ResourceStore>, version: u64, mut state: Model) -> Option<Model> {
        let mut watcher = Watcher::new(store.clone(), version);
        let mut last = version;
        loop {
            let mut events = Vec::new();
            let next = futures::FutureExt::now_or_never(watcher.next(&mut events));
            match next {
                None => return Some(state),
                Some(Next::Events) => {}
                Some(_) => return None,
            }
            for event in events {
                assert!(event.version() > last, "versions rise");
                last = event.version();
                let key = event.object.key().as_str().to_owned();
                let before = event.previous.as_ref().map(|previous| value_of(previous));
                assert_eq!(before, state.get(&key).copied(), "the state before is the state before");
                match event.kind {
                    EventKind::Deleted => state.remove(&key),
                    _ => state.insert(key, value_of(&event.object)),
                };
            }
        }
    }

    proptest! {
        // contract: E-03, E-04, E-05
        #[test]
        fn every_version_in_the_window_is_as_it_was(steps in steps(), history in 1..40usize, keep in any::<u64>()) {
            let versions = Arc::new(Versions::starting_at(1));
            let store = Arc::new(ResourceStore::new(versions.clone(), Vec::new(), history));
            let mut model = Model::new();
            let mut states = BTreeMap::from([(1, Model::new())]);
            let mut written = Vec::new();
            let mut compacted = 1;
            for step in steps {
                match step {
                    Step::Put(key, value) => {
                        let outcome = store.write(&Key::raw(&key.to_string()), |_| Ok(Change::Put(object(key, value))));
                        let Ok(Outcome::Stored(stored)) = outcome else { panic!("not stored") };
                        prop_assert_eq!(stored.version(), versions.current());
                        model.insert(key.to_string(), value);
                        written.push(stored.version());
                    }
                    Step::Remove(key) => {
                        let there = model.remove(&key.to_string()).is_some();
                        let outcome = store.write(&Key::raw(&key.to_string()), |present| {
                            Ok(present.map_or(Change::Keep, |present| Change::Remove(present.parse())))
                        });
                        match outcome.unwrap() {
                            Outcome::Removed(stored) => {
                                prop_assert!(there);
                                written.push(stored.version());
                            }
                            Outcome::Kept(None) => prop_assert!(!there),
                            _ => panic!("neither removed nor absent"),
                        }
                    }
                    Step::Compact => {
                        store.compact();
                        compacted = versions.current();
                        written.clear();
                    }
                    Step::Elsewhere => {
                        versions.next();
                    }
                }
                if keep >> (versions.current() % 64) & 1 == 1 {
                    store.keep(&store.snapshot());
                }
                states.insert(versions.current(), model.clone());
            }
            let fallen = written.len().checked_sub(history + 1).and_then(|at| written.get(at)).copied().unwrap_or(0);
            let oldest = compacted.max(fallen);
            prop_assert_eq!(store.oldest(), oldest);
            for (version, state) in states {
                match store.snapshot_at(version) {
                    Some(snapshot) => {
                        prop_assert!(version >= oldest);
                        prop_assert_eq!(contents(&snapshot), state.clone(), "version {}", version);
                        prop_assert_eq!(replay(&store, version, state), Some(model.clone()));
                    }
                    None => prop_assert!(version < oldest, "version {} of {}", version, oldest),
                }
            }
        }
    }
}
