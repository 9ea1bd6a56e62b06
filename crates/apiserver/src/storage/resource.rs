//! The objects of one resource and its event log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use imbl::OrdMap;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::registry::FieldPath;
use crate::status::Status;

use super::log::{EventLog, Window};
use super::texts::Texts;
use super::{Event, EventType, Key, Stored, Versions};

/// How many snapshots are kept for paginated lists. Further ones are reconstructed from the history.
const KEPT_SNAPSHOTS: usize = 16;
/// How often a rewrite is decided without the lock before it is decided under it.
const ATTEMPTS: usize = 5;

/// The limit of the JSON of an object: that of etcd for a request, 1.5 MiB.
const MAX_OBJECT: usize = 3 * 512 * 1024;

/// All objects of a resource at one version. Cloning is O(1).
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) version: u64,
    pub(crate) objects: OrdMap<Key, Arc<Stored>>,
}

/// What a write does to the current state.
pub(crate) enum Change {
    /// Leaves the object unchanged and creates no event.
    Keep,
    /// Stores this object.
    Put(Map<String, Value>),
    /// Removes the object; this is its final state.
    Remove(Map<String, Value>),
}

/// The result of a write.
pub(crate) enum Outcome {
    /// Nothing changed; the current state, if the object exists.
    Kept(Option<Arc<Stored>>),
    /// The object was stored.
    Stored(Arc<Stored>),
    /// The object was removed; its final state.
    Removed(Arc<Stored>),
}

/// Identifies a store among all stores of a server.
pub(crate) type StoreId = u32;

/// Is called for each change of a store that concerns garbage collection.
pub(crate) trait CommitObserver: Send + Sync {
    /// Called under the lock of the store, for objects with owners or finalizers of garbage collection, and for every
    /// removed object. `None` is an absent object.
    fn committed(&self, store: StoreId, before: Option<&Stored>, after: Option<&Stored>);
}

struct State {
    objects: OrdMap<Key, Arc<Stored>>,
    log: EventLog,
    kept: VecDeque<Snapshot>,
}

/// One resource: a persistent map of its objects and a window of its events.
///
/// Every operation holds the lock for O(log n), plus the serialization of the object for a write, and what a write decides
/// under the lock. Events are dropped outside the lock.
pub(crate) struct ResourceStore {
    state: Mutex<State>,
    versions: Arc<Versions>,
    fields: Vec<FieldPath>,
    texts: Texts,
    written: watch::Sender<u64>,
    closed: AtomicBool,
    observer: Option<(Arc<dyn CommitObserver>, StoreId)>,
}

impl ResourceStore {
    pub(crate) fn new(versions: Arc<Versions>, fields: Vec<FieldPath>, window: Window) -> Self {
        let floor = versions.current();
        let state =
            State { objects: OrdMap::new(), log: EventLog::new(window, floor), kept: VecDeque::new() };
        Self {
            state: Mutex::new(state),
            versions,
            fields,
            texts: Texts::default(),
            written: watch::Sender::new(floor),
            closed: AtomicBool::new(false),
            observer: None,
        }
    }

    /// Calls the observer for all later changes, with this id.
    #[must_use]
    pub(crate) fn observed_by(mut self, observer: Arc<dyn CommitObserver>, id: StoreId) -> Self {
        self.observer = Some((observer, id));
        self
    }

    /// Replaces the objects, without an event. The history begins at the current version.
    #[must_use]
    pub(crate) fn with_objects(mut self, objects: OrdMap<Key, Arc<Stored>>) -> Self {
        self.state.get_mut().objects = objects;
        self
    }

    /// Returns the newest version of all resources.
    pub(crate) fn version(&self) -> u64 {
        self.versions.current()
    }

    /// Returns the id that the observer gets; `None` without an observer.
    pub(crate) fn id(&self) -> Option<StoreId> {
        self.observer.as_ref().map(|(_, id)| *id)
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

    /// Returns the current state. O(1).
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        Snapshot { version: self.versions.current(), objects: state.objects.clone() }
    }

    /// Returns the state at `version`, if the history reaches back to it.
    ///
    /// O(1) for a snapshot that was kept, otherwise O(events since).
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

    /// Keeps a snapshot, so that later pages of a list read the same state.
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

