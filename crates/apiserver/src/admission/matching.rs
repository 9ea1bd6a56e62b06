//! Which webhooks are called for a request, and with which version of its objects.

use std::sync::Arc;

use serde_json::Value;

use crate::registry::{Kind, Registry, Resource};
use crate::selectors::LabelSelector;
use crate::status::{Status, Subject};

use super::attributes::{Attributes, Gvk, Object, Operation, label};
use super::convert::shown;
use super::hooks::Hook;
use super::invocation::Invocation;
use super::rule::Rule;

/// Whether any rule of a webhook can match a request, whatever its objects.
pub(super) fn may_match(hook: &Hook, resource: &Resource, subresource: &str, operation: Operation) -> bool {
    hook.rules.iter().any(|rule| {
        rule.has_operation(operation)
            && has_resource(rule, &resource.kind.plural, subresource)
            && (hook.matches_equivalents() || has_version(rule, &resource.kind))
    })
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|item| item == "*" || item == text)
}

fn has_version(rule: &Rule, kind: &Kind) -> bool {
    has(&rule.api_groups, &kind.group) && has(&rule.api_versions, &kind.version)
}

fn has_resource(rule: &Rule, plural: &str, subresource: &str) -> bool {
    rule.resources.iter().any(|resource| {
        let (of, sub) = resource.split_once('/').unwrap_or((resource, ""));
        (of == "*" || of == plural) && (sub == "*" || sub == subresource)
    })
}

/// Follows Kubernetes 1.37 (`rules.Matcher`).
pub(super) fn rule_matches(rule: &Rule, attributes: &Attributes, kind: &Kind) -> bool {
    let is_cluster_wide = attributes.is_namespace() || attributes.namespace.is_empty();
    let in_scope = match rule.scope.as_str() {
        "Namespaced" => !is_cluster_wide,
        "Cluster" => is_cluster_wide,
        _ => true,
    };
    in_scope
        && rule.has_operation(attributes.operation)
        && has_version(rule, kind)
        && has_resource(rule, &kind.plural, &attributes.asked.subresource)
}

/// Returns how a webhook is called; `None` if it is not.
///
/// Follows Kubernetes 1.37 (`ShouldCallHook`).
///
/// # Errors
/// 404 for a namespace that does not exist, 403 for conditions that cannot be evaluated.
pub(super) fn invocation(
    hook: &Hook,
    attributes: &Attributes,
    registry: &Registry,
) -> Result<Option<Invocation>, Status> {
    let in_namespace = matches_namespace(&hook.namespace_selector, attributes, registry);
    if matches!(in_namespace, Ok(false)) || !matches_object(&hook.object_selector, attributes)? {
        return Ok(None);
    }
    let asked = &attributes.asked;
    let invocation = if hook.rules.iter().any(|rule| rule_matches(rule, attributes, &asked.resource.kind)) {
        Invocation { resource: asked.resource.clone(), kind: asked.kind.clone() }
    } else if hook.matches_equivalents() {
        match equivalent(&hook.rules, attributes, registry) {
            Some(invocation) => invocation,
            None => return Ok(None),
        }
    } else {
        return Ok(None);
    };
    in_namespace?;
    if hook.conditions.is_empty() {
        return Ok(Some(invocation));
    }
    match hook.conditions.of_webhook(&invocation, &shown(&invocation, attributes)) {
        Ok(matches) => Ok(matches.then_some(invocation)),
        Err(_) if hook.ignores_failures() => Ok(None),
        Err(why) => {
            let subject = asked.resource.kind.resource_subject();
            Err(Status::forbidden(subject, &attributes.name, &why))
        }
    }
}

/// Returns the review in another version of the resource that a rule matches: of the first such rule.
pub(super) fn equivalent<'r>(
    rules: impl IntoIterator<Item = &'r Rule>,
    attributes: &Attributes,
    registry: &Registry,
) -> Option<Invocation> {
    let (own, asked) = (attributes.resource(), &attributes.asked);
    let has_subresource = |kind: &Kind| match attributes.asked.subresource.as_str() {
        "status" => kind.has_status,
        "scale" => kind.scale.is_some(),
        _ => true,
    };
    let others: Vec<&Arc<Resource>> = registry
        .iter()
        .filter(|other| Arc::ptr_eq(&other.store, &own.store) && has_subresource(&other.kind))
        .filter(|other| (&other.kind.group, &other.kind.version) != (&own.kind.group, &own.kind.version))
        .collect();
    let of_rule = |rule: &Rule| others.iter().find(|other| rule_matches(rule, attributes, &other.kind));
    let resource = (*rules.into_iter().find_map(of_rule)?).clone();
    let is_own = Gvk::of(&own.kind) == asked.kind;
    let kind = if is_own { Gvk::of(&resource.kind) } else { asked.kind.clone() };
    Some(Invocation { resource, kind })
}

/// # Errors
/// 500 for a selector that is not valid.
fn selector(value: &Value) -> Result<LabelSelector, Status> {
    LabelSelector::of_json(value).ok_or_else(|| Status::internal(format!("invalid label selector {value}")))
}

/// Follows Kubernetes 1.37 (`MatchNamespaceSelector`).
///
/// # Errors
/// 404 for a namespace that does not exist, 500 for an invalid selector.
pub(super) fn matches_namespace(
    selected: &Value,
    attributes: &Attributes,
    registry: &Registry,
) -> Result<bool, Status> {
    if attributes.namespace.is_empty() && !attributes.is_namespace() {
        return Ok(true);
    }
    let selector = selector(selected)?;
    if selector.is_empty() {
        return Ok(true);
    }
    let is_written = attributes.operation != Operation::Delete && attributes.asked.subresource.is_empty();
    if attributes.is_namespace() && is_written {
        let labels = attributes.object.as_ref();
        return Ok(selector.matches(|name| labels.and_then(|object| label(object, name))));
    }
    let name = &attributes.namespace;
    let namespaces = registry.get("", "v1", "namespaces");
    let key = crate::storage::Key::new("", name);
    match namespaces.and_then(|namespaces| namespaces.store.get(&key)) {
        Some(namespace) => Ok(selector.matches(|name| namespace.label(name))),
        None => Err(Status::not_found(Subject { group: "", resource: "namespaces" }, name)),
    }
}

/// Follows Kubernetes 1.37 (`MatchObjectSelector`).
///
/// # Errors
/// 500 for an invalid selector.
pub(super) fn matches_object(selected: &Value, attributes: &Attributes) -> Result<bool, Status> {
    let selector = selector(selected)?;
    let matches = |object: &Option<Object>| {
        object.as_ref().is_some_and(|object| selector.matches(|name| label(object, name)))
    };
    Ok(selector.is_empty() || matches(&attributes.object) || matches(&attributes.old))
}
