//! The deletion of a collection, which webhooks can interrupt.

use super::list::Page;

/// How far the deletion of a collection is.
#[derive(Default)]
pub(super) struct Collection {
    /// The objects that are deleted.
    pub(super) page: Option<Page>,
    pub(super) deleted: usize,
}
