//! The defaults of a schema.

use serde_json::Value;

use crate::status::Cause;

use super::super::object_meta;
use super::super::prune::prune_value;
use super::super::structural::{Additional, Structural};
use super::super::validate::{Purpose, validate};
use crate::fault;

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
        found.push(fault::invalid(path, default, "must not have unknown fields"));
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
    } else {
        found.extend(embedded);
    }
    found
}
