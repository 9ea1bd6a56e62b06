//! Properties that hold for any objects, and the cost of long lists.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::cases::OneVersion;
use super::fields::FieldSet;
use super::managers::Managed;
use super::path::PathElement;
use super::{Conflicts, FieldManager, Filter, Schema, Versions, Writer, drop_unset, schema_of_definition};

/// The types of the built-in kinds.
struct Builtin;

impl Versions for Builtin {
    fn schema(&self) -> &Schema {
        Schema::builtin()
    }

    fn convert(&self, _: &Value, _: &str) -> Option<Value> {
        None
    }
}

fn managers<'a>(versions: &'a dyn Versions, api_version: &'a str, kind: &'a str) -> FieldManager<'a> {
    FieldManager { versions, api_version, kind, subresource: "", filter: Filter::default() }
}

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, now: "2026-01-01T00:00:00Z" }
}

/// Values with the fields of pods and services, at any place.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..100).prop_map(Value::from),
        (0_u8..4).prop_map(|n| json!(f64::from(n) / 2.0)),
        "[a-c\"<]{0,2}".prop_map(Value::from),
    ];
    let names = prop_oneof![
        Just("spec"),
        Just("status"),
        Just("metadata"),
        Just("labels"),
        Just("finalizers"),
        Just("containers"),
        Just("ports"),
        Just("name"),
        Just("port"),
        Just("protocol"),
        Just("containerPort"),
        Just("env"),
        Just("ownerReferences"),
        Just("uid"),
        Just("resources"),
        Just("limits"),
        Just("conditions"),
        Just("type"),
        Just("managedFields"),
        Just("selector"),
        Just("x"),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

fn object(kind: &str, fields: Value) -> Value {
    let mut object = match fields {
        Value::Object(fields) => fields,
        other => Map::from_iter([("spec".to_owned(), other)]),
    };
    object.insert("apiVersion".into(), "v1".into());
    object.insert("kind".into(), kind.into());
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    Value::Object(object)
}

/// Any set of fields.
fn any_set() -> impl Strategy<Value = FieldSet> {
    let element = prop_oneof![
        "[a-b]".prop_map(|name| PathElement::Field(name.into())),
        (0_i64..3).prop_map(|n| PathElement::Key([("p".into(), n.into())].into())),
        "[a-b]".prop_map(|text| PathElement::Value(Value::from(text).into())),
    ];
    let path = prop::collection::vec(element, 1..4);
    prop::collection::vec(path, 0..8).prop_map(|paths| {
        let mut set = FieldSet::default();
        paths.iter().for_each(|path| set.insert(path));
        set
    })
}

proptest! {
    // contract: E-15h
    #[test]
    fn any_objects_are_recorded_and_applied_without_panic(
        before in any_value(), after in any_value(), applied in any_value(), entries in any_value(),
        kind in prop_oneof![Just("Pod"), Just("Service"), Just("Missing")], is_forced: bool,
    ) {
        let managers = managers(&Builtin, "v1", kind);
        let mut live = object(kind, before);
        live["metadata"]["managedFields"] = entries;
        let mut new = object(kind, after);
        managers.record(&live, &mut new, writer("a"));
        let conflicts = if is_forced { Conflicts::Forced } else { Conflicts::Refused };
        let mut applied = object(kind, applied);
        applied["metadata"].as_object_mut().unwrap().remove("managedFields");
        if let Ok(mut once) = managers.apply(new, &applied, writer("b"), conflicts) {
            drop_unset(Schema::builtin(), "v1", kind, once.as_object_mut().unwrap());
            let twice = managers.apply(once.clone(), &applied, writer("b"), conflicts);
            prop_assert!(twice.is_ok(), "{:?}", twice);
        }
    }

    #[test]
    fn any_definition_has_types(schema in any_value(), value in any_value()) {
        let versions = [("v1".to_owned(), Some(&schema))];
        let types = OneVersion(schema_of_definition("Widget", versions.into_iter()));
        let managers = managers(&types, "v1", "Widget");
        let mut new = object("Widget", value.clone());
        managers.record(&json!({}), &mut new, writer("a"));
        let _ = managers.apply(new, &object("Widget", value), writer("b"), Conflicts::Refused);
    }

    #[test]
    fn sets_are_written_and_parsed(set in any_set()) {
        let text = set.to_text();
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(value.to_string(), text.as_str());
        prop_assert_eq!(&FieldSet::parse_text(&text).unwrap(), &set);
        prop_assert_eq!(FieldSet::parse(&value).unwrap(), set);
    }

    #[test]
    fn sets_follow_the_laws_of_sets(a in any_set(), b in any_set()) {
        let both = a.intersection(&b);
        let all = a.clone().union(&b);
        for path in all.paths() {
            let (in_a, in_b) = (a.has(&path), b.has(&path));
            prop_assert_eq!(both.has(&path), in_a && in_b);
            prop_assert_eq!(a.difference(&b).has(&path), in_a && !in_b);
        }
        prop_assert_eq!(all.paths().len(), a.paths().len() + b.paths().len() - both.paths().len());
        prop_assert!(a.recursive_difference(&a).is_empty());
    }

    #[test]
    fn any_text_is_parsed_as_an_element_or_refused(text in "\\PC{0,12}", prefix in "[fkvi]?:?") {
        if let Ok(element) = PathElement::parse(&format!("{prefix}{text}")) {
            prop_assert_eq!(PathElement::parse(&element.to_key()).unwrap(), element);
        }
    }
}

/// Quadratic work for lists of this length would take minutes.
// contract: E-15h
#[test]
fn long_lists_are_merged_by_key() {
    let managers = managers(&Builtin, "v1", "Service");
    let service = |ports: Vec<i32>| {
        let ports: Vec<Value> = ports.into_iter().map(|port| json!({"port": port, "name": "x"})).collect();
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "uid": "u"}, "spec": {"ports": ports}})
    };
    let first = service((0..10_000).rev().collect());
    let live = managers.apply(json!({}), &first, writer("a"), Conflicts::Refused).unwrap();
    let second = service((5_000..15_000).collect());
    let live = managers.apply(live, &second, writer("b"), Conflicts::Refused).unwrap();
    assert_eq!(live["spec"]["ports"].as_array().unwrap().len(), 15_000);
    let left = managers.apply(live, &service(vec![1]), writer("a"), Conflicts::Refused).unwrap();
    assert_eq!(left["spec"]["ports"].as_array().unwrap().len(), 10_001);
    let mut updated = service(vec![5]);
    managers.record(&left, &mut updated, writer("c"));
    let managed = Managed::decode(updated.pointer("/metadata/managedFields")).unwrap();
    assert_eq!(managed.managers.len(), 1);
}
