//! Keys, versions and deletions against section O of the contract.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kinformer_core::{
    ByNamespace, Delta, DeltaType, KeyProblem, KeyRef, Keyed, Object, ObjectKey, PartId, Partition,
    ResourceVersion, Tombstone,
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

// contract: O-01a
#[test]
fn key_consists_of_its_parts() {
    let key = KeyRef::new("kube-system", "dns");
    assert_eq!((key.cluster(), key.namespace(), key.name()), (None, Some("kube-system"), "dns"));
    let key = key.in_cluster("east");
    assert_eq!((key.cluster(), key.namespace(), key.name()), (Some("east"), Some("kube-system"), "dns"));
    let owned = ObjectKey::try_from(key).unwrap();
    assert_eq!(
        (owned.cluster(), owned.namespace(), owned.name()),
        (Some("east"), Some("kube-system"), "dns")
    );
    assert_eq!(KeyRef::new("", "node-1"), KeyRef::named("node-1"));
    assert_eq!(KeyRef::named("node-1").in_cluster(""), KeyRef::named("node-1"));
    assert_eq!(ObjectKey::named("node-1").unwrap(), KeyRef::from(("", "node-1")));
    assert_eq!(KeyRef::from(&owned), key);
}

// contract: O-01a, O-01b
#[test]
fn only_an_empty_name_is_rejected() {
    for name in ["/etc/hosts", "https://example.com/a?b=c#d", "s3://bucket/a//b/", "/", "|", " ", "\0", "ü/ß"]
    {
        let key = ObjectKey::named(name).unwrap();
        assert_eq!((key.cluster(), key.namespace(), key.name()), (None, None, name));
        assert_eq!(key.to_string(), name);
    }
    for key in [KeyRef::named(""), KeyRef::new("ns", ""), KeyRef::new("ns", "").in_cluster("east")] {
        let error = ObjectKey::try_from(key).unwrap_err();
        assert_eq!((error.problem(), error.key()), (KeyProblem::EmptyName, &*key.to_string()));
        assert_eq!(key.check().unwrap_err(), error);
    }
    assert_eq!(ObjectKey::new("ns", "").unwrap_err().problem(), KeyProblem::EmptyName);
    assert_eq!(ObjectKey::named("").unwrap_err().problem(), KeyProblem::EmptyName);
}

// contract: O-01c
#[test]
fn equal_text_does_not_make_keys_equal() {
    let alike = [
        KeyRef::named("c|a/b"),
        KeyRef::named("a/b").in_cluster("c"),
        KeyRef::new("a", "b").in_cluster("c"),
        KeyRef::new("c|a", "b"),
    ];
    for (index, key) in alike.iter().enumerate() {
        assert_eq!(key.to_string(), "c|a/b");
        for other in &alike[index + 1..] {
            assert_ne!(key, other);
            assert_ne!(hash(key), hash(other));
            assert_ne!(format!("{key:?}"), format!("{other:?}"));
            assert_ne!(ObjectKey::try_from(*key).unwrap(), ObjectKey::try_from(*other).unwrap());
        }
    }
}

#[test]
fn owned_key_takes_24_bytes() {
    assert!(size_of::<ObjectKey>() <= 24);
    assert_eq!(size_of::<Option<ObjectKey>>(), size_of::<ObjectKey>());
}

