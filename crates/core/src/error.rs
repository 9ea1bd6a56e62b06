//! What can go wrong, and how it is told.

use std::fmt;

use crate::{KeyError, ObjectKey, PartId};

/// An error of user code: whatever it gave, or the message of its panic.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a layer reports of an object or an operation.
///
/// Returned as `Err`, it means that nothing has changed. As part of a [`Report`] it is about one object,
/// and everything else has been applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object has no valid key. It is left out.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The object panicked when it was asked for its key, UID, version or labels. It is left out; what was known of it
    /// stays.
    #[error("{} panicked when it was asked for its key, UID, version or labels: {source}", named(key))]
    Accessor {
        /// Which object, if it gave its key.
        key: Option<ObjectKey>,
        /// The message of the panic.
        source: BoxError,
    },
    /// The transform failed. The object is left out; what was known of it stays.
    #[error("transform of {key} failed: {source}")]
    Transform {
        /// Which object.
        key: ObjectKey,
        /// What the transform returned, or the message of its panic.
        source: BoxError,
    },
    /// Two objects of one list have the same key; the last one counts.
    #[error("{key} is in the list more than once; the last one counts")]
    Duplicate {
        /// Which key.
        key: ObjectKey,
    },
    /// The object is not of the part of the collection whose source brought it, or the transform has given it another
    /// part. It is left out; of a deletion, its state is.
    #[error("{} is not of {}", named(key), part.map_or("any part".into(), |part| format!("{part}, whose source brought it")))]
    OtherPart {
        /// Which object, if it gave its key.
        key: Option<ObjectKey>,
        /// The part of the source; `None` if the object is in none of the parts.
        part: Option<PartId>,
    },
    /// The sink has reached its bound. A queue takes the operation once it is [ready](crate::Sink::ready), a store once
    /// objects have been deleted.
    #[error("{} not taken: full (limit {limit})", key.as_ref().map_or("the operation was".into(), |key| format!("{key} was")))]
    Full {
        /// Which object was not taken; `None` for an operation on all objects, and if the object did not give its key.
        key: Option<ObjectKey>,
        /// The bound.
        limit: usize,
    },
    /// The sink has been closed.
    #[error("closed")]
    Closed,
    /// An error of the store or the queue that reports it: see [`Self::downcast_ref`].
    #[error(transparent)]
    Other(BoxError),
}

impl Error {
    /// An error of a store's or a queue's own.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }

    /// The error of a store or a queue, if it is an [other](Self::Other) one and of this type: that crate's documentation
    /// names the type.
    ///
    /// ```
    /// let full = kinformer_core::Error::other(std::io::Error::from(std::io::ErrorKind::StorageFull));
    /// let error = full.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    /// assert_eq!(error, Some(std::io::ErrorKind::StorageFull));
    /// ```
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Other(error) => error.downcast_ref(),
            _ => None,
        }
    }
}

fn named(key: &Option<ObjectKey>) -> &dyn fmt::Display {
    key.as_ref().map_or(&"an object of unknown key", |key| key)
}

/// What was wrong with single objects of an operation that was otherwise applied. Usually nothing.
#[derive(Debug, Default)]
#[must_use = "some of the objects may have been left out"]
pub struct Report {
    problems: Vec<Problem>,
}

/// One entry of a [`Report`].
#[derive(Debug, thiserror::Error)]
#[error("entry {position}: {error}")]
#[non_exhaustive]
pub struct Problem {
    /// Where in the operation the object was, from 0. The objects of a list count one by one, so in an operation with
    /// one list this is the position in that list; see [`Delta::positions`](crate::Delta::positions).
    pub position: usize,
    /// Whether the object was left out: nothing is stored or queued for it. Otherwise it was applied, with the defect
    /// that the error describes.
    pub left_out: bool,
    /// What was wrong with it.
    #[source]
    pub error: Error,
}

impl Report {
    /// Adds a problem with the object at `position` of the operation, which was left out.
    pub fn push(&mut self, position: usize, error: impl Into<Error>) {
        self.problems.push(Problem { position, left_out: true, error: error.into() });
    }

    /// Adds a problem with the object at `position`, which was applied all the same.
    pub fn push_applied(&mut self, position: usize, error: impl Into<Error>) {
        self.problems.push(Problem { position, left_out: false, error: error.into() });
    }

    /// Adds the problems of another part of the same operation.
    pub fn extend(&mut self, other: Self) {
        self.problems.extend(other.problems);
    }

    /// Adds the problems of a part of the same operation that begins at `position`.
    pub fn extend_at(&mut self, position: usize, other: Self) {
        let moved = |problem: Problem| Problem { position: position + problem.position, ..problem };
        self.problems.extend(other.problems.into_iter().map(moved));
    }

    /// Whether there was nothing to report.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// The problems, in the order in which they were met.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// For callers to whom any problem is a failure.
    ///
    /// # Errors
    /// The first problem, if there is one. What was applied stays applied.
    pub fn into_result(self) -> Result<(), Problem> {
        self.problems.into_iter().next().map_or(Ok(()), Err)
    }

    /// The report of an operation with one object, for callers to whom it is a failure that the object was left out.
    ///
    /// # Errors
    /// Why the object was left out. Nothing has changed.
    pub fn of_one(mut self) -> Result<Self, Error> {
        match self.problems.iter().position(|problem| problem.left_out) {
            Some(at) => Err(self.problems.swap_remove(at).error),
            None => Ok(self),
        }
    }
}

impl IntoIterator for Report {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.problems.into_iter()
    }
}
