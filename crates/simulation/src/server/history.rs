//! All objects and their changes, in one total order of versions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::state::{State, field};

/// The key of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The plural name of the resource, such as `configmaps`.
    pub plural: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Creates a key.
    pub fn new(plural: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { plural: plural.into(), namespace: namespace.into(), name: name.into() }
    }

    /// The namespace and the name, as informers write them.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.plural, self.namespace, self.name)
    }
}

/// One change of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The version of the change. No other change has it, except those of one conversion or of one restored backup, and
    /// those that a restored backup has undone.
    pub version: u64,
    /// The time of the change.
    pub time: Instant,
    /// The changed object.
    pub key: Key,
    /// The state before; `None` for a creation.
    pub before: Option<State>,
    /// The state after, without `kind` and `apiVersion`; `None` for a deletion.
    pub after: Option<State>,
}

/// A restored backup.
#[derive(Clone, Copy, Debug)]
struct Restore {
    /// The number of changes before it.
    start: usize,
    /// The version from which the cluster continued.
    origin: u64,
}

/// The history of a cluster: the store that etcd is for kube-apiserver.
///
/// Compaction and restored backups make old versions unreadable for requests, but the changes stay here, so that a check
/// can explain what a client received. The history grows by each write of the run.
#[derive(Debug)]
pub struct History {
    changes: Vec<Change>,
    /// The indexes of the changes of each object, by the plural name of its resource and by its path.
    by_object: HashMap<String, HashMap<String, Vec<usize>>>,
    /// The indexes of the changes that requests can read: those that no restored backup has undone.
    timeline: Vec<usize>,
    restores: Vec<Restore>,
    newest: u64,
    compacted: u64,
    created: u64,
}

impl Default for History {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            by_object: HashMap::new(),
            timeline: Vec::new(),
            restores: Vec::new(),
            newest: 1,
            compacted: 0,
            created: 0,
        }
    }
}

impl History {
    /// The newest version.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The oldest version that requests can still read.
    pub fn compacted(&self) -> u64 {
        self.compacted
    }

    /// The version from which the cluster continued after the last restored backup.
    pub fn origin(&self) -> u64 {
        self.restores.last().map_or(1, |restore| restore.origin)
    }

    /// How many times a backup was restored.
    pub fn restores(&self) -> usize {
        self.restores.len()
    }

    /// All changes in the order of time. A restored backup is a change of each object that it set back, at the version
    /// from which the cluster continued.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// All changes of an object in the order of time, with their positions. `path` is the namespace and the name.
    pub(crate) fn changes_of(
        &self,
        plural: &str,
        path: &str,
    ) -> impl DoubleEndedIterator<Item = (usize, &Change)> {
        let indexes = self.by_object.get(plural).and_then(|paths| paths.get(path));
        let indexes = indexes.map_or(&[][..], Vec::as_slice).iter();
        indexes.filter_map(|index| Some((*index, self.changes.get(*index)?)))
    }

    /// Returns the changes after a version that no restored backup has undone.
    pub fn changes_after(&self, version: u64) -> impl Iterator<Item = &Change> {
        let of = |index: &usize| self.changes.get(*index);
        let start = self.timeline.partition_point(|index| of(index).is_some_and(|c| c.version <= version));
        self.timeline.get(start..).unwrap_or_default().iter().filter_map(of)
    }

    /// Returns all objects as they were at a version, according to the present history. O(changes).
    pub fn objects_at(&self, version: u64) -> BTreeMap<&Key, &State> {
        objects(self.changes_after(0).take_while(|change| change.version <= version))
    }

    /// Returns the number of changes up to a version, as it was counted after some restored backups: the same version can
    /// be another state after the next.
    pub fn position(&self, restores: usize, version: u64) -> usize {
        let end = self.restores.get(restores).map_or(self.changes.len(), |next| next.start);
        let earlier = restores.checked_sub(1);
        let start = match earlier.and_then(|earlier| Some((earlier, self.restores.get(earlier)?))) {
            Some((earlier, restore)) if version < restore.origin => return self.position(earlier, version),
            Some((_, restore)) => restore.start,
            None => 0,
        };
        let changes = self.changes.get(start..end).unwrap_or_default();
        start + changes.partition_point(|change| change.version <= version)
    }

    /// Returns all objects after a number of changes.
    pub fn objects_after(&self, position: usize) -> BTreeMap<&Key, &State> {
        objects(self.changes.iter().take(position))
    }

    /// Returns the current state of an object.
    pub fn object(&self, key: &Key) -> Option<&State> {
        self.changes_of(&key.plural, &key.path()).next_back()?.1.after.as_ref()
    }

