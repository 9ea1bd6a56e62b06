//! Keys, versions and deletions against section O of the contract.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kinformer_core::{
    Delta, DeltaType, KeyProblem, KeyRef, Keyed, Object, ObjectKey, ResourceVersion, Tombstone,
};
use proptest::prelude::*;

#[derive(Clone)]
struct Pod {
    name: &'static str,
    uid: &'static str,
}

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::new("default", self.name)
    }

    fn uid(&self) -> Option<&str> {
        Some(self.uid)
    }
}

// contract: O-01
#[test]
fn a_key_is_namespace_and_name_or_name_alone() {
    let namespaced: ObjectKey = "kube-system/dns".parse().unwrap();
    assert_eq!((namespaced.namespace(), namespaced.name()), ("kube-system", "dns"));
    let cluster: ObjectKey = "node-1".parse().unwrap();
    assert_eq!((cluster.namespace(), cluster.name()), ("", "node-1"));
    assert_eq!(cluster, KeyRef::cluster("node-1"));
    assert_eq!(KeyRef::from(("a", "b")), KeyRef::from("a/b"));
}

// contract: O-01
#[test]
fn malformed_keys_are_refused_by_name() {
    let cases = [
        ("", KeyProblem::EmptyName),
        ("ns/", KeyProblem::EmptyName),
        ("/name", KeyProblem::EmptyNamespace),
        ("/", KeyProblem::EmptyNamespace),
        ("a/b/c", KeyProblem::TooManySlashes),
        ("a//c", KeyProblem::TooManySlashes),
    ];
    for (text, problem) in cases {
        let error = text.parse::<ObjectKey>().unwrap_err();
        assert_eq!(error.problem(), problem, "{text:?}");
        assert_eq!(error.key(), text);
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        assert_eq!(KeyRef::parse(text).unwrap_err(), error);
    }
    assert_eq!(ObjectKey::new("a/b", "c").unwrap_err().problem(), KeyProblem::TooManySlashes);
    assert_eq!(ObjectKey::new("a", "b/c").unwrap_err().problem(), KeyProblem::TooManySlashes);
    assert_eq!(ObjectKey::new("a", "").unwrap_err().problem(), KeyProblem::EmptyName);
}

fn part() -> impl Strategy<Value = String> {
    "[a-z0-9.-]{1,12}"
}

proptest! {
    // contract: O-01
    #[test]
    fn keys_round_trip_and_order_as_their_text(a in (part(), part()), b in (part(), part()), cluster in part()) {
        let keys = [ObjectKey::new(&a.0, &a.1).unwrap(), ObjectKey::new(&b.0, &b.1).unwrap(), ObjectKey::new("", &cluster).unwrap()];
        for x in &keys {
            prop_assert_eq!(&x.to_string().parse::<ObjectKey>().unwrap(), x);
            prop_assert_eq!(&ObjectKey::try_from(x.as_key()).unwrap(), x);
            for y in &keys {
                prop_assert_eq!(x.as_key().cmp(&y.as_key()), x.as_str().cmp(y.as_str()));
                prop_assert_eq!(x.cmp(y), x.as_str().cmp(y.as_str()));
            }
        }
    }

    // contract: O-03
    #[test]
    fn versions_round_trip_exactly(text in "[0-9]{0,25}|[a-z0-9+.-]{0,12}") {
        prop_assert_eq!(ResourceVersion::from(text.as_str()).to_string(), text);
    }

    // contract: O-03
    #[test]
    fn decimal_versions_of_any_length_order_as_numbers(a: u64, b: u64, more in "[1-9][0-9]{20,30}") {
        let (x, y) = (ResourceVersion::number(a), ResourceVersion::from(b.to_string()));
        prop_assert_eq!(x.compare(&y), Some(a.cmp(&b)));
        let long = ResourceVersion::from(more.as_str());
        prop_assert_eq!(x.compare(&long), Some(Ordering::Less));
        prop_assert_eq!(long.compare(&x), Some(Ordering::Greater));
        let longer = ResourceVersion::from(format!("{more}0"));
        prop_assert_eq!(longer.compare(&long), Some(Ordering::Greater));
    }
}

// contract: O-03
#[test]
fn versions_that_are_no_decimal_integers_do_not_compare() {
    let ten = ResourceVersion::from("10");
    for text in ["", "x10", "010", "+10", "-1", "1.5", "0x1f", " 10"] {
        let odd = ResourceVersion::from(text);
        assert_eq!(odd.compare(&ten), None, "{text:?}");
        assert_eq!(ten.compare(&odd), None, "{text:?}");
        assert!(!odd.reaches(&ten));
        assert_eq!(odd.compare(&odd.clone()), Some(Ordering::Equal), "the same text is the same version");
    }
    assert!(ResourceVersion::UNSET.is_unset());
    assert!(!ResourceVersion::from("0").is_unset());
    assert_eq!(ResourceVersion::from("0").compare(&ten), Some(Ordering::Less));
    assert!(ten.reaches(&ResourceVersion::number(10)));
}

// contract: O-02
#[test]
fn identity_is_the_key_and_both_uids_stay_visible() {
    let (old, new) = (Pod { name: "web", uid: "1" }, Pod { name: "web", uid: "2" });
    assert_eq!(old.key(), new.key());
    assert_ne!(old.uid(), new.uid());
}

// contract: O-04
#[test]
fn key_and_name_are_known_of_every_deletion() {
    let pod = Arc::new(Pod { name: "web", uid: "1" });
    let observed = Tombstone::from(pod.clone());
    let key: ObjectKey = "default/web".parse().unwrap();
    let missed = Tombstone::FinalStateUnknown { key: key.clone(), last_known: Some(pod) };
    let blind: Tombstone<Arc<Pod>> = Tombstone::FinalStateUnknown { key, last_known: None };
    for (tombstone, unknown, state) in [(observed, false, true), (missed, true, true), (blind, true, false)] {
        assert_eq!(tombstone.key(), KeyRef::new("default", "web"));
        assert_eq!(tombstone.key().name(), "web");
        assert_eq!(tombstone.is_final_state_unknown(), unknown);
        assert_eq!(tombstone.object().is_some(), state);
        let delta = Delta::Deleted(tombstone);
        assert_eq!(delta.delta_type(), DeltaType::Deleted);
        assert_eq!(delta.key().unwrap().to_string(), "default/web");
    }
}

#[test]
fn a_foreign_type_becomes_an_object_by_a_key_function() {
    let keyed = Keyed::by(|n: &u32| format!("numbers/{n}"), 7).unwrap();
    assert_eq!((keyed.key().namespace(), keyed.key().name(), *keyed), ("numbers", "7", 7));
    assert_eq!(Keyed::by(|_| "a/b/c", 7).unwrap_err().key(), "a/b/c");
}

#[test]
fn keys_are_found_in_maps_by_their_text() {
    let map = HashMap::from([("a/b".parse::<ObjectKey>().unwrap(), 1)]);
    assert_eq!(map.get("a/b"), Some(&1));
}
