//! The versions of the parts of a collection.

use kinformer_core::{PartId, ResourceVersion, VersionUpdate, Versions};
use proptest::prelude::*;

proptest! {
    #[test]
    fn advance_is_the_update_of_the_same_name(
        parts in 0u32..3,
        moves in prop::collection::vec((0u32..4, prop::sample::select(vec!["", "3", "10", "x", "007"])), 0..12),
    ) {
        let (mut advanced, mut updated) = (Versions::unset(parts), Versions::unset(parts));
        for (part, version) in moves {
            let (part, version) = (PartId::new(part), ResourceVersion::from(version));
            advanced.advance(part, &version);
            updated.update(part, &VersionUpdate::Advance(version));
            prop_assert_eq!(&advanced, &updated);
        }
    }
}
