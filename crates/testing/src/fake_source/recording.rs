//! A sink that records every delta.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinformer_core::{
    Delta, Deltas, Error, KeyRef, KnownObjects, Object, ObjectKey, PartialErrors, ReadyFuture,
    ResourceVersion, Sink, Tombstone,
};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Formats a delta as text: `add ns/a@7`, `delete ns/a`, `replace ns/a@7 ns/b@8 @9`, `resync`, `bookmark @9`.
/// Undelivered keys are in parentheses; `(2 unidentified)` means two objects whose keys are unknown.
pub fn delta_text<T: Object>(delta: &Delta<T>) -> String {
    let object = |o: &Arc<T>| format!("{}@{}", o.key(), o.resource_version());
    match delta {
        Delta::Added(o) => format!("add {}", object(o)),
        Delta::Updated(o) => format!("update {}", object(o)),
        Delta::Deleted(Tombstone::FinalState(o)) => format!("delete {}", object(o)),
        Delta::Deleted(Tombstone::FinalStateUnknown(missed)) => format!("delete {}", missed.key),
        Delta::Left(o) => format!("left {}", object(o)),
        Delta::ReplacedAll(list) => {
            let mut words = vec!["replace".to_owned()];
            words.extend(list.objects.iter().map(object));
            words.extend(list.undelivered.iter().map(|key| format!("({key})")));
            if !list.is_complete() {
                words.push(format!("({} unidentified)", list.unidentified));
            }
            words.push(format!("@{}", list.resource_version));
            words.join(" ")
        }
        Delta::SyncAll => "resync".to_owned(),
        Delta::Bookmark { resource_version: version, .. } => format!("bookmark @{version}"),
        Delta::Replaced(o) => format!("replaced {}", object(o)),
        Delta::Sync(o) => format!("sync {}", object(o)),
        other => other.delta_type().to_string(),
    }
}

/// A sink that records every delta and holds the resulting objects. It can be full, closed, or scripted to fail.
///
/// It follows the contract of a sink: keys that a list could not deliver keep their state, and an incomplete list
/// deletes nothing.
#[derive(Debug)]
pub struct RecordingSink<T: Object> {
    inner: Mutex<Inner<T>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner<T> {
    records: Vec<Delta<T>>,
    objects: BTreeMap<ObjectKey, Arc<T>>,
    version: ResourceVersion,
    room: usize,
    closed: bool,
    errors: Vec<Error>,
    panics: bool,
}

impl<T: Object> Default for RecordingSink<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object> RecordingSink<T> {
    /// Creates an empty sink with unlimited room.
    pub fn new() -> Self {
        let inner = Inner {
            records: Vec::new(),
            objects: BTreeMap::new(),
            version: ResourceVersion::UNSET,
            room: usize::MAX,
            closed: false,
            errors: Vec::new(),
            panics: false,
        };
        Self { inner: Mutex::new(inner), changed: watch::Sender::new(0) }
    }

    /// Returns the recorded deltas, formatted by [`delta_text`].
    pub fn texts(&self) -> Vec<String> {
        self.inner.lock().records.iter().map(delta_text).collect()
    }

    /// Removes and returns the recorded deltas.
    pub fn take(&self) -> Vec<Delta<T>> {
        std::mem::take(&mut self.inner.lock().records)
    }

    /// Returns the current objects.
    pub fn objects(&self) -> BTreeMap<ObjectKey, Arc<T>> {
        self.inner.lock().objects.clone()
    }

    /// Returns the keys of the current objects as text, in key order.
    pub fn keys(&self) -> Vec<String> {
        self.inner.lock().objects.keys().map(ToString::to_string).collect()
    }

    /// Returns the version of the last list or bookmark.
    pub fn version(&self) -> ResourceVersion {
        self.inner.lock().version.clone()
    }

    /// Sets the number of further calls that the sink has room for.
    pub fn set_room(&self, calls: usize) {
        self.inner.lock().room = calls;
        self.wake();
    }

    /// Closes the sink: all further calls fail.
    pub fn close(&self) {
        self.inner.lock().closed = true;
        self.wake();
    }

