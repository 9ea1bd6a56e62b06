//! Random changes and faults of a source that behaves, for tests of whole histories.

use std::time::Duration;

use kinformer_core::Object as _;
use kinformer_reflector::{ApiStatus, SourceError};
use proptest::prelude::*;

use super::{FakeSource, Item};

/// A change or a fault of a [`FakeSource`]. Objects have one of twelve keys, in three namespaces.
#[derive(Clone, Debug)]
pub struct Change(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Apply(u8),
    ApplyUndecodable(u8),
    Delete(u8),
    Recreate(u8),
    Tick,
    Bookmarks,
    Compact,
    Disconnect,
    Break(u8),
    FailList(u8),
    FailWatch(u8),
}

impl Change {
    /// Returns the strategy of all changes.
    pub fn any() -> impl Strategy<Value = Self> {
        let n = any::<u8>();
        let kind = prop_oneof![
            7 => n.prop_map(Kind::Apply),
            1 => n.prop_map(Kind::ApplyUndecodable),
            3 => n.prop_map(Kind::Delete),
            2 => n.prop_map(Kind::Recreate),
            1 => Just(Kind::Tick),
            1 => Just(Kind::Bookmarks),
            1 => Just(Kind::Compact),
            1 => Just(Kind::Disconnect),
            1 => n.prop_map(Kind::Break),
            1 => n.prop_map(Kind::FailList),
            1 => n.prop_map(Kind::FailWatch),
        ];
        kind.prop_map(Self)
    }

    /// Makes the change. A state that it writes has this value.
    pub fn make(self, source: &FakeSource<Item>, value: u64) {
        let item = |n: u8| Item::of(&format!("ns-{}/{}", n % 3, n % 12), 0, value);
        match self.0 {
            Kind::Apply(n) => drop(source.apply(item(n))),
            Kind::ApplyUndecodable(n) => drop(source.apply_undecodable(item(n))),
            Kind::Delete(n) => drop(source.delete(item(n).key())),
            Kind::Recreate(n) => {
                source.delete(item(n).key());
                source.apply(item(n));
            }
            Kind::Tick => drop(source.tick()),
            Kind::Bookmarks => source.send_bookmarks(),
            Kind::Compact => source.compact(),
            Kind::Disconnect => source.disconnect(),
            Kind::Break(n) => source.break_watches(break_with(n)),
            Kind::FailList(n) => source.fail_next_list(error(n)),
            Kind::FailWatch(n) => source.fail_next_watch(error(n)),
        }
    }
}

fn error(n: u8) -> SourceError {
    match n % 7 {
        0 => SourceError::expired("random"),
        1 => SourceError::ConnectionRefused { source: "random".into() },
        2 => SourceError::Transport { source: "random".into() },
        3 => ApiStatus::new(429, "TooManyRequests", "random").retry_after(Duration::from_secs(3)).into(),
        4 => ApiStatus::new(500, "InternalError", "random").into(),
        5 => ApiStatus::new(500, "StoreReadError", "random").into(),
        _ => ApiStatus::new(403, "Forbidden", "random").into(),
    }
}

fn break_with(n: u8) -> fn() -> SourceError {
    match n % 4 {
        0 => || error(0),
        1 => || error(2),
        2 => || error(4),
        _ => || error(3),
    }
}
