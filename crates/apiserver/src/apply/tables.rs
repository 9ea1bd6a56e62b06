//! The cases of structured-merge-diff 6.4: its schemas, objects and expected results as data.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::compare::{Comparison, Nulls, compare};
use super::fields::FieldSet;
use super::filter::Filter;
use super::managers::{ManagerId, Managers, Operation};
use super::merge::merge;
use super::path::path_text;
use super::reconcile::reconcile;
use super::remove::remove;
use super::schema::{
    ATOMIC, Atom, DEDUCED, FieldType, ListKind, ListType, MapType, NUMERIC, SCALAR, STRING, Scalar, Schema,
    TypeRef,
};
use super::to_set::to_set;
use super::update::{Conflicts, UpdateError, Updater, Versions};
use super::validate::{Duplicates, validate};

const TABLES: &str = include_str!("../../tests/data/structured_merge.json");
const KIND: &str = "Case";

/// Builds a schema from the types of a case.
struct Builder<'a> {
    schema: Schema,
    definitions: &'a Map<String, Value>,
    named: BTreeMap<&'a str, TypeRef>,
}

impl<'a> Builder<'a> {
    fn new(definitions: &'a Map<String, Value>) -> Self {
        let mut schema = Schema::extending();
        let named = definitions.keys().map(|name| (name.as_str(), schema.reserve())).collect();
        let mut builder = Self { schema, definitions, named };
        for (name, definition) in definitions {
            let atom = builder.atom(definition, None);
            builder.schema.define(builder.named[name.as_str()], atom);
        }
        builder
    }

    fn reference(&mut self, reference: &Value) -> TypeRef {
        let relationship = reference.get("relationship").and_then(Value::as_str);
        match reference.get("name").and_then(Value::as_str) {
            Some("__untyped_atomic_") => ATOMIC,
            Some("__untyped_deduced_") => DEDUCED,
            Some(name) if relationship.is_none() => self.named[name],
            Some(name) => {
                let atom = self.atom(&self.definitions[name], relationship);
                self.schema.add(atom)
            }
            None => {
                let atom = self.atom(&reference["atom"], relationship);
                match (&atom.scalar, &atom.list, &atom.map) {
                    (Some(Scalar::Text), None, None) => STRING,
                    (Some(Scalar::Numeric), None, None) => NUMERIC,
                    (Some(Scalar::Untyped), None, None) => SCALAR,
                    _ => self.schema.add(atom),
                }
            }
        }
    }

    fn atom(&mut self, atom: &Value, relationship: Option<&str>) -> Atom {
        let scalar = atom.get("scalar").and_then(Value::as_str).map(|name| match name {
            "string" => Scalar::Text,
            "numeric" => Scalar::Numeric,
            "boolean" => Scalar::Boolean,
            _ => Scalar::Untyped,
        });
        let list = atom.get("list").map(|list| {
            let keys = list["keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let keys: Vec<Cow<'static, str>> = keys.map(|key| key.to_owned().into()).collect();
            let kind = match relationship.or(list["relationship"].as_str()) {
                Some("atomic") => ListKind::Atomic,
                _ if keys.is_empty() => ListKind::Set,
                _ => ListKind::Keys(keys),
            };
            ListType { element: Some(self.reference(&list["element"])), kind }
        });
        let map = atom.get("map").map(|map| {
            let fields = map["fields"].as_array().into_iter().flatten().map(|field| FieldType {
                default: field.get("default").cloned(),
                ..FieldType::new(field["name"].as_str().unwrap().to_owned(), self.reference(&field["type"]))
            });
            let fields = fields.collect();
            let element = map.get("element").map(|element| self.reference(element));
            let is_atomic = relationship.or(map["relationship"].as_str()) == Some("atomic");
            MapType::new(element, is_atomic, fields)
        });
        Atom { scalar, list, map }
    }
}

/// Runs a function for each case of a table.
fn each(table: &str, minimum: usize, run: impl Fn(&Schema, TypeRef, &Value)) {
    let tables: Value = serde_json::from_str(TABLES).unwrap();
    let cases = tables[table].as_array().unwrap();
    assert!(cases.len() >= minimum, "{table}: {}", cases.len());
    for case in cases {
        let index = usize::try_from(case["schema"].as_u64().unwrap()).unwrap();
        let mut builder = Builder::new(tables["schemas"][index].as_object().unwrap());
        let of = builder.reference(&case["type"]);
        run(&builder.schema, of, case);
    }
}

fn set(value: &Value) -> FieldSet {
    FieldSet::parse(value).unwrap()
}

// contract: E-15a
#[test]
fn objects_are_merged() {
    each("merge", 60, |schema, of, case| {
        let merged = merge(schema, of, &case["before"], &case["applied"]);
        if case.get("error").is_some() {
            assert!(merged.is_err(), "{case}: {merged:?}");
        } else {
            assert_eq!(merged.unwrap(), case["merged"], "{case}");
        }
    });
}

#[test]
fn objects_are_compared() {
    each("compare", 80, |schema, of, case| {
        let forward = compare(schema, of, &case["before"], &case["after"], Nulls::Missing).unwrap();
        let (removed, modified, added) = (set(&case["removed"]), set(&case["modified"]), set(&case["added"]));
        let expected = Comparison { removed, modified, added };
        assert_eq!(forward, expected, "{case}");
        let back = compare(schema, of, &case["after"], &case["before"], Nulls::Missing).unwrap();
        let Comparison { removed, modified, added } = expected;
        assert_eq!(back, Comparison { removed: added, modified, added: removed }, "back: {case}");
    });
}

#[test]
fn fields_of_objects() {
    each("set", 25, |schema, of, case| {
        let set = to_set(schema, of, &case["object"]).to_text();
        assert_eq!(set, case["set"].to_string(), "{case}");
    });
}

// contract: E-15b
#[test]
fn fields_are_removed() {
    each("remove", 40, |schema, of, case| {
        let left = remove(schema, of, &case["object"], &set(&case["set"]));
        assert_eq!(left, case["left"], "{case}");
    });
}

// contract: E-15g
#[test]
fn objects_are_validated() {
    each("validate", 80, |schema, of, case| {
        let problems = validate(schema, of, &case["object"], Duplicates::Refused);
        let expected = case["error"].as_str().unwrap();
        assert_eq!(problems.is_empty(), expected.is_empty(), "{case}: {problems}");
        // the objects of these cases are YAML, where maps have another Go type
        if !expected.is_empty() && !expected.contains("errors:") && !expected.contains("interface {}") {
            assert_eq!(problems.to_string(), expected, "{case}");
        }
    });
}

#[test]
fn sets_follow_changed_schemas() {
    each("reconcile", 5, |schema, of, case| {
        assert_eq!(reconcile(schema, of, set(&case["set"])), set(&case["left"]), "{case}");
    });
}

/// An object that is the same in all versions.
struct AnyVersion(Schema);

impl Versions for AnyVersion {
    fn schema(&self) -> &Schema {
        &self.0
    }

