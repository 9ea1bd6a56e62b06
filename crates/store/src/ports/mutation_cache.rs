//! Overlays your own writes on the objects delivered by an informer.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{Error as CoreError, KeyRef, Object, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::sync::Mutex;
use crate::{Error, IndexValues, Reader, Snapshot};

/// Options of a [`MutationCache`].
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_store::{Adds, Indexer, KeyRef, Keyed, MutationCache, MutationCacheOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = MutationCacheOptions::default().time_to_live(Duration::from_secs(60)).adds(Adds::Show);
/// let cache = MutationCache::with_options(Indexer::new().reader(), options);
/// cache.mutation(Keyed::by(|_| "new", 80)?)?;
/// assert!(cache.get(KeyRef::named("new")).is_some(), "the store does not have it");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MutationCacheOptions {
    time_to_live: Duration,
    max_entries: usize,
    adds: Adds,
}

/// How to handle your own write to an object that the indexer does not contain.
#[doc(alias = "IncludeAdds")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Adds {
    /// Hides the write: the object may have been deleted since. The default.
    #[default]
    Hide,
    /// Shows the write until it expires or the deletion is reported by [`MutationCache::on_delete`]. An object that is
    /// deleted before the informer has ever received it is shown until it expires.
    Show,
}

impl Default for MutationCacheOptions {
    /// Returns five minutes, 100 entries, [`Adds::Hide`], as in client-go.
    fn default() -> Self {
        Self { time_to_live: Duration::from_secs(300), max_entries: 100, adds: Adds::Hide }
    }
}

impl MutationCacheOptions {
    /// Sets how long a write is retained at most; [`Duration::MAX`] means without limit.
    #[doc(alias = "TTL")]
    #[must_use]
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = time_to_live;
        self
    }

    /// Sets how many writes are retained at most; the least recently used one is evicted first.
    #[doc(alias = "MaxCacheSize")]
    #[must_use]
    pub fn max_entries(mut self, max_entries: usize) -> Self {
        self.max_entries = max_entries.max(1);
        self
    }

    /// Sets how to handle your own write to an object that the indexer does not contain.
    #[must_use]
    pub fn adds(mut self, adds: Adds) -> Self {
        self.adds = adds;
        self
    }
}

/// Overlays your own writes on a store until the informer delivers them.
///
/// After a write to the server, the informer's store lags behind briefly. [`mutation`](Self::mutation) retains the
/// object returned by the server, and reads return it until the indexer has the same or a newer version. This also
/// applies to indexes, where such an object is found under its own values and not under those of the older state. The
/// overlay is best-effort: a write is dropped when it expires or when there are too many.
///
/// A write whose version cannot be compared is retained until it expires. Each read comes from one consistent state of
/// the indexer. Follows client-go 0.37 (`MutationCache`), which covers only get and one index, and leaves an object in
/// the index under its old values.
///
/// ```
/// use kinformer_store::{Indexer, KeyRef, MutationCache, Object, ResourceVersion};
///
/// struct Port {
///     number: u16,
///     version: u64,
/// }
///
/// impl Object for Port {
///     fn key(&self) -> KeyRef<'_> {
///         KeyRef::named("web")
///     }
///
///     fn resource_version(&self) -> ResourceVersion {
///         ResourceVersion::number(self.version)
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ports = Indexer::new(); // the store of an informer
/// ports.add(Port { number: 80, version: 1 })?.into_result()?;
/// let cache = MutationCache::new(ports.reader());
/// cache.mutation(Port { number: 8080, version: 2 })?; // what the server returned for a write
/// assert_eq!(cache.get(KeyRef::named("web")).map(|port| port.number), Some(8080));
/// assert_eq!(ports.get(KeyRef::named("web")).map(|port| port.number), Some(80)); // not delivered yet
/// # Ok(())
/// # }
/// ```
pub struct MutationCache<T> {
    store: Reader<T>,
    options: MutationCacheOptions,
    own: Mutex<OwnWrites<T>>,
}

struct OwnWrites<T> {
    entries: HashMap<ObjectKey, Entry<T>>,
    /// Ordered by last use.
    by_use: BTreeMap<u64, ObjectKey>,
    /// Ordered by the time of the write: the first one expires first.
    by_age: BTreeMap<u64, ObjectKey>,
    /// The number of uses and writes.
    uses: u64,
}

struct Entry<T> {
    record: Record<T>,
    /// `None` if the expiry is later than any [`Instant`].
    expires: Option<Instant>,
    /// The number of its write.
    written: u64,
    /// The number of its last use.
    used: u64,
}

enum Record<T> {
    Written(Arc<T>),
    /// The object was deleted: a write of it that is reported late must not bring it back.
    Deleted {
        uid: Option<String>,
        version: ResourceVersion,
    },
}

