//! Buckets: the slots of the objects with one index value.

use std::iter;
use std::sync::Arc;

use crate::tree::Tree;

/// An index value with the slots of its objects. An unused bucket has the default value.
#[derive(Clone, Default)]
pub(crate) struct Bucket {
    pub(crate) value: Option<Arc<str>>,
    pub(crate) slots: SlotSet,
}

/// A persistent, unordered set of slots, addressed by their place.
///
/// Many indexes have one object per value, others 100,000. A few slots are stored inline, up to one leaf in an array of
/// fitting size, more in a tree.
#[derive(Clone)]
pub(crate) enum SlotSet {
    Few { len: u8, slots: [u32; FEW] },
    Some { len: u32, slots: Arc<[u32]> },
    Many { len: u32, slots: Tree<u32, LEAF> },
}

const FEW: usize = 5;
const LEAF: usize = 256;

impl Default for SlotSet {
    fn default() -> Self {
        Self::Few { len: 0, slots: [0; FEW] }
    }
}

impl SlotSet {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few { len, .. } => usize::from(*len),
            Self::Some { len, .. } | Self::Many { len, .. } => *len as usize,
        }
    }

    pub(crate) fn get(&self, place: u32) -> Option<u32> {
        match self {
            Self::Few { slots, .. } => slots.get(place as usize).copied(),
            Self::Some { slots, .. } => slots.get(place as usize).copied(),
            Self::Many { slots, .. } => slots.get(place).copied(),
        }
    }

    /// Returns the slots in chunks, in place order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u32]> {
        let (one, tree, len) = match self {
            Self::Few { len, slots } => (slots.get(..usize::from(*len)), None, 0),
            Self::Some { len, slots } => (slots.get(..*len as usize), None, 0),
            Self::Many { len, slots } => (None, Some(slots), *len as usize),
        };
        let leaves = (0..len.div_ceil(LEAF)).filter_map(move |number| {
            let leaf = tree?.leaf(number)?;
            leaf.get(..LEAF.min(len - number * LEAF))
        });
        one.into_iter().chain(leaves)
    }

    /// Adds a slot. Returns its place.
    pub(crate) fn push(&mut self, slot: u32) -> u32 {
        self.grow();
        let place = self.len() as u32;
        self.set(place, slot);
        match self {
            Self::Few { len, .. } => *len += 1,
            Self::Some { len, .. } | Self::Many { len, .. } => *len += 1,
        }
        place
    }

    /// Removes the slot at a place and moves the last slot there. Returns the moved slot, if there is one.
    pub(crate) fn swap_remove(&mut self, place: u32) -> Option<u32> {
        let last_place = self.len().checked_sub(1)? as u32;
        let last = self.get(last_place)?;
        if place != last_place {
            self.set(place, last);
        }
        match self {
            Self::Few { len, .. } => *len -= 1,
            Self::Some { len, .. } => *len -= 1,
            Self::Many { len, slots } => {
                *len -= 1;
                if (*len as usize).is_multiple_of(LEAF) {
                    slots.drop_leaf(*len as usize / LEAF);
                }
            }
        }
        self.shrink();
        (place != last_place).then_some(last)
    }

    fn set(&mut self, place: u32, slot: u32) {
        let entry = match self {
            Self::Few { slots, .. } => slots.get_mut(place as usize),
            Self::Some { slots, .. } => Arc::make_mut(slots).get_mut(place as usize),
            Self::Many { slots, .. } => Some(slots.get_mut(place)),
        };
        debug_assert!(entry.is_some(), "there is room for the place");
        if let Some(entry) = entry {
            *entry = slot;
        }
    }

    fn grow(&mut self) {
        let len = self.len();
        match self {
            Self::Few { .. } if len == FEW => *self = self.to_array(8),
            Self::Some { slots, .. } if len == slots.len() && len < LEAF => {
                *self = self.to_array((len + len / 2).next_multiple_of(8).min(LEAF));
            }
            Self::Some { slots, .. } if len == slots.len() => {
                let mut tree = Tree::default();
                for (place, slot) in slots.iter().enumerate() {
                    *tree.get_mut(place as u32) = *slot;
                }
                *self = Self::Many { len: len as u32, slots: tree };
            }
            _ => {}
        }
    }

    /// Shrinks with hysteresis to [`Self::grow`], so that repeatedly adding and removing one slot copies nothing.
    fn shrink(&mut self) {
        let len = self.len();
        match self {
            Self::Many { .. } if len <= LEAF / 2 => *self = self.to_array(LEAF * 3 / 4),
            Self::Some { .. } if len + 2 <= FEW => {
                let mut few = [0; FEW];
                few.iter_mut().zip(self.chunks().flatten()).for_each(|(to, from)| *to = *from);
                *self = Self::Few { len: len as u8, slots: few };
            }
            Self::Some { slots, .. } if len * 2 < slots.len() && slots.len() > 16 => {
                *self = self.to_array((len + len / 2).next_multiple_of(8));
            }
            _ => {}
        }
    }

    fn to_array(&self, capacity: usize) -> Self {
        let len = self.len() as u32;
        let mut slots: Arc<[u32]> = iter::repeat_n(0, capacity).collect();
        Arc::make_mut(&mut slots).iter_mut().zip(self.chunks().flatten()).for_each(|(to, from)| *to = *from);
        Self::Some { len, slots }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slots(set: &SlotSet) -> Vec<u32> {
        set.chunks().flatten().copied().collect()
    }

    proptest! {
        #[test]
        fn behaves_like_a_vector_with_swap_remove(
            start in 0u32..600,
            writes in prop::collection::vec((0u8..3, any::<prop::sample::Index>(), any::<bool>()), 1..900),
        ) {
            let (mut set, mut model) = (SlotSet::default(), Vec::new());
            for slot in 0..start {
                prop_assert_eq!(set.push(slot), slot);
                model.push(slot);
            }
            let mut clones = Vec::new();
            for (number, (what, position, clone)) in writes.into_iter().enumerate() {
                if clone && number % 16 == 0 {
                    clones.push((set.clone(), model.clone()));
                }
                if what > 0 && !model.is_empty() {
                    let position = position.index(model.len());
                    model.swap_remove(position);
                    prop_assert_eq!(set.swap_remove(position as u32), model.get(position).copied());
                } else {
                    prop_assert_eq!(set.push(number as u32), model.len() as u32);
                    model.push(number as u32);
                }
                prop_assert_eq!(set.len(), model.len());
            }
            clones.push((set, model));
            for (set, model) in clones {
                prop_assert_eq!(slots(&set), model);
            }
        }
    }

    #[test]
    fn form_follows_the_size() {
        let mut set = SlotSet::default();
        let mut forms = Vec::new();
        for slot in 0..300 {
            set.push(slot);
        }
        for _ in 0..300 {
            forms.push(match &set {
                SlotSet::Few { .. } => 'f',
                SlotSet::Some { .. } => 's',
                SlotSet::Many { .. } => 'm',
            });
            set.swap_remove(0);
        }
        forms.dedup();
        assert_eq!(forms, ['m', 's', 'f']);
        assert_eq!((set.len(), set.swap_remove(0)), (0, None));
        assert_eq!(size_of::<Bucket>(), 40);
    }
}
