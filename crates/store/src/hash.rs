//! Hashes of keys and index values, 32 bits of them.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use kinformer_core::KeyRef;

pub(crate) fn hash_key(seed: &RandomState, key: KeyRef<'_>) -> u32 {
    fold(seed.hash_one(key))
}

pub(crate) fn hash_bytes(seed: &RandomState, value: &[u8]) -> u32 {
    fold(seed.hash_one(value))
}

fn fold(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}
