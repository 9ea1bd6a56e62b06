//! The hash of the server's shard selectors, and ranges of it.

use std::fmt;

/// Returns the FNV-1a hash of a text, of 64 bits.
///
/// Follows Kubernetes 1.37 (`apimachinery/pkg/sharding`, `HashField`).
///
/// ```
/// assert_eq!(kinformer_ring::fnv1a64("abc"), 0xe71f_a219_0541_574b);
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
    /// empty text.
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

    pub(crate) fn from_path(path: &str) -> Option<Self> {
        [Self::Uid, Self::Namespace].into_iter().find(|field| field.path() == path)
    }
}

impl fmt::Display for ShardField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

/// A range of hashes. Its text is that of a shard selector: `shardRange(object.metadata.uid, '0x…', '0x…')`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashRange {
    /// The hashed field.
    pub field: ShardField,
    /// The first hash.
    pub start: u64,
    /// The hash after the last one, at most 2^64.
    pub end: u128,
}

impl fmt::Display for HashRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shardRange({}, '0x{:016x}', '0x{:016x}')", self.field, self.start, self.end)
    }
}
