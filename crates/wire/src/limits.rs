//! How much memory and how much of the stack the decoding of one object may take.
//!
//! A few bytes can ask for much: `{}` in a list of containers is a container of 2.3 KB, and a map with one entry is
//! allocated with room for eleven. So what a type is about to allocate is counted before it does, from the sizes of its
//! elements: a list grows by doubling and is copied then, a map consists of nodes that are half full. Texts are as large
//! as their bytes, for which there is a reserve.

use std::cell::Cell;

use kinformer_core::ObjectKey;

use crate::Error;

/// Decoding takes at most this many times the bytes, and [`SLACK`].
const FACTOR: usize = 64;
const SLACK: usize = 1024 * 1024;
/// Of these, what texts and buffers take.
const FACTOR_OF_TEXTS: usize = 8;
const SLACK_OF_TEXTS: usize = 64 * 1024;

/// What the levels of an object may take of the stack, which has 2 MiB in the threads of tokio: 47 levels of a schema
/// whose properties have properties, which take more than all others, and 127 of what is smaller.
const STACK: u32 = 1280 * 1024;
/// What a level takes beside the values that are being built on it, at most, without optimization.
const FRAME: u32 = 5 * 1024;
/// How many copies of a value are on the stack while it is being built, at most, without optimization.
const COPIES: u32 = 20;

/// No list begins with room for more than this, whatever number of elements it expects.
const PREALLOCATED: usize = 1024 * 1024;

/// The decoding of one object.
#[derive(Debug)]
pub(crate) struct Limits {
    bytes: usize,
    left: Cell<usize>,
    exceeded: Cell<Option<Exceeded>>,
}

/// What there was too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Memory,
    Depth,
}

impl Exceeded {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Memory => "it takes too much memory",
            Self::Depth => "it is nested too deep",
        }
    }
}

type Result<T> = std::result::Result<T, Exceeded>;

impl Limits {
    /// For an object of so many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        let left = bytes.saturating_mul(FACTOR - FACTOR_OF_TEXTS).saturating_add(SLACK - SLACK_OF_TEXTS);
        Self { bytes, left: Cell::new(left), exceeded: Cell::new(None) }
    }

    /// The error, if it was a limit that decoding failed at.
    pub(crate) fn error(&self, what: &str, key: impl FnOnce() -> Option<ObjectKey>) -> Option<Error> {
        let what = what.to_owned();
        match self.exceeded.get()? {
            Exceeded::Memory => {
                let limit = self.bytes.saturating_mul(FACTOR).saturating_add(SLACK);
                Some(Error::DecodedTooLarge { what, key: key(), limit })
            }
            Exceeded::Depth => Some(Error::TooDeep { what, key: key() }),
        }
    }

    #[cold]
    pub(crate) fn exceeded<T>(&self, exceeded: Exceeded) -> Result<T> {
        self.exceeded.set(Some(exceeded));
        Err(exceeded)
    }

    /// Counts what is about to be allocated for as long as the object lives; `for_now` is freed before more is.
    #[inline]
    fn allocate(&self, size: usize, for_now: usize) -> Result<()> {
        match self.left.get().checked_sub(size) {
            Some(left) if left >= for_now => {
                self.left.set(left);
                Ok(())
            }
            _ => self.exceeded(Exceeded::Memory),
        }
    }

    /// How many elements a list may begin with, whose size is not known.
    pub(crate) fn expected(&self, elements: usize) -> usize {
        const LARGE: usize = 8 * 1024;
        let left = self.left.get();
        if left >= PREALLOCATED { elements } else { elements.min(left / LARGE) }
    }
}

/// Where on the stack a value is, and in what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// What the levels around it take.
    stack: u32,
    /// How much of the value there is room for in what is around it. More is allocated on its own.
    room: u32,
}

fn short(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

impl Place {
    /// Of a value of that size, in no other.
    pub(crate) fn outermost(size: usize) -> Self {
        Self { stack: 0, room: short(size) }
    }

    /// Of a value of that size within one that was [entered](Self::enter).
    #[inline]
    pub(crate) fn within(self, size: usize) -> Self {
        Self { room: short(size), ..self }
    }

    /// Into a value of that size which has others in it.
    #[inline]
    pub(crate) fn enter(self, limits: &Limits, size: usize) -> Result<Self> {
        let short = short(size);
        let mut copied = self.room;
        if short > self.room {
            limits.allocate(size, 0)?;
            copied = copied.saturating_add(short);
        }
        let stack = self.stack.saturating_add(FRAME).saturating_add(copied.saturating_mul(COPIES));
        if stack > STACK { limits.exceeded(Exceeded::Depth) } else { Ok(Self { stack, room: short }) }
    }
}

/// What is made of the elements or entries of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A struct, which has its fields in itself.
    Struct,
    /// A list or map.
    Collection,
    /// What takes anything. It may be built twice, the second time from what was buffered.
    Anything,
}

