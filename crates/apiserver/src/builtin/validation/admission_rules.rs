//! The rules of webhooks and admission policies.

use std::collections::HashSet;

use serde_json::Value;

use super::super::check::{Check, Fields, Object, texts};

pub(super) const VERSION: &str = "admissionregistration.k8s.io/v1";
/// The end of the names of configurations that kube-apiserver reads from files.
const STATIC: &str = ".static.k8s.io";
/// Resources that webhooks do not review. Follows Kubernetes 1.37 (`exclusion.Excluded`).
const EXCLUDED: [(&str, &[&str]); 2] = [
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
    ),
];

/// Follows Kubernetes 1.37 (`ValidateStaticSuffix`).
pub(super) fn name(c: &mut Check, object: &Object) {
    let name = object.of("metadata").text("name");
    if name.ends_with(STATIC) {
        let why = "are reserved for static manifest-based configurations and cannot be managed via the API";
        c.invalid("metadata.name", name, &format!("names ending with {STATIC:?} {why}"));
    }
}

/// Returns the warnings about rules of webhooks for resources that webhooks do not review.
///
/// Follows Kubernetes 1.37 (`warningsForExcludedRules`).
pub(super) fn warnings(object: &Object) -> Vec<String> {
    let mut found = Vec::new();
    for (index, hook) in object.items("webhooks").iter().enumerate() {
        for (of, rule) in hook.items("rules").iter().enumerate() {
            let (groups, resources) = (rule.items("apiGroups"), rule.items("resources"));
            if texts(groups).chain(texts(resources)).any(|name| name == "*") {
                continue;
            }
            let mut seen = HashSet::new();
            for (group, excluded) in
                texts(groups).filter_map(|group| EXCLUDED.iter().find(|(name, _)| *name == group))
            {
                let resources = texts(resources).filter(|name| excluded.contains(name));
                found.extend(resources.filter(|name| seen.insert((group, *name))).map(|name| {
                    format!(
                        "webhooks[{index}].rules[{of}]: {name}.{group} is excluded from admission webhooks; this rule \
                         will have no effect"
                    )
                }));
            }
        }
    }
    found
}

pub(super) fn rule(c: &mut Check, rule: &Value) {
    let operations = rule.items("operations");
    if operations.is_empty() {
        c.required("operations", "");
    }
    if operations.len() > 1 && texts(operations).any(|operation| operation == "*") {
        let why = "if '*' is present, must not specify other operations";
        c.invalid("operations", rule.of("operations"), why);
    }
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (index, operation) in texts(operations).enumerate() {
        if !OPERATIONS.contains(&operation) {
            c.not_supported(&format!("operations[{index}]"), operation, &OPERATIONS);
        }
    }
    for (field, what) in [("apiGroups", "groups"), ("apiVersions", "versions"), ("resources", "resources")] {
        let list = rule.items(field);
        if list.is_empty() {
            c.required(field, "");
        }
        if field != "resources" && list.len() > 1 && texts(list).any(|item| item == "*") {
            let name = if what == "groups" { "API groups" } else { "API versions" };
            let why = format!("if '*' is present, must not specify other {name}");
            c.invalid(field, rule.of(field), &why);
        }
        for (index, item) in texts(list).enumerate() {
            if item.is_empty() && field != "apiGroups" {
                c.required(&format!("{field}[{index}]"), "");
            }
        }
    }
    resources(c, rule);
    c.supported(rule, "scope", &["*", "Cluster", "Namespaced"]);
}

/// Resources that others contain. Follows Kubernetes 1.37 (`validateResources`).
fn resources(c: &mut Check, rule: &Value) {
    let list = rule.items("resources");
    let (mut all_parts, mut part_of_all) = (HashSet::new(), HashSet::new());
    let mut has_whole = false;
    for (index, item) in texts(list).enumerate().filter(|(_, item)| !item.is_empty()) {
        let field = format!("resources[{index}]");
        let Some((resource, part)) = item.split_once('/') else {
            has_whole = item != "*";
            continue;
        };
        if all_parts.contains(resource) {
            c.invalid(&field, item, &format!("if '{resource}/*' is present, must not specify {item}"));
        }
        if part_of_all.contains(part) {
            c.invalid(&field, item, &format!("if '*/{part}' is present, must not specify {item}"));
        }
        if part == "*" {
            all_parts.insert(resource);
        }
        if resource == "*" {
            part_of_all.insert(part);
        }
    }
    let has = |name: &str| texts(list).any(|item| item == name);
    if list.len() > 1 && has("*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        c.invalid("resources", rule.of("resources"), why);
    }
    if has("*") && has_whole {
        let why = "if '*' is present, must not specify other resources without subresources";
        c.invalid("resources", rule.of("resources"), why);
    }
}
