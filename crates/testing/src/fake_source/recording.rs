//! A sink that remembers everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinformer_core::{
    Error, Object, ObjectKey, ReadyFuture, Replacement, Report, ResourceVersion, Sink, Tombstone,
};
use parking_lot::Mutex;
use tokio::sync::watch;

/// One call of a sink.
#[derive(Debug)]
pub enum Record<T> {
    /// An addition.
    Add(Arc<T>),
    /// A change.
    Update(Arc<T>),
    /// A deletion.
    Delete(Tombstone<Arc<T>>),
    /// A whole list.
    Replace(Replacement<T>),
    /// A resync.
    Resync,
    /// A bookmark.
    Bookmark(ResourceVersion),
}

impl<T: Object> Record<T> {
    /// As text: `add ns/a@7`, `delete ns/a`, `replace ns/a@7 ns/b@8 @9`, `resync`, `bookmark @9`. Keys that could
    /// not be delivered stand in parentheses, and `(2 unreadable)` for two objects without a readable key.
    pub fn text(&self) -> String {
        let object = |o: &Arc<T>| format!("{}@{}", o.key(), o.resource_version());
        match self {
            Self::Add(o) => format!("add {}", object(o)),
            Self::Update(o) => format!("update {}", object(o)),
            Self::Delete(tombstone) => match tombstone {
                Tombstone::FinalState(o) => format!("delete {}", object(o)),
                Tombstone::FinalStateUnknown { key, .. } => format!("delete {key}"),
            },
            Self::Replace(list) => {
                let mut words = vec!["replace".to_owned()];
                words.extend(list.objects.iter().map(object));
                words.extend(list.undelivered.iter().map(|key| format!("({key})")));
                if !list.is_complete() {
                    words.push(format!("({} unreadable)", list.unreadable));
                }
                words.push(format!("@{}", list.resource_version));
                words.join(" ")
            }
            Self::Resync => "resync".to_owned(),
            Self::Bookmark(version) => format!("bookmark @{version}"),
        }
    }
}

/// A sink that records every call, holds the map that results, can be full, closed, or made to fail.
///
/// It follows the contract of a sink: a key that a list could not deliver keeps its state, and a list that is not
/// complete deletes nothing.
#[derive(Debug)]
pub struct RecordingSink<T: Object> {
    inner: Mutex<Inner<T>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner<T> {
    records: Vec<Record<T>>,
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
    /// An empty sink with room for everything.
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

    /// The calls up to now, as [`Record::text`] writes them.
    pub fn texts(&self) -> Vec<String> {
        self.inner.lock().records.iter().map(Record::text).collect()
    }

    /// Takes the calls out.
    pub fn take(&self) -> Vec<Record<T>> {
        std::mem::take(&mut self.inner.lock().records)
    }

    /// The objects it holds.
    pub fn objects(&self) -> BTreeMap<ObjectKey, Arc<T>> {
        self.inner.lock().objects.clone()
    }

    /// Their keys as text, in the order of keys.
    pub fn keys(&self) -> Vec<String> {
        self.inner.lock().objects.keys().map(ToString::to_string).collect()
    }

    /// The version of the last list or bookmark.
    pub fn version(&self) -> ResourceVersion {
        self.inner.lock().version.clone()
    }

    /// There is room for so many more calls. Every one uses up one.
    pub fn set_room(&self, calls: usize) {
        self.inner.lock().room = calls;
        self.wake();
    }

    /// It takes nothing any more.
    pub fn close(&self) {
        self.inner.lock().closed = true;
        self.wake();
    }

    /// The next call fails with this; the errors wait in a queue.
    pub fn fail_next(&self, error: Error) {
        self.inner.lock().errors.push(error);
    }

    /// The next call panics.
    pub fn panic_next(&self) {
        self.inner.lock().panics = true;
    }

    /// Waits until the objects satisfy `wanted`.
    pub async fn wait_until(&self, wanted: impl Fn(&BTreeMap<ObjectKey, Arc<T>>) -> bool) {
        let mut changed = self.changed.subscribe();
        while !wanted(&self.objects()) && changed.changed().await.is_ok() {}
    }

    /// Waits until this call, as [`Record::text`] writes it, has been recorded.
    pub async fn wait_for_record(&self, text: &str) {
        let mut changed = self.changed.subscribe();
        while !self.texts().iter().any(|t| t == text) && changed.changed().await.is_ok() {}
    }

    fn wake(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    fn record(
        &self,
        key: impl FnOnce() -> String,
        record: Record<T>,
        apply: impl FnOnce(&mut Inner<T>, &Record<T>),
    ) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        if std::mem::take(&mut inner.panics) {
            drop(inner);
            std::panic::resume_unwind(Box::new("the sink was told to panic"));
        }
        if inner.closed {
            return Err(Error::Closed);
        }
        if !inner.errors.is_empty() {
            return Err(inner.errors.remove(0));
        }
        let Some(room) = inner.room.checked_sub(1) else {
            return Err(Error::Full { key: key(), limit: 0 });
        };
        if inner.room != usize::MAX {
            inner.room = room;
        }
        apply(&mut inner, &record);
        inner.records.push(record);
        drop(inner);
        self.wake();
        Ok(())
    }

    fn set(&self, object: Arc<T>, record: impl FnOnce(Arc<T>) -> Record<T>) -> Result<Report, Error> {
        let key = ObjectKey::try_from(object.key())?;
        self.record(
            || key.to_string(),
            record(object.clone()),
            |inner, _| {
                inner.objects.insert(key.clone(), object);
            },
        )?;
        Ok(Report::default())
    }
}

impl<T: Object> Sink<T> for RecordingSink<T> {
    fn add(&self, object: Arc<T>) -> Result<Report, Error> {
        self.set(object, Record::Add)
    }

    fn update(&self, object: Arc<T>) -> Result<Report, Error> {
        self.set(object, Record::Update)
    }

    fn delete(&self, tombstone: Tombstone<Arc<T>>) -> Result<Report, Error> {
        let key = ObjectKey::try_from(tombstone.key())?;
        self.record(
            || key.to_string(),
            Record::Delete(tombstone),
            |inner, _| {
                inner.objects.remove(&key);
            },
        )?;
        Ok(Report::default())
    }

    fn replace(&self, replacement: Replacement<T>) -> Result<Report, Error> {
        let mut report = Report::default();
        self.record(
            || "*".to_owned(),
            Record::Replace(replacement),
            |inner, record| {
                let Record::Replace(list) = record else { return };
                let mut objects = std::mem::take(&mut inner.objects);
                if list.is_complete() {
                    let kept: BTreeSet<_> = list.undelivered.iter().collect();
                    objects.retain(|key, _| kept.contains(key));
                }
                for (position, object) in list.objects.iter().enumerate() {
                    match ObjectKey::try_from(object.key()) {
                        Ok(key) => {
                            objects.insert(key, object.clone());
                        }
                        Err(error) => report.push(position, error),
                    }
                }
                inner.objects = objects;
                inner.version = list.resource_version.clone();
            },
        )?;
        Ok(report)
    }

    fn resync(&self) -> Result<(), Error> {
        self.record(|| "*".to_owned(), Record::Resync, |_, _| {})
    }

    fn bookmark(&self, version: ResourceVersion) -> Result<(), Error> {
        self.record(|| "*".to_owned(), Record::Bookmark(version.clone()), |inner, _| inner.version = version)
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
