//! The laws of pruning, defaults and validation, for random schemas and objects.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Changed, VersionSchema};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Random values, with nulls and fields that no schema has.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..9).prop_map(Value::from),
        Just(json!(1.5)),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(&NAMES[..]), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// Random structural schemas with valid defaults.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "default": "x", "maxLength": 2})),
        Just(json!({"type": "string", "nullable": true, "enum": ["a", "b"]})),
        Just(json!({"type": "integer", "minimum": 0, "maximum": 5, "default": 3})),
        Just(json!({"type": "integer", "multipleOf": 2, "format": "int32"})),
        Just(json!({"type": "number", "exclusiveMaximum": true, "maximum": 1.5})),
        Just(json!({"type": "boolean", "nullable": true, "default": true})),
        Just(json!({"x-kubernetes-int-or-string": true, "default": "50%"})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let fields = prop::collection::btree_map(prop::sample::select(&NAMES[..]), inner.clone(), 1..4);
        prop_oneof![
            (fields.clone(), any::<bool>(), any::<bool>()).prop_map(|(fields, keeps, has_default)| {
                let mut schema = json!({"type": "object", "properties": fields});
                if keeps {
                    schema["x-kubernetes-preserve-unknown-fields"] = true.into();
                }
                if has_default {
                    schema["default"] = json!({});
                }
                schema
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            fields.prop_map(|mut fields| {
                fields.insert("a", json!({"type": "string", "default": "k"}));
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                    "items": {"type": "object", "properties": fields}})
            }),
        ]
    })
}

fn root(properties: &[Value]) -> VersionSchema {
    let properties: Map<String, Value> =
        NAMES.iter().map(|name| (*name).to_owned()).zip(properties.iter().cloned()).collect();
    VersionSchema::parse(&json!({"type": "object", "properties": properties}))
}

fn fields(values: &[Value]) -> Map<String, Value> {
    NAMES.iter().map(|name| (*name).to_owned()).zip(values.iter().cloned()).collect()
}

proptest! {
    #[test]
    fn decoding_twice_changes_nothing(
        schemas in prop::collection::vec(schema(), 1..4),
        values in prop::collection::vec(value(), 0..5),
    ) {
        let schema = root(&schemas);
        let mut once = fields(&values);
        schema.decode(&mut once).unwrap();
        let mut twice = once.clone();
        prop_assert!(schema.decode(&mut twice).unwrap().is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn unchanged_objects_have_no_new_faults(
        schemas in prop::collection::vec(schema(), 1..4),
        values in prop::collection::vec(value(), 0..5),
    ) {
        let schema = root(&schemas);
        let mut object = fields(&values);
        schema.decode(&mut object).unwrap();
        // only the fields that the schema declares are compared with the old ones
        let again = schema.faults(&Value::Object(object.clone()), Some(&object), Changed::Object, None, &[]).causes;
        let new = schema.faults(&Value::Object(object.clone()), None, Changed::Object, None, &[]).causes;
        let texts = |causes: &[crate::status::Cause]| -> Vec<String> {
            causes.iter().map(|cause| format!("{:?} {}", cause.field, cause.message)).collect()
        };
        let (again, new) = (texts(&again), texts(&new));
        prop_assert!(again.iter().all(|cause| new.contains(cause)), "{again:?} {new:?}");
        if new.is_empty() {
            let mut decoded = object.clone();
            schema.decode(&mut decoded).unwrap();
            prop_assert_eq!(decoded, object);
        }
    }

    #[test]
    fn any_json_is_a_schema(schema in value(), object in prop::collection::vec(value(), 0..5)) {
        let schema = VersionSchema::parse(&json!({"properties": {"a": schema, "b": {"allOf": [schema]}}}));
        let mut object = fields(&object);
        let _ = schema.decode(&mut object);
        schema.faults(&Value::Object(object.clone()), Some(&object), Changed::Status, None, &[]);
    }
}

/// A schema and an object as deep as JSON can be, in which each level has alternatives.
#[test]
fn deep_schemas_are_validated_in_linear_time() {
    let mut schema = json!({"type": "string"});
    let mut object = json!(1);
    for _ in 0..40 {
        schema = json!({"type": "object", "properties": {"a": schema}, "anyOf": [{"required": ["b"]}, {"required": ["c"]}]});
        object = json!({"a": object});
    }
    let schema = VersionSchema::parse(&json!({"type": "object", "properties": {"a": schema}}));
    let Value::Object(mut object) = json!({"a": object}) else { unreachable!() };
    schema.decode(&mut object).unwrap();
    let causes = schema.faults(&Value::Object(object.clone()), None, Changed::Object, None, &[]).causes;
    // for each level: no alternative, and the field that the first one needs
    assert_eq!(causes.len(), 81);
    // objects are equal to their old ones
    assert!(
        schema
            .faults(&Value::Object(object.clone()), Some(&object), Changed::Object, None, &[])
            .causes
            .is_empty()
    );
}