impl<T: Object> OwnWrites<T> {
    /// Stores an entry. Returns entries to be dropped without the lock.
    fn put(&mut self, key: ObjectKey, record: Record<T>, options: &MutationCacheOptions) -> Vec<Entry<T>> {
        let mut dropped = Vec::from_iter(self.remove(&key));
        while self.entries.len() >= options.max_entries {
            let Some(oldest) = self.by_use.values().next().cloned() else { break };
            dropped.extend(self.remove(&oldest));
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        self.by_age.insert(self.uses, key.clone());
        let expires = Instant::now().checked_add(options.time_to_live);
        self.entries.insert(key, Entry { record, expires, written: self.uses, used: self.uses });
        dropped
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Entry<T>> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.used);
        self.by_age.remove(&entry.written);
        Some(entry)
    }

    /// Returns the write to this key, and marks it as used.
    fn written(&mut self, key: &ObjectKey) -> Option<Arc<T>> {
        let entry = self.entries.get_mut(key)?;
        let key = self.by_use.remove(&entry.used)?;
        self.uses += 1;
        entry.used = self.uses;
        self.by_use.insert(entry.used, key);
        match &entry.record {
            Record::Written(object) => Some(object.clone()),
            Record::Deleted { .. } => None,
        }
    }

    /// Removes the expired entries. Visits one entry more than it removes.
    fn remove_expired(&mut self) -> Vec<Entry<T>> {
        let (now, mut expired) = (Instant::now(), Vec::new());
        while let Some(oldest) = self.by_age.values().next() {
            let expires = self.entries.get(oldest).and_then(|entry| entry.expires);
            if expires.is_none_or(|expires| expires > now) {
                break;
            }
            let oldest = oldest.clone();
            expired.extend(self.remove(&oldest));
        }
        expired
    }
}

impl<T: Object> MutationCache<T> {
    /// Creates a cache over this reader's store, with the default options.
    #[doc(alias = "NewIntegerResourceVersionMutationCache")]
    pub fn new(store: Reader<T>) -> Self {
        Self::with_options(store, MutationCacheOptions::default())
    }

    /// Creates a cache over this reader's store.
    #[doc(alias = "NewIntegerResourceVersionMutationCacheWithOptions")]
    pub fn with_options(store: Reader<T>, options: MutationCacheOptions) -> Self {
        let (by_use, by_age) = (BTreeMap::new(), BTreeMap::new());
        let own = OwnWrites { entries: HashMap::new(), by_use, by_age, uses: 0 };
        Self { store, options, own: Mutex::new(own) }
    }

    /// Retains your own write: the object as returned by the server. Ignored if the object is known to have been
    /// deleted since, or if a write with a newer version is retained.
    ///
    /// # Errors
    /// The object has no valid key.
    pub fn mutation(&self, object: impl Into<Arc<T>>) -> Result<(), Error> {
        let object = object.into();
        let key = ObjectKey::try_from(object.key()).map_err(CoreError::from)?;
        self.with_own(|own, dropped| {
            let outdated = match own.entries.get(&key).map(|entry| &entry.record) {
                Some(Record::Written(newer)) => is_newer(&**newer, &*object),
                // Versions are ordered across all objects of the type: an older one is stale even if it belongs to
                // another instance.
                Some(Record::Deleted { uid, version }) => {
                    version.reaches(&object.resource_version())
                        || uid.is_some() && uid.as_deref() == object.uid()
                }
                None => false,
            };
            if !outdated {
                dropped.extend(own.put(key, Record::Written(object.clone()), &self.options));
            }
        });
        Ok(())
    }

    /// Reports an add or update delivered by the informer, which drops the write it covers. Call this for every add and
    /// update; reads have the same effect, only later.
    pub fn on_add_or_update(&self, object: &T) {
        let Ok(key) = ObjectKey::try_from(object.key()) else { return };
        self.with_own(|own, dropped| {
            let version = object.resource_version();
            let delivered = own.entries.get(&key).is_some_and(|entry| match &entry.record {
                Record::Written(written) => version.reaches(&written.resource_version()),
                Record::Deleted { version: deleted, .. } => !deleted.reaches(&version),
            });
            if delivered {
                dropped.extend(own.remove(&key));
            }
        });
    }

    /// Reports a deletion delivered by the informer, with the last known state. Drops the write to that object (with
    /// the same UID, or an older version) and remembers the deletion. Call this for every deletion.
    pub fn on_delete(&self, object: &T) {
        let Ok(key) = ObjectKey::try_from(object.key()) else { return };
        self.with_own(|own, dropped| {
            let stays = own.entries.get(&key).is_some_and(|entry| match &entry.record {
                Record::Written(written) => survives(written.uid(), &written.resource_version(), object),
                Record::Deleted { uid, version } => survives(uid.as_deref(), version, object),
            });
            if !stays {
                let uid = object.uid().map(str::to_owned);
                let deleted = Record::Deleted { uid, version: object.resource_version() };
                dropped.extend(own.put(key, deleted, &self.options));
            }
        });
    }

