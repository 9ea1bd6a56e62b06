//! A CLOCK cache of decoded objects: an entry that was not read since the hand last passed is evicted.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

/// A CLOCK (second chance) cache of at most `limit` decoded objects. To insert into a full cache, the hand moves over
/// the places in a circle, clears their marks, and evicts the first entry without a mark.
pub(crate) struct Recent {
    limit: usize,
    /// The mark of each place: whether its entry was read since the hand last passed.
    read: OnceLock<Box<[AtomicBool]>>,
    clock: Mutex<Clock>,
}

#[derive(Default)]
struct Clock {
    places: Vec<Option<Kept>>,
    hand: usize,
}

impl Recent {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, read: OnceLock::new(), clock: Mutex::default() }
    }

    /// Inserts an object. Returns its place and the evicted object. O(1) on average.
    pub(crate) fn keep(&self, object: Kept) -> (Option<usize>, Option<Kept>) {
        if self.limit == 0 {
            return (None, None);
        }
        let read = self.read.get_or_init(|| (0..self.limit).map(|_| AtomicBool::new(false)).collect());
        let mut clock = self.clock.lock();
        let Clock { places, hand } = &mut *clock;
        if places.len() < self.limit {
            places.push(Some(object));
            return (Some(places.len() - 1), None);
        }
        // At most two rounds, so that readers that continue to mark entries cannot delay this call. The object is then
        // not cached.
        for _ in 0..2 * self.limit {
            let place = *hand;
            *hand = (place + 1) % self.limit;
            let (Some(kept), Some(read)) = (places.get_mut(place), read.get(place)) else { continue };
            if kept.is_none() || !read.swap(false, Ordering::Relaxed) {
                return (Some(place), kept.replace(object));
            }
        }
        (None, None)
    }

    /// Marks the entry in this place as read.
    #[inline]
    pub(crate) fn read(&self, place: usize) {
        let mark = self.read.get().and_then(|read| read.get(place));
        // Reads first, so that concurrent readers of one object do not write to the same cache line.
        if let Some(mark) = mark.filter(|mark| !mark.load(Ordering::Relaxed)) {
            mark.store(true, Ordering::Relaxed);
        }
    }

    /// Removes and returns the entry in this place if it is at this address.
    pub(crate) fn take(&self, place: usize, address: *const ()) -> Option<Kept> {
        let mut clock = self.clock.lock();
        clock.places.get_mut(place)?.take_if(|kept| Arc::as_ptr(kept).cast() == address)
    }
}

/// A cache of the most recently read values of [packed](crate::Packed) objects: see
/// [`ObjectDecoder::decoded_cache`](crate::ObjectDecoder::decoded_cache). Cheap to clone; clones are the same cache. By
/// default it holds 256 values: enough for the lag between handlers that process the same events concurrently.
#[derive(Clone, Debug)]
pub struct DecodedCache {
    pub(crate) recent: Arc<Recent>,
}

impl DecodedCache {
    /// Creates a cache of this many values; none with 0.
    pub fn new(objects: usize) -> Self {
        Self { recent: Arc::new(Recent::new(objects)) }
    }
}

impl Default for DecodedCache {
    fn default() -> Self {
        Self::new(256)
    }
}

impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(recent: &Recent, value: &Arc<u32>) -> (Option<usize>, Option<u32>) {
        let (place, evicted) = recent.keep(value.clone());
        (place, evicted.map(|evicted| *evicted.downcast::<u32>().unwrap()))
    }

    #[test]
    fn recently_read_entries_are_kept() {
        let recent = Recent::new(3);
        let values: Vec<Arc<u32>> = (0..6).map(Arc::new).collect();
        for (place, value) in values.iter().take(3).enumerate() {
            assert_eq!(keep(&recent, value), (Some(place), None));
        }
        recent.read(0);
        recent.read(2);
        assert_eq!(keep(&recent, &values[3]), (Some(1), Some(1)));
        // 2 was read since the hand passed; the mark of 0 was cleared when it passed.
        assert_eq!(keep(&recent, &values[4]), (Some(0), Some(0)));
        recent.read(0);
        recent.read(1);
        assert_eq!(keep(&recent, &values[5]), (Some(2), Some(2)));
    }

    /// Only the entry with the given place and address is removed, and its place is reused.
    #[test]
    fn removed_entry_frees_its_place() {
        let recent = Recent::new(2);
        let values: Vec<Arc<u32>> = (0..3).map(Arc::new).collect();
        let address = |value: &Arc<u32>| Arc::as_ptr(value).cast();
        keep(&recent, &values[0]);
        keep(&recent, &values[1]);
        assert!(recent.take(0, address(&values[1])).is_none());
        assert!(recent.take(7, address(&values[1])).is_none());
        assert!(recent.take(1, address(&values[1])).is_some());
        assert_eq!(Arc::strong_count(&values[1]), 1);
        assert_eq!(keep(&recent, &values[2]), (Some(0), Some(0)));
        assert_eq!(keep(&recent, &values[0]), (Some(1), None));
    }

    #[test]
    fn cache_of_size_zero_keeps_nothing() {
        let value = Arc::new(1);
        assert_eq!(keep(&Recent::new(0), &value), (None, None));
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
