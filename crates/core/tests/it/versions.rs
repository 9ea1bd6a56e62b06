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

fn set(version: &str, is_complete: bool) -> VersionUpdate {
    VersionUpdate::Set { version: version.into(), is_complete }
}

fn advance(version: &str) -> VersionUpdate {
    VersionUpdate::Advance(version.into())
}

// contract: S-17c
#[test]
fn incomplete_list_does_not_raise_a_version() {
    for (updates, expected) in [
        (vec![set("9", false)], "5"),
        (vec![set("9", false), advance("11")], "5"),
        (vec![advance("8"), set("9", false)], "5"),
        (vec![set("9", false), set("9", true)], "9"),
        (vec![set("9", true), advance("11")], "11"),
        (vec![set("3", true)], "3"),
        (vec![set("3", false)], ""),
        (vec![set("x", false)], ""),
    ] {
        let mut versions = Versions::unset(1);
        versions.update(PartId::ONLY, &advance("5"));
        let mut merged = VersionUpdate::NONE;
        updates.iter().cloned().for_each(|update| merged.append(update));
        versions.update(PartId::ONLY, &merged);
        assert_eq!(versions.lowest(), ResourceVersion::from(expected), "{updates:?}");
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