    fn convert(&self, object: &Value, _: &str) -> Option<Value> {
        Some(object.clone())
    }
}

fn managers_of(expected: &Value) -> Managers {
    let managers = expected.as_object().unwrap().iter().map(|(name, manager)| {
        let versioned = super::managers::VersionedSet {
            set: set(&manager["set"]),
            api_version: manager["version"].as_str().unwrap().to_owned(),
            is_applied: manager["applied"] == true,
        };
        (ManagerId::new(name, Operation::Apply, "", ""), versioned)
    });
    managers.collect()
}

fn run_steps(versions: &AnyVersion, case: &Value) {
    let (mut live, mut managers) = (Value::Null, Managers::new());
    for step in case["steps"].as_array().unwrap() {
        let filter = Filter::default();
        let api_version = step["version"].as_str().unwrap();
        let updater = Updater { versions, kind: KIND, api_version, filter: &filter };
        let id = ManagerId::new(step["manager"].as_str().unwrap(), Operation::Apply, "", "");
        let object = &step["object"];
        let result = if step["op"] == "apply" {
            let conflicts = if step["force"] == true { Conflicts::Forced } else { Conflicts::Refused };
            updater.apply(&live, object, managers.clone(), &id, conflicts)
        } else {
            let compared = updater.difference(&live, object);
            let updated =
                compared.and_then(|compared| updater.update(&live, object, compared, managers.clone(), &id));
            updated.map(|managers| (Some(object.clone()), managers))
        };
        match (result, step.get("error").and_then(Value::as_str)) {
            (Ok((object, found)), None) => {
                live = object.unwrap_or(live);
                managers = found;
                assert_eq!(live, step["live"], "{step}");
                assert_eq!(managers, managers_of(&step["managers"]), "{step}");
            }
            (Err(UpdateError::Conflicts(conflicts)), Some(expected)) => {
                for conflict in &conflicts {
                    let path = path_text(&conflict.path);
                    assert!(
                        expected.contains(&path) && expected.contains(&conflict.manager.manager),
                        "{step}: {path}"
                    );
                }
                let lines = expected.lines().filter(|line| line.starts_with("- ")).count();
                assert_eq!(conflicts.len(), lines.max(1), "{step}");
            }
            (Err(UpdateError::Failed(_)), Some(expected)) if !expected.starts_with("conflict") => {}
            (result, expected) => panic!("{result:?} instead of {expected:?}: {step}"),
        }
    }
}

// contract: E-15a, E-15b, E-15c
#[test]
fn managers_are_updated() {
    let tables: Value = serde_json::from_str(TABLES).unwrap();
    let cases = tables["update"].as_array().unwrap();
    assert!(cases.len() >= 90);
    for case in cases {
        let index = usize::try_from(case["schema"].as_u64().unwrap()).unwrap();
        let mut builder = Builder::new(tables["schemas"][index].as_object().unwrap());
        for (version, reference) in case["versions"].as_object().unwrap() {
            let of = builder.reference(reference);
            builder.schema.set_kind(version, KIND, of);
        }
        run_steps(&AnyVersion(builder.schema), case);
    }
}
