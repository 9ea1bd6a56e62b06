//! The point table: from a hash to a number, without keys, copied on write.

use std::sync::Arc;

use crate::cow::CowVec;

/// One entry. `EMPTY` as the number means that there is none.
#[derive(Clone, Copy)]
struct Cell {
    hash: u32,
    number: u32,
}

const EMPTY: Cell = Cell { hash: 0, number: u32::MAX };

impl Cell {
    fn is_empty(self) -> bool {
        self.number == EMPTY.number
    }
}

/// A small table with open addressing; its length is a power of two, or zero.
#[derive(Clone, Default)]
struct Shard {
    cells: Arc<[Cell]>,
    used: u32,
}

/// Maps a hash to a number (of a slot, of a bucket) and leaves it to the caller to compare what has that
/// number; so the table holds no keys and no references, eight bytes an entry, and copying a part of it
/// is copying bytes.
///
/// It grows and shrinks by linear hashing: one small shard is split or merged at a time, so that no single
/// write pays for all. Growing needs no key either, since the hash is in the entry.
#[derive(Clone, Default)]
pub(crate) struct Points {
    shards: CowVec<Shard>,
    /// Shards in use, less one.
    last: u32,
    used: u32,
}

/// Entries per shard on average; above it a shard is split, below a quarter of it two are merged.
const AVERAGE: u32 = 40;
const SMALLEST: usize = 8;