    /// Drops the history: older versions can neither be listed nor watched from.
    pub(crate) fn compact(&self) {
        let mut state = self.state.lock();
        let version = self.versions.current();
        let events = state.log.compact(version);
        let kept = std::mem::take(&mut state.kept);
        drop(state);
        drop((events, kept));
        // Wakes watchers: one with unread events must find that its version was compacted.
        self.written.send_replace(version);
    }

    /// Reads, decides and writes in one critical section.
    ///
    /// `decide` receives the current state and returns the change. A stored or removed object gets the next version.
    /// If `decide` fails, nothing has changed.
    pub(crate) fn write(
        &self,
        key: &Key,
        decide: impl FnOnce(Option<&Arc<Stored>>) -> Result<Change, Status>,
    ) -> Result<Outcome, Status> {
        let state = self.state.lock();
        let previous = state.objects.get(key).cloned();
        let change = decide(previous.as_ref())?;
        self.commit(state, key, previous, change)
    }

    /// As [`Self::write`], for decisions that may take long: `decide` runs without the lock, and again if the object was
    /// written meanwhile. After several such writes it runs under the lock.
    pub(crate) fn rewrite(
        &self,
        key: &Key,
        mut decide: impl FnMut(Option<&Arc<Stored>>) -> Result<Change, Status>,
    ) -> Result<Outcome, Status> {
        for _ in 0..ATTEMPTS {
            let seen = self.get(key);
            let change = decide(seen.as_ref())?;
            let state = self.state.lock();
            let previous = state.objects.get(key).cloned();
            if previous.as_ref().map(Arc::as_ptr) == seen.as_ref().map(Arc::as_ptr) {
                return self.commit(state, key, previous, change);
            }
        }
        self.write(key, decide)
    }

    /// # Errors
    /// 500 for an object that is too large for etcd.
    fn commit(
        &self,
        mut state: MutexGuard<'_, State>,
        key: &Key,
        previous: Option<Arc<Stored>>,
        change: Change,
    ) -> Result<Outcome, Status> {
        let (outcome, event) = match change {
            Change::Keep => return Ok(Outcome::Kept(previous)),
            Change::Put(object) => {
                let event_type = if previous.is_some() { EventType::Modified } else { EventType::Added };
                let stored = self.serialize(key, event_type, object);
                if stored.len() > MAX_OBJECT {
                    return Err(Status::new(500, "", "etcdserver: request is too large"));
                }
                state.objects.insert(key.clone(), stored.clone());
                (Outcome::Stored(stored.clone()), Event::new(event_type, stored, previous))
            }
            Change::Remove(object) => {
                let stored = self.serialize(key, EventType::Deleted, object);
                state.objects.remove(key);
                (Outcome::Removed(stored.clone()), Event::new(EventType::Deleted, stored, previous))
            }
        };
        let version = event.version();
        self.observe(&event);
        let dropped = state.log.push(Arc::new(event));
        let mut expired = VecDeque::new();
        if !dropped.is_empty() {
            let oldest = state.log.oldest();
            let kept = std::mem::take(&mut state.kept);
            (expired, state.kept) = kept.into_iter().partition(|kept| kept.version < oldest);
        }
        drop(state);
        drop((dropped, expired));
        self.written.send_replace(version);
        self.versions.signal();
        Ok(outcome)
    }

    fn observe(&self, event: &Event) {
        let Some((observer, id)) = &self.observer else { return };
        let before = event.previous.as_deref();
        let after = (event.event_type != EventType::Deleted).then_some(&*event.object);
        let concerned = |state: Option<&Stored>| state.is_some_and(Stored::has_ownership);
        if after.is_none() || concerned(before) || concerned(after) {
            observer.committed(*id, before, after);
        }
    }

