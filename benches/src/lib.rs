//! Shared parts of the benches: objects, an indexer with them, and the baseline.
//!
//! Every figure is a ratio to the baseline measured in the same run: a lock around hash maps, laid out like client-go
//! 0.37 (`threadSafeMap`: a map of objects, and for each index a map of values to sets of keys; a list looks up each
//! key under the lock).

mod locked;
mod names;
mod pods;
mod protobuf;

pub use locked::Locked;
pub use pods::{INDEXES, Pod, filled, index_name, indexer, key, keys, moved, pick, pod};
pub use protobuf::field;
