//! The decisions of a deletion.

use super::Object;

/// What a deletion does with an object.
pub(super) enum Step {
    /// Nothing: it is being deleted already.
    Pending,
    /// Nothing: it has its finalizers already.
    Held,
    /// Stores this state, and then removes the object if nothing keeps it.
    Update(Object, ThenRemove),
    /// Removes the object as it is.
    Remove,
}

/// Whether a deletion removes the object that it has updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThenRemove {
    Yes,
    No,
}

/// The grace period of a deletion.
pub(super) enum Grace {
    /// The kind has none, or it is over.
    None,
    /// It runs already, and is not to be shortened.
    Pending,
    /// The object has this many seconds from now on.
    Seconds(i64),
}
