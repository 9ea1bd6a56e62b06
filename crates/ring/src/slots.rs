//! Sets of slots.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A set of slots, as ranges: sorted, and not adjacent to each other. Its text is such as `0-340,512,600-1023`.
///
/// ```
/// use kinformer_ring::Slots;
///
/// let slots: Slots = "0-340,512,600-1023".parse()?;
/// assert!(slots.contains(512) && !slots.contains(511));
/// assert_eq!(slots.len(), 341 + 1 + 424);
/// assert_eq!(slots.without(&"1-1000".parse()?).to_string(), "0,1001-1023");
/// # Ok::<(), kinformer_ring::InvalidSlots>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slots(Vec<Range<u16>>);

impl Slots {
    /// Returns the slots of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().cloned().flatten()
    }

    /// Returns the ranges of the set, in order. No two of them are adjacent.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u16>] {
        &self.0
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(ExactSizeIterator::len).sum()
    }

    /// Whether the set has no slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the slots of this set that are not in the other one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.iter().filter(|slot| !other.contains(*slot)).collect()
    }

    /// Whether the slot is in the set.
    #[must_use]
    pub fn contains(&self, slot: u16) -> bool {
        let after = self.0.partition_point(|range| range.start <= slot);
        after.checked_sub(1).and_then(|index| self.0.get(index)).is_some_and(|range| range.contains(&slot))
    }
}

impl FromIterator<u16> for Slots {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> Self {
        let mut sorted: Vec<u16> = slots.into_iter().collect();
        sorted.sort_unstable();
        let mut ranges: Vec<Range<u16>> = Vec::new();
        for slot in sorted {
            match ranges.last_mut() {
                Some(last) if slot < last.end => {}
                Some(last) if slot == last.end => last.end = slot.saturating_add(1),
                _ => ranges.push(slot..slot.saturating_add(1)),
            }
        }
        Self(ranges)
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let (comma, last) = (if index == 0 { "" } else { "," }, range.end.saturating_sub(1));
            match range.len() {
                1 => write!(f, "{comma}{last}")?,
                _ => write!(f, "{comma}{}-{last}", range.start)?,
            }
        }
        Ok(())
    }
}

/// A text is not a set of slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no set of slots such as 0-340,512")]
pub struct InvalidSlots(String);

impl FromStr for Slots {
    type Err = InvalidSlots;

    fn from_str(text: &str) -> Result<Self, InvalidSlots> {
        let invalid = || InvalidSlots(text.to_owned());
        let mut slots = Vec::new();
        for range in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<u16>(), last.parse::<u16>());
            let (Ok(first), Ok(last)) = (first, last) else { return Err(invalid()) };
            if first > last || last == u16::MAX {
                return Err(invalid());
            }
            slots.extend(first..=last);
        }
        Ok(slots.into_iter().collect())
    }
}
