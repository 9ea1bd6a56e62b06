//! Adding indexes to a store that contains objects.

use std::sync::Arc;

use kinformer_core::{Object, PartialErrors};

use crate::Error;
use crate::evaluated::Evaluated;
use crate::index::{Index, IndexWriter};
use crate::index_function::{IndexFunction, Indexers, join};
use crate::indexer::Indexer;
use crate::roots::{Edit, Functions, SLOT_LEAF};
use crate::write::index_error;

impl<T: Object> Indexer<T> {
    /// Adds indexes, at any time. When this returns, the indexes contain all objects; they become available to readers
    /// all at once.
    ///
    /// Every write updates the new indexes from the start, while objects stored before are added in small steps. So
    /// this terminates regardless of concurrent writes, and blocks other writers only briefly. The returned errors
    /// name the objects for which a function failed; their positions count the objects stored at the start.
    ///
    /// # Errors
    /// [`Error::IndexerConflict`]: a name is repeated or in use. Nothing has changed.
    ///
    /// Follows client-go 0.37 (`AddIndexers`).
    pub fn add_indexers(
        &self,
        indexers: impl IntoIterator<Item = (impl Into<Arc<str>>, IndexFunction<T>)>,
    ) -> Result<PartialErrors, Error> {
        let indexers: Indexers<T> = indexers.into_iter().collect();
        let added = indexers.as_slice().len();
        // Kept here as well, so that rejected functions are dropped without the locks.
        let Some(first) = self.start_filling(indexers.clone())? else { return Ok(PartialErrors::default()) };
        let errors = self.fill(first, added);
        self.publish(first, added);
        Ok(errors)
    }

    /// Makes writers maintain the indexes from now on. Returns the number of the first new index.
    fn start_filling(&self, indexers: Indexers<T>) -> Result<Option<usize>, Error> {
        let mut writer = self.writer.lock();
        let mut roots = self.shared.roots.write();
        let first = roots.functions.all.len();
        let all = join(&roots.functions.all, indexers)?;
        if all.len() == first {
            return Ok(None);
        }
        writer.indexes.resize_with(all.len(), IndexWriter::default);
        let roots = Arc::make_mut(&mut roots);
        Arc::make_mut(&mut roots.indexes).resize_with(all.len(), Index::default);
        let mut ready = roots.functions.ready.clone();
        ready.resize(all.len(), false);
        roots.functions = Arc::new(Functions { all, ready });
        Ok(Some(first))
    }

    /// Adds the objects stored before, one leaf of slots at a time.
    fn fill(&self, first: usize, added: usize) -> PartialErrors {
        let mut errors = PartialErrors::default();
        let snapshot = self.snapshot();
        let roots = snapshot.roots();
        let new: &[(Arc<str>, IndexFunction<T>)] =
            roots.functions.all.get(first..first + added).unwrap_or_default();
        for number in 0..roots.slots.leaves() {
            let Some(leaf) = roots.slots.leaf(number) else { continue };
            let mut values = Evaluated::default();
            for object in leaf.iter() {
                match object {
                    Some(object) => {
                        values.evaluate(new, object, |index, source| {
                            errors.push_applied(index_error(&**object, index, source));
                        });
                    }
                    None => values.skip(added),
                }
            }
            let mut writer = self.writer.lock();
            let mut roots = self.shared.roots.write();
            let mut edit = Edit { roots: Arc::make_mut(&mut roots), writer: &mut writer };
            for (offset, object) in leaf.iter().enumerate() {
                let slot = (number * SLOT_LEAF + offset) as u32;
                // Objects written since then have updated their values themselves.
                let unchanged = object.as_ref().is_some_and(|object| {
                    edit.roots.object(slot).is_some_and(|current| Arc::ptr_eq(current, object))
                });
                if unchanged {
                    edit.set_values(first..first + added, slot, &values, offset * added);
                }
            }
        }
        errors
    }

    fn publish(&self, first: usize, added: usize) {
        let _writer = self.writer.lock();
        let mut roots = self.shared.roots.write();
        let roots = Arc::make_mut(&mut roots);
        let Functions { all, mut ready } = Functions::clone(&roots.functions);
        ready.iter_mut().skip(first).take(added).for_each(|ready| *ready = true);
        roots.functions = Arc::new(Functions { all, ready });
    }
}
