//! A vector that is copied on write, piece by piece: the one structure that everything in a store is made of.

use std::sync::Arc;

/// Elements in one leaf.
pub(crate) const LEAF: usize = 32;
const FAN: usize = 64;

/// Elements in one branch of the root.
const BRANCH: usize = LEAF * FAN;

type Leaf<E> = [E; LEAF];
type Branch<E> = [Option<Arc<Leaf<E>>>; FAN];

/// A persistent vector in three levels: the root, 64 leaves to a branch, 32 elements to a leaf.
///
/// A clone is one reference count. A write copies only the leaf, the branch and the root that a clone still
/// shares, so at most 32 elements, 64 and `len / 2048` references; without a clone it writes in place.
/// Places that were never written, or whose leaf was emptied, read as the default and take no leaf.
pub(crate) struct CowVec<E> {
    root: Arc<Vec<Arc<Branch<E>>>>,
}

impl<E> Clone for CowVec<E> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone() }
    }
}

impl<E> Default for CowVec<E> {
    fn default() -> Self {
        Self { root: Arc::default() }
    }
}

impl<E: Clone + Default> CowVec<E> {
    pub(crate) fn get(&self, at: usize) -> Option<&E> {
        self.root.get(at / BRANCH)?.get(at / LEAF % FAN)?.as_ref()?.get(at % LEAF)
    }

    /// The element, to be written; the vector grows as far as needed.
    #[expect(
        clippy::indexing_slicing,
        reason = "the root has just been grown; the others are modulo the length"
    )]
    pub(crate) fn get_mut(&mut self, at: usize) -> &mut E {
        let root = Arc::make_mut(&mut self.root);
        while root.len() <= at / BRANCH {
            root.push(Arc::new([const { None }; FAN]));
        }
        let branch = Arc::make_mut(&mut root[at / BRANCH]);
        let leaf =
            branch[at / LEAF % FAN].get_or_insert_with(|| Arc::new(std::array::from_fn(|_| E::default())));
        &mut Arc::make_mut(leaf)[at % LEAF]
    }

    /// Gives back the leaf around `at` if nothing in it is `used`.
    pub(crate) fn free_leaf_unless(&mut self, at: usize, used: impl FnMut(&E) -> bool) {
        let place = self.root.get(at / BRANCH).and_then(|branch| branch.get(at / LEAF % FAN));
        let Some(Some(leaf)) = place else { return };
        if leaf.iter().any(used) {
            return;
        }
        let branch = Arc::make_mut(&mut self.root).get_mut(at / BRANCH).map(Arc::make_mut);
        if let Some(place) = branch.and_then(|branch| branch.get_mut(at / LEAF % FAN)) {
            *place = None;
        }
    }

    /// All leaves from that of `from` on, each with the number of its first element.
    pub(crate) fn leaves(&self, from: usize) -> impl Iterator<Item = (usize, &Leaf<E>)> {
        let first = from / LEAF;
        self.root
            .iter()
            .enumerate()
            .skip(first / FAN)
            .flat_map(move |(i, branch)| {
                let leaves =
                    branch.iter().enumerate().filter_map(|(j, leaf)| leaf.as_deref().map(|leaf| (j, leaf)));
                leaves.map(move |(j, leaf)| ((i * FAN + j) * LEAF, leaf))
            })
            .skip_while(move |(at, _)| at / LEAF < first)
    }

    /// Shows every element by reference, without a bounds check for each.
    pub(crate) fn for_each<'a>(&'a self, mut visit: impl FnMut(&'a E)) {
        for branch in self.root.iter() {
            for leaf in branch.iter().flatten() {
                leaf.iter().for_each(&mut visit);
            }
        }
    }

    /// Leaves that differ between two states of one vector, by their first element's number. A leaf that both
    /// share is not looked into.
    pub(crate) fn changed_leaves(&self, older: &Self) -> Vec<usize> {
        let mut changed = Vec::new();
        for i in 0..self.root.len().max(older.root.len()) {
            let (new, old) = (self.root.get(i), older.root.get(i));
            if let (Some(new), Some(old)) = (new, old)
                && Arc::ptr_eq(new, old)
            {
                continue;
            }
            for j in 0..FAN {
                let leaf = |branch: Option<&Arc<Branch<E>>>| branch?.get(j)?.as_ref().map(Arc::as_ptr);
                if leaf(new) != leaf(old) {
                    changed.push((i * FAN + j) * LEAF);
                }
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn clones_keep_what_they_saw(writes in prop::collection::vec((0usize..5000, 1u32..9, any::<bool>()), 1..200)) {
            let mut vec = CowVec::<u32>::default();
            let mut model = std::collections::BTreeMap::new();
            let mut clones = Vec::new();
            for (at, value, cloned) in writes {
                if cloned {
                    clones.push((vec.clone(), model.clone()));
                }
                *vec.get_mut(at) = value;
                model.insert(at, value);
            }
            clones.push((vec.clone(), model));
            for (vec, model) in clones {
                let mut seen = std::collections::BTreeMap::new();
                for (first, leaf) in vec.leaves(0) {
                    seen.extend(leaf.iter().enumerate().filter(|(_, v)| **v != 0).map(|(i, v)| (first + i, *v)));
                }
                prop_assert_eq!(&seen, &model);
                let mut count = 0;
                vec.for_each(|v| count += usize::from(*v != 0));
                prop_assert_eq!(count, model.len());
                prop_assert!(model.iter().all(|(at, value)| vec.get(*at) == Some(value)));
            }
        }
    }

    #[test]
    fn leaves_from_the_middle_and_freed_leaves() {
        let mut vec = CowVec::<u32>::default();
        for at in [0, 40, 2047, 2048, 9000] {
            *vec.get_mut(at) = 1;
        }
        let firsts = |vec: &CowVec<u32>, from| vec.leaves(from).map(|(first, _)| first).collect::<Vec<_>>();
        assert_eq!(firsts(&vec, 0), [0, 32, 2016, 2048, 8992]);
        assert_eq!(firsts(&vec, 41), [32, 2016, 2048, 8992]);
        assert_eq!(firsts(&vec, 2048), [2048, 8992]);
        let old = vec.clone();
        vec.free_leaf_unless(40, |v| *v != 0);
        *vec.get_mut(40) = 0;
        vec.free_leaf_unless(40, |v| *v != 0);
        assert_eq!(firsts(&vec, 0), [0, 2016, 2048, 8992]);
        assert_eq!((vec.get(40), old.get(40)), (None, Some(&1)));
        assert_eq!(vec.changed_leaves(&old), [32]);
    }
}
