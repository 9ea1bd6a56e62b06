//! The objects of one index value, as slot numbers.

use std::sync::Arc;

const INLINE: usize = 5;
const LEAF: usize = 256;

/// A set of slot numbers, each at a place that its index remembers, copied on write.
///
/// A handful is kept in place: an index by owner or by a unique label has one object for most values.
#[derive(Clone)]
pub(crate) enum Bucket {
    Few { slots: [u32; INLINE], len: u8 },
    Many { leaves: Arc<Vec<Arc<[u32; LEAF]>>>, len: u32 },
}

impl Default for Bucket {
    fn default() -> Self {
        Self::Few { slots: [0; INLINE], len: 0 }
    }
}

impl Bucket {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few { len, .. } => usize::from(*len),
            Self::Many { len, .. } => *len as usize,
        }
    }

    /// Adds a slot at the end; its place is the length before.
    pub(crate) fn push(&mut self, slot: u32) {
        match self {
            Self::Few { slots, len } => {
                if let Some(free) = slots.get_mut(usize::from(*len)) {
                    *free = slot;
                    *len += 1;
                    return;
                }
                let mut leaf = [0; LEAF];
                leaf.iter_mut().zip(slots.iter()).for_each(|(to, from)| *to = *from);
                *self = Self::Many { leaves: Arc::new(vec![Arc::new(leaf)]), len: INLINE as u32 };
                self.push(slot);
            }
            Self::Many { leaves, len } => {
                let at = *len as usize;
                let leaves = Arc::make_mut(leaves);
                if at / LEAF == leaves.len() {
                    leaves.push(Arc::new([0; LEAF]));
                }
                *len += 1;
                self.set(at, slot);
            }
        }
    }

    /// Takes out the slot at `place`; the last one moves there. Says which one has moved.
    pub(crate) fn swap_remove(&mut self, place: usize) -> Option<u32> {
        let last = self.len().checked_sub(1)?;
        let moved = self.get(last)?;
        match self {
            Self::Few { len, .. } => *len -= 1,
            Self::Many { leaves, len } => {
                *len -= 1;
                if last % LEAF == 0 {
                    Arc::make_mut(leaves).pop();
                }
            }
        }
        let moved = (place != last).then_some(moved);
        if let Some(moved) = moved {
            self.set(place, moved);
        }
        if let Self::Many { leaves, len } = self
            && *len as usize <= INLINE / 2
        {
            let mut slots = [0; INLINE];
            let leaf = leaves.first().into_iter().flat_map(|leaf| leaf.iter());
            slots.iter_mut().zip(leaf).for_each(|(to, from)| *to = *from);
            *self = Self::Few { slots, len: *len as u8 };
        }
        moved
    }

    fn get(&self, place: usize) -> Option<u32> {
        match self {
            Self::Few { slots, .. } => slots.get(place).copied(),
            Self::Many { leaves, .. } => leaves.get(place / LEAF)?.get(place % LEAF).copied(),
        }
    }

    fn set(&mut self, place: usize, slot: u32) {
        let to = match self {
            Self::Few { slots, .. } => slots.get_mut(place),
            Self::Many { leaves, .. } => Arc::make_mut(leaves)
                .get_mut(place / LEAF)
                .and_then(|leaf| Arc::make_mut(leaf).get_mut(place % LEAF)),
        };
        if let Some(to) = to {
            *to = slot;
        }
    }

    /// The slots, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let (few, many) = match self {
            Self::Few { slots, .. } => (Some(slots), None),
            Self::Many { leaves, .. } => (None, Some(leaves)),
        };
        let many = many.into_iter().flat_map(|leaves| leaves.iter()).flat_map(|leaf| leaf.iter());
        few.into_iter().flatten().chain(many).copied().take(self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn like_a_vector_with_swap_remove(
            writes in prop::collection::vec((0u8..3, any::<prop::sample::Index>(), any::<bool>()), 1..1500),
            start in 0u32..600,
        ) {
            let mut bucket = Bucket::default();
            let mut model = Vec::new();
            for slot in 0..start {
                bucket.push(slot);
                model.push(slot);
            }
            let mut clones = Vec::new();
            for (i, (what, at, clone)) in writes.into_iter().enumerate() {
                if clone && i % 16 == 0 {
                    clones.push((bucket.clone(), model.clone()));
                }
                if what > 0 && !model.is_empty() {
                    let at = at.index(model.len());
                    model.swap_remove(at);
                    prop_assert_eq!(bucket.swap_remove(at), model.get(at).copied());
                } else {
                    model.push(i as u32);
                    bucket.push(i as u32);
                }
            }
            clones.push((bucket, model));
            for (bucket, model) in clones {
                prop_assert_eq!(bucket.iter().collect::<Vec<_>>(), model);
            }
        }
    }
}
