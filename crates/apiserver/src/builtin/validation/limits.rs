//! Quotas and limit ranges.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::super::check::{Check, Fields, Object, texts};
use super::super::names;
use super::super::quantity::Quantity;
use super::pods;

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

pub(super) fn quota(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        c.enter("hard", |c| {
            for (name, quantity) in spec.members("hard") {
                c.key(name, |c| {
                    pods::resource_name(c, "", name);
                    if !name.contains('/') && !pods::is_quota_resource(name) {
                        c.invalid("", name, "must be a standard resource for quota");
                    }
                    pods::quantity_value(c, "", name, quantity);
                });
            }
        });
        let scopes = spec.items("scopes");
        for scope in texts(scopes) {
            check_scope(c, "scopes", scope, spec.of("scopes"), spec);
        }
        for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
            if pair.iter().all(|scope| texts(scopes).any(|given| given == *scope)) {
                c.invalid("scopes", spec.of("scopes"), "conflicting scopes");
            }
        }
        for requirement in spec.of("scopeSelector").items("matchExpressions") {
            c.enter("scopeSelector.matchExpressions", |c| scope_requirement(c, requirement));
        }
    });
    if let Some(before) = before {
        let set = |object: &Object| -> BTreeSet<String> {
            texts(object.of("spec").items("scopes")).map(str::to_owned).collect()
        };
        if set(before) != set(object) {
            c.invalid("spec.scopes", spec.of("scopes"), "field is immutable");
        }
    }
}

fn check_scope(c: &mut Check, field: &str, scope: &str, value: &Value, spec: &Value) {
    if !SCOPES.contains(&scope) {
        c.invalid(field, value, "unsupported scope");
    }
    for (name, _) in spec.members("hard").filter(|(name, _)| pods::is_quota_resource(name)) {
        let is_compute = ["cpu", "memory"]
            .iter()
            .any(|part| name.trim_start_matches("requests.").trim_start_matches("limits.") == *part);
        let is_valid = match scope {
            "BestEffort" => name == "pods",
            "VolumeAttributesClass" => name == "persistentvolumeclaims" || name == "requests.storage",
            scope if SCOPES.contains(&scope) => name == "pods" || is_compute,
            _ => true,
        };
        if !is_valid {
            c.invalid(field, value, "unsupported scope applied to resource");
        }
    }
}

fn scope_requirement(c: &mut Check, requirement: &Value) {
    let (scope, operator) = (requirement.text("scopeName"), requirement.text("operator"));
    let values = requirement.items("values");
    if !SCOPES.contains(&scope) {
        c.invalid("scopeName", scope, "unsupported scope");
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let rule = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            c.required("values", rule);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let rule = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            c.invalid("values", requirement.of("values"), rule);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        operator => c.invalid("operator", operator, "not a valid selector operator"),
    }
}

pub(super) fn limit_range(c: &mut Check, object: &Object, _: Option<&Object>) {
    let mut seen = HashSet::new();
    c.enter("spec", |c| {
        c.each("limits", object.of("spec").items("limits"), |c, limit| {
            let kind = limit.text("type");
            let before = c.count();
            c.rules("type", kind, names::qualified_name(kind));
            let is_standard = ["Pod", "Container", "PersistentVolumeClaim"].contains(&kind);
            if c.count() == before && !kind.contains('/') && !is_standard {
                c.invalid("type", kind, "must be a standard limit type or fully qualified");
            }
            if !seen.insert(kind) {
                c.duplicate("type", kind);
            }
            limits(c, limit, kind);
        });
    });
}

fn limits(c: &mut Check, limit: &Value, kind: &str) {
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let is_default = matches!(field, "default" | "defaultRequest");
        if kind == "Pod" && is_default {
            if limit.members(field).next().is_some() {
                c.forbidden(field, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        if field == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let has_size = ["min", "max"].iter().any(|field| limit.of(field).has("storage"));
            if !has_size {
                let rule = "either minimum or maximum storage value is required, but neither was provided";
                c.required("limits", rule);
            }
        }
        for (name, _) in limit.members(field) {
            let field = format!("{field}[{name}]");
            if matches!(kind, "Pod" | "Container") {
                pods::container_resource_name(c, &field, name);
            } else {
                pods::resource_name(c, &field, name);
            }
        }
    }
    let fields = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let names: BTreeSet<&String> =
        fields.iter().flat_map(|field| limit.members(field)).map(|(name, _)| name).collect();
    names.into_iter().for_each(|name| bounds(c, limit, name));
}

/// The bounds of a resource, whose order must be that of their sizes.
fn bounds(c: &mut Check, limit: &Value, name: &str) {
    let of = |field: &str| Quantity::parse(limit.of(field).text(name)).ok();
    let (min, max) = (of("min"), of("max"));
    let (default, request) = (of("default"), of("defaultRequest"));
    let mut above =
        |field: &str, low: (Option<Quantity>, &str), high: (Option<Quantity>, &str), of_low: bool| {
            if let ((Some(lower), low), (Some(higher), high)) = (low, high)
                && lower > higher
            {
                let shown = if of_low { lower } else { higher };
                let rule = format!("{low} value {lower} is greater than {high} value {higher}");
                c.invalid(&format!("{field}[{name}]"), &shown.to_string(), &rule);
            }
        };
    above("min", (min, "min"), (max, "max"), true);
    above("defaultRequest", (min, "min"), (request, "default request"), false);
    above("defaultRequest", (request, "default request"), (max, "max"), true);
    above("defaultRequest", (request, "default request"), (default, "default limit"), true);
    above("default", (min, "min"), (default, "default"), true);
    above("default", (default, "default"), (max, "max"), false);
    if let Some(ratio) = of("maxLimitRequestRatio").filter(|ratio| *ratio < Quantity::whole(1)) {
        let field = format!("maxLimitRequestRatio[{name}]");
        c.invalid(&field, &ratio.to_string(), &format!("ratio {ratio} is less than 1"));
    }
    if let (Some(default), Some(request)) = (default, request)
        && !pods::is_overcommitted(name)
        && default != request
    {
        let rule = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        c.invalid(&format!("defaultRequest[{name}]"), &request.to_string(), &rule);
    }
}