    /// Makes the next call fail with this error; several errors are queued.
    pub fn fail_next(&self, error: Error) {
        self.inner.lock().errors.push(error);
    }

    /// Makes the next call panic.
    pub fn panic_next(&self) {
        self.inner.lock().panics = true;
    }

    /// Waits until the objects satisfy `wanted`.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only reads the objects, and a later call checks them again.
    pub async fn wait_until(&self, wanted: impl Fn(&BTreeMap<ObjectKey, Arc<T>>) -> bool) {
        let mut changed = self.changed.subscribe();
        while !wanted(&self.objects()) && changed.changed().await.is_ok() {}
    }

    /// Waits until this delta, formatted by [`delta_text`], has been recorded.
    ///
    /// # Cancel safety
    /// Nothing is lost: records are kept, and a later call returns at once if this one was made.
    pub async fn wait_for_record(&self, text: &str) {
        let mut changed = self.changed.subscribe();
        while !self.texts().iter().any(|t| t == text) && changed.changed().await.is_ok() {}
    }

    fn wake(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }
}

impl<T: Object> Inner<T> {
    fn apply(&mut self, delta: &Delta<T>, errors: &mut PartialErrors) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                if let Ok(key) = ObjectKey::try_from(object.key()) {
                    self.objects.insert(key, object.clone());
                }
            }
            Delta::Deleted(tombstone) => {
                self.objects.retain(|key, _| key.as_key() != tombstone.key());
            }
            Delta::Left(object) => self.objects.retain(|key, _| key.as_key() != object.key()),
            Delta::ReplacedAll(list) => {
                if list.is_complete() {
                    let kept: BTreeSet<_> = list.undelivered.iter().collect();
                    self.objects.retain(|key, _| kept.contains(key));
                }
                for (index, object) in list.objects.iter().enumerate() {
                    match ObjectKey::try_from(object.key()) {
                        Ok(key) => {
                            self.objects.insert(key, object.clone());
                        }
                        Err(error) => errors.push(Error::from(error).with_index(index)),
                    }
                }
                self.version = list.resource_version.clone();
            }
            Delta::Bookmark { resource_version: version, .. } => self.version = version.clone(),
            _ => {}
        }
    }
}

impl<T: Object> Sink<T> for RecordingSink<T> {
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, Error> {
        let mut errors = PartialErrors::default();
        let mut valid = Vec::with_capacity(deltas.len());
        for (index, delta) in deltas.into_iter().enumerate() {
            match delta.key().map_or(Ok(()), |key| key.check()) {
                Ok(()) => valid.push(delta),
                Err(error) => errors.push(Error::from(error).with_index(index)),
            }
        }
        let Some(first) = valid.first() else { return Ok(errors) };
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.panics) {
            drop(inner);
            std::panic::resume_unwind(Box::new("scripted panic of the sink"));
        }
        if inner.closed {
            return Err(Error::Closed);
        }
        if !inner.errors.is_empty() {
            return Err(inner.errors.remove(0));
        }
        let Some(room) = inner.room.checked_sub(1) else {
            let key = first.key().and_then(|key| key.try_into().ok());
            return Err(Error::Full { key, limit: 0 });
        };
        if inner.room != usize::MAX {
            inner.room = room;
        }
        for delta in valid {
            inner.apply(&delta, &mut errors);
            inner.records.push(delta);
        }
        drop(inner);
        self.wake();
        Ok(errors)
    }

    fn is_ready(&self) -> bool {
        let inner = self.inner.lock();
        inner.room > 0 || inner.closed
    }

    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(async {
            let mut changed = self.changed.subscribe();
            while !self.is_ready() && changed.changed().await.is_ok() {}
        })
    }
}

impl<T: Object> KnownObjects<T> for RecordingSink<T> {
    fn keys(&self) -> Vec<ObjectKey> {
        self.inner.lock().objects.keys().cloned().collect()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        self.inner.lock().objects.get(&ObjectKey::try_from(key).ok()?).cloned()
    }
}
