//! What can go wrong with a store.

use std::sync::Arc;

use kinformer_core::ResourceVersion;

/// What a store reports.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no index of this name.
    #[error("there is no index {name:?}; there is {}", list(.known))]
    UnknownIndex {
        /// The name that was asked for.
        name: String,
        /// The indexes that there are.
        known: Vec<Arc<str>>,
    },
    /// An index of this name is there already. Nothing has changed.
    #[error("there is already an index {name:?}")]
    IndexerConflict {
        /// The name.
        name: Arc<str>,
    },
    /// The store has been stopped: it will not come to reflect the version that was waited for.
    #[error("the store was stopped at version {reached:?}, before it reflected version {wanted:?}")]
    Stopped {
        /// The version that was waited for.
        wanted: ResourceVersion,
        /// The version that the store reflects.
        reached: ResourceVersion,
    },
    /// The deadline has passed.
    #[error("version {wanted:?} was not reflected in time; the store is at version {reached:?}")]
    DeadlineExceeded {
        /// The version that was waited for.
        wanted: ResourceVersion,
        /// The version that the store reflects.
        reached: ResourceVersion,
    },
    /// It cannot be known whether the store reflects this version: one of the two is no number.
    #[error("version {wanted:?} cannot be compared with the store's version {reached:?}")]
    Incomparable {
        /// The version that was waited for.
        wanted: ResourceVersion,
        /// The version that the store reflects.
        reached: ResourceVersion,
    },
    /// An error about an object.
    #[error(transparent)]
    Object(#[from] kinformer_core::Error),
}

fn list(names: &[Arc<str>]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
