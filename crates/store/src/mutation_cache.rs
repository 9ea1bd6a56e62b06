//! One's own writes over what an informer has delivered.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kinformer_core::{Error as ObjectError, KeyRef, Object, ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::sync::Mutex;
use crate::{Error, IndexValues, Reader, Snapshot};

/// How a [`MutationCache`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MutationCacheOptions {
    time_to_live: Duration,
    max_entries: usize,
    adds: Adds,
}

/// What becomes of an own write to an object that the indexer does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Adds {
    /// It is not shown: the object may have been deleted since. The default.
    #[default]
    Hide,
    /// It is shown until it expires or the deletion is told with [`MutationCache::on_delete`]. An object
    /// that is deleted before the informer has ever seen it is shown until it expires.
    Show,
}

impl Default for MutationCacheOptions {
    /// Five minutes, 100 entries, no adds, as in client-go.
    fn default() -> Self {
        Self { time_to_live: Duration::from_secs(300), max_entries: 100, adds: Adds::Hide }
    }
}

impl MutationCacheOptions {
    /// How long an own write is remembered at most; [`Duration::MAX`] is without a limit.
    #[must_use]
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = time_to_live;
        self
    }

    /// How many own writes are remembered at most; the one that was used least recently goes first.
    #[must_use]
    pub fn max_entries(mut self, max_entries: usize) -> Self {
        self.max_entries = max_entries.max(1);
        self
    }

    /// What becomes of an own write to an object that the indexer does not have.
    #[must_use]
    pub fn adds(mut self, adds: Adds) -> Self {
        self.adds = adds;
        self
    }
}

/// Shows the caller's own writes over a store until the informer delivers them.
///
/// After a write to the server, the informer's store is behind for a moment. [`mutation`](Self::mutation)
/// remembers what the server answered, and reading shows that, for each object, until the indexer has the
/// same or a newer version; also in every index, where an own write is found under its own values and not
/// under those of the older state. It is a help, not a promise: an own write is forgotten when it
/// expires or when there are too many.
///
/// Versions that do not compare leave the own write in place until it expires. Each read is one consistent
/// state of the indexer. Follows client-go 1.37 (`MutationCache`), which covers get and one index, and leaves
/// an object in the index where it was.
pub struct MutationCache<T> {
    store: Reader<T>,
    options: MutationCacheOptions,
    own: Mutex<Own<T>>,
}

struct Own<T> {
    entries: HashMap<ObjectKey, Entry<T>>,
    /// By last use.
    order: BTreeMap<u64, ObjectKey>,
    uses: u64,
}

struct Entry<T> {
    what: What<T>,
    /// `None` where no [`Instant`] is that late.
    expires: Option<Instant>,
    used: u64,
}

enum What<T> {
    Written(Arc<T>),
    /// The object was deleted: an own write of it that is told late must not bring it back.
    Deleted {
        uid: Option<String>,
        version: ResourceVersion,
    },
}

impl<T: Object> Own<T> {
    /// Gives back what is to be dropped without the lock.
    fn put(&mut self, key: ObjectKey, what: What<T>, options: &MutationCacheOptions) -> Vec<Entry<T>> {
        let mut dropped = Vec::from_iter(self.remove(&key));
        while self.entries.len() >= options.max_entries {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            dropped.extend(self.entries.remove(&oldest));
        }
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        let expires = Instant::now().checked_add(options.time_to_live);
        self.entries.insert(key, Entry { what, expires, used: self.uses });
        dropped
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Entry<T>> {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.used);
        Some(entry)
    }

    /// The own write of this key, which counts as used now.
    fn written(&mut self, key: &ObjectKey) -> Option<Arc<T>> {
        let entry = self.entries.get_mut(key)?;
        self.order.remove(&entry.used);
        self.uses += 1;
        entry.used = self.uses;
        self.order.insert(entry.used, key.clone());
        match &entry.what {
            What::Written(object) => Some(object.clone()),
            What::Deleted { .. } => None,
        }
    }

    fn remove_expired(&mut self) -> Vec<Entry<T>> {
        let now = Instant::now();
        let expired: Vec<ObjectKey> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.expires.is_some_and(|expires| expires <= now))
            .map(|(key, _)| key.clone())
            .collect();
        expired.iter().filter_map(|key| self.remove(key)).collect()
    }
}

impl<T: Object> MutationCache<T> {
    /// A cache over what this reader reads, with the default options.
    pub fn new(store: Reader<T>) -> Self {
        Self::with_options(store, MutationCacheOptions::default())
    }

    /// A cache over what this reader reads.
    pub fn with_options(store: Reader<T>, options: MutationCacheOptions) -> Self {
        let own = Own { entries: HashMap::new(), order: BTreeMap::new(), uses: 0 };
        Self { store, options, own: Mutex::new(own) }
    }