/// The memory of a list or map that grows.
#[derive(Debug)]
pub(crate) struct Growth {
    target: Target,
    count: usize,
    /// How many more it takes before it grows.
    free: usize,
    /// A struct is built of the entries, and its size is not known.
    hidden: bool,
}

impl Growth {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, count: 0, free: if target == Target::Struct { usize::MAX } else { 0 }, hidden: false }
    }

    /// Before each entry, of which the key has that size. What takes anything may give what is in a map to a struct of
    /// another type, as the unions of apiextensions do, which put it into a box. Its keys are small: they name its fields.
    #[inline]
    pub(crate) fn key(&mut self, limits: &Limits, size: usize) -> Result<()> {
        const NAME_OF_FIELD: usize = 8;
        const STRUCT: usize = 1024;
        if self.target == Target::Anything && size <= NAME_OF_FIELD && !self.hidden {
            self.hidden = true;
            limits.allocate(STRUCT, 0)?;
        }
        Ok(())
    }

    /// One more element of that size; the list began with room for so many.
    #[inline]
    pub(crate) fn element(&mut self, limits: &Limits, size: usize, expected: usize) -> Result<()> {
        self.free = match self.free.checked_sub(1) {
            Some(free) => free,
            None => self.grow_list(limits, size, expected)?,
        };
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    #[inline(never)]
    fn grow_list(&self, limits: &Limits, size: usize, expected: usize) -> Result<usize> {
        if size == 0 {
            return Ok(usize::MAX);
        }
        let capacity = if self.count == 0 {
            let first = if size > 1024 { 1 } else { 8 };
            expected.min(PREALLOCATED / size).max(first)
        } else {
            self.count.saturating_mul(2)
        };
        let size = if self.target == Target::Anything { size.saturating_mul(2) } else { size };
        let more = capacity.saturating_sub(self.count);
        limits.allocate(more.saturating_mul(size), self.count.saturating_mul(size))?;
        Ok(more.saturating_sub(1))
    }

    /// One more entry of that size.
    #[inline]
    pub(crate) fn entry(&mut self, limits: &Limits, size: usize) -> Result<()> {
        if self.target == Target::Struct {
            return Ok(());
        }
        self.free = match self.free.checked_sub(1) {
            Some(free) => free,
            None => self.grow_map(limits, size)?,
        };
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    #[inline(never)]
    fn grow_map(&self, limits: &Limits, size: usize) -> Result<usize> {
        /// The entries of a node of a `BTreeMap`, the fewest that one has beside the first, and what else is in it.
        const NODE: usize = 11;
        const FEWEST: usize = 5;
        const LINKS: usize = 128;
        let node = size.saturating_mul(NODE).saturating_add(LINKS);
        if self.count == 0 {
            limits.allocate(node, 0)?;
            return Ok(NODE - 1);
        }
        // A node of those above the leaves for each five; and a `HashMap` is copied when it grows.
        let copied = self.count.saturating_mul(size).saturating_mul(6) / 5;
        limits.allocate(node.saturating_add(node / 4), copied)?;
        Ok(FEWEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted_with_their_slack() {
        let limits = Limits::of(0);
        let before = limits.left.get();
        let taken = || before - limits.left.get();
        let mut list = Growth::new(Target::Collection);
        list.element(&limits, 100, 0).unwrap();
        assert_eq!(taken(), 800);
        for _ in 1..8 {
            list.element(&limits, 100, 0).unwrap();
        }
        assert_eq!(taken(), 800);
        list.element(&limits, 100, 0).unwrap();
        assert_eq!(taken(), 1600);
        let mut exact = Growth::new(Target::Collection);
        for _ in 0..20 {
            exact.element(&limits, 10, 20).unwrap();
        }
        assert_eq!(taken(), 1800);
        let mut nothing = Growth::new(Target::Collection);
        for _ in 0..100 {
            nothing.element(&limits, 0, 0).unwrap();
        }
        assert_eq!(taken(), 1800);
        let mut large = Growth::new(Target::Anything);
        assert_eq!(large.element(&limits, before, 0), Err(Exceeded::Memory));
        let error = limits.error("Pod", || None);
        assert!(matches!(error, Some(Error::DecodedTooLarge { limit: SLACK, .. })), "{error:?}");
    }

    #[test]
    fn a_level_that_is_allocated_on_its_own_is_counted() {
        let limits = Limits::of(0);
        let before = limits.left.get();
        let place = Place::outermost(100).enter(&limits, 100).unwrap();
        assert_eq!(limits.left.get(), before);
        place.within(8).enter(&limits, 1000).unwrap();
        assert_eq!(limits.left.get(), before - 1000);
        let mut place = Place::outermost(8);
        let levels = (1..).find(|_| match place.enter(&limits, 8) {
            Ok(next) => {
                place = next.within(8);
                false
            }
            Err(_) => true,
        });
        assert!(levels.is_some_and(|levels| levels > 127), "{levels:?}");
    }
}
