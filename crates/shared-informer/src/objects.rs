//! A snapshot's objects, one by one.

use std::sync::Arc;

use kinformer_core::Object;
use kinformer_store::{Cursor, Snapshot};

/// How many references are taken at once.
const PAGE: usize = 1024;

/// Owns the snapshot it walks; holds references to one page of it only.
pub(crate) struct Objects<T> {
    snapshot: Snapshot<T>,
    /// Where the next page begins; `None` behind the last.
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
