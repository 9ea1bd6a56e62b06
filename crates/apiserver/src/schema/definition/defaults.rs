//! The defaults of a schema.

use serde_json::{Map, Value};

use crate::causes;
use crate::status::Cause;

#[cfg(feature = "cel")]
use super::super::cel;
use super::super::object_meta::{self, Malformed};
use super::super::prune::{is_meta, prune_value};
use super::super::structural::{Additional, Structural};
#[cfg(feature = "cel")]
use super::super::validate::correlated::Old;
use super::super::validate::{Purpose, validate};

/// A step from an object to a value in it.
#[derive(Clone)]
enum Step {
    Field(Box<str>),
    Item,
}

/// Returns an object that has a value at a place.
///
/// Follows Kubernetes 1.37 (`defaulting.SurroundingObjectFunc`).
fn surrounded(place: &[Step], value: Value) -> Value {
    place.iter().rev().fold(value, |inner, step| match step {
        Step::Field(name) => Value::Object(Map::from_iter([(name.to_string(), inner)])),
        Step::Item => Value::Array(vec![inner]),
    })
}

/// Returns the value at a place of an object.
fn taken(place: &[Step], object: Value) -> Option<Value> {
    place.iter().try_fold(object, |value, step| match (step, value) {
        (Step::Field(name), Value::Object(mut fields)) => fields.remove(name.as_ref()),
        (Step::Item, Value::Array(items)) => items.into_iter().next(),
        _ => None,
    })
}

/// Removes from the defaults the fields that their schema does not have, and malformed metadata of embedded resources.
/// Definitions of former servers may have such.
///
/// Follows Kubernetes 1.37 (`defaulting.PruneDefaults`).
pub(crate) fn prune_defaults(schema: &mut Structural) {
    let mut root = schema.clone();
    root.is_embedded = true;
    prune_node(schema, &root, &mut Vec::new());
}

fn prune_node(node: &mut Structural, root: &Structural, place: &mut Vec<Step>) {
    if let Some(default) = node.default.take() {
        let mut object = surrounded(place, default);
        // nothing is refused
        let _ = object_meta::coerce_value(&mut object, root, Malformed::Dropped);
        prune_value(&mut object, root);
        node.default = taken(place, object);
    }
    for (name, property) in node.properties_mut() {
        place.push(Step::Field(name.into()));
        prune_node(property, root, place);
        place.pop();
    }
    if let Additional::Schema(of) = &mut node.additional {
        place.push(Step::Field("*".into()));
        prune_node(of, root, place);
        place.pop();
    }
    if let Some(of) = &mut node.items {
        place.push(Step::Item);
        prune_node(of, root, place);
        place.pop();
    }
}

/// Brings the metadata of embedded resources in the defaults of a definition into the form of an `ObjectMeta`, which
/// kube-apiserver does when it validates them.
pub(crate) fn coerce_defaults(definition: &mut Map<String, Value>) {
    let versions = definition.get_mut("spec").and_then(|spec| spec.get_mut("versions"));
    for version in versions.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            coerce_node(schema);
        }
    }
}

fn coerce_node(node: &mut Value) {
    if let Some(mut default) =
        node.get("default").filter(|default| default.is_object() || default.is_array()).cloned()
    {
        // the validation of the default finds the values of wrong types
        let _ = object_meta::coerce_value(&mut default, &Structural::parse(node), Malformed::Refused);
        if let Some(fields) = node.as_object_mut() {
            fields.insert("default".into(), default);
        }
    }
    if let Some(items) = node.get_mut("items") {
        coerce_node(items);
    }
    let properties = node.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(coerce_node);
}

/// Returns what is wrong with the defaults of a schema at a path.
///
/// Follows Kubernetes 1.37 (`defaulting.ValidateDefaults`).
pub(super) fn faults_of_defaults(path: &str, schema: &Structural) -> Vec<Cause> {
    let mut search = Search { place: Vec::new(), found: Vec::new() };
    search.node(path, schema, Around { root: schema, is_meta: false });
    search.found
}

