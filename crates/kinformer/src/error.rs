//! What can go wrong.

use std::sync::Arc;

use crate::SelectorError;

/// An error of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store has no object with this key.
    #[error("{resource} \"{key}\" not found")]
    NotFound {
        /// Of which resource, or of which type where the lister was not told the resource.
        resource: Arc<str>,
        /// The key that was asked for, as `namespace/name` or `name`.
        key: String,
    },
    /// A label selector is none.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}
