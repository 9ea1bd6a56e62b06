//! Hashes, selectors, and the annotations of Leases.

use std::time::Duration;

use kinformer_ring::{
    Config, Machine, Member, MemberPhase, Params, ShardField, Slots, TABLE, Table, TableError, fnv1a64,
};
use proptest::prelude::*;

/// The inputs are those of Kubernetes' tests of `HashField`, the results those of Go's `hash/fnv`.
// contract: Y-01a
#[test]
fn hashes() {
    for (text, hash) in [
        ("", 0xcbf2_9ce4_8422_2325),
        ("abc", 0xe71f_a219_0541_574b),
        ("test-uid-12345", 0xd4c5_3b72_f928_7c28),
        ("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", 0x9375_4b72_48a0_0eb9),
        ("test", 0xf9e6_e6ef_197c_2b25),
        ("different", 0x88f3_8c6c_3332_1162),
        ("test-uid-123", 0xd0ba_6798_3455_6c0b),
    ] {
        assert_eq!(fnv1a64(text), hash, "{text:?}");
    }
    let params = Params::default();
    assert_eq!(params.slot_of("test-uid-123"), (0xd0ba_6798_3455_6c0b_u64 >> 54) as u16);
}

/// The ranges of Kubernetes' documentation of `shardSelector` and of its tests.
// contract: Y-01b
#[test]
fn selectors() {
    let params = Params::default();
    let (low, middle, high) = ("0x0000000000000000", "0x8000000000000000", "0x10000000000000000");
    let range = |start, end| format!("shardRange(object.metadata.uid, '{start}', '{end}')");
    for (slots, selector) in [
        ("", range(low, "0x0000000000000001")),
        ("0-1023", range(low, high)),
        ("0-511", range(low, middle)),
        ("512-1023", range(middle, high)),
        ("256-511", range("0x4000000000000000", middle)),
        (
            "0-255,768-1023",
            [range(low, "0x4000000000000000"), range("0xc000000000000000", high)].join(" || "),
        ),
    ] {
        assert_eq!(params.selector(&slots.parse().unwrap()).to_string(), selector);
    }
    let params = Params { field: ShardField::Namespace, ..params };
    let selector = "shardRange(object.metadata.namespace, '0x0000000000000000', '0x0040000000000000')";
    assert_eq!(params.selector(&"0".parse().unwrap()).to_string(), selector);
}

#[test]
fn invalid_slots() {
    for text in ["a", "3-2", "1,", "-", "65535", "70000"] {
        assert!(text.parse::<Slots>().unwrap_err().to_string().contains(text));
    }
}

proptest! {
    /// A set of slots equals its text, and has the slots that were put in.
    #[test]
    fn slots_round_trip(numbers in prop::collection::btree_set(0u16..1024, 0..200)) {
        let slots: Slots = numbers.iter().copied().collect();
        prop_assert_eq!(slots.to_string().parse::<Slots>().unwrap(), slots.clone());
        prop_assert_eq!(slots.iter().collect::<Vec<_>>(), numbers.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(slots.len(), numbers.len());
        prop_assert!((0..1024).all(|slot| slots.contains(slot) == numbers.contains(&slot)));
    }
}

/// An edited table is an error, and so is one of another format.
// contract: Y-01c
#[test]
fn edited_tables() {
    let table = Table::new(Params::default());
    let annotations = table.annotations();
    assert_eq!(Table::parse(&annotations), Ok(table));
    for key in TABLE {
        let mut removed = annotations.clone();
        removed.remove(key);
        assert!(matches!(Table::parse(&removed), Err(TableError::Damaged(_))), "{key}");
        let mut edited = annotations.clone();
        edited.get_mut(key).unwrap().push('1');
        assert!(matches!(Table::parse(&edited), Err(TableError::Damaged(_))), "{key}");
    }
    let mut newer = annotations;
    newer.insert(TABLE[0].to_owned(), "format=2,other=1".to_owned());
    assert_eq!(Table::parse(&newer), Err(TableError::Format("2".to_owned())));
}

#[test]
fn members_round_trip() {
    for follows in [None, Some("uid".into())] {
        for phase in [MemberPhase::Joined, MemberPhase::Leaving, MemberPhase::Gone] {
            let lease_duration = Duration::from_millis(1_500);
            let member = Member {
                incarnation: "x.0".into(),
                weight: 3,
                lease_duration,
                follows: follows.clone(),
                phase,
            };
            assert_eq!(Member::parse(&member.annotations()), Ok(member));
        }
    }
    assert!(Member::parse(&[].into()).is_err());
}

#[test]
fn invalid_options() {
    let valid = || Config::new("a", "b");
    assert!(Machine::new(valid()).is_ok());
    let params = |change: fn(&mut Params)| {
        let mut config = valid();
        change(&mut config.params);
        config
    };
    for config in [
        Config::new("", "b"),
        Config::new("a/b", "b"),
        Config { weight: 0, ..valid() },
        Config { renew_period: Duration::from_secs(6), ..valid() },
        Config { retry_period: Duration::ZERO, ..valid() },
        params(|params| params.slots = 1_000),
        params(|params| params.renew_deadline = params.lease_duration),
    ] {
        assert!(Machine::new(config.clone()).is_err(), "{config:?}");
    }
}
