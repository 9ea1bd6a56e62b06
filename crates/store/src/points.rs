//! From a hash to numbers: the point table.

use std::iter;
use std::sync::Arc;

use crate::tree::Tree;

/// A persistent hash table from a 32-bit hash to a number, 8 bytes an entry.
///
/// It holds neither keys nor values: whoever asks compares what stands behind the number. So it never calls
/// user code, copying a part of it is copying plain bytes, and one number takes about 11 bytes.
///
/// This is linear hashing: shards are split one at a time, always the next in turn, so there is never a pause
/// to move all entries; and merged again in reverse when the table empties. A shard is a small array with
/// linear probing, as large as it needs to be: equal hashes make it longer, and nothing else.
#[derive(Clone)]
pub(crate) struct Points {
    shards: Tree<Shard, 16>,
    /// How many shards there are; at least one.
    count: u32,
    len: usize,
}

/// How many entries a shard has on average when the next one is split off.
const SPLIT_ABOVE: usize = 32;
/// How many entries a shard has on average when the last one is merged back.
const MERGE_BELOW: usize = 12;

/// A cell in use is the hash in its upper half and the number in its lower half.
const EMPTY: u64 = u64::MAX;

/// Numbers are below this, so that no cell looks empty.
pub(crate) const MAX_NUMBER: u32 = u32::MAX - 1;

#[derive(Clone, Default)]
struct Shard {
    cells: Arc<[u64]>,
    len: u32,
}

impl Points {
    /// The number with this hash for which `is_it` says yes.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let shard = self.shards.get(self.address(hash))?;
        shard.position(hash, is_it).map(|(_, number)| number)
    }

    /// Adds a number that is not there yet.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        debug_assert!(number < MAX_NUMBER, "the number is not reserved");
        self.shards.get_mut(self.address(hash)).insert(cell(hash, number));
        self.len += 1;
        if self.len > SPLIT_ABOVE.saturating_mul(self.count as usize) && self.count < u32::MAX / 2 {
            self.split();
        }
    }

    /// Removes a number, if it is there.
    pub(crate) fn remove(&mut self, hash: u32, number: u32) {
        if self.find(hash, |other| other == number).is_none() {
            return;
        }
        self.shards.get_mut(self.address(hash)).remove(hash, number);
        self.len -= 1;
        if self.count > 1 && self.len < MERGE_BELOW * self.count as usize {
            self.merge();
        }
    }

    /// The same hashes with other numbers.
    pub(crate) fn renumbered(&self, number: impl Fn(u32) -> u32) -> Self {
        let mut points = Self::default();
        for cell in self.shards.iter().flat_map(Shard::used) {
            points.insert(hash_of(cell), number(number_of(cell)));
        }
        points
    }

    /// The shard of a hash. Shards from the next power of two on have not been split off yet; until then
    /// their entries are with the shard they will come from.
    #[inline]
    fn address(&self, hash: u32) -> u32 {
        let mask = self.count.next_power_of_two() - 1;
        let address = hash & mask;
        if address < self.count { address } else { address & (mask >> 1) }
    }

    fn split(&mut self) {
        let new = self.count;
        self.count += 1;
        let parent = new & !(1 << new.ilog2());
        let cells = std::mem::take(self.shards.get_mut(parent));
        let (moving, staying): (Vec<u64>, Vec<u64>) =
            cells.used().partition(|cell| self.address(hash_of(*cell)) == new);
        *self.shards.get_mut(parent) = Shard::holding(&staying);
        *self.shards.get_mut(new) = Shard::holding(&moving);
    }

    fn merge(&mut self) {
        self.count -= 1;
        let last = self.count;
        let parent = last & !(1 << last.ilog2());
        let cells: Vec<u64> = [last, parent]
            .into_iter()
            .flat_map(|at| std::mem::take(self.shards.get_mut(at)).used().collect::<Vec<_>>())
            .collect();
        *self.shards.get_mut(parent) = Shard::holding(&cells);
        if last.is_multiple_of(16) {
            self.shards.drop_leaf(last as usize / 16);
        }
    }
}

impl Default for Points {
    fn default() -> Self {
        Self { shards: Tree::default(), count: 1, len: 0 }
    }
}

impl Shard {
    fn holding(cells: &[u64]) -> Self {
        if cells.is_empty() {
            return Self::default();
        }
        let mut shard = Self::with_capacity(roomy(cells.len()));
        cells.iter().for_each(|cell| shard.place(*cell));
        shard
    }

    fn with_capacity(capacity: usize) -> Self {
        Self { cells: iter::repeat_n(EMPTY, capacity).collect(), len: 0 }
    }

    fn used(&self) -> impl Iterator<Item = u64> {
        self.cells.iter().copied().filter(|cell| *cell != EMPTY)
    }

