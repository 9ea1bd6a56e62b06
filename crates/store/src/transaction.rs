//! Writes, and what they changed.

use std::sync::Arc;

use kinformer_core::{Report, Tombstone};

/// One write to an [`Indexer`](crate::Indexer), alone or as part of a batch.
///
/// Follows client-go 1.37 (`Transaction`).
#[derive(Debug)]
pub enum Transaction<T> {
    /// The object was added.
    Add(Arc<T>),
    /// The object was changed.
    Update(Arc<T>),
    /// The object is gone.
    Delete(Tombstone<T>),
}

impl<T> Clone for Transaction<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Add(object) => Self::Add(object.clone()),
            Self::Update(object) => Self::Update(object.clone()),
            Self::Delete(tombstone) => Self::Delete(tombstone.clone()),
        }
    }
}

/// What a write made of one object: both states as they are or were stored.
#[derive(Debug)]
#[non_exhaustive]
pub struct Change<T> {
    /// The state before; `None` if the object was not there.
    pub old: Option<Arc<T>>,
    /// The state since; `None` if the object is not there any more.
    pub new: Option<Arc<T>>,
}

/// What a batch or a replace changed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Applied<T> {
    /// Each change, in the order in which it was applied.
    pub changes: Vec<Change<T>>,
    /// What was wrong with single objects.
    pub report: Report,
}