    fn serialize(&self, key: &Key, event_type: EventType, mut object: Map<String, Value>) -> Arc<Stored> {
        let version = self.versions.next();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), version.to_string().into());
        }
        Arc::new(Stored::new(key.clone(), version, event_type, &object, &self.fields, Some(&self.texts)))
    }

    /// Returns a version that changes with each write.
    pub(crate) fn last_write(&self) -> u64 {
        *self.written.borrow()
    }

    /// Signals each write. The value may be out of date; read the log.
    pub(crate) fn written(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    /// Reads up to `limit` events after `version` into `into`, and returns the version up to which they are complete.
    /// `Err` has the oldest remaining version if the history no longer reaches back to `version`.
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

    /// Whether there are states of objects up to a version, now or in the history. O(objects + events).
    pub(crate) fn has_states_until(&self, version: u64) -> bool {
        let state = self.state.lock();
        let has_history = state.log.has_states_until(version);
        let objects = state.objects.clone();
        drop(state);
        has_history || objects.values().any(|object| object.version() <= version)
    }

    /// Returns the oldest version from which a watch can start.
    pub(crate) fn oldest(&self) -> u64 {
        self.state.lock().log.oldest()
    }

    /// Ends every watch after it has read the remaining events.
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

    /// The state that a watcher reaches from `version`; `None` if it cannot start there.
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
                assert_eq!(before, state.get(&key).copied(), "the event has the previous state");
                match event.event_type {
                    EventType::Deleted => state.remove(&key),
                    _ => state.insert(key, value_of(&event.object)),
                };
            }
        }
    }

    fn put(store: &ResourceStore, key: &str, value: u32) -> Arc<Stored> {
        let Ok(Outcome::Stored(stored)) = store.write(&Key::raw(key), |_| Ok(Change::Put(object(0, value))))
        else {
            panic!("not stored")
        };
        stored
    }

    /// Another write during a decision: it is not blocked, and the decision is repeated on its state.
    // contract: E-01j
    #[test]
    fn rewrite_decides_without_the_lock() {
        let window = Window { events: 100, bytes: usize::MAX };
        let store = ResourceStore::new(Arc::new(Versions::starting_at(1)), Vec::new(), window);
        let key = Key::raw("a");
        put(&store, "a", 1);
        let mut seen = Vec::new();
        let outcome = store.rewrite(&key, |present| {
            seen.push(present.map(|present| value_of(present)));
            if seen.len() < 3 {
                put(&store, "a", 10 * u32::try_from(seen.len()).unwrap());
            }
            Ok(Change::Put(object(0, 99)))
        });
        assert!(matches!(outcome, Ok(Outcome::Stored(stored)) if value_of(&stored) == 99));
        assert_eq!(seen, [Some(1), Some(10), Some(20)]);
        // An object that is written during each attempt: the last decision is made under the lock.
        let mut attempts = 0;
        let outcome = store.rewrite(&key, |_| {
            attempts += 1;
            if attempts <= ATTEMPTS {
                put(&store, "a", 1);
            }
            Ok(Change::Put(object(0, 7)))
        });
        assert!(matches!(outcome, Ok(Outcome::Stored(stored)) if value_of(&stored) == 7));
        assert_eq!(attempts, ATTEMPTS + 1);
    }

    // contract: E-05h
    #[test]
    fn history_is_limited_in_bytes() {
        let of = |bytes| {
            let window = Window { events: 100, bytes };
            Arc::new(ResourceStore::new(Arc::new(Versions::starting_at(1)), Vec::new(), window))
        };
        let length = put(&of(usize::MAX), "a", 1).len();
        // The first event has one state, later ones two.
        let store = of(5 * length + 10);
        let versions: Vec<u64> = (1..=4).map(|value| put(&store, "a", value).version()).collect();
        store.keep(&store.snapshot());
        assert_eq!(store.oldest(), versions[1], "two events have four states");
        put(&store, "a", 5);
        put(&store, "a", 6);
        assert!(store.snapshot_at(versions[3]).is_some() && store.snapshot_at(versions[2]).is_none());
        put(&store, "a", 7);
        assert!(store.state.lock().kept.is_empty(), "snapshots before the window are dropped");
        // The newest event is kept, whatever its size.
        let store = of(1);
        let newest = put(&store, "a", 1).version();
        assert_eq!(store.oldest(), 1);
        put(&store, "a", 2);
        assert_eq!(store.oldest(), newest);
    }

    proptest! {
        // contract: E-03a, E-04a, E-05b, E-05c
        #[test]
        fn every_version_in_the_window_is_reconstructed(steps in steps(), history in 1..40usize, keep in any::<u64>()) {
            let versions = Arc::new(Versions::starting_at(1));
            let window = Window { events: history, bytes: usize::MAX };
            let store = Arc::new(ResourceStore::new(versions.clone(), Vec::new(), window));
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
            let dropped = written.len().checked_sub(history + 1).and_then(|index| written.get(index)).copied().unwrap_or(0);
            let oldest = compacted.max(dropped);
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
