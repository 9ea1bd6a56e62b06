//! The point table: a hash table from hashes to numbers.

use std::iter;
use std::sync::Arc;

use crate::tree::Tree;

/// A persistent hash table from a 32-bit hash to a number, 8 bytes an entry.
///
/// It contains neither keys nor values; callers compare the objects behind the numbers. So it never calls user code,
/// copying a shard copies plain bytes, and one number takes about 11 bytes.
///
/// Uses linear hashing: shards are split one at a time, in turn, so there is never a pause to move all entries, and
/// merged in reverse order as the table shrinks. A shard is a small array with linear probing, sized to its contents;
/// equal hashes only make it longer.
#[derive(Clone)]
pub(crate) struct Points {
    shards: Tree<Shard, 16>,
    /// Number of shards, at least 1.
    count: u32,
    len: usize,
}

/// The average number of entries per shard above which the next shard is split.
const SPLIT_ABOVE: usize = 32;
/// The average number of entries per shard below which the last shard is merged.
const MERGE_BELOW: usize = 12;

/// A used cell has the hash in its upper half and the number in its lower half.
const EMPTY: u64 = u64::MAX;

/// Numbers are below this, so that no used cell equals `EMPTY`.
pub(crate) const MAX_NUMBER: u32 = u32::MAX - 1;

#[derive(Clone, Default)]
struct Shard {
    cells: Arc<[u64]>,
    len: u32,
}

impl Points {
    /// Returns the number with this hash for which `is_it` returns `true`.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u32, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let shard = self.shards.get(self.address(hash))?;
        shard.position(hash, is_it).map(|(_, number)| number)
    }

    /// Adds a number that is not in the table yet.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        debug_assert!(number < MAX_NUMBER, "the number is not reserved");
        self.shards.get_mut(self.address(hash)).insert(cell(hash, number));
        self.len += 1;
        if self.len > SPLIT_ABOVE.saturating_mul(self.count as usize) && self.count < u32::MAX / 2 {
            self.split();
        }
    }

    /// Removes a number, if it is in the table.
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

    /// Returns the same hashes with other numbers.
    pub(crate) fn renumbered(&self, number: impl Fn(u32) -> u32) -> Self {
        let mut points = Self::default();
        for cell in self.shards.iter().flat_map(Shard::used) {
            points.insert(hash_of(cell), number(number_of(cell)));
        }
        points
    }

    /// Returns the shard of a hash. Shards up to the next power of two that have not been split off yet are represented
    /// by the shard they will be split from.
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
        *self.shards.get_mut(parent) = Shard::with_cells(&staying);
        *self.shards.get_mut(new) = Shard::with_cells(&moving);
    }

    fn merge(&mut self) {
        self.count -= 1;
        let last = self.count;
        let parent = last & !(1 << last.ilog2());
        let cells: Vec<u64> = [last, parent]
            .into_iter()
            .flat_map(|shard| std::mem::take(self.shards.get_mut(shard)).used().collect::<Vec<_>>())
            .collect();
        *self.shards.get_mut(parent) = Shard::with_cells(&cells);
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
    fn with_cells(cells: &[u64]) -> Self {
        if cells.is_empty() {
            return Self::default();
        }
        let mut shard = Self::with_capacity(capacity_for(cells.len()));
        cells.iter().for_each(|cell| shard.place(*cell));
        shard
    }

    fn with_capacity(capacity: usize) -> Self {
        Self { cells: iter::repeat_n(EMPTY, capacity).collect(), len: 0 }
    }

    fn used(&self) -> impl Iterator<Item = u64> {
        self.cells.iter().copied().filter(|cell| *cell != EMPTY)
    }

    #[inline(always)]
    fn position(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<(usize, u32)> {
        let cells = &*self.cells;
        let mut index = home(hash, cells.len());
        // One cell in eight is empty; the bound only prevents an endless loop in case of a bug.
        for _ in 0..cells.len() {
            let cell = *cells.get(index)?;
            if cell == EMPTY {
                return None;
            }
            if hash_of(cell) == hash && is_it(number_of(cell)) {
                return Some((index, number_of(cell)));
            }
            index = if index + 1 == cells.len() { 0 } else { index + 1 };
        }
        None
    }

    fn insert(&mut self, cell: u64) {
        if (self.len as usize + 1) * 8 > self.cells.len() * 7 {
            let mut larger = Self::with_capacity(capacity_for(self.len as usize + 1));
            self.used().for_each(|cell| larger.place(cell));
            *self = larger;
        }
        self.place(cell);
    }

    /// Puts a cell into an array with room for it.
    fn place(&mut self, cell: u64) {
        let cells = Arc::make_mut(&mut self.cells);
        let (before, after) = cells.split_at_mut(home(hash_of(cell), cells.len()));
        if let Some(free) = after.iter_mut().chain(before).find(|cell| **cell == EMPTY) {
            *free = cell;
            self.len += 1;
        }
    }

    fn remove(&mut self, hash: u32, number: u32) {
        let Some((index, _)) = self.position(hash, |other| other == number) else { return };
        let cells = Arc::make_mut(&mut self.cells);
        close_gap(cells, index);
        self.len -= 1;
        if self.len as usize * 2 < self.cells.len() && self.cells.len() > 8 || self.len == 0 {
            let cells: Vec<u64> = self.used().collect();
            *self = Self::with_cells(&cells);
        }
    }
}

/// Empties a cell, and moves up each following cell that the gap would make unreachable.
#[expect(clippy::indexing_slicing, reason = "every index is reduced modulo the length")]
fn close_gap(cells: &mut [u64], index: usize) {
    let len = cells.len();
    let distance = |from: usize, to: usize| (to + len - from) % len;
    let (mut gap, mut next) = (index, index);
    loop {
        next = (next + 1) % len;
        let cell = cells[next];
        if cell == EMPTY || next == index {
            break;
        }
        if distance(home(hash_of(cell), len), next) >= distance(gap, next) {
            cells[gap] = cell;
            gap = next;
        }
    }
    cells[gap] = EMPTY;
}

/// Returns a capacity that this number of cells fills to about four fifths.
fn capacity_for(cells: usize) -> usize {
    (cells + cells / 4 + 1).next_multiple_of(8)
}

/// Returns the first cell to probe for a hash. Uses the upper bits, because the lower ones select the shard and are
/// equal within it.
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

    /// Hashes, many of them equal, in the same shard, or in the same place of a shard.
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
        fn behaves_like_a_set_of_pairs(
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
    fn equal_hashes_work_and_removal_frees_memory() {
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
    fn entry_takes_at_most_thirteen_bytes() {
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
