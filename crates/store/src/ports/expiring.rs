//! A store with expiring entries.

use std::sync::Arc;
use std::time::Duration;

use kinformer_core::internal::contain;
use kinformer_core::{
    Delta, Deltas, Error, KeyRef, KnownObjects, Labels, Object, ObjectKey, PartialErrors, Replacement,
    ResourceVersion, Sink, Versions,
};
use tokio::time::Instant;

use crate::snapshot::discard;
use crate::sync::Mutex;
use crate::write::{discard_change, discard_delta};
use crate::{Indexer, Store};

type Policy<T> = dyn Fn(&T, Duration) -> bool + Send + Sync;

/// A store that drops an entry some time after it was last written.
///
/// An entry has expired once it is *older* than the time to live, not when it has just reached it. Reads never return
/// an expired entry, and remove it; writing an object again resets its age. With a time to live of zero, nothing
/// expires. Entries that are never read are not removed automatically; call [`remove_expired`](Self::remove_expired) to
/// bound the memory.
///
/// Follows client-go 0.37 (`ExpirationCache`), except that the keys and the length exclude expired entries as well, so
/// that all answers agree. Uses tokio's clock, which needs no runtime and can be paused in tests.
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_store::{ExpiringStore, KeyRef, Keyed, Store as _};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Tokens are kept for an hour, and those that were revoked are not returned any more.
/// let hour = Duration::from_secs(3600);
/// let tokens = ExpiringStore::with_policy(move |token: &Keyed<&str>, age| age > hour || **token == "revoked");
/// tokens.add(Keyed::by(|_| "ann", "valid")?.into())?.into_result()?;
/// tokens.add(Keyed::by(|_| "bob", "revoked")?.into())?.into_result()?;
/// assert!(tokens.get(KeyRef::named("ann")).is_some());
/// assert!(tokens.get(KeyRef::named("bob")).is_none());
/// # Ok(())
/// # }
/// ```
#[doc(alias("ExpirationCache", "TimestampedEntry"))]
pub struct ExpiringStore<T> {
    entries: Indexer<Entry<T>>,
    /// Held while entries are written or removed as expired, so that an entry that was just rewritten is never removed
    /// because of the age of its predecessor.
    writing: Mutex<()>,
    has_expired: Box<Policy<T>>,
}

/// An object and the time it was written.
struct Entry<T> {
    object: Arc<T>,
    written: Instant,
}

impl<T: Object> Object for Entry<T> {
    fn key(&self) -> KeyRef<'_> {
        self.object.key()
    }

    fn resource_version(&self) -> ResourceVersion {
        self.object.resource_version()
    }

    fn uid(&self) -> Option<&str> {
        self.object.uid()
    }

    fn has_same_content(&self, other: &Self) -> Option<bool> {
        self.object.has_same_content(&other.object)
    }

    fn labels(&self) -> Labels<'_> {
        self.object.labels()
    }
}

impl<T: Object> Entry<T> {
    fn now(object: Arc<T>) -> Arc<Self> {
        Arc::new(Self { object, written: Instant::now() })
    }
}

/// Converts a delta to one of an entry written now.
fn entry<T: Object>(delta: Delta<T>) -> Delta<Entry<T>> {
    match delta {
        Delta::Added(object) => Delta::Added(Entry::now(object)),
        Delta::Updated(object) => Delta::Updated(Entry::now(object)),
        Delta::Replaced(object) => Delta::Replaced(Entry::now(object)),
        Delta::Deleted(tombstone) => Delta::Deleted(tombstone.map(Entry::now)),
        Delta::Left(object) => Delta::Left(Entry::now(object)),
        Delta::ReplacedAll(list) => {
            let Replacement { part, objects, resource_version, undelivered, unidentified, .. } = *list;
            let entries = objects.into_iter().map(Entry::now).collect();
            let list = Replacement::new(entries, resource_version).part(part).undelivered(undelivered);
            Delta::ReplacedAll(Box::new(list.unidentified(unidentified)))
        }
        Delta::Bookmark { part, resource_version } => Delta::Bookmark { part, resource_version },
        // A resync writes nothing, so it does not reset the age of any entry.
        _ => Delta::SyncAll,
    }
}

