//! Maps with object keys.

use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashMap};
use kinformer_core::{KeyRef, ObjectKey};

pub(crate) type KeyMap<V> = HashMap<ObjectKey, V, RandomState>;

/// A borrowed key to look up in a [`KeyMap`]. It has the same hash as the owned key.
#[derive(Hash)]
pub(crate) struct Lookup<'a>(pub(crate) KeyRef<'a>);

impl Equivalent<ObjectKey> for Lookup<'_> {
    fn equivalent(&self, key: &ObjectKey) -> bool {
        key.as_key() == self.0
    }
}

/// A key with its hash, which is computed once for each way through a queue.
#[derive(Clone)]
pub(crate) struct HashedKey {
    pub(crate) key: ObjectKey,
    pub(crate) hash: u64,
}

impl HashedKey {
    #[inline]
    pub(crate) fn is(&self, key: &ObjectKey, hash: u64) -> bool {
        self.hash == hash && self.key == *key
    }
}

/// The capacity that a drained queue retains.
pub(crate) const RETAINED: usize = 1024;

/// Releases the memory of an empty map after a burst.
pub(crate) fn shrink<V>(map: &mut KeyMap<V>) {
    if map.is_empty() && map.capacity() > RETAINED {
        map.shrink_to(RETAINED);
    }
}