// contract: O-20a
#[test]
fn kubernetes_key_text_is_namespace_and_name() {
    let namespaced: ObjectKey = "kube-system/dns".parse().unwrap();
    assert_eq!((namespaced.namespace(), namespaced.name()), (Some("kube-system"), "dns"));
    let cluster_scoped: ObjectKey = "node-1".parse().unwrap();
    assert_eq!(cluster_scoped, KeyRef::named("node-1"));
    assert_eq!(KeyRef::try_from("kube-system/dns").unwrap(), KeyRef::new("kube-system", "dns"));
    assert_eq!(format!("{namespaced:?} {cluster_scoped:?}"), r#""kube-system/dns" "node-1""#);
}

// contract: O-20b
#[test]
fn invalid_kubernetes_key_text_is_rejected() {
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
        assert_eq!(KeyRef::try_from(text).unwrap_err(), error);
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A key as a tuple, which compares part by part; an empty part is missing.
type Parts = (Option<String>, Option<String>, String);

/// Few characters, including separators and one of two bytes, so that joined texts are often equal.
fn any_parts() -> impl Strategy<Value = Parts> {
    let part = || prop::option::of("[ab/|.ß-]{1,3}");
    (part(), part(), "[ab/|.ß-]{1,3}")
}

fn key_of((cluster, namespace, name): &Parts) -> KeyRef<'_> {
    KeyRef::new(namespace.as_deref().unwrap_or_default(), name)
        .in_cluster(cluster.as_deref().unwrap_or_default())
}

fn part() -> impl Strategy<Value = String> {
    "[a-z0-9.-]{1,12}"
}

proptest! {
    // contract: O-01a
    #[test]
    fn parts_round_trip(parts in any_parts()) {
        let key = key_of(&parts);
        let owned = ObjectKey::try_from(key).unwrap();
        prop_assert_eq!(owned.as_key(), key);
        prop_assert_eq!(&owned, &key);
        prop_assert_eq!(&owned.clone(), &owned);
        let given = |key: KeyRef<'_>| -> Parts {
            (key.cluster().map(str::to_owned), key.namespace().map(str::to_owned), key.name().to_owned())
        };
        prop_assert_eq!(given(key), parts.clone());
        prop_assert_eq!(given(owned.as_key()), parts.clone());
        prop_assert_eq!(owned.to_string(), key.to_string());
        prop_assert_eq!(format!("{owned:?}"), format!("{key:?}"));
    }

    // contract: O-01c
    #[test]
    fn keys_compare_as_tuples_of_their_parts(x in any_parts(), y in any_parts()) {
        let (a, b) = (key_of(&x), key_of(&y));
        let (owned_a, owned_b) = (ObjectKey::try_from(a).unwrap(), ObjectKey::try_from(b).unwrap());
        prop_assert_eq!(a.cmp(&b), x.cmp(&y));
        prop_assert_eq!(owned_a.cmp(&owned_b), x.cmp(&y));
        prop_assert_eq!(a == b, x == y);
        prop_assert_eq!(owned_a == owned_b, x == y);
        prop_assert_eq!(owned_a == b, x == y);
        prop_assert_eq!(hash(a) == hash(b), x == y);
        prop_assert_eq!(hash(a), hash(&owned_a));
        prop_assert_eq!(hash((a, b)) == hash((b, a)), x == y);
    }

    // contract: O-20c
    #[test]
    fn kubernetes_keys_round_trip_as_text(namespace in prop::option::of(part()), name in part()) {
        let key = ObjectKey::new(namespace.as_deref().unwrap_or_default(), &name).unwrap();
        prop_assert_eq!(&key.to_string().parse::<ObjectKey>().unwrap(), &key);
        let text = key.to_string();
        prop_assert_eq!(KeyRef::parse(&text).unwrap(), key.as_key());
    }

    // contract: O-03a
    #[test]
    fn versions_round_trip_exactly(text in "[0-9]{0,25}|[a-z0-9+.-]{0,12}") {
        prop_assert_eq!(ResourceVersion::from(text.as_str()).to_string(), text);
    }

    /// Decimal versions of any length compare as numbers.
    // contract: O-03b
    #[test]
    fn decimal_versions_compare_as_numbers(a: u64, b: u64, more in "[1-9][0-9]{20,30}") {
        let (x, y) = (ResourceVersion::number(a), ResourceVersion::from(b.to_string()));
        prop_assert_eq!(x.compare(&y), Some(a.cmp(&b)));
        let long = ResourceVersion::from(more.as_str());
        prop_assert_eq!(x.compare(&long), Some(Ordering::Less));
        prop_assert_eq!(long.compare(&x), Some(Ordering::Greater));
        let longer = ResourceVersion::from(format!("{more}0"));
        prop_assert_eq!(longer.compare(&long), Some(Ordering::Greater));
    }
}

