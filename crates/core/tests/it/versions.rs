//! The versions of the parts of a collection, and the sizes of the types that carry them.

use std::sync::Arc;

use kinformer_core::{Change, Delta, PartId, ResourceVersion, Tombstone, VersionUpdate, Versions};
use proptest::prelude::*;

proptest! {
    #[test]
    fn advance_equals_the_advance_update(
        parts in 0u32..3,
        steps in prop::collection::vec((0u32..4, prop::sample::select(vec!["", "3", "10", "x", "007"])), 0..12),
    ) {
        let (mut advanced, mut updated) = (Versions::unset(parts), Versions::unset(parts));
        for (part, version) in steps {
            let (part, version) = (PartId::new(part), ResourceVersion::from(version));
            advanced.advance(part, &version);
            updated.update(part, &VersionUpdate::Advance(version));
            prop_assert_eq!(&advanced, &updated);
        }
    }
}

/// Each event is moved several times and held by the log.
#[test]
fn types_moved_for_each_event_are_small() {
    assert_eq!(size_of::<ResourceVersion>(), 16);
    assert_eq!(size_of::<Tombstone<Arc<u8>>>(), 16);
    assert_eq!(size_of::<Delta<u8>>(), 24);
    assert_eq!(size_of::<Change<u8>>(), 48);
}
