//! Iterates over the objects of a snapshot.

use std::sync::Arc;

use kinformer_core::Object;
use kinformer_store::{Cursor, Snapshot};

/// The number of references that are held at once.
const PAGE: usize = 1024;

/// An iterator that owns its snapshot and holds references to one page of objects.
pub(crate) struct Objects<T> {
    snapshot: Snapshot<T>,
    /// The start of the next page; `None` after the last page.
    next: Option<Option<Cursor>>,
    page: std::vec::IntoIter<Arc<T>>,
    left: usize,
}

impl<T: Object> Objects<T> {
    pub(crate) fn new(snapshot: Snapshot<T>) -> Self {
        let left = snapshot.len();
        Self { snapshot, next: Some(None), page: Vec::new().into_iter(), left }
    }
}

impl<T: Object> Iterator for Objects<T> {
    type Item = Arc<T>;

    fn next(&mut self) -> Option<Arc<T>> {
        if self.page.len() == 0 {
            let page = self.snapshot.page(self.next?, PAGE);
            self.next = page.next.map(Some);
            self.page = page.objects.into_iter().cloned().collect::<Vec<_>>().into_iter();
        }
        let object = self.page.next()?;
        self.left -= 1;
        Some(object)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T: Object> ExactSizeIterator for Objects<T> {}