// contract: O-03c
#[test]
fn only_decimal_versions_can_be_compared() {
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

// contract: O-02a
#[test]
fn identity_is_the_key_and_not_the_uid() {
    let (old, new) = (Pod { name: "web", uid: "1" }, Pod { name: "web", uid: "2" });
    assert_eq!(old.key(), new.key());
    assert_ne!(old.uid(), new.uid());
}

// contract: O-04a, O-04c
#[test]
fn every_deletion_has_key_and_name() {
    let pod = Arc::new(Pod { name: "web", uid: "1" });
    let observed = Tombstone::from(pod.clone());
    let key: ObjectKey = "default/web".parse().unwrap();
    let missed = Tombstone::final_state_unknown(key.clone(), Some(pod));
    let blind: Tombstone<Arc<Pod>> = Tombstone::final_state_unknown(key, None);
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

/// A pod belongs to the part with the number of its UID; its key does not determine the part.
struct ByUid;

impl Partition<Pod> for ByUid {
    fn parts(&self) -> u32 {
        2
    }

    fn part_of(&self, pod: &Pod) -> Option<PartId> {
        pod.uid.parse().ok().map(PartId::new)
    }
}

/// The part of a deletion is that of its state or key. Without either, the tombstone names it.
// contract: O-04b
#[test]
fn deletion_without_part_names_it() {
    let unknown = |state| Tombstone::final_state_unknown("default/web".parse().unwrap(), state);
    let pod = Arc::new(Pod { name: "web", uid: "1" });
    let parts = kinformer_core::Parts::new(ByUid);
    assert_eq!(parts.of_deletion(&Tombstone::FinalState(pod.clone())), Some(1.into()));
    assert_eq!(parts.of_deletion(&unknown(Some(pod.clone()))), Some(1.into()));
    assert_eq!(parts.of_deletion(&unknown(None)), None);
    assert_eq!(parts.of_deletion(&unknown(None).from_part(PartId::new(1))), Some(1.into()));
    assert_eq!(parts.of_deletion(&unknown(None).from_part(PartId::new(2))), None, "there is no such part");
    // The name of the part is kept with the deletion.
    let named = unknown(None).from_part(PartId::new(1)).map(|pod: Arc<Pod>| pod);
    assert_eq!(parts.of_deletion(&named), Some(1.into()));
    let by_key = kinformer_core::Parts::<Pod>::new(ByNamespace::new(["other", "default"]));
    assert_eq!(by_key.of_deletion(&unknown(None)), Some(1.into()));
}

/// Each state has at most one part, and equal states have equal parts.
// contract: O-24a
#[test]
fn state_belongs_to_at_most_one_part() {
    let parts = kinformer_core::Parts::new(ByUid);
    let parts_of = |uid| {
        let pod = Pod { name: "web", uid };
        let of: Vec<_> = parts.ids().into_iter().filter(|part| parts.contains(*part, &pod)).collect();
        assert_eq!(parts.of(&pod), of.first().copied());
        assert_eq!(parts.of(&pod.clone()), parts.of(&pod));
        of
    };
    assert_eq!(parts_of("0"), [0.into()]);
    assert_eq!(parts_of("1"), [1.into()]);
    // A part that does not exist, and none.
    assert_eq!((parts_of("2"), parts_of("x")), (vec![], vec![]));
    let one = kinformer_core::Parts::<Pod>::one();
    assert_eq!(one.of(&Pod { name: "web", uid: "x" }), Some(PartId::ONLY));
}

// contract: O-21a
#[test]
fn key_function_may_return_any_characters() {
    let keyed = Keyed::by(|n: &u32| format!("numbers/{n}"), 7).unwrap();
    assert_eq!((keyed.key(), *keyed), (KeyRef::named("numbers/7"), 7));
    assert_ne!(keyed.key(), KeyRef::new("numbers", "7"));
    assert_eq!(Keyed::by(|_| "a//b/c/", 7).unwrap().key().name(), "a//b/c/");
    assert_eq!(Keyed::by(|_| "", 7).unwrap_err().problem(), KeyProblem::EmptyName);
    let parts = ObjectKey::new("numbers", "7").unwrap();
    assert_eq!(Keyed::new(parts.clone(), 7).key(), parts.as_key());
}

#[test]
fn keys_are_found_in_maps() {
    let map = HashMap::from([("a/b".parse::<ObjectKey>().unwrap(), 1)]);
    assert_eq!(map.get(&ObjectKey::new("a", "b").unwrap()), Some(&1));
    assert_eq!(map.get(&ObjectKey::named("a/b").unwrap()), None);
}