impl Points {
    pub(crate) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let cells = &self.shards.get(self.shard_of(hash))?.cells;
        let mask = cells.len().wrapping_sub(1);
        let mut at = place(hash, mask);
        // A shard is never full, so there is an empty cell to end at.
        loop {
            let cell = cells.get(at)?;
            if cell.is_empty() {
                return None;
            }
            if cell.hash == hash && is(cell.number) {
                return Some(cell.number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an entry; the caller has made sure that it is not there.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        let shard = self.shard_of(hash);
        self.shards.get_mut(shard).insert(Cell { hash, number });
        self.used += 1;
        if self.used / AVERAGE > self.last {
            self.split();
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, hash: u32, number: u32) {
        let shard = self.shard_of(hash);
        if self.shards.get_mut(shard).remove(hash, number) {
            self.used -= 1;
            if self.last > 0 && self.used / (AVERAGE / 4) < self.last {
                self.merge();
            }
        }
    }

    /// With `last + 1` shards, `2^level` of which the lower `split` have been split already: the low `level`
    /// bits of the hash, and one more for those.
    fn shard_of(&self, hash: u32) -> usize {
        let high = if self.last == 0 { 0 } else { u32::MAX >> self.last.leading_zeros() };
        let shard = hash & high;
        (if shard > self.last { shard & (high >> 1) } else { shard }) as usize
    }

    fn split(&mut self) {
        self.last += 1;
        let from = self.last & !(1 << (31 - self.last.leading_zeros()));
        let cells = std::mem::take(self.shards.get_mut(from as usize)).cells;
        for cell in cells.iter().filter(|cell| !cell.is_empty()) {
            let shard = self.shard_of(cell.hash);
            self.shards.get_mut(shard).insert(*cell);
        }
    }

    fn merge(&mut self) {
        let cells = std::mem::take(self.shards.get_mut(self.last as usize)).cells;
        self.shards.free_leaf_unless(self.last as usize, |shard| !shard.cells.is_empty());
        self.last -= 1;
        for cell in cells.iter().filter(|cell| !cell.is_empty()) {
            let shard = self.shard_of(cell.hash);
            self.shards.get_mut(shard).insert(*cell);
        }
    }
}

/// Where an entry would like to be; the low bits have chosen the shard.
fn place(hash: u32, mask: usize) -> usize {
    (hash >> 20) as usize & mask
}

impl Shard {
    fn insert(&mut self, cell: Cell) {
        let used = self.used as usize + 1;
        if used * 8 > self.cells.len() * 7 {
            self.resize((self.cells.len() * 2).max(SMALLEST));
        }
        self.used += 1;
        put(Arc::make_mut(&mut self.cells), cell);
    }

    fn resize(&mut self, len: usize) {
        let mut cells: Arc<[Cell]> = vec![EMPTY; len].into();
        let fresh = Arc::make_mut(&mut cells);
        for cell in self.cells.iter().filter(|cell| !cell.is_empty()) {
            put(fresh, *cell);
        }
        self.cells = cells;
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "every index is masked with the length, a power of two, less one"
    )]
    fn remove(&mut self, hash: u32, number: u32) -> bool {
        let Some(mask) = self.cells.len().checked_sub(1) else { return false };
        let mut gap = place(hash, mask);
        while !(self.cells[gap].hash == hash && self.cells[gap].number == number) {
            if self.cells[gap].is_empty() {
                return false;
            }
            gap = (gap + 1) & mask;
        }
        // Close the gap: move back whatever would no longer be found behind it.
        let cells = Arc::make_mut(&mut self.cells);
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            if cells[at].is_empty() {
                break;
            }
            let home = place(cells[at].hash, mask);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                cells[gap] = cells[at];
                gap = at;
            }
        }
        cells[gap] = EMPTY;
        self.used -= 1;
        if self.cells.len() > SMALLEST && (self.used as usize) * 4 < self.cells.len() {
            self.resize(self.cells.len() / 2);
        }
        true
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "every index is masked with the length, a power of two, less one"
)]
fn put(cells: &mut [Cell], cell: Cell) {
    let mask = cells.len() - 1;
    let mut at = place(cell.hash, mask);
    while !cells[at].is_empty() {
        at = (at + 1) & mask;
    }
    cells[at] = cell;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn check(points: &Points, model: &BTreeMap<u32, u32>) {
        for (number, hash) in model {
            assert_eq!(points.find(*hash, |n| n == *number), Some(*number));
        }
        let mut stored = 0;
        for (_, leaf) in points.shards.leaves(0) {
            stored += leaf.iter().flat_map(|s| s.cells.iter()).filter(|c| !c.is_empty()).count();
        }
        assert_eq!(stored, model.len());
        assert_eq!(points.used as usize, model.len());
        assert_eq!(points.find(7, |_| false), None);
    }

    /// Few distinct hashes force collisions in one shard; many spread.
    fn hashes() -> impl Strategy<Value = u32> {
        prop_oneof![0u32..3, any::<u32>().prop_map(|h| h & 0xfff0_0003), any::<u32>()]
    }

    proptest! {
        #[test]
        fn like_a_map_whatever_the_hashes(
            writes in prop::collection::vec((hashes(), 0u8..4, any::<prop::sample::Index>()), 1..600),
        ) {
            let mut points = Points::default();
            let mut model = BTreeMap::new();
            let mut clones = Vec::new();
            for (number, (hash, what, index)) in writes.into_iter().enumerate() {
                if what == 0 && !model.is_empty() {
                    let (&number, &hash) = model.iter().nth(index.index(model.len())).unwrap();
                    model.remove(&number);
                    points.remove(hash, number);
                } else {
                    points.insert(hash, number as u32);
                    model.insert(number as u32, hash);
                }
                if number % 97 == 0 {
                    clones.push((points.clone(), model.clone()));
                }
            }
            clones.push((points, model));
            clones.iter().for_each(|(points, model)| check(points, model));
        }
    }

    #[test]
    fn grows_and_shrinks_without_waste() {
        let hash = |n: u32| n.wrapping_mul(0x9e37_79b9) ^ n.rotate_left(13);
        let mut points = Points::default();
        for n in 0..100_000 {
            points.insert(hash(n), n);
        }
        assert_eq!(points.last, 100_000 / AVERAGE);
        let cells =
            |p: &Points| p.shards.leaves(0).flat_map(|(_, l)| l.iter().map(|s| s.cells.len())).sum::<usize>();
        assert!(
            cells(&points) * 8 < 100_000 * 16,
            "{} bytes an entry",
            cells(&points) as f64 * 8.0 / 100_000.0
        );
        for n in 0..99_990 {
            points.remove(hash(n), n);
        }
        assert!(points.last <= 1, "{} shards for 10 entries", points.last + 1);
        check(&points, &(99_990..100_000).map(|n| (n, hash(n))).collect());
    }
}
