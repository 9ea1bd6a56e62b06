//! The defaults of a schema.

use serde_json::{Map, Value};

use crate::status::Cause;

#[cfg(feature = "cel")]
use super::super::cel;
use super::super::object_meta;
use super::super::prune::prune_value;
use super::super::structural::{Additional, Structural};
#[cfg(feature = "cel")]
use super::super::validate::correlated::Old;
use super::super::validate::{Purpose, validate};
use crate::causes;

/// Removes from the defaults the fields that their schema does not have. Definitions of former servers may have such.
///
/// Follows Kubernetes 1.37 (`defaulting.PruneDefaults`).
pub(crate) fn prune_defaults(schema: &mut Structural) {
    if let Some(mut default) = schema.default.take() {
        prune_value(&mut default, schema);
        schema.default = Some(default);
    }
    schema.properties_mut().for_each(prune_defaults);
    if let Additional::Schema(of) = &mut schema.additional {
        prune_defaults(of);
    }
    if let Some(of) = &mut schema.items {
        prune_defaults(of);
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
        let _ = object_meta::coerce_value(&mut default, &Structural::parse(node));
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
/// Follows Kubernetes 1.37 (`defaulting.ValidateDefaults`). The defaults of the metadata of embedded resources are validated
/// against their own schema only.
pub(super) fn faults_of_defaults(path: &str, schema: &Structural) -> Vec<Cause> {
    let mut found = Vec::new();
    if let Some(default) = &schema.default {
        found.extend(faults_of_default(&format!("{path}.default"), default, schema));
    }
    // defaults in `additionalProperties` are checked only in objects
    if let Some(of) = &schema.items {
        found.extend(faults_of_defaults(&format!("{path}.items"), of));
    }
    for (name, property) in schema.properties() {
        found.extend(faults_of_defaults(&format!("{path}.properties[{name}]"), property));
    }
    found
}

fn faults_of_default(path: &str, default: &Value, schema: &Structural) -> Vec<Cause> {
    let mut found = Vec::new();
    let mut pruned = default.clone();
    prune_value(&mut pruned, schema);
    if pruned != *default {
        found.push(causes::invalid(path, default, "must not have unknown fields"));
    }
    let mut coerced = default.clone();
    if let Err(mut cause) = object_meta::coerce_value(&mut coerced, schema) {
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

/// Returns the failures of the rules for a default, as a value that does not change, and as a new one.
#[cfg(feature = "cel")]
fn rule_faults(path: &str, default: &Value, schema: &Structural) -> Vec<Cause> {
    let failures =
        |old| cel::faults(path, cel::Subject { value: default, old, is_object: false }, schema).causes;
    let found = failures(Some(Old::Value(default)));
    if found.is_empty() { failures(None) } else { found }
}
