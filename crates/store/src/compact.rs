//! Compaction: releasing memory after a peak.

use std::mem;
use std::sync::Arc;

use kinformer_core::Object;

use crate::indexer::Indexer;
use crate::roots::{Edit, Roots, SLOT_LEAF, Writer};
use crate::sync::MutexGuard;
use crate::tree::{Tree, is_sparse};

impl<T: Object> Edit<'_, T> {
    /// Returns whether the state should be compacted. O(number of indexes).
    ///
    /// A sparse index alone triggers a compaction only if it has at least a quarter as many numbers as there are
    /// objects. A compaction, which is O(objects), is thus amortized over a proportional number of writes.
    pub(crate) fn is_sparse(&self) -> bool {
        let objects = self.roots.len;
        is_sparse(objects, self.writer.next as usize)
            || (self.roots.indexes.iter().zip(&self.writer.indexes))
                .any(|(index, writer)| writer.is_sparse(index, objects / 4))
    }
}

impl<T: Object> Indexer<T> {
    /// Ends a write whose state has been published. Compacts that state if it is sparse.
    pub(crate) fn release(&self, mut writer: MutexGuard<'_, Writer>, sparse: bool) {
        let old = if sparse { self.compact(&mut writer) } else { None };
        drop(writer);
        drop(old);
    }

    /// Builds the same state with slots and buckets numbered from 0, and publishes it in place of the current one. The
    /// writer's lock is held; readers are not affected. Returns the old state, to be dropped without a lock.
    ///
    /// Does nothing while indexes are being filled, because filling iterates over the slots.
    fn compact(&self, writer: &mut Writer) -> Option<Arc<Roots<T>>> {
        let before = self.shared.roots.read().clone();
        if !before.functions.ready.iter().all(|ready| *ready) {
            return None;
        }
        let after = Arc::new(before.compacted(writer));
        Some(mem::replace(&mut *self.shared.roots.write(), after))
    }
}

impl<T: Object> Roots<T> {
    /// Returns the same state without gaps between slot numbers. Calls no accessor.
    fn compacted(&self, writer: &mut Writer) -> Self {
        let mut slots = Tree::default();
        let mut next = 0;
        // Maps old slots to new ones. Entries of empty slots are never read.
        let mut moved = vec![0; writer.next as usize];
        for leaf in 0..self.slots.leaves() {
            let objects = self.slots.leaf(leaf).into_iter().flat_map(|leaf| leaf.iter()).enumerate();
            for (offset, object) in objects {
                let (Some(object), Some(to)) = (object, moved.get_mut(leaf * SLOT_LEAF + offset)) else {
                    continue;
                };
                *slots.get_mut(next) = Some(object.clone());
                *to = next;
                next += 1;
            }
        }
        let new_slot = |old: u32| moved.get(old as usize).copied().unwrap_or_default();
        let compacted = self.indexes.iter().map(|index| index.compacted(&self.hasher, new_slot));
        let (indexes, writers) = compacted.unzip::<_, _, Vec<_>, Vec<_>>();
        *writer = Writer { free: Vec::new(), next, indexes: writers };
        Self { slots, points: self.points.renumbered(new_slot), indexes: Arc::new(indexes), ..self.clone() }
    }
}
