//! The results of index functions, kept until the locks are taken.

use std::cell::Cell;
use std::sync::Arc;

use kinformer_core::{BoxError, Object};

use crate::index::{Hasher, Values, hash_text};
use crate::index_function::{IndexFunction, IndexValues};
use crate::points::Points;

/// The values of one or more objects in one string: no allocation per object or value.
#[derive(Default)]
pub(crate) struct Evaluated {
    values: IndexValues,
    /// The end of each evaluation's ranges.
    ends: Vec<u32>,
    /// For large lists: deduplicates values.
    distinct: Option<Distinct>,
}

struct Distinct {
    hasher: Hasher,
    points: Points,
    ranges: Vec<(u32, u32)>,
}

thread_local! {
    /// The buffers of this thread's last write, for the next one.
    static SPARE: Cell<Option<Evaluated>> = const { Cell::new(None) };
}

/// The largest capacity retained for the next write.
const KEEP_BELOW: usize = 4096;

impl Evaluated {
    /// For one object.
    pub(crate) fn for_one() -> Self {
        // Thread-local storage may be destroyed already on a thread that is ending.
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Returns the buffers for reuse by this thread's next write.
    pub(crate) fn recycle(mut self) {
        if self.values.text.capacity() + self.values.ranges.capacity() + self.ends.capacity() < KEEP_BELOW {
            self.values.text.clear();
            self.values.ranges.clear();
            self.values.too_long = false;
            self.ends.clear();
            _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }

    /// For a list, in which most values are repeated.
    pub(crate) fn for_list(hasher: Hasher) -> Self {
        let distinct = Distinct { hasher, points: Points::default(), ranges: Vec::new() };
        Self { distinct: Some(distinct), ..Self::default() }
    }

    /// Calls the functions in order; the result of each gets the next number. A failed function is reported and has no
    /// values.
    pub(crate) fn evaluate<T: Object>(
        &mut self,
        functions: &[(Arc<str>, IndexFunction<T>)],
        object: &Arc<T>,
        mut failed: impl FnMut(&Arc<str>, BoxError),
    ) {
        for (name, function) in functions {
            let (text, ranges) = (self.values.text.len(), self.values.ranges.len());
            if let Err(source) = function.call(object, &mut self.values) {
                self.values.text.truncate(text);
                self.values.ranges.truncate(ranges);
                self.values.too_long = false;
                failed(name, source);
            }
            self.sort_and_deduplicate(ranges);
            self.share(text, ranges);
            self.ends.push(self.values.ranges.len() as u32);
        }
    }

    /// Records empty results for this many functions.
    pub(crate) fn skip(&mut self, functions: usize) {
        let end = self.values.ranges.len() as u32;
        self.ends.extend(std::iter::repeat_n(end, functions));
    }

    /// Returns the result with this number.
    pub(crate) fn result(&self, number: usize) -> IndexResult<'_> {
        let end = |number: usize| self.ends.get(number).map_or(0, |end| *end as usize);
        let start = number.checked_sub(1).map_or(0, end);
        let ranges = self.values.ranges.get(start..end(number)).unwrap_or_default();
        IndexResult { values: &self.values, ranges }
    }

    /// Sorts the values of the last result and removes duplicates.
    fn sort_and_deduplicate(&mut self, start: usize) {
        let IndexValues { text, ranges, .. } = &mut self.values;
        let Some(result) = ranges.get_mut(start..).filter(|result| result.len() > 1) else { return };
        let text = |range: &(u32, u32)| text.get(range.0 as usize..range.1 as usize).unwrap_or_default();
        result.sort_unstable_by(|a, b| text(a).cmp(text(b)));
        let mut kept = start;
        for next in start..ranges.len() {
            let Some(range) = ranges.get(next).copied() else { break };
            let repeated =
                kept > start && ranges.get(kept - 1).is_some_and(|last| text(last) == text(&range));
            if !repeated && let Some(to) = ranges.get_mut(kept) {
                *to = range;
                kept += 1;
            }
        }
        ranges.truncate(kept);
    }

    /// Makes the last result refer to equal values that are stored already.
    fn share(&mut self, text_start: usize, start: usize) {
        let Some(distinct) = &mut self.distinct else { return };
        let mut all_known = true;
        for index in start..self.values.ranges.len() {
            let Some(range) = self.values.ranges.get(index).copied() else { break };
            let value = self.values.text(range);
            let hash = hash_text(&distinct.hasher, value);
            let known = distinct.points.find(hash, |number| {
                distinct.ranges.get(number as usize).is_some_and(|known| self.values.text(*known) == value)
            });
            match known.and_then(|number| distinct.ranges.get(number as usize)) {
                Some(known) => {
                    if let Some(to) = self.values.ranges.get_mut(index) {
                        *to = *known;
                    }
                }
                None => {
                    all_known = false;
                    distinct.points.insert(hash, distinct.ranges.len() as u32);
                    distinct.ranges.push(range);
                }
            }
        }
        if all_known {
            self.values.text.truncate(text_start);
        }
    }
}

/// The values of one object in one index.
pub(crate) struct IndexResult<'a> {
    values: &'a IndexValues,
    ranges: &'a [(u32, u32)],
}

impl Values for IndexResult<'_> {
    fn len(&self) -> usize {
        self.ranges.len()
    }

    fn get(&self, index: usize) -> &str {
        self.ranges.get(index).map_or("", |range| self.values.text(*range))
    }
}
