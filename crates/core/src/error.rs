//! Errors of operations and of individual objects.

use std::fmt;

use crate::internal::contain;
use crate::{BoxError, KeyError, KeyRef, ObjectKey, PartId};

/// The error of an operation or of one object.
///
/// As the `Err` of an operation, it means that nothing has changed. In a [`PartialErrors`], it concerns one object, and
/// everything else was applied.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object has no valid key. It is left out.
    #[error("object {index}: {source}")]
    Key {
        /// The index of the object in the list or batch that was passed; 0 if it was passed alone.
        index: usize,
        /// The reason.
        source: KeyError,
    },
    /// The object's key, UID, version or label accessor panicked. The object is left out; its known state is kept.
    #[error("the accessors of {object} panicked (key, UID, version or labels): {source}")]
    Accessor {
        /// The object.
        object: ObjectName,
        /// The message of the panic.
        source: BoxError,
    },
    /// The transform failed. The object is left out; its known state is kept.
    #[error("transform of {key} failed: {source}")]
    Transform {
        /// The object's key.
        key: ObjectKey,
        /// The error returned by the transform, or the message of its panic.
        source: BoxError,
    },
    /// Two objects of one list have the same key; the last one is used.
    #[error("{key} is in the list more than once; using the last one")]
    Duplicate {
        /// The repeated key.
        key: ObjectKey,
    },
    /// The object does not belong to the part of the collection whose source delivered it, or the transform moved it to
    /// another part. The object is left out; for a deletion, only its state is left out.
    #[error("{object} does not belong to {}", part.map_or("any part".into(), |part| format!("{part}, whose source delivered it")))]
    OtherPart {
        /// The object.
        object: ObjectName,
        /// The part of the source; `None` if the object belongs to none of the parts.
        part: Option<PartId>,
    },
    /// The sink is at its bound. A queue accepts the operation once it is [ready](crate::Sink::ready), a store once objects
    /// have been deleted.
    #[error("{} rejected: full (limit {limit})", key.as_ref().map_or("operation".into(), |key| key.to_string()))]
    Full {
        /// The key of the rejected object; `None` for an operation on all objects, and if the object's accessor
        /// returned no key.
        key: Option<ObjectKey>,
        /// The bound.
        limit: usize,
    },
    /// The sink is closed.
    #[error("closed")]
    Closed,
    /// An error specific to a store or a queue: see [`Self::downcast_ref`].
    #[error(transparent)]
    Other(BoxError),
}

impl Error {
    /// Wraps an error specific to a store or a queue.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }

    /// Returns the error specific to a store or a queue, if this is [`Self::Other`] with an error of this type. The
    /// documentation of that crate names the type.
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

    /// Sets the index of the object in the list or batch that was passed, if the error names the object by its index.
    #[must_use]
    pub fn with_index(mut self, index: usize) -> Self {
        if let Self::Key { index: own, .. }
        | Self::Accessor { object: ObjectName::Index(own), .. }
        | Self::OtherPart { object: ObjectName::Index(own), .. } = &mut self
        {
            *own = index;
        }
        self
    }

    /// Returns the object that the error is about; `None` if it is about the operation, or is [`Self::Other`].
    pub fn object(&self) -> Option<ObjectName> {
        match self {
            Self::Key { index, .. } => Some(ObjectName::Index(*index)),
            Self::Accessor { object, .. } | Self::OtherPart { object, .. } => Some(object.clone()),
            Self::Transform { key, .. } | Self::Duplicate { key } | Self::Full { key: Some(key), .. } => {
                Some(ObjectName::Key(key.clone()))
            }
            Self::Full { key: None, .. } | Self::Closed | Self::Other(_) => None,
        }
    }
}

impl From<KeyError> for Error {
    fn from(source: KeyError) -> Self {
        Self::Key { index: 0, source }
    }
}

/// The object that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectName {
    /// Its key.
    Key(ObjectKey),
    /// The index of an object without a readable key in the list or batch that was passed; 0 if it was passed alone.
    Index(usize),
}

impl ObjectName {
    /// Reads the key of an object whose accessor may panic. Without a valid key, the index is 0: see [`Error::with_index`].
    pub fn of<'a>(key: impl FnOnce() -> KeyRef<'a>) -> Self {
        let key = contain(|| ObjectKey::try_from(key()).ok());
        key.ok().flatten().map_or(Self::Index(0), Self::Key)
    }

    /// Returns the key, if it is known.
    pub fn key(self) -> Option<ObjectKey> {
        match self {
            Self::Key(key) => Some(key),
            Self::Index(_) => None,
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => fmt::Display::fmt(key, f),
            Self::Index(index) => write!(f, "object {index} (key unknown)"),
        }
    }
}

/// Errors of individual objects in an operation that was applied to all others. Usually empty.
#[doc(alias = "TransactionError")]
#[derive(Debug, Default)]
#[must_use = "some of the objects may have been left out"]
pub struct PartialErrors {
    errors: Vec<ObjectError>,
}

/// One entry of a [`PartialErrors`]: the error of one object.
#[derive(thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct ObjectError {
    /// Whether the object was left out, that is, neither stored nor queued. Otherwise it was applied, with the defect
    /// described by the error.
    pub left_out: bool,
    /// The error, which names the object.
    #[source]
    pub error: Error,
}

impl PartialErrors {
    /// Adds the error of an object that was left out.
    pub fn push(&mut self, error: impl Into<Error>) {
        self.errors.push(ObjectError { left_out: true, error: error.into() });
    }

    /// Adds the error of an object that was applied.
    pub fn push_applied(&mut self, error: impl Into<Error>) {
        self.errors.push(ObjectError { left_out: false, error: error.into() });
    }

    /// Adds the errors of another part of the same operation.
    pub fn extend(&mut self, other: Self) {
        self.errors.extend(other.errors);
    }

    /// Returns whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns the errors, in the order in which they occurred.
    pub fn errors(&self) -> &[ObjectError] {
        &self.errors
    }

    /// Treats any error as a failure of the operation.
    ///
    /// # Errors
    /// The first error. Everything that was applied stays applied.
    pub fn into_result(self) -> Result<(), ObjectError> {
        self.errors.into_iter().next().map_or(Ok(()), Err)
    }

    /// Treats a left-out object as a failure, for an operation on a single object.
    ///
    /// # Errors
    /// The error of the left-out object. Nothing has changed.
    #[inline]
    pub fn require_applied(self) -> Result<Self, Error> {
        if self.is_empty() { Ok(self) } else { self.applied_or_first_error() }
    }

    #[cold]
    fn applied_or_first_error(mut self) -> Result<Self, Error> {
        match self.errors.iter().position(|problem| problem.left_out) {
            Some(index) => Err(self.errors.swap_remove(index).error),
            None => Ok(self),
        }
    }
}

impl IntoIterator for PartialErrors {
    type Item = ObjectError;
    type IntoIter = std::vec::IntoIter<ObjectError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

crate::debug_as_message!(Error, ObjectError);