impl<T: Object> ExpiringStore<T> {
    /// Creates a store whose entries have this time to live; zero means that they never expire.
    #[doc(alias("NewTTLStore", "TTLPolicy"))]
    pub fn new(time_to_live: Duration) -> Self {
        Self::with_policy(move |_, age| !time_to_live.is_zero() && age > time_to_live)
    }

    /// Creates a store that calls this function with an object and its age to decide whether it has expired. No lock is
    /// held during the call; if the function panics, the object has not expired.
    #[doc(alias("ExpirationPolicy", "NewExpirationStore"))]
    pub fn with_policy(has_expired: impl Fn(&T, Duration) -> bool + Send + Sync + 'static) -> Self {
        Self { entries: Indexer::new(), writing: Mutex::new(()), has_expired: Box::new(has_expired) }
    }

    /// Returns the object with this key, unless it has expired. O(1).
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        let entry = self.entries.get(key)?;
        self.alive(&entry).then(|| entry.object.clone())
    }

    /// Removes all expired entries. Returns their number. O(n).
    pub fn remove_expired(&self) -> usize {
        self.entries.snapshot().iter().filter(|entry| !self.alive(entry)).count()
    }

    fn all_alive(&self) -> Vec<Arc<Entry<T>>> {
        let entries = self.entries.list().into_iter();
        let (alive, expired): (Vec<_>, Vec<_>) = entries.partition(|entry| self.alive(entry));
        expired.into_iter().for_each(discard);
        alive
    }

    /// Returns whether the entry has not expired. Removes an expired entry, unless it was rewritten meanwhile.
    fn alive(&self, entry: &Arc<Entry<T>>) -> bool {
        let age = entry.written.elapsed();
        if !contain(|| (self.has_expired)(&entry.object, age)).unwrap_or(false) {
            return true;
        }
        let writing = self.writing.lock();
        let stored = self.entries.get(entry.key());
        let removed = match stored {
            Some(stored) if Arc::ptr_eq(&stored, entry) => self.entries.delete_by_key(entry.key()),
            other => other,
        };
        drop(writing);
        removed.into_iter().for_each(discard);
        false
    }
}

impl<T: Object> Sink<T> for ExpiringStore<T> {
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, Error> {
        let keep_alive = deltas.clone();
        let entries: Deltas<Entry<T>> = deltas.into_iter().map(entry).collect();
        let writing = self.writing.lock();
        let applied = self.entries.apply(entries);
        drop(writing);
        applied.changes.into_iter().for_each(discard_change);
        // Kept alive until here, so that no object of the deltas is dropped under the lock.
        keep_alive.into_iter().for_each(discard_delta);
        Ok(applied.errors)
    }
}

impl<T: Object> KnownObjects<T> for ExpiringStore<T> {
    fn keys(&self) -> Vec<ObjectKey> {
        self.all_alive().iter().filter_map(|entry| entry.key().try_into().ok()).collect()
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        self.get(key)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Arc<T>)) {
        self.all_alive().iter().for_each(|entry| visit(&entry.object));
    }
}

impl<T: Object> Store<T> for ExpiringStore<T> {
    fn list(&self) -> Vec<Arc<T>> {
        self.all_alive().iter().map(|entry| entry.object.clone()).collect()
    }

    fn resource_versions(&self) -> Versions {
        self.entries.resource_versions()
    }

    /// O(n): checks the age of every entry.
    fn len(&self) -> usize {
        self.all_alive().len()
    }
}

impl<T: Object> std::fmt::Debug for ExpiringStore<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExpiringStore").field("entries", &self.entries.len()).finish()
    }
}
