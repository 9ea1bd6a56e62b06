//! Maps from keys.

use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashMap};
use kinformer_core::{KeyRef, ObjectKey};

pub(crate) type KeyMap<V> = HashMap<ObjectKey, V, RandomState>;

/// A key to be looked up in a [`KeyMap`]: a borrowed key has the hash of an owned one.
#[derive(Hash)]
pub(crate) struct Lookup<'a>(pub(crate) KeyRef<'a>);

impl Equivalent<ObjectKey> for Lookup<'_> {
    fn equivalent(&self, key: &ObjectKey) -> bool {
        key.as_key() == self.0
    }
}

/// Capacity that a queue keeps when it has been drained.
pub(crate) const KEPT: usize = 1024;

/// Gives back what a burst has left of an emptied map.
pub(crate) fn shrink<V>(map: &mut KeyMap<V>) {
    if map.is_empty() && map.capacity() > KEPT {
        map.shrink_to(KEPT);
    }
}
