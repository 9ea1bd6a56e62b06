//! Roles and their bindings.

use serde_json::Value;

use super::super::check::{Check, Fields, NULL, Object};
use super::super::names;
use super::labels;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(c: &mut Check, object: &Object, _: Option<&Object>) {
    c.each("rules", object.items("rules"), |c, of| rule(c, of, true));
}

pub(super) fn cluster_role(c: &mut Check, object: &Object, _: Option<&Object>) {
    c.each("rules", object.items("rules"), |c, of| rule(c, of, false));
    let aggregation = object.of("aggregationRule");
    if aggregation.is_null() {
        return;
    }
    c.enter("aggregationRule", |c| {
        let selectors = aggregation.items("clusterRoleSelectors");
        if selectors.is_empty() {
            let rule = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            c.required("clusterRoleSelectors", rule);
        }
        c.each("clusterRoleSelectors", selectors, |c, selector| {
            labels::selector(c, "", selector);
            if labels::matches(selector, &NULL).is_none() {
                c.invalid("", &NULL, "invalid label selector.");
            }
        });
    });
}

fn rule(c: &mut Check, rule: &Value, is_namespaced: bool) {
    if rule.items("verbs").is_empty() {
        c.declared(|c| c.required("verbs", ""));
    }
    let urls = rule.of("nonResourceURLs");
    if !rule.items("nonResourceURLs").is_empty() {
        if is_namespaced {
            c.invalid("nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs");
        }
        let others = ["apiGroups", "resources", "resourceNames"];
        if others.iter().any(|field| !rule.items(field).is_empty()) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            c.invalid("nonResourceURLs", urls, why);
        }
        return;
    }
    for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if rule.items(field).is_empty() {
            c.required(field, &format!("resource rules must supply at least one {what}"));
        }
    }
}

pub(super) fn role_binding(c: &mut Check, object: &Object, before: Option<&Object>) {
    binding(c, object, &["Role", "ClusterRole"], true);
    if let Some(before) = before {
        c.immutable("roleRef", before.of("roleRef"), object.of("roleRef"));
    }
}

pub(super) fn cluster_role_binding(c: &mut Check, object: &Object, before: Option<&Object>) {
    binding(c, object, &["ClusterRole"], false);
    if let Some(before) = before {
        c.immutable("roleRef", before.of("roleRef"), object.of("roleRef"));
    }
}

fn binding(c: &mut Check, object: &Object, kinds: &[&str], is_namespaced: bool) {
    let role = object.of("roleRef");
    c.enter("roleRef", |c| {
        for (field, supported) in [("apiGroup", [GROUP].as_slice()), ("kind", kinds)] {
            if !supported.contains(&role.text(field)) {
                c.not_supported(field, role.text(field), supported);
            }
        }
        match role.text("name") {
            "" => c.declared(|c| c.required("name", "")),
            name => c.rules("name", name, names::path_segment(name)),
        }
    });
    c.each("subjects", object.items("subjects"), |c, of| subject(c, of, is_namespaced));
}

fn subject(c: &mut Check, subject: &Value, is_namespaced: bool) {
    let (kind, name, group) = (subject.text("kind"), subject.text("name"), subject.text("apiGroup"));
    if name.is_empty() {
        c.declared(|c| c.required("name", ""));
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                c.rules("name", name, names::subdomain(name));
            }
            if !group.is_empty() {
                c.not_supported("apiGroup", group, &[""]);
            }
            if !is_namespaced && subject.text("namespace").is_empty() {
                c.required("namespace", "");
            }
        }
        "User" | "Group" if group != GROUP => c.not_supported("apiGroup", group, &[GROUP]),
        "User" | "Group" => {}
        kind => c.not_supported("kind", kind, &["ServiceAccount", "User", "Group"]),
    }
}