    /// Creates or replaces an object. Its name, namespace, UID and version are set here.
    pub(crate) fn put(&mut self, key: Key, content: Value) -> u64 {
        let before = self.object(&key).cloned();
        self.newest += 1;
        let uid = before.as_ref().and_then(|object| field(object, ["metadata", "uid"])).cloned();
        let uid = uid.unwrap_or_else(|| {
            self.created += 1;
            // At the beginning: values that differ only at their end have similar hashes.
            json!(format!("{:08x}-0000-4000-8000-000000000000", self.created))
        });
        let mut object = members(content);
        let mut metadata = members(object.remove("metadata").unwrap_or_default());
        metadata.insert("name".into(), json!(key.name));
        metadata.insert("namespace".into(), json!(key.namespace));
        metadata.insert("uid".into(), uid);
        // A deletion that has begun is not taken back.
        if let Some(before) = &before
            && let Some(time) = field(before, ["metadata", "deletionTimestamp"])
        {
            metadata.insert("deletionTimestamp".into(), time.clone());
            if let Some(finalizers) = field(before, ["metadata", "finalizers"]) {
                metadata.entry("finalizers").or_insert_with(|| finalizers.clone());
            }
        }
        metadata.insert("resourceVersion".into(), json!(self.newest.to_string()));
        object.insert("metadata".into(), metadata.into());
        self.push(key, before, Some(State::new(object.into())))
    }

    /// Deletes an object. Returns `None` if there is none. `last` is the content of its final state, which no earlier
    /// event had, as aggregated API servers may have it.
    pub(crate) fn delete(&mut self, key: Key, last: Option<Value>) -> Option<u64> {
        let mut before = members(self.object(&key)?.as_ref().clone());
        before.extend(members(last.unwrap_or_default()));
        self.newest += 1;
        Some(self.push(key, Some(State::new(before.into())), None))
    }

    /// Changes the content of all objects, and not the versions in them, as another default or conversion does. The
    /// changes have one new version.
    pub(crate) fn convert(&mut self, content: &Value) {
        self.newest += 1;
        let objects = self.objects_at(self.newest).into_iter();
        let objects: Vec<_> = objects.map(|(key, object)| (key.clone(), object.clone())).collect();
        for (key, before) in objects {
            let mut after = members(before.as_ref().clone());
            after.extend(members(content.clone()));
            self.push(key, Some(before), Some(State::new(after.into())));
        }
    }

    fn push(&mut self, key: Key, before: Option<State>, after: Option<State>) -> u64 {
        self.timeline.push(self.changes.len());
        self.record(Change { version: self.newest, time: Instant::now(), key, before, after });
        self.newest
    }

    fn record(&mut self, change: Change) {
        let Key { plural, .. } = &change.key;
        let paths = match self.by_object.get_mut(plural) {
            Some(paths) => paths,
            None => self.by_object.entry(plural.clone()).or_default(),
        };
        paths.entry(change.key.path()).or_default().push(self.changes.len());
        self.changes.push(change);
    }

    /// Moves the version on, as writes of other resources do.
    pub(crate) fn skip(&mut self, versions: u64) {
        self.newest += versions;
    }

    /// Makes all states before a version unreadable.
    pub(crate) fn compact(&mut self, version: u64) {
        self.compacted = self.compacted.max(version.min(self.newest));
    }

    /// Goes back to the state at an earlier version, and continues from that version.
    pub(crate) fn restore(&mut self, version: u64) {
        let version = version.clamp(1, self.newest);
        self.compacted = self.compacted.min(version);
        self.set_back(version, version);
    }

    /// Goes back to the state at an earlier version, and continues from a version that was never used. All states before
    /// that are unreadable.
    pub(crate) fn restore_ahead(&mut self, version: u64, versions: u64) {
        let origin = self.newest + versions.max(1);
        self.compacted = origin;
        self.set_back(version.clamp(1, self.newest), origin);
    }

    fn set_back(&mut self, version: u64, origin: u64) {
        let start = self.changes.len();
        let (lost, kept) = (objects(&self.changes), self.objects_at(version));
        let keys: BTreeSet<&Key> = lost.keys().chain(kept.keys()).copied().collect();
        let differ = keys.into_iter().filter(|key| lost.get(key) != kept.get(key));
        let state = |of: &BTreeMap<&Key, &State>, key: &Key| of.get(key).map(|object| State::clone(object));
        let undone = differ.map(|key| Change {
            version: origin,
            time: Instant::now(),
            key: key.clone(),
            before: state(&lost, key),
            after: state(&kept, key),
        });
        let undone: Vec<Change> = undone.collect();
        let kept = self.timeline.len() - self.changes_after(version).count();
        self.timeline.truncate(kept);
        undone.into_iter().for_each(|change| self.record(change));
        self.restores.push(Restore { start, origin });
        self.newest = origin;
    }
}

/// Returns the objects after these changes.
fn objects<'a>(changes: impl IntoIterator<Item = &'a Change>) -> BTreeMap<&'a Key, &'a State> {
    let mut objects = BTreeMap::new();
    for change in changes {
        match &change.after {
            Some(object) => objects.insert(&change.key, object),
            None => objects.remove(&change.key),
        };
    }
    objects
}

/// Returns the members of a JSON object; none of any other value.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