    #[inline]
    fn position(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<(usize, u32)> {
        let cells = &*self.cells;
        let mut at = home(hash, cells.len());
        // One cell in eight is empty; the bound only keeps a mistake of ours from becoming an endless loop.
        for _ in 0..cells.len() {
            let cell = *cells.get(at)?;
            if cell == EMPTY {
                return None;
            }
            if hash_of(cell) == hash && is_it(number_of(cell)) {
                return Some((at, number_of(cell)));
            }
            at = if at + 1 == cells.len() { 0 } else { at + 1 };
        }
        None
    }

    fn insert(&mut self, cell: u64) {
        if (self.len as usize + 1) * 8 > self.cells.len() * 7 {
            let mut larger = Self::with_capacity(roomy(self.len as usize + 1));
            self.used().for_each(|cell| larger.place(cell));
            *self = larger;
        }
        self.place(cell);
    }

    /// Puts a cell into an array that has room.
    fn place(&mut self, cell: u64) {
        let cells = Arc::make_mut(&mut self.cells);
        let (before, after) = cells.split_at_mut(home(hash_of(cell), cells.len()));
        if let Some(free) = after.iter_mut().chain(before).find(|cell| **cell == EMPTY) {
            *free = cell;
            self.len += 1;
        }
    }

    fn remove(&mut self, hash: u32, number: u32) {
        let Some((at, _)) = self.position(hash, |other| other == number) else { return };
        let cells = Arc::make_mut(&mut self.cells);
        close_gap(cells, at);
        self.len -= 1;
        if self.len as usize * 2 < self.cells.len() && self.cells.len() > 8 || self.len == 0 {
            let cells: Vec<u64> = self.used().collect();
            *self = Self::holding(&cells);
        }
    }
}

/// Empties a cell, and moves up every following one that would no longer be found behind an empty cell.
#[expect(clippy::indexing_slicing, reason = "every index is reduced modulo the length")]
fn close_gap(cells: &mut [u64], at: usize) {
    let len = cells.len();
    let distance = |from: usize, to: usize| (to + len - from) % len;
    let (mut gap, mut next) = (at, at);
    loop {
        next = (next + 1) % len;
        let cell = cells[next];
        if cell == EMPTY || next == at {
            break;
        }
        if distance(home(hash_of(cell), len), next) >= distance(gap, next) {
            cells[gap] = cell;
            gap = next;
        }
    }
    cells[gap] = EMPTY;
}

/// A capacity that is about four fifths full with so many cells.
fn roomy(cells: usize) -> usize {
    (cells + cells / 4 + 1).next_multiple_of(8)
}

/// Where in an array of this length a hash is looked for first: by its upper bits, since the lower ones
/// have chosen the shard and are equal within it.
fn home(hash: u32, len: usize) -> usize {
    ((u64::from(hash) * len as u64) >> 32) as usize
}

fn cell(hash: u32, number: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(number)
}

fn hash_of(cell: u64) -> u32 {
    (cell >> 32) as u32
}

fn number_of(cell: u64) -> u32 {
    cell as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn all(points: &Points) -> BTreeSet<(u32, u32)> {
        points
            .shards
            .iter()
            .flat_map(|shard| shard.used().map(|cell| (hash_of(cell), number_of(cell))).collect::<Vec<_>>())
            .collect()
    }

    /// Hashes of which many are equal, share a shard, or share a place in it.
    fn hash() -> impl Strategy<Value = u32> {
        prop_oneof![
            Just(7u32),
            0u32..4,
            (0u32..64).prop_map(|upper| upper << 26),
            Just(u32::MAX),
            any::<u32>()
        ]
    }

    proptest! {
        #[test]
        fn like_a_set_of_pairs(
            writes in prop::collection::vec((hash(), any::<prop::sample::Index>(), 0u8..8), 1..800),
            clone_at in any::<prop::sample::Index>(),
        ) {
            let (mut points, mut model) = (Points::default(), BTreeSet::new());
            let clone_at = clone_at.index(writes.len());
            let mut clone = None;
            for (number, (hash, which, what)) in writes.into_iter().enumerate() {
                if number == clone_at {
                    clone = Some((points.clone(), model.clone()));
                }
                if what < 3 && !model.is_empty() {
                    let (hash, number) = *model.iter().nth(which.index(model.len())).unwrap();
                    points.remove(hash, number);
                    model.remove(&(hash, number));
                } else {
                    points.insert(hash, number as u32);
                    model.insert((hash, number as u32));
                }
                prop_assert_eq!(points.len, model.len());
            }
            for (points, model) in [(points, model)].into_iter().chain(clone) {
                prop_assert_eq!(&all(&points), &model);
                for (hash, number) in &model {
                    prop_assert_eq!(points.find(*hash, |other| other == *number), Some(*number));
                    prop_assert_eq!(points.find(*hash, |_| false), None);
                }
            }
        }
    }

    #[test]
    fn equal_hashes_end_and_emptying_gives_the_room_back() {
        let mut points = Points::default();
        for number in 0..3000 {
            points.insert(42, number);
        }
        assert!((0..3000).all(|number| points.find(42, |other| other == number) == Some(number)));
        assert_eq!(points.find(43, |_| true), None);
        for number in 0..3000 {
            points.remove(42, number);
        }
        points.remove(42, 0);
        assert_eq!((points.len, points.count), (0, 1));
        assert!(all(&points).is_empty());
        assert_eq!(points.shards.iter().map(|shard| shard.cells.len()).sum::<usize>(), 0);
    }

    #[test]
    fn an_entry_takes_eleven_bytes() {
        let mut points = Points::default();
        let mut hash = 1u32;
        for number in 0..50_000 {
            hash = hash.wrapping_mul(2_654_435_761).wrapping_add(0x9e37_79b9);
            points.insert(hash ^ (hash >> 15), number);
        }
        let cells: usize = points.shards.iter().map(|shard| shard.cells.len()).sum();
        let overhead = points.count as usize * (size_of::<Shard>() + 16);
        assert!((cells * 8 + overhead) / 50_000 <= 13, "{} bytes", (cells * 8 + overhead) / 50_000);
    }
}
