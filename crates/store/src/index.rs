//! Indexes: from a value to the slots of the objects that have it.

use std::hash::BuildHasher;
use std::slice;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::bucket::{Bucket, SlotSet};
use crate::points::Points;
use crate::tree::{Tree, is_sparse};

pub(crate) type Hasher = foldhash::quality::RandomState;

/// Returns the hash used in [`Points`].
pub(crate) fn hash_text(hasher: &Hasher, text: &str) -> u32 {
    hasher.hash_one(text) as u32
}

/// The part of an index that readers need: persistent, shared with snapshots.
#[derive(Clone, Default)]
pub(crate) struct Index {
    points: Points,
    buckets: Tree<Bucket, 32>,
    values: usize,
}

/// The part of an index that only writers need: the places of every object, so that an object can be removed without
/// calling its index function again.
#[derive(Default)]
pub(crate) struct IndexWriter {
    /// Indexed by slot.
    entries: Tree<Entry, 256>,
    /// The places of objects with several values, each in the order of the buckets.
    several: Vec<SmallVec<[Place; 4]>>,
    free_several: Vec<u32>,
    free_buckets: Vec<u32>,
    next_bucket: u32,
}

/// A place in a bucket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    bucket: u32,
    place: u32,
}

/// The places of one object, in eight bytes: none, one, or an index into `several`.
#[derive(Clone, Copy)]
struct Entry(Place);

const NONE: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

impl Default for Entry {
    fn default() -> Self {
        Self(Place { bucket: NONE, place: 0 })
    }
}

/// The values of one object in one index: sorted, without duplicates.
pub(crate) trait Values {
    fn len(&self) -> usize;
    /// Returns the value with this number, below `len`; otherwise the empty string.
    fn get(&self, number: usize) -> &str;
}

/// No values.
pub(crate) struct NoValues;

impl Values for NoValues {
    fn len(&self) -> usize {
        0
    }

    fn get(&self, _: usize) -> &str {
        ""
    }
}

impl Index {
    fn bucket_of(&self, hash: u32, value: &str) -> Option<u32> {
        self.points.find(hash, |bucket| self.value_of(bucket) == Some(value))
    }

    fn value_of(&self, bucket: u32) -> Option<&str> {
        self.buckets.get(bucket)?.value.as_deref()
    }

    /// Returns the slots of the objects with this value.
    pub(crate) fn slots(&self, hasher: &Hasher, value: &str) -> Option<&SlotSet> {
        let bucket = self.bucket_of(hash_text(hasher, value), value)?;
        Some(&self.buckets.get(bucket)?.slots)
    }

    /// Returns the same index with renumbered slots and without gaps between bucket numbers.
    pub(crate) fn compacted(&self, hasher: &Hasher, new_slot: impl Fn(u32) -> u32) -> (Self, IndexWriter) {
        let (mut index, mut writer) = (Self::default(), IndexWriter::default());
        for Bucket { value, slots } in self.buckets.iter() {
            let Some(value) = value else { continue };
            let bucket = writer.add_bucket(&mut index, hash_text(hasher, value), value.clone());
            for slot in slots.chunks().flatten() {
                let slot = new_slot(*slot);
                let place = index.buckets.get_mut(bucket).slots.push(slot);
                writer.append(slot, Place { bucket, place });
            }
        }
        (index, writer)
    }

    /// Returns all values in this index, in no particular order.
    pub(crate) fn values(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        let values = self.buckets.iter().filter_map(|bucket| bucket.value.as_ref());
        Counted { iterator: values, left: self.values }
    }
}

/// An iterator with a known length.
struct Counted<I> {
    iterator: I,
    left: usize,
}

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let next = self.iterator.next()?;
        self.left = self.left.saturating_sub(1);
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<I: Iterator> ExactSizeIterator for Counted<I> {}

impl IndexWriter {
    /// Returns whether only a few of at least `at_least` numbers are in use.
    pub(crate) fn is_sparse(&self, index: &Index, at_least: usize) -> bool {
        let (buckets, several) = (self.next_bucket as usize, self.several.len());
        buckets >= at_least && is_sparse(index.values, buckets)
            || several >= at_least && is_sparse(several - self.free_several.len(), several)
    }

    fn places(&self, slot: u32) -> &[Place] {
        match self.entries.get(slot) {
            None | Some(Entry(Place { bucket: NONE, .. })) => &[],
            Some(Entry(Place { bucket: SEVERAL, place })) => {
                self.several.get(*place as usize).map(SmallVec::as_slice).unwrap_or_default()
            }
            Some(Entry(place)) => slice::from_ref(place),
        }
    }

    fn places_mut(&mut self, slot: u32) -> &mut [Place] {
        match self.entries.get_mut(slot) {
            Entry(Place { bucket: NONE, .. }) => &mut [],
            Entry(Place { bucket: SEVERAL, place }) => {
                self.several.get_mut(*place as usize).map(SmallVec::as_mut_slice).unwrap_or_default()
            }
            Entry(place) => slice::from_mut(place),
        }
    }

    /// Returns whether the object in this slot already has exactly these values.
    pub(crate) fn has<V: Values>(&self, index: &Index, slot: u32, values: &V) -> bool {
        let places = self.places(slot);
        let has = |place: &Place| {
            let value = index.value_of(place.bucket).unwrap_or_default();
            if values.len() == 1 { values.get(0) == value } else { contains(values, value) }
        };
        // Both sides are free of duplicates, so equal lengths and inclusion imply equality.
        places.len() == values.len() && places.iter().all(has)
    }