    /// Returns the newest known state of an object.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = ObjectKey::try_from(key.into()).ok()?;
        let written = self.with_own(|own, _| own.written(&key));
        // Read after the write, so that a delivery in between is included.
        let stored = self.store.get(&key);
        match written {
            Some(written) if self.shows(&written, stored.as_ref()) => Some(written),
            _ => stored,
        }
    }

    /// Returns all objects, each in its newest known state. O(n).
    pub fn list(&self) -> Vec<Arc<T>> {
        let (snapshot, shown) = self.shown();
        let mut list = not_overlaid(snapshot.iter(), &shown);
        list.extend(shown.into_values());
        list
    }

    /// Returns the objects with this value in this index, each in its newest known state.
    ///
    /// # Errors
    /// * [`Error::UnknownIndex`]: there is no index of this name.
    /// * [`Error::IndexFunction`]: the index function failed for one of your own writes.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, Error> {
        let (snapshot, shown) = self.shown();
        let mut list = not_overlaid(snapshot.by_index(index, value)?, &shown);
        let function = snapshot.index_function(index)?;
        for (key, object) in shown {
            let mut values = IndexValues::default();
            if let (Some(key), Err(source)) = (key, function.call(&object, &mut values)) {
                return Err(Error::IndexFunction { key, index: index.into(), source });
            }
            if values.iter().any(|own| own == value) {
                list.push(object);
            }
        }
        Ok(list)
    }

    /// Returns a state of the indexer and the writes that are newer than it.
    fn shown(&self) -> (Snapshot<T>, HashMap<Option<ObjectKey>, Arc<T>>) {
        // Both are read at one moment. With a later snapshot, a write whose deletion is delivered in between would be
        // returned together with its successor.
        let (written, snapshot) = self.with_own(|own, _| {
            let keys: Vec<ObjectKey> = own.by_use.values().cloned().collect();
            let written = keys.into_iter().filter_map(|key| own.written(&key).map(|object| (key, object)));
            (written.collect::<Vec<_>>(), self.store.snapshot())
        });
        let shown = written
            .into_iter()
            .filter(|(key, object)| self.shows(object, snapshot.get(key)))
            .map(|(key, object)| (Some(key), object))
            .collect();
        (snapshot, shown)
    }

    /// Returns whether a write is newer than the stored state. Drops it if it has been delivered.
    fn shows(&self, written: &Arc<T>, stored: Option<&Arc<T>>) -> bool {
        let Some(stored) = stored else { return self.options.adds == Adds::Show };
        if !stored.resource_version().reaches(&written.resource_version()) {
            return true;
        }
        if let Some(key) = owned(written) {
            self.with_own(|own, dropped| {
                let same = own.entries.get(&key).is_some_and(
                    |entry| matches!(&entry.record, Record::Written(object) if Arc::ptr_eq(object, written)),
                );
                if same {
                    dropped.extend(own.remove(&key));
                }
            });
        }
        false
    }

    /// Accesses the writes, without expired ones. Entries left in the list are dropped without the lock, because
    /// dropping may run user code.
    fn with_own<R>(&self, work: impl FnOnce(&mut OwnWrites<T>, &mut Vec<Entry<T>>) -> R) -> R {
        let mut own = self.own.lock();
        let mut dropped = own.remove_expired();
        let result = work(&mut own, &mut dropped);
        drop(own);
        drop(dropped);
        result
    }
}

/// Returns whether the first is known to have a newer version than the second.
fn is_newer<T: Object>(first: &T, second: &T) -> bool {
    first.resource_version().compare(&second.resource_version()).is_some_and(Ordering::is_gt)
}

/// Returns whether an entry with this UID and version is newer than the deletion of an object: not if it is the same
/// instance, nor if the deletion is as new.
fn survives<T: Object>(uid: Option<&str>, version: &ResourceVersion, deleted: &T) -> bool {
    let uids = uid.zip(deleted.uid());
    if uids.is_some_and(|(known, deleted)| known == deleted) {
        return false;
    }
    match version.compare(&deleted.resource_version()) {
        Some(order) => order == Ordering::Greater,
        None => uids.is_some(),
    }
}

/// Returns the stored objects that are not overlaid by a write.
fn not_overlaid<'a, T: Object>(
    stored: impl Iterator<Item = &'a Arc<T>>,
    shown: &HashMap<Option<ObjectKey>, Arc<T>>,
) -> Vec<Arc<T>> {
    if shown.is_empty() {
        return stored.cloned().collect();
    }
    let shown: HashSet<KeyRef<'_>> = shown.values().map(|object| object.key()).collect();
    stored.filter(|object| !shown.contains(&object.key())).cloned().collect()
}

fn owned<T: Object>(object: &Arc<T>) -> Option<ObjectKey> {
    object.key().try_into().ok()
}

impl<T: Object> std::fmt::Debug for MutationCache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MutationCache").field("own", &self.own.lock().entries.len()).finish()
    }
}
