//! One index: from values to buckets of slots, and back from slots to their places in buckets.

use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::bucket::Bucket;
use crate::cow::CowVec;
use crate::hash::hash_bytes;
use crate::index_function::ValueSet;
use crate::points::Points;

/// What readers see of an index; a clone is a snapshot.
#[derive(Clone, Default)]
pub(crate) struct Index {
    /// From the hash of a value to the number of its bucket.
    values: Points,
    buckets: CowVec<Option<Valued>>,
    /// How many values there are.
    len: usize,
}

#[derive(Clone)]
struct Valued {
    value: Arc<str>,
    bucket: Bucket,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<str>> {
        self.buckets.leaves(0).flat_map(|(_, leaf)| leaf.iter()).flatten().map(|valued| &valued.value)
    }

    pub(crate) fn bucket(&self, seed: &RandomState, value: &[u8]) -> Option<&Bucket> {
        let number = self.find(hash_bytes(seed, value), value)?;
        self.valued(number).map(|valued| &valued.bucket)
    }

    fn find(&self, hash: u32, value: &[u8]) -> Option<u32> {
        self.values.find(hash, |number| self.valued(number).is_some_and(|v| v.value.as_bytes() == value))
    }

    fn has(&self, place: &Place, value: &[u8]) -> bool {
        self.valued(place.bucket).is_some_and(|valued| valued.value.as_bytes() == value)
    }

    fn valued(&self, number: u32) -> Option<&Valued> {
        self.buckets.get(number as usize)?.as_ref()
    }
}

/// A slot's place in a bucket.
#[derive(Clone, Copy)]
struct Place {
    bucket: u32,
    place: u32,
}

/// The bucket number of a slot that is in no bucket, and of one that is in several.
const NONE: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

/// What only the writer needs of an index: for each slot its places, so that no index function is ever asked
/// about an old state.
#[derive(Default)]
pub(crate) struct Places {
    /// By slot. In chunks, because a vector that doubles would waste up to half of itself.
    chunks: Vec<Box<[Place; CHUNK]>>,
    /// The places of slots that are in several buckets.
    several: Vec<Box<[Place]>>,
    free_several: Vec<u32>,
    free_buckets: Vec<u32>,
    buckets: u32,
}

const CHUNK: usize = 1024;

impl Places {
    /// Finds out everything from the index itself.
    pub(crate) fn of(index: &Index) -> Self {
        let mut places = Self::default();
        for (first, leaf) in index.buckets.leaves(0) {
            for (number, valued) in leaf.iter().enumerate().map(|(i, valued)| ((first + i) as u32, valued)) {
                let Some(valued) = valued else { continue };
                while places.buckets <= number {
                    places.free_buckets.push(places.buckets);
                    places.buckets += 1;
                }
                places.free_buckets.pop();
                for (place, slot) in valued.bucket.iter().enumerate() {
                    places.push(slot, Place { bucket: number, place: place as u32 });
                }
            }
        }
        places
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the chunks have just been grown; the other is modulo the length"
    )]
    fn at(&mut self, slot: u32) -> &mut Place {
        let slot = slot as usize;
        while self.chunks.len() <= slot / CHUNK {
            self.chunks.push(Box::new([Place { bucket: NONE, place: 0 }; CHUNK]));
        }
        &mut self.chunks[slot / CHUNK][slot % CHUNK]
    }

    fn list(&mut self, slot: u32) -> &mut [Place] {
        let place = *self.at(slot);
        match place.bucket {
            NONE => &mut [],
            SEVERAL => {
                self.several.get_mut(place.place as usize).map(|places| &mut **places).unwrap_or_default()
            }
            _ => std::slice::from_mut(self.at(slot)),
        }
    }

    fn take(&mut self, slot: u32) -> Taken {
        let place = std::mem::replace(self.at(slot), Place { bucket: NONE, place: 0 });
        match place.bucket {
            NONE => Taken::default(),
            SEVERAL => {
                self.free_several.push(place.place);
                let places = self.several.get_mut(place.place as usize).map(std::mem::take);
                Taken::from_vec(places.unwrap_or_default().into_vec())
            }
            _ => Taken::from_slice(&[place]),
        }
    }

    fn set(&mut self, slot: u32, places: &[Place]) {
        *self.at(slot) = match places {
            [] => Place { bucket: NONE, place: 0 },
            [place] => *place,
            several => {
                let number = self.free_several.pop().unwrap_or(self.several.len() as u32);
                match self.several.get_mut(number as usize) {
                    Some(free) => *free = several.into(),
                    None => self.several.push(several.into()),
                }
                Place { bucket: SEVERAL, place: number }
            }
        };
    }

    fn push(&mut self, slot: u32, place: Place) {
        let mut places = self.take(slot);
        places.push(place);
        self.set(slot, &places);
    }

    /// Whether the slot is found under exactly these values.
    pub(crate) fn holds(&mut self, index: Option<&Index>, slot: u32, values: &ValueSet<'_>) -> bool {
        let places = self.list(slot);
        places.len() == values.len()
            && values
                .iter()
                .all(|value| places.iter().any(|place| index.is_some_and(|index| index.has(place, value))))
    }

    /// Moves a slot from the values it was found under to those it is to be found under; touches only what
    /// differs.
    pub(crate) fn update(&mut self, index: &mut Index, seed: &RandomState, slot: u32, values: &ValueSet<'_>) {
        let old = self.take(slot);
        let (kept, gone): (Taken, Taken) =
            old.into_iter().partition(|place| values.iter().any(|value| index.has(place, value)));
        let mut new: SmallValues<'_> = values.iter().collect();
        new.retain(|value| !kept.iter().any(|place| index.has(place, value)));
        let mut places = kept;
        for place in gone {
            self.leave(index, seed, place);
        }
        for value in new {
            places.push(self.enter(index, seed, slot, value));
        }
        self.set(slot, &places);
    }

    fn enter(&mut self, index: &mut Index, seed: &RandomState, slot: u32, value: &[u8]) -> Place {
        let hash = hash_bytes(seed, value);
        let number = index.find(hash, value).unwrap_or_else(|| {
            let number = self.free_buckets.pop().unwrap_or_else(|| {
                self.buckets += 1;
                self.buckets - 1
            });
            let value = String::from_utf8_lossy(value).into();
            *index.buckets.get_mut(number as usize) = Some(Valued { value, bucket: Bucket::default() });
            index.values.insert(hash, number);
            index.len += 1;
            number
        });
        let mut place = 0;
        if let Some(valued) = index.buckets.get_mut(number as usize) {
            place = valued.bucket.len() as u32;
            valued.bucket.push(slot);
        }
        Place { bucket: number, place }
    }

    fn leave(&mut self, index: &mut Index, seed: &RandomState, left: Place) {
        let entry = index.buckets.get_mut(left.bucket as usize);
        let Some(valued) = entry else { return };
        let moved = valued.bucket.swap_remove(left.place as usize);
        if valued.bucket.len() == 0 {
            let hash = hash_bytes(seed, valued.value.as_bytes());
            *entry = None;
            index.values.remove(hash, left.bucket);
            index.buckets.free_leaf_unless(left.bucket as usize, Option::is_some);
            index.len -= 1;
            self.free_buckets.push(left.bucket);
        }
        if let Some(moved) = moved {
            let place = self.list(moved).iter_mut().find(|place| place.bucket == left.bucket);
            if let Some(place) = place {
                place.place = left.place;
            }
        }
    }
}

type Taken = smallvec::SmallVec<[Place; 4]>;
type SmallValues<'a> = smallvec::SmallVec<[&'a [u8]; 4]>;