/// What is around a node.
#[derive(Clone, Copy)]
struct Around<'a> {
    /// The innermost resource.
    root: &'a Structural,
    /// Whether the node is a part of the type or the metadata of this resource.
    is_meta: bool,
}

struct Search {
    /// From the resource to the node.
    place: Vec<Step>,
    found: Vec<Cause>,
}

impl Search {
    fn node(&mut self, path: &str, schema: &Structural, around: Around<'_>) {
        if schema.is_embedded {
            let outer = std::mem::take(&mut self.place);
            self.parts(path, schema, Around { root: schema, is_meta: false });
            self.place = outer;
        } else {
            self.parts(path, schema, around);
        }
    }

    fn parts(&mut self, path: &str, schema: &Structural, around: Around<'_>) {
        if let Some(default) = &schema.default {
            let path = format!("{path}.default");
            self.found.extend(match self.metadata_fault(&path, default, around) {
                Some(cause) => vec![cause],
                None if around.is_meta => value_faults(&path, default, schema),
                None => faults_of_default(&path, default, schema),
            });
        }
        // defaults in `additionalProperties` are checked only in objects
        if let Some(of) = &schema.items {
            self.place.push(Step::Item);
            self.node(&format!("{path}.items"), of, around);
            self.place.pop();
        }
        for (name, property) in schema.properties() {
            self.place.push(Step::Field(name.into()));
            let is_meta = around.is_meta || schema.is_embedded && is_meta(name);
            self.node(&format!("{path}.properties[{name}]"), property, Around { is_meta, ..around });
            self.place.pop();
        }
    }

    /// Returns why a default leads to metadata that is not valid.
    fn metadata_fault(&self, path: &str, default: &Value, around: Around<'_>) -> Option<Cause> {
        if !around.is_meta {
            return None;
        }
        let mut object = surrounded(&self.place, default.clone());
        if let Some(fields) = object.as_object_mut() {
            fields.entry("kind").or_insert_with(|| "Validation".into());
            fields.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        }
        let faults = match object_meta::coerce_value(&mut object, around.root, Malformed::Refused) {
            Err(cause) => vec![cause],
            Ok(()) => object_meta::faults("", &object, around.root),
        };
        let mut texts: Vec<String> = Vec::new();
        for Cause { field, message, .. } in faults {
            let text = format!("{}: {message}", field.unwrap_or_default());
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let why = match texts.as_slice() {
            [] => return None,
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        Some(causes::invalid(path, default, &format!("must result in valid metadata: {why}")))
    }
}

fn faults_of_default(path: &str, default: &Value, schema: &Structural) -> Vec<Cause> {
    let mut found = Vec::new();
    let mut pruned = default.clone();
    prune_value(&mut pruned, schema);
    if pruned != *default {
        found.push(causes::invalid(path, default, "must not have unknown fields"));
    }
    let mut coerced = default.clone();
    if let Err(mut cause) = object_meta::coerce_value(&mut coerced, schema, Malformed::Refused) {
        cause.field = cause.field.map(|field| format!("{path}.{field}"));
        found.push(cause);
        return found;
    }
    let embedded = object_meta::faults(path, default, schema);
    if embedded.is_empty() {
        found.extend(validate(path, default, None, schema, Purpose::Default));
        #[cfg(feature = "cel")]
        if found.is_empty() {
            found.extend(rule_faults(path, default, schema));
        }
    } else {
        found.extend(embedded);
    }
    found
}

/// Returns what is wrong with the default of a part of metadata.
fn value_faults(path: &str, default: &Value, schema: &Structural) -> Vec<Cause> {
    let found = validate(path, default, None, schema, Purpose::Default);
    #[cfg(feature = "cel")]
    if found.is_empty() {
        return rule_faults(path, default, schema);
    }
    found
}

/// Returns the failures of the rules for a default, as a value that does not change, and as a new one.
#[cfg(feature = "cel")]
fn rule_faults(path: &str, default: &Value, schema: &Structural) -> Vec<Cause> {
    let failures =
        |old| cel::faults(path, cel::Subject { value: default, old, is_object: false }, schema).causes;
    let found = failures(Some(Old::Value(default)));
    if found.is_empty() { failures(None) } else { found }
}