    /// Sets the values of the object in this slot. Modifies only the buckets that the object enters or leaves.
    pub(crate) fn set<V: Values>(&mut self, index: &mut Index, hasher: &Hasher, slot: u32, values: &V) {
        let mut wanted: SmallVec<[u32; 4]> =
            (0..values.len()).map(|number| self.bucket_for(index, hasher, values.get(number))).collect();
        wanted.sort_unstable();
        let (mut places, left): (SmallVec<[Place; 4]>, SmallVec<[Place; 4]>) =
            self.places(slot).iter().copied().partition(|place| wanted.binary_search(&place.bucket).is_ok());
        for place in left {
            self.leave(index, hasher, place);
        }
        let kept = places.len();
        for bucket in wanted {
            let (old, _) = places.split_at(kept);
            if old.binary_search_by_key(&bucket, |place| place.bucket).is_err() {
                let place = index.buckets.get_mut(bucket).slots.push(slot);
                places.push(Place { bucket, place });
            }
        }
        places.sort_unstable();
        self.remember(slot, places);
    }

    /// Adds a place to those of an object, whose other places are in earlier buckets.
    fn append(&mut self, slot: u32, place: Place) {
        let Entry(entry) = self.entries.get_mut(slot);
        match *entry {
            Place { bucket: NONE, .. } => *entry = place,
            Place { bucket: SEVERAL, place: number } => {
                if let Some(places) = self.several.get_mut(number as usize) {
                    places.push(place);
                }
            }
            only => self.remember(slot, [only, place].into_iter().collect()),
        }
    }

    /// Stores the places of an object, reusing its current storage if possible.
    fn remember(&mut self, slot: u32, places: SmallVec<[Place; 4]>) {
        if places.is_empty() && self.entries.get(slot).is_none() {
            return;
        }
        let Entry(entry) = self.entries.get_mut(slot);
        let room = (entry.bucket == SEVERAL).then_some(entry.place);
        *entry = match *places {
            [] => Place { bucket: NONE, place: 0 },
            [place] => place,
            _ => {
                let number = room.or_else(|| self.free_several.pop()).unwrap_or(self.several.len() as u32);
                match self.several.get_mut(number as usize) {
                    Some(old) => *old = places,
                    None => self.several.push(places),
                }
                *entry = Place { bucket: SEVERAL, place: number };
                return;
            }
        };
        if let Some(number) = room {
            if let Some(old) = self.several.get_mut(number as usize) {
                *old = SmallVec::new();
            }
            self.free_several.push(number);
        }
    }

    /// Returns the bucket of this value, adding one if there is none.
    fn bucket_for(&mut self, index: &mut Index, hasher: &Hasher, value: &str) -> u32 {
        let hash = hash_text(hasher, value);
        if let Some(bucket) = index.bucket_of(hash, value) {
            return bucket;
        }
        self.add_bucket(index, hash, value.into())
    }

    /// Adds a bucket for a new value. Returns its number.
    fn add_bucket(&mut self, index: &mut Index, hash: u32, value: Arc<str>) -> u32 {
        let bucket = self.free_buckets.pop().unwrap_or_else(|| {
            self.next_bucket += 1;
            self.next_bucket - 1
        });
        index.buckets.get_mut(bucket).value = Some(value);
        index.points.insert(hash, bucket);
        index.values += 1;
        bucket
    }

    fn leave(&mut self, index: &mut Index, hasher: &Hasher, Place { bucket, place }: Place) {
        let left = index.buckets.get_mut(bucket);
        let moved = left.slots.swap_remove(place);
        if left.slots.len() == 0 {
            let value = std::mem::take(left).value.unwrap_or_default();
            index.points.remove(hash_text(hasher, &value), bucket);
            index.values -= 1;
            self.free_buckets.push(bucket);
        }
        if let Some(moved) = moved {
            let places = self.places_mut(moved);
            let found = places.binary_search_by_key(&bucket, |there| there.bucket);
            if let Some(there) = found.ok().and_then(|number| places.get_mut(number)) {
                there.place = place;
            }
        }
    }
}

fn contains<V: Values>(values: &V, value: &str) -> bool {
    let (mut from, mut to) = (0, values.len());
    while from < to {
        let middle = from.midpoint(to);
        match values.get(middle).cmp(value) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => from = middle + 1,
            std::cmp::Ordering::Greater => to = middle,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    struct Sorted(Vec<String>);

    impl Values for Sorted {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn get(&self, number: usize) -> &str {
            self.0.get(number).map_or("", String::as_str)
        }
    }

    const SLOTS: u32 = 12;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The places of an object are in the order of the buckets, so that one of many is found in logarithmic time.
        #[test]
        fn places_are_sorted_and_lead_to_their_object(
            writes in prop::collection::vec((0..SLOTS, prop::collection::btree_set(0u8..40, 0..30), 0u8..16), 1..60),
        ) {
            let (hasher, mut index, mut writer) = (Hasher::default(), Index::default(), IndexWriter::default());
            let mut model = vec![BTreeSet::new(); SLOTS as usize];
            for (slot, values, compact) in writes {
                let values: BTreeSet<_> = values.into_iter().map(|value| value.to_string()).collect();
                writer.set(&mut index, &hasher, slot, &Sorted(values.iter().cloned().collect()));
                if let Some(stored) = model.get_mut(slot as usize) {
                    *stored = values;
                }
                if compact == 0 {
                    (index, writer) = index.compacted(&hasher, |slot| slot);
                }
                for (slot, values) in (0..).zip(&model) {
                    let places = writer.places(slot);
                    prop_assert!(places.is_sorted_by(|one, other| one.bucket < other.bucket));
                    prop_assert!(writer.has(&index, slot, &Sorted(values.iter().cloned().collect())));
                    for Place { bucket, place } in places {
                        prop_assert_eq!(index.buckets.get(*bucket).unwrap().slots.get(*place), Some(slot));
                    }
                }
            }
        }
    }
}