    /// Remembers an own write: the object as the server answered it. Ignored if the object is known to have
    /// been deleted since, or if an own write of a newer version is remembered.
    ///
    /// # Errors
    /// The object has no valid key.
    pub fn mutation(&self, object: impl Into<Arc<T>>) -> Result<(), Error> {
        let object = object.into();
        let key = ObjectKey::try_from(object.key()).map_err(ObjectError::from)?;
        self.with_own(|own, dropped| {
            let outdated = match own.entries.get(&key).map(|entry| &entry.what) {
                Some(What::Written(newer)) => is_newer(&**newer, &*object),
                // Versions are those of the type: an older one is stale whatever instance it is of.
                Some(What::Deleted { uid, version }) => {
                    version.reaches(&object.resource_version())
                        || uid.is_some() && uid.as_deref() == object.uid()
                }
                None => false,
            };
            if !outdated {
                dropped.extend(own.put(key, What::Written(object.clone()), &self.options));
            }
        });
        Ok(())
    }

    /// To be called for every add and update that the informer delivers: forgets the own write that has been
    /// delivered. Reading does the same, only later.
    pub fn on_add_or_update(&self, object: &T) {
        let Ok(key) = ObjectKey::try_from(object.key()) else { return };
        self.with_own(|own, dropped| {
            let version = object.resource_version();
            let delivered = own.entries.get(&key).is_some_and(|entry| match &entry.what {
                What::Written(written) => version.reaches(&written.resource_version()),
                What::Deleted { version: deleted, .. } => !deleted.reaches(&version),
            });
            if delivered {
                dropped.extend(own.remove(&key));
            }
        });
    }

    /// To be called for every deletion that the informer delivers, with the last state known: forgets the own
    /// write of that object (the same UID, or an older version), and remembers that it is gone.
    pub fn on_delete(&self, object: &T) {
        let Ok(key) = ObjectKey::try_from(object.key()) else { return };
        self.with_own(|own, dropped| {
            let stays = own.entries.get(&key).is_some_and(|entry| match &entry.what {
                What::Written(written) => survives(written.uid(), &written.resource_version(), object),
                What::Deleted { uid, version } => survives(uid.as_deref(), version, object),
            });
            if !stays {
                let uid = object.uid().map(str::to_owned);
                let deleted = What::Deleted { uid, version: object.resource_version() };
                dropped.extend(own.put(key, deleted, &self.options));
            }
        });
    }

    /// The newest state known of an object.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let key = ObjectKey::try_from(key.into()).ok()?;
        let written = self.with_own(|own, _| own.written(&key));
        // After the own write, so that what the informer delivers in between counts.
        let stored = self.store.get(&key);
        match written {
            Some(written) if self.shows(&written, stored.as_ref()) => Some(written),
            _ => stored,
        }
    }

    /// All objects, each in the newest state known. O(n).
    pub fn list(&self) -> Vec<Arc<T>> {
        let (snapshot, shown) = self.shown();
        let mut list = without(snapshot.iter(), &shown);
        list.extend(shown.into_values());
        list
    }

    /// The objects that an index has under a value, each in the newest state known.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`], or the index function failed for an own write.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<T>>, Error> {
        let (snapshot, shown) = self.shown();
        let mut list = without(snapshot.by_index(index, value)?, &shown);
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

    /// A state of the indexer, and the own writes that are newer than it.
    fn shown(&self) -> (Snapshot<T>, HashMap<Option<ObjectKey>, Arc<T>>) {
        // Both at one moment: with a later snapshot, a write whose deletion both have heard of in between would
        // be shown beside what came after it.
        let (written, snapshot) = self.with_own(|own, _| {
            let keys: Vec<ObjectKey> = own.order.values().cloned().collect();
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

    /// Whether the own write is to be shown. Forgets it if it has been delivered.
    fn shows(&self, written: &Arc<T>, stored: Option<&Arc<T>>) -> bool {
        let Some(stored) = stored else { return self.options.adds == Adds::Show };
        if !stored.resource_version().reaches(&written.resource_version()) {
            return true;
        }
        if let Some(key) = owned(written) {
            self.with_own(|own, dropped| {
                let same = own.entries.get(&key).is_some_and(
                    |entry| matches!(&entry.what, What::Written(object) if Arc::ptr_eq(object, written)),
                );
                if same {
                    dropped.extend(own.remove(&key));
                }
            });
        }
        false
    }

    /// Works on the own writes, without those that have expired. What is left in the list is dropped without
    /// the lock, because dropping may run user code.
    fn with_own<R>(&self, work: impl FnOnce(&mut Own<T>, &mut Vec<Entry<T>>) -> R) -> R {
        let mut own = self.own.lock();
        let mut dropped = own.remove_expired();
        let result = work(&mut own, &mut dropped);
        drop(own);
        drop(dropped);
        result
    }
}

/// Whether the first is known to be of a newer version than the second.
fn is_newer<T: Object>(first: &T, second: &T) -> bool {
    first.resource_version().compare(&second.resource_version()).is_some_and(Ordering::is_gt)
}

/// Whether what is known of this uid and version outlives the deletion of an object: not if that is the same
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

/// The objects that are not among the own writes to be shown.
fn without<'a, T: Object>(
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
