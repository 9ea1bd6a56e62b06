//! Shard selectors: ranges of the hashes of a field.

mod parse;

use std::fmt;
use std::ops::Range;

use crate::storage::Stored;

/// The shard selector of a request: ranges of the FNV-1a hashes of one field, as in
/// `shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')`.
///
/// Follows Kubernetes 1.37 (KEP-5866).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ShardSelector {
    field: Field,
    /// Empty if all objects match.
    ranges: Vec<Range<u128>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Field {
    #[default]
    Uid,
    Namespace,
}

impl Field {
    const ALL: [Self; 2] = [Self::Uid, Self::Namespace];

    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

impl ShardSelector {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn matches(&self, object: &Stored) -> bool {
        if self.is_empty() {
            return true;
        }
        let hash = u128::from(fnv1a(match self.field {
            Field::Uid => object.uid(),
            Field::Namespace => object.key().namespace(),
        }));
        self.ranges.iter().any(|range| range.contains(&hash))
    }
}

impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let separator = if index == 0 { "" } else { " || " };
            let (path, Range { start, end }) = (self.field.path(), range);
            write!(f, "{separator}shardRange({path}, '0x{start:016x}', '0x{end:016x}')")?;
        }
        Ok(())
    }
}

/// FNV-1a with 64 bits.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: E-30b
    #[test]
    fn hashes_are_those_of_fnv1a() {
        // the values that the authors of FNV publish
        let known =
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)];
        for (text, hash) in known {
            assert_eq!(fnv1a(text), hash, "{text}");
        }
    }

    // contract: E-30b
    #[test]
    fn a_selector_is_printed_as_kubernetes_prints_it() {
        let whole = "  shardRange(object.metadata.uid,'0x0000000000000000','0x10000000000000000')||(shardRange( \
                     object.metadata.uid , \"0x00000000000000aa\", '0x00000000000000ff'))";
        let selector = ShardSelector::parse(whole).unwrap();
        assert_eq!(
            selector.to_string(),
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000') || \
             shardRange(object.metadata.uid, '0x00000000000000aa', '0x00000000000000ff')"
        );
        assert_eq!(ShardSelector::parse(&selector.to_string()), Ok(selector));
    }
}
