//! Shards: the objects whose UID or namespace has a hash in some ranges.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use kinformer_core::Object;
use kinformer_wire::ObjectDecoder;
use parking_lot::RwLock;

/// Returns the FNV-1a hash of a text, of 64 bits.
///
/// Follows Kubernetes 1.37 (`apimachinery/pkg/sharding`, `HashField`).
///
/// ```
/// assert_eq!(kinformer_kube::fnv1a64("abc"), 0xe71f_a219_0541_574b);
/// ```
#[must_use]
pub fn fnv1a64(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The field of an object whose hash determines its shard.
///
/// Follows KEP-5866: a shard selector has one of these fields in all of its ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ShardField {
    /// `object.metadata.uid`.
    #[default]
    Uid,
    /// `object.metadata.namespace`: all objects of a namespace are in one shard. Cluster-scoped objects have the hash of an
    /// empty text. Names that differ only in their last two characters are close to each other, so that equal ranges of hashes
    /// may have very different numbers of namespaces.
    Namespace,
}

impl ShardField {
    /// The path of the field in a shard selector.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }

    /// Returns the value of the field of an object; empty if it has none.
    #[must_use]
    pub fn value<T: Object>(self, object: &T) -> &str {
        match self {
            Self::Uid => object.uid(),
            Self::Namespace => object.key().namespace(),
        }
        .unwrap_or_default()
    }

    /// Returns the field with this path.
    #[must_use]
    pub fn from_path(path: &str) -> Option<Self> {
        [Self::Uid, Self::Namespace].into_iter().find(|field| field.path() == path)
    }
}

impl fmt::Display for ShardField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

/// A selector of objects by ranges of the [hash](fnv1a64) of one field. Its text is the value of `shardSelector` in a request:
/// `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')`, with ` || ` between ranges.
///
/// Follows Kubernetes 1.37 (KEP-5866).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShardSelector {
    field: ShardField,
    ranges: Vec<Range<u128>>,
}

impl ShardSelector {
    /// Creates a selector of the hashes in these ranges, whose ends are at most 2^64. Without a range it selects nothing.
    ///
    /// ```
    /// use kinformer_kube::{ShardField, ShardSelector};
    ///
    /// let half = ShardSelector::one(ShardField::Namespace, 0..1 << 63);
    /// assert_eq!(half.matches("default"), kinformer_kube::fnv1a64("default") < 1 << 63);
    /// ```
    #[must_use]
    pub fn new(field: ShardField, ranges: impl IntoIterator<Item = Range<u128>>) -> Self {
        let mut sorted: Vec<Range<u128>> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_unstable_by_key(|range| range.start);
        let mut ranges: Vec<Range<u128>> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        Self { field, ranges }
    }

    /// Creates a selector of the hashes in one range.
    #[must_use]
    pub fn one(field: ShardField, range: Range<u128>) -> Self {
        Self::new(field, std::iter::once(range))
    }

    /// Returns the selector of the objects that both select, which must have the same field.
    ///
    /// ```
    /// use kinformer_kube::{ShardField::Uid, ShardSelector};
    ///
    /// let [a, b] = [ShardSelector::new(Uid, [0..10, 20..30]), ShardSelector::one(Uid, 5..25)];
    /// assert_eq!(a.and(&b).ranges(), [5..10, 20..25]);
    /// assert_eq!(a.without(&b).ranges(), [0..5, 25..30]);
    /// ```
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = self.ranges.iter().flat_map(|range| {
            other.ranges.iter().map(|other| range.start.max(other.start)..range.end.min(other.end))
        });
        Self::new(self.field, both)
    }

    /// Returns the selector of the objects that this one selects and the other one does not, with the same field.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let ends = other.ranges.iter().map(|range| range.end);
        let starts = other.ranges.iter().map(|range| range.start);
        let gaps: Vec<Range<u128>> = std::iter::once(0)
            .chain(ends)
            .zip(starts.chain([u128::MAX]))
            .map(|(start, end)| start..end)
            .collect();
        self.and(&Self { field: self.field, ranges: gaps })
    }

    /// The hashed field.
    #[must_use]
    pub fn field(&self) -> ShardField {
        self.field
    }

    /// Whether it selects nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges of hashes, in order. No two of them are adjacent.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u128>] {
        &self.ranges
    }

    /// Whether an object with this value of the field is selected.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        let hash = u128::from(fnv1a64(value));
        self.ranges.iter().any(|range| range.contains(&hash))
    }
}

/// Prints the selector as the server expects it. One without a range is printed as a range of one hash, because an empty text
/// selects everything.
impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = std::iter::once(0..1).filter(|_| self.ranges.is_empty());
        for (index, Range { start, end }) in self.ranges.iter().cloned().chain(one).enumerate() {
            let separator = if index == 0 { "" } else { " || " };
            write!(f, "{separator}shardRange({}, '0x{start:016x}', '0x{end:016x}')", self.field)?;
        }
        Ok(())
    }
}

/// The shard of a [`KubeListerWatcher`](crate::KubeListerWatcher), which can change while it watches. Clones share it.
#[derive(Clone, Debug)]
pub struct Shard(Arc<RwLock<Arc<ShardSelector>>>);

impl Shard {
    /// Creates a shard.
    #[must_use]
    pub fn new(selector: ShardSelector) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(selector))))
    }

    /// Returns the selector.
    #[must_use]
    pub fn selector(&self) -> Arc<ShardSelector> {
        self.0.read().clone()
    }

    /// Selects fewer objects. Later lists and watches request them; of an open watch, the others are dropped as they arrive. To
    /// select more objects, list them first, by another lister-watcher.
    pub fn narrow(&self, selector: ShardSelector) {
        *self.0.write() = Arc::new(selector);
    }

    /// Whether an object, given by its bytes, is in the shard. One whose field cannot be read is: its error names it.
    pub(crate) fn admits(&self, decoder: &ObjectDecoder, object: &[u8]) -> bool {
        let selector = self.selector();
        let identity = decoder.identify(object);
        match selector.field {
            ShardField::Uid => identity.uid.is_none_or(|uid| selector.matches(&uid)),
            ShardField::Namespace => {
                identity.key.is_none_or(|key| selector.matches(key.as_key().namespace().unwrap_or_default()))
            }
        }
    }
}
