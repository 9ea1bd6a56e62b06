//! Applying a change of the parts.

use std::mem;
use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{Change, Error, Object, ObjectName, PartialErrors};

use crate::indexer::Indexer;
use crate::roots::{Edit, Roots, SLOT_LEAF, hash_key};
use crate::write::Applied;

impl<T: Object> Indexer<T> {
    /// Applies the present parts, after [`Parts::set`](kinformer_core::Parts::set) has changed them. The objects that belong
    /// to no part now leave the store, in one publication: a reader sees all of them or none. Each is a change of the type
    /// [`Left`](kinformer_core::Delta::Left). So does an object that does not [stay](kinformer_core::Partition::stays) in its new
    /// part. All other objects stay, also those that belong to another part now. A removed
    /// part has no version any more, that of a new part is unset, and waits for removed parts end.
    ///
    /// An object whose accessor panics stays and is reported. O(objects).
    ///
    /// ```
    /// use kinformer_core::{ByNamespace, Keyed, Parts};
    /// use kinformer_store::Indexer;
    ///
    /// let parts = Parts::new(ByNamespace::new(["team-a", "team-b"])).changeable();
    /// let pods = Indexer::builder().parts(parts.clone()).build()?;
    /// pods.add(Keyed::new("team-a/web".parse()?, 1))?;
    /// pods.add(Keyed::new("team-b/web".parse()?, 1))?;
    /// parts.set(Parts::new(ByNamespace::new(["team-b"])), vec![1.into()]);
    /// assert_eq!(pods.apply_parts().changes.len(), 1);
    /// assert_eq!(pods.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply_parts(&self) -> Applied<T> {
        let mut errors = PartialErrors::default();
        let mut writer = self.writer.lock();
        let before = self.shared.roots.read().clone();
        let leaving = self.leaving(&before, &mut errors);
        let mut after = Roots::clone(&before);
        after.versions.set_parts(self.shared.parts.ids());
        after.revision += u64::from(!leaving.is_empty());
        let revision = after.revision;
        let mut edit = Edit { roots: &mut after, writer: &mut writer };
        let left = leaving.into_iter().filter_map(|(hash, slot)| edit.remove(hash, slot));
        let changes = left.map(|object| Change::left(object).at_revision(revision)).collect();
        let sparse = edit.is_sparse();
        let mut roots = self.shared.roots.write();
        let replaced = mem::replace(&mut *roots, Arc::new(after));
        let reached = self.shared.waiters.reached(&roots.versions);
        drop(roots);
        self.release(writer, sparse);
        // The objects that left are in the changes, so only nodes are dropped here.
        drop((before, replaced));
        self.shared.waiters.published(reached);
        Applied { changes, errors, revision }
    }

    /// Returns the key hashes and the slots of the objects that belong to no part, or do not stay in their new one.
    fn leaving(&self, before: &Roots<T>, errors: &mut PartialErrors) -> Vec<(u32, u32)> {
        let mut leaving = Vec::new();
        for leaf in 0..before.slots.leaves() {
            let objects = before.slots.leaf(leaf).into_iter().flat_map(|leaf| leaf.iter());
            for (offset, object) in objects.enumerate() {
                let slot = (leaf * SLOT_LEAF + offset) as u32;
                let Some(object) = object else { continue };
                let leaves = || match self.shared.parts.of(object) {
                    Some(part) if before.versions.get(part).is_some() => None,
                    Some(_) if self.shared.parts.stays(object) => None,
                    _ => Some(hash_key(&before.hasher, object.key())),
                };
                match contain(leaves) {
                    Ok(hash) => leaving.extend(hash.map(|hash| (hash, slot))),
                    Err(source) => {
                        let object = ObjectName::of(|| object.key());
                        errors.push_applied(Error::Accessor { object, source });
                    }
                }
            }
        }
        leaving
    }
}
