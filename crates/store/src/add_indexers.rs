//! Adding indexes to a store that holds objects.

use std::sync::Arc;

use kinformer_core::{Object, Report};

use crate::Error;
use crate::evaluated::Evaluated;
use crate::index::{Index, IndexWriter};
use crate::index_function::{IndexFunction, Indexers, join};
use crate::indexer::Indexer;
use crate::roots::{Edit, Functions, SLOT_LEAF};
use crate::write::index_error;

impl<T: Object> Indexer<T> {
    /// Adds indexes, at any time. All objects are in them when this returns; the indexes can be asked from
    /// then on, all at once.
    ///
    /// From the start every write keeps the new indexes up to date, while the objects that were there before
    /// are brought in a few at a time: so this ends however much is written meanwhile, and holds up nobody. The
    /// report names objects for which a function failed; its positions count the objects that were there.
    ///
    /// # Errors
    /// [`Error::IndexerConflict`] when a name occurs twice or is taken; nothing has changed.
    ///
    /// Follows client-go 1.37 (`AddIndexers`).
    pub fn add_indexers(
        &self,
        indexers: impl IntoIterator<Item = (impl Into<Arc<str>>, IndexFunction<T>)>,
    ) -> Result<Report, Error> {
        let indexers: Indexers<T> = indexers.into_iter().collect();
        let added = indexers.as_slice().len();
        // Also held here: functions that are refused are dropped without the locks.
        let Some(first) = self.start_filling(indexers.clone())? else { return Ok(Report::default()) };
        let report = self.fill(first, added);
        self.open(first, added);
        Ok(report)
    }

    /// Writers keep the indexes from now on; returns the number of the first.
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

    /// Brings in what was there before, one leaf of slots at a time.
    fn fill(&self, first: usize, added: usize) -> Report {
        let mut report = Report::default();
        let snapshot = self.snapshot();
        let roots = snapshot.roots();
        let new: &[(Arc<str>, IndexFunction<T>)] =
            roots.functions.all.get(first..first + added).unwrap_or_default();
        let mut position = 0;
        for number in 0..roots.slots.leaves() {
            let Some(leaf) = roots.slots.leaf(number) else { continue };
            let mut values = Evaluated::default();
            for object in leaf.iter() {
                match object {
                    Some(object) => {
                        values.ask(new, object, |index, source| {
                            report.push_applied(position, index_error(&**object, index, source));
                        });
                        position += 1;
                    }
                    None => values.skip(added),
                }
            }
            let mut writer = self.writer.lock();
            let mut roots = self.shared.roots.write();
            let mut edit = Edit { roots: Arc::make_mut(&mut roots), writer: &mut writer };
            for (at, object) in leaf.iter().enumerate() {
                let slot = (number * SLOT_LEAF + at) as u32;
                // What has been written since then has brought its values along.
                let as_before = object.as_ref().is_some_and(|object| {
                    edit.roots.at(slot).is_some_and(|current| Arc::ptr_eq(current, object))
                });
                if as_before {
                    edit.set_values(first..first + added, slot, &values, at * added);
                }
            }
        }
        report
    }

    fn open(&self, first: usize, added: usize) {
        let _writer = self.writer.lock();
        let mut roots = self.shared.roots.write();
        let roots = Arc::make_mut(&mut roots);
        let Functions { all, mut ready } = Functions::clone(&roots.functions);
        ready.iter_mut().skip(first).take(added).for_each(|ready| *ready = true);
        roots.functions = Arc::new(Functions { all, ready });
    }
}
