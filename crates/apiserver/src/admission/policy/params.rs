//! The parameters of a binding.

use serde_json::Value;

use crate::apply::unpack;
use crate::registry::{Registry, Resource};
use crate::selectors::LabelSelector;
use crate::storage::{Key, Stored};

use super::definition::{ParamKind, ParamRef};

/// Returns the resource of the parameters.
///
/// # Errors
/// There is no such kind.
pub(super) fn resource<'r>(kind: &ParamKind, registry: &'r Registry) -> Result<&'r Resource, String> {
    registry.of_kind(&kind.api_version, &kind.kind).map(|found| &**found).ok_or_else(|| {
        let separator = if kind.api_version.contains('/') { "" } else { "/" };
        let name = format!("{separator}{}, Kind={}", kind.api_version, kind.kind);
        format!("failed to find resource referenced by paramKind: '{name}'")
    })
}

/// Returns the parameters with which a policy is evaluated, one after the other. `None` is an evaluation without.
///
/// Follows Kubernetes 1.37 (`CollectParams`).
///
/// # Errors
/// Why there are none.
pub(super) fn collect(
    resource: Option<&Resource>,
    selected: Option<&ParamRef>,
    namespace: &str,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(resource), Some(selected)) = (resource, selected) else { return Ok(vec![None]) };
    let namespace = match (resource.kind.namespaced, selected.namespace.as_str()) {
        (true, "") if namespace.is_empty() => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.into());
        }
        (true, "") => namespace,
        (true, given) => given,
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into());
        }
    };
    let found: Vec<_> = match &selected.selector {
        _ if !selected.name.is_empty() => {
            let stored = resource.store.get(&Key::new(namespace, &selected.name));
            stored.iter().map(|stored| Some(param(resource, stored))).collect()
        }
        Some(selector) => {
            let matcher = LabelSelector::of_json(selector);
            let matcher = matcher.ok_or_else(|| format!("invalid label selector {selector}"))?;
            let snapshot = resource.store.snapshot();
            let all = snapshot.objects.values().filter(|stored| {
                stored.key().namespace() == namespace && matcher.matches(|name| stored.label(name))
            });
            all.map(|stored| Some(param(resource, stored))).collect()
        }
        None => return Err("one of name or selector must be provided".into()),
    };
    if found.is_empty() && selected.parameter_not_found_action == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    Ok(found)
}

/// Returns an object in the version of the resource.
fn param(resource: &Resource, stored: &Stored) -> Value {
    let mut object = stored.parse();
    unpack(&mut object);
    if let Some(conversion) = resource.conversion.filter(|_| !resource.kind.custom) {
        conversion.to_served(&mut object, &resource.kind.api_version());
    }
    object.insert("apiVersion".into(), resource.kind.api_version().into());
    object.insert("kind".into(), resource.kind.kind.as_str().into());
    Value::Object(object)
}
