//! A copy-on-write vector, the basis of all persistent structures of the store.

use std::array;
use std::iter;
use std::sync::Arc;

/// Number of leaves per node.
const FANOUT: usize = 64;

/// A vector in three levels: a root, nodes of 64 leaves, leaves of `LEAF` elements.
///
/// Cloning is O(1). A change is made in place unless a clone shares the path to the element; otherwise the shared nodes
/// on the path are copied: at most the root (one pointer per 64 leaves), one node and one leaf. Elements that were
/// never set have the default value, and take no memory if their whole leaf is unset.
pub(crate) struct Tree<E, const LEAF: usize> {
    root: Arc<[Arc<Node<E, LEAF>>]>,
}

pub(crate) type Leaf<E, const LEAF: usize> = Arc<[E; LEAF]>;

#[derive(Clone)]
struct Node<E, const LEAF: usize>([Option<Leaf<E, LEAF>>; FANOUT]);

impl<E, const LEAF: usize> Tree<E, LEAF> {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&E> {
        let index = index as usize;
        self.leaf(index / LEAF)?.get(index % LEAF)
    }

    #[inline]
    pub(crate) fn leaf(&self, number: usize) -> Option<&Leaf<E, LEAF>> {
        self.root.get(number / FANOUT)?.0.get(number % FANOUT)?.as_ref()
    }

    /// Returns an upper bound for leaf numbers.
    pub(crate) fn leaves(&self) -> usize {
        self.root.len() * FANOUT
    }

    /// Returns all elements of the allocated leaves, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.root.iter().flat_map(|node| node.0.iter()).flatten().flat_map(|leaf| leaf.iter())
    }

    /// Returns whether both trees share the node of this leaf because one is a clone of the other.
    pub(crate) fn shares_node(&self, other: &Self, leaf: usize) -> bool {
        let node = |tree: &Self| tree.root.get(leaf / FANOUT).map(Arc::as_ptr);
        node(self).is_some() && node(self) == node(other)
    }

    /// Returns the first leaf number under the next node.
    pub(crate) fn next_node(leaf: usize) -> usize {
        (leaf / FANOUT + 1) * FANOUT
    }
}

impl<E: Clone + Default, const LEAF: usize> Tree<E, LEAF> {
    /// Returns the element for modification. Grows the tree if needed.
    #[expect(
        clippy::indexing_slicing,
        reason = "the root has been grown to hold the node; the other two are remainders of the array's length"
    )]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut E {
        let index = index as usize;
        let leaf = index / LEAF;
        while self.root.len() <= leaf / FANOUT {
            let node = Arc::new(Node(array::from_fn(|_| None)));
            self.root = self.root.iter().cloned().chain(iter::once(node)).collect();
        }
        let node = Arc::make_mut(&mut Arc::make_mut(&mut self.root)[leaf / FANOUT]);
        let leaf = node.0[leaf % FANOUT].get_or_insert_with(|| Arc::new(array::from_fn(|_| E::default())));
        &mut Arc::make_mut(leaf)[index % LEAF]
    }

    /// Releases a leaf in which all elements have the default value.
    pub(crate) fn drop_leaf(&mut self, number: usize) {
        if self.leaf(number).is_none() {
            return;
        }
        let node = Arc::make_mut(&mut self.root).get_mut(number / FANOUT);
        if let Some(leaf) = node.and_then(|node| Arc::make_mut(node).0.get_mut(number % FANOUT)) {
            *leaf = None;
        }
    }
}

impl<E, const LEAF: usize> Clone for Tree<E, LEAF> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone() }
    }
}

impl<E, const LEAF: usize> Default for Tree<E, LEAF> {
    fn default() -> Self {
        Self { root: Arc::new([]) }
    }
}

/// The largest count of numbers handed out for which a tree is not worth compacting.
const SMALL: usize = 1024;

/// Returns whether so few of the numbers handed out are in use that most of their memory is wasted.
pub(crate) fn is_sparse(used: usize, given_out: usize) -> bool {
    given_out > SMALL && used < given_out / 4
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn contents(tree: &Tree<u32, 4>) -> BTreeMap<u32, u32> {
        let leaves = (0..tree.leaves()).filter_map(|number| Some((number, tree.leaf(number)?)));
        leaves
            .flat_map(|(number, leaf)| {
                leaf.iter().enumerate().map(move |(index, value)| ((number * 4 + index) as u32, *value))
            })
            .filter(|(_, value)| *value != 0)
            .collect()
    }

    proptest! {
        #[test]
        fn clone_is_not_affected_by_later_writes(
            writes in prop::collection::vec((0u32..2000, 0u32..9, any::<bool>()), 1..200),
        ) {
            let (mut tree, mut model) = (Tree::<u32, 4>::default(), BTreeMap::new());
            let mut clones = Vec::new();
            for (index, value, clone) in writes {
                if clone {
                    clones.push((tree.clone(), model.clone()));
                }
                *tree.get_mut(index) = value;
                if value == 0 {
                    model.remove(&index);
                    let leaf = index as usize / 4;
                    if tree.leaf(leaf).is_some_and(|leaf| leaf.iter().all(|value| *value == 0)) {
                        tree.drop_leaf(leaf);
                    }
                } else {
                    model.insert(index, value);
                }
            }
            clones.push((tree, model));
            for (tree, model) in clones {
                prop_assert_eq!(&contents(&tree), &model);
                prop_assert_eq!(tree.iter().filter(|value| **value != 0).count(), model.len());
                for index in 0..2001 {
                    let want = model.get(&index).copied().unwrap_or(0);
                    prop_assert_eq!(tree.get(index).copied().unwrap_or(0), want);
                }
            }
        }
    }

    #[test]
    fn dropping_a_leaf_copies_only_shared_nodes() {
        let mut tree = Tree::<u32, 4>::default();
        *tree.get_mut(0) = 1;
        *tree.get_mut(600) = 2;
        let before = tree.clone();
        *tree.get_mut(0) = 0;
        tree.drop_leaf(0);
        tree.drop_leaf(7);
        assert_eq!((tree.get(0), before.get(0)), (None, Some(&1)));
        assert!(tree.shares_node(&before, 150) && !tree.shares_node(&before, 0));
        assert_eq!(Tree::<u32, 4>::next_node(5), 64);
    }
}
