//! All objects and their changes, in one total order of versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

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
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.plural, self.namespace, self.name)
    }
}

/// One change of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The version of the change. Only a conversion of the object has the version of another change.
    pub version: u64,
    /// The time of the change.
    pub time: Instant,
    /// The changed object.
    pub key: Key,
    /// The state before; `None` for a creation.
    pub before: Option<Value>,
    /// The state after, without `kind` and `apiVersion`; `None` for a deletion.
    pub after: Option<Value>,
}

/// The history of a cluster: the store that etcd is for kube-apiserver.
///
/// Compaction makes old versions unreadable for requests, but the changes stay here, so that a check can explain what a
/// client received. The history grows by each write of the run.
#[derive(Debug)]
pub struct History {
    changes: Vec<Change>,
    newest: u64,
    compacted: u64,
    origin: u64,
    lost: Vec<Vec<Change>>,
    created: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { changes: Vec::new(), newest: 1, compacted: 0, origin: 1, lost: Vec::new(), created: 0 }
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

    /// The version at which the current timeline began: that of the last restored backup.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// How many times a backup was restored.
    pub fn restores(&self) -> usize {
        self.lost.len()
    }

    /// The changes of the current timeline, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The changes that were lost by each restored backup, in order.
    pub fn lost(&self) -> &[Vec<Change>] {
        &self.lost
    }

    /// Returns the changes after a version.
    pub fn changes_after(&self, version: u64) -> &[Change] {
        let start = self.changes.partition_point(|change| change.version <= version);
        self.changes.get(start..).unwrap_or_default()
    }

    /// Returns all objects as they were at a version. O(changes).
    pub fn objects_at(&self, version: u64) -> BTreeMap<&Key, &Value> {
        let mut objects = BTreeMap::new();
        for change in self.changes.iter().take_while(|change| change.version <= version) {
            match &change.after {
                Some(object) => objects.insert(&change.key, object),
                None => objects.remove(&change.key),
            };
        }
        objects
    }

    /// Returns the current state of an object.
    pub fn object(&self, key: &Key) -> Option<&Value> {
        self.changes.iter().rev().find(|change| change.key == *key)?.after.as_ref()
    }

    /// Creates or replaces an object. Its name, namespace, UID and version are set here.
    pub(crate) fn put(&mut self, key: Key, content: Value) -> u64 {
        let before = self.object(&key).cloned();
        self.newest += 1;
        let uid = before.as_ref().and_then(|object| object.pointer("/metadata/uid")).cloned();
        let uid = uid.unwrap_or_else(|| {
            self.created += 1;
            json!(format!("00000000-0000-4000-8000-{:012x}", self.created))
        });
        let mut object = members(content);
        let mut metadata = members(object.remove("metadata").unwrap_or_default());
        metadata.insert("name".into(), json!(key.name));
        metadata.insert("namespace".into(), json!(key.namespace));
        metadata.insert("uid".into(), uid);
        metadata.insert("resourceVersion".into(), json!(self.newest.to_string()));
        object.insert("metadata".into(), metadata.into());
        self.push(key, before, Some(object.into()))
    }

    /// Deletes an object. Returns `None` if there is none. `last` is the content of its final state, which no earlier
    /// event had, as aggregated API servers may have it.
    pub(crate) fn delete(&mut self, key: Key, last: Option<Value>) -> Option<u64> {
        let mut before = self.object(&key)?.clone();
        if let Some(object) = before.as_object_mut() {
            object.extend(members(last.unwrap_or_default()));
        }
        self.newest += 1;
        Some(self.push(key, Some(before), None))
    }

    /// Changes the content of all objects, and not their versions, as another default or conversion does. There are no
    /// events.
    pub(crate) fn convert(&mut self, content: &Value) {
        let keys: BTreeSet<Key> = self.changes.iter().map(|change| change.key.clone()).collect();
        for key in keys {
            let Some(place) = self.changes.iter().rposition(|change| change.key == key) else { continue };
            let Some(mut change) = self.changes.get(place).cloned() else { continue };
            let Some(object) = change.after.as_mut().and_then(Value::as_object_mut) else { continue };
            object.extend(members(content.clone()));
            self.changes.insert(place + 1, change);
        }
    }

    fn push(&mut self, key: Key, before: Option<Value>, after: Option<Value>) -> u64 {
        self.changes.push(Change { version: self.newest, time: Instant::now(), key, before, after });
        self.newest
    }

    /// Moves the version on, as writes of other resources do.
    pub(crate) fn skip(&mut self, versions: u64) {
        self.newest += versions;
    }

    /// Makes all states before a version unreadable.
    pub(crate) fn compact(&mut self, version: u64) {
        self.compacted = self.compacted.max(version.min(self.newest));
    }

    /// Goes back to the state at an earlier version. The next write has the version after that.
    pub(crate) fn restore(&mut self, version: u64) {
        let version = version.clamp(1, self.newest);
        let kept = self.changes.partition_point(|change| change.version <= version);
        self.lost.push(self.changes.split_off(kept));
        self.newest = version;
        self.origin = version;
        self.compacted = self.compacted.min(version);
    }
}

/// Returns the members of a JSON object; none of any other value.
fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
