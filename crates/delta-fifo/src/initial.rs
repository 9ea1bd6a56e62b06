//! Progress of the initial lists: the entries of each part's first replace, and whether they have been processed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use kinformer_core::{PartId, Parts};

/// Follows client-go 0.37 (`HasSynced`), except that an entry counts once it has been processed, not when it is popped.
///
/// The parts may change. Once the queue has synced, it stays synced, and no list is initial any more.
pub(crate) struct Initial<T> {
    parts: Parts<T>,
    /// The parts that have been written. From then on the initial list of a part is known. Empty once the queue has synced.
    populated: BTreeSet<PartId>,
    synced: bool,
    /// The queued entries that the queue must process to be synced, from the front.
    queued: VecDeque<Run>,
    /// Number of these entries, including those that are popped and not processed yet.
    unprocessed: usize,
    /// Number of them that are no entries of the queue: empty lists whose version the next pop returns.
    reached: usize,
}

/// The queued entries of one initial list, or the last entry before an empty one.
struct Run {
    /// Other entries between the previous run and this one; a bookmark or a resync may precede a list.
    before: usize,
    entries: usize,
    /// Whether the entries are of an initial list.
    is_listed: bool,
}

impl<T> Initial<T> {
    pub(crate) fn new(parts: Parts<T>) -> Self {
        let (populated, queued) = (BTreeSet::new(), VecDeque::new());
        Self { parts, populated, synced: false, queued, unprocessed: 0, reached: 0 }
    }

    /// Returns whether the next replace of this part is its first list.
    pub(crate) fn is_first(&self, part: PartId) -> bool {
        !self.synced && self.parts.exists(part) && !self.populated.contains(&part)
    }

    /// Records a write of a part. Returns whether it was the first.
    fn populate(&mut self, part: PartId) -> bool {
        !self.synced && self.parts.exists(part) && self.populated.insert(part)
    }

    /// Records the write of an object of this part. Without a previous replace, the part has no initial list. Returns
    /// whether this made the queue synced.
    pub(crate) fn written(&mut self, part: PartId) -> bool {
        self.populate(part) && self.has_synced()
    }

    /// Records that a replace of this part queued these entries, or merged deltas into them. Returns whether this made
    /// the queue synced. O(entries log entries), once for each part.
    pub(crate) fn replaced(&mut self, part: PartId, listed: impl IntoIterator<Item = Range<usize>>) -> bool {
        if !self.populate(part) {
            return false;
        }
        self.wait_for(listed.into_iter().map(|range| (range, true)));
        self.has_synced()
    }

    /// Adds entries that must be processed, and whether they are of an initial list.
    fn wait_for(&mut self, added: impl IntoIterator<Item = (Range<usize>, bool)>) {
        let mut end = 0;
        let range = |Run { before, entries, is_listed }: Run| {
            let start = end + before;
            end = start + entries;
            (start..end, is_listed)
        };
        let mut ranges: Vec<_> = self.queued.drain(..).map(range).collect();
        let known: usize = ranges.iter().map(|(range, _)| range.len()).sum();
        ranges.extend(added);
        // An entry counts once, even if several lists merged deltas into it.
        ranges.sort_unstable_by_key(|(range, is_listed)| (range.start, Reverse(range.end), !is_listed));
        let (mut end, mut entries) = (0, 0);
        for (range, is_listed) in ranges {
            let start = range.start.max(end);
            if start < range.end {
                entries += range.end - start;
                self.queued.push_back(Run { before: start - end, entries: range.end - start, is_listed });
                end = range.end;
            }
        }
        self.unprocessed += entries - known;
    }

    /// Like [`Self::replaced`], for a list that queued nothing. Its version follows the last of this many entries, which is
    /// of no initial list for that, or is returned by the next pop.
    pub(crate) fn replaced_by_nothing(&mut self, part: PartId, entries: usize) {
        if !self.populate(part) {
            return;
        }
        if entries > 0 {
            return self.wait_for([(entries - 1..entries, false)]);
        }
        self.reached += 1;
        self.unprocessed += 1;
    }

    /// Records that the next pop returns the versions of empty lists. Returns their number.
    pub(crate) fn take_reached(&mut self) -> usize {
        std::mem::take(&mut self.reached)
    }

    /// Returns whether every part has an initial list, or had one when the queue synced.
    pub(crate) fn is_populated(&self) -> bool {
        self.synced || self.parts.ids().iter().all(|part| self.populated.contains(part))
    }

    pub(crate) fn has_synced(&mut self) -> bool {
        if !self.synced && self.unprocessed == 0 && self.is_populated() {
            self.synced = true;
            self.populated.clear();
        }
        self.synced
    }

    /// Returns how many of the next `max` entries may be popped together, and whether they belong to an initial list.
    /// Batches do not cross the boundaries of an initial list.
    pub(crate) fn next(&self, max: usize) -> (usize, bool) {
        match self.queued.front() {
            None => (max, false),
            Some(Run { before: 0, entries, is_listed }) => (max.min(*entries), *is_listed),
            Some(Run { before, .. }) => (max.min(*before), false),
        }
    }

    /// Records a pop of entries from the front, at most as many as [`Self::next`] returned. Returns how many of them
    /// the sync waits for.
    pub(crate) fn popped(&mut self, entries: usize) -> usize {
        let Some(run) = self.queued.front_mut() else { return 0 };
        if run.before > 0 {
            run.before -= entries.min(run.before);
            return 0;
        }
        let initial = entries.min(run.entries);
        run.entries -= initial;
        if run.entries == 0 {
            self.queued.pop_front();
        }
        initial
    }

    /// Records that entries that the sync waits for have been processed. Returns whether this made the queue synced.
    pub(crate) fn processed(&mut self, entries: usize) -> bool {
        self.unprocessed -= entries;
        entries > 0 && self.has_synced()
    }
}
