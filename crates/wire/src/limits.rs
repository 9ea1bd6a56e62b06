//! The memory and stack limits for decoding one object.
//!
//! A few bytes can cause large allocations: `{}` in a list of containers is a container of 2.3 KB, and a map with one
//! entry is allocated with room for eleven. So allocations are counted before they are made, from the sizes of the
//! elements: a list doubles its capacity and is copied then, a map consists of nodes that are half full. Strings are as
//! large as their bytes, for which there is a reserve.

use std::cell::Cell;

use kinformer_core::ObjectKey;

use crate::Error;

/// Decoding takes at most this many times the size of the object, plus [`SLACK`].
const FACTOR: usize = 64;
const SLACK: usize = 1024 * 1024;
/// The part of [`FACTOR`] that is reserved for strings and buffers.
const FACTOR_OF_TEXTS: usize = 8;
const SLACK_OF_TEXTS: usize = 64 * 1024;

/// The maximum stack use of the levels of an object; the threads of tokio have 2 MiB. Enough for 47 levels of a schema
/// whose properties have properties, which take the most, and for 127 levels of smaller types.
const STACK: u32 = 1280 * 1024;
/// The maximum stack use of a level beside its values, without optimization.
const FRAME: u32 = 5 * 1024;
/// The maximum number of copies of a value on the stack while it is built, without optimization.
const COPIES: u32 = 20;

/// The maximum number of bytes that a list allocates before its first element, as serde's size hint.
const PREALLOCATED: usize = 1024 * 1024;

/// The limits of decoding one object.
#[derive(Debug)]
pub(crate) struct Limits {
    bytes: usize,
    left: Cell<usize>,
    exceeded: Cell<Option<Exceeded>>,
}

/// The exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Memory,
    Depth,
}

impl Exceeded {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Memory => "the memory limit is exceeded",
            Self::Depth => "the nesting limit is exceeded",
        }
    }
}

type Result<T> = std::result::Result<T, Exceeded>;

impl Limits {
    /// Creates the limits for an object of this size.
    pub(crate) fn of(bytes: usize) -> Self {
        let left = bytes.saturating_mul(FACTOR - FACTOR_OF_TEXTS).saturating_add(SLACK - SLACK_OF_TEXTS);
        Self { bytes, left: Cell::new(left), exceeded: Cell::new(None) }
    }

    /// Returns the error if a limit was exceeded.
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

    /// Counts an allocation of `size` bytes that lives as long as the object. Another `temporary` bytes are freed before
    /// the next allocation.
    #[inline]
    fn allocate(&self, size: usize, temporary: usize) -> Result<()> {
        match self.left.get().checked_sub(size) {
            Some(left) if left >= temporary => {
                self.left.set(left);
                Ok(())
            }
            _ => self.exceeded(Exceeded::Memory),
        }
    }

    /// Returns the number of elements to announce for a list whose element size is unknown.
    pub(crate) fn expected(&self, elements: usize) -> usize {
        const LARGE: usize = 8 * 1024;
        let left = self.left.get();
        if left >= PREALLOCATED { elements } else { elements.min(left / LARGE) }
    }
}

/// The stack use around a value, and the space that its container has for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The estimated stack use of the levels around the value.
    stack: u32,
    /// The space for the value in its container. A larger value is a separate allocation.
    room: u32,
}

fn saturating_u32(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

impl Place {
    /// The position of an outermost value of this size.
    pub(crate) fn outermost(size: usize) -> Self {
        Self { stack: 0, room: saturating_u32(size) }
    }

    /// The position of a value of this size within one that was [entered](Self::enter).
    #[inline]
    pub(crate) fn within(self, size: usize) -> Self {
        Self { room: saturating_u32(size), ..self }
    }

    /// Enters a value of this size that contains other values.
    #[inline]
    pub(crate) fn enter(self, limits: &Limits, size: usize) -> Result<Self> {
        let size32 = saturating_u32(size);
        let mut copied = self.room;
        if size32 > self.room {
            limits.allocate(size, 0)?;
            copied = copied.saturating_add(size32);
        }
        let stack = self.stack.saturating_add(FRAME).saturating_add(copied.saturating_mul(COPIES));
        if stack > STACK { limits.exceeded(Exceeded::Depth) } else { Ok(Self { stack, room: size32 }) }
    }
}

/// The kind of value that is built from elements or entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A struct, which contains its fields.
    Struct,
    /// A list or map.
    Collection,
    /// A type that accepts any value. It may be built twice, the second time from a buffer.
    Anything,
}

/// The memory use of a growing list or map.
#[derive(Debug)]
pub(crate) struct Growth {
    target: Target,
    count: usize,
    /// The free capacity.
    free: usize,
    /// Whether a struct of unknown size was counted for the entries.
    hidden: bool,
}

impl Growth {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, count: 0, free: if target == Target::Struct { usize::MAX } else { 0 }, hidden: false }
    }

    /// Counts before each entry, whose key has this size. A type that accepts any value may pass the entries to a boxed
    /// struct of another type, as the unions of apiextensions do. Such a struct is recognized by its small keys, which
    /// identify fields.
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

    /// Counts one more element of this size. The initial capacity of the list is `expected`.
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

    /// Counts one more entry of this size.
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
        /// The capacity of a `BTreeMap` node, the minimum number of entries in a node other than the first, and the
        /// size of its links.
        const NODE: usize = 11;
        const FEWEST: usize = 5;
        const LINKS: usize = 128;
        let node = size.saturating_mul(NODE).saturating_add(LINKS);
        if self.count == 0 {
            limits.allocate(node, 0)?;
            return Ok(NODE - 1);
        }
        // One inner node per four leaf nodes; and a `HashMap` is copied when it grows.
        let copied = self.count.saturating_mul(size).saturating_mul(6) / 5;
        limits.allocate(node.saturating_add(node / 4), copied)?;
        Ok(FEWEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_count_with_their_spare_capacity() {
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
    fn separately_allocated_level_is_counted() {
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
