//! Giving back what a peak has left behind.

use std::mem;
use std::sync::Arc;

use kinformer_core::Object;

use crate::indexer::Indexer;
use crate::roots::{Edit, Roots, SLOT_LEAF, Writer};
use crate::sync::MutexGuard;
use crate::tree::{Tree, is_sparse};

impl<T: Object> Edit<'_, T> {
    /// Whether the state is to be compacted. O(number of indexes).
    ///
    /// An index alone is a reason only if it has at least a quarter as many numbers as there are objects: so a
    /// compaction, which is O(objects), comes after a number of writes in proportion to it.
    pub(crate) fn is_sparse(&self) -> bool {
        let objects = self.roots.len;
        is_sparse(objects, self.writer.next as usize)
            || (self.roots.indexes.iter().zip(&self.writer.indexes))
                .any(|(index, writer)| writer.is_sparse(index, objects / 4))
    }
}

impl<T: Object> Indexer<T> {
    /// Ends a write whose state is published. Compacts that state if it is sparse.
    pub(crate) fn release(&self, mut writer: MutexGuard<'_, Writer>, sparse: bool) {
        let old = if sparse { self.compact(&mut writer) } else { None };
        drop(writer);
        drop(old);
    }

    /// Builds the same state with slots and buckets numbered from 0 and publishes it in place of the one there is, with
    /// the writer's lock held and readers undisturbed. Returns the old state, to be dropped without a lock.
    ///
    /// Not while indexes are being filled, which goes by the slots.
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
    /// The same state without gaps between its numbers. Asks objects nothing.
    fn compacted(&self, writer: &mut Writer) -> Self {
        let mut slots = Tree::default();
        let mut next = 0;
        // By old slot: the new one. What is at the place of an empty slot is never looked up.
        let mut moved = vec![0; writer.next as usize];
        for leaf in 0..self.slots.leaves() {
            let objects = self.slots.leaf(leaf).into_iter().flat_map(|leaf| leaf.iter()).enumerate();
            for (at, object) in objects {
                let (Some(object), Some(to)) = (object, moved.get_mut(leaf * SLOT_LEAF + at)) else {
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
