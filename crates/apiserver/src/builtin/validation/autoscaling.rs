//! Horizontal pod autoscalers.

use serde_json::Value;

use super::super::check::{Check, Fields, Object};
use super::super::names;
use super::super::quantity::Quantity;
use super::pods;

const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(super) fn autoscaler(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    let (min, max) = (spec.int("minReplicas"), spec.int("maxReplicas").unwrap_or(0));
    c.enter("spec", |c| {
        c.declared(|c| {
            if let Some(min) = min.filter(|min| *min < 0) {
                c.invalid("minReplicas", min, "must be greater than or equal to 0");
            }
            if max == 0 {
                c.required("maxReplicas", "");
            } else if max < 0 {
                c.invalid("maxReplicas", max, "must be greater than or equal to 1");
            }
        });
        if min.is_some_and(|min| max < min) {
            c.invalid("maxReplicas", max, "must be greater than or equal to `minReplicas`");
        }
        let target = spec.of("scaleTargetRef");
        let had_group = before
            .is_none_or(|before| before.of("spec").of("scaleTargetRef").text("apiVersion").contains('/'));
        let needs_group = had_group && target.text("kind") != "ReplicationController";
        c.enter("scaleTargetRef", |c| reference(c, target, true, needs_group));
        let metrics = spec.items("metrics");
        c.each("metrics", metrics, metric);
        let scales_to_zero =
            metrics.iter().any(|metric| matches!(metric.text("type"), "Object" | "External"));
        if min == Some(0) && !scales_to_zero {
            let rule =
                "must specify at least one Object or External metric to support scaling to zero replicas";
            c.forbidden("metrics", rule);
        }
        for direction in ["scaleUp", "scaleDown"] {
            let rules = spec.of("behavior").of(direction);
            if !rules.is_null() {
                c.enter("behavior", |c| c.enter(direction, |c| scaling_rules(c, rules)));
            }
        }
    });
}

fn reference(c: &mut Check, reference: &Value, is_target: bool, needs_group: bool) {
    for field in ["kind", "name"] {
        match reference.text(field) {
            "" if is_target => c.declared(|c| c.required(field, "")),
            "" => c.required(field, ""),
            text => c.rules(field, text, names::path_segment(text)),
        }
    }
    let version = reference.text("apiVersion");
    if version.matches('/').count() > 1 {
        c.invalid("apiVersion", version, &format!("unexpected GroupVersion string: {version}"));
    } else if is_target && needs_group && !version.contains('/') {
        c.invalid("apiVersion", version, "apiVersion must specify API group");
    }
}

fn scaling_rules(c: &mut Check, rules: &Value) {
    if let Some(seconds) = rules.int("stabilizationWindowSeconds") {
        if seconds < 0 {
            let rule = "must be greater than or equal to zero";
            c.invalid("stabilizationWindowSeconds", seconds, rule);
        }
        if seconds > 3600 {
            c.invalid("stabilizationWindowSeconds", seconds, "must be less than or equal to 3600");
        }
    }
    c.supported(rules, "selectPolicy", &["Disabled", "Max", "Min"]);
    let policies = rules.items("policies");
    if policies.is_empty() {
        c.required("policies", "must specify at least one Policy");
    }
    c.each("policies", policies, |c, policy| {
        if !["Pods", "Percent"].contains(&policy.text("type")) {
            c.not_supported("type", policy.text("type"), &["Percent", "Pods"]);
        }
        let period = policy.int("periodSeconds").unwrap_or(0);
        c.positive(policy, "value");
        c.positive(policy, "periodSeconds");
        if period > 1800 {
            c.invalid("periodSeconds", period, "must be less than or equal to 1800");
        }
    });
    let tolerance = rules.text("tolerance");
    if Quantity::parse(tolerance).is_ok_and(|tolerance| tolerance.signum() < 0) {
        c.invalid("tolerance", tolerance, "must be greater than or equal to 0");
    }
}

fn metric(c: &mut Check, metric: &Value) {
    let kind = metric.text("type");
    if kind.is_empty() {
        c.required("type", "must specify a metric source type");
    }
    if !TYPES.contains(&kind) {
        c.not_supported("type", kind, &TYPES);
    }
    let given: Vec<&str> =
        SOURCES.iter().map(|(_, field)| *field).filter(|field| metric.has(field)).collect();
    if let Some(first) = given.first() {
        c.enter(first, |c| source(c, first, metric.of(first)));
    }
    let expected = SOURCES.iter().find(|(of, _)| *of == kind).map(|(_, field)| *field);
    match expected {
        Some(field) if !metric.has(field) => {
            c.required(field, "must populate information for the given metric source");
        }
        Some(_) => {}
        None => c.not_supported("type", kind, &TYPES),
    }
    if given.len() != 1 {
        for other in given.iter().filter(|field| Some(**field) != expected) {
            c.forbidden(other, "must populate the given metric source only");
        }
    }
}

fn source(c: &mut Check, kind: &str, source: &Value) {
    let target_value = source.of("target");
    match kind {
        "object" | "external" | "pods" => {
            if kind == "object" {
                c.enter("describedObject", |c| reference(c, source.of("describedObject"), false, false));
            }
            match source.of("metric").text("name") {
                "" => c.required("metric.name", "must specify a metric name"),
                name => c.rules("metric.name", name, names::path_segment(name)),
            }
        }
        "containerResource" => {
            let (name, container) = (source.text("name"), source.text("container"));
            if name.is_empty() {
                c.required("name", "must specify a resource name");
            } else {
                pods::container_resource_name(c, "name", name);
            }
            if container.is_empty() {
                c.required("container", "must specify a container");
            } else {
                c.rules("container", container, names::label(container));
            }
        }
        _ if source.text("name").is_empty() => c.required("name", "must specify a resource name"),
        _ => {}
    }
    c.enter("target", |c| {
        target(c, target_value);
        of_source(c, kind, target_value);
    });
}

fn of_source(c: &mut Check, kind: &str, target: &Value) {
    let has_average = target.has("averageValue");
    let (needed, rule) = match kind {
        "object" => (target.has("value") || has_average, "must set either a target value or averageValue"),
        "external" => {
            let rule = "must set either a target value for metric or a per-pod target";
            (target.has("value") || has_average, rule)
        }
        "pods" => (has_average, "must specify a positive target averageValue"),
        _ => {
            let rule = "must set either a target raw value or a target utilization";
            (target.has("averageUtilization") || has_average, rule)
        }
    };
    let of_resource = matches!(kind, "resource" | "containerResource");
    if !needed {
        c.required(if of_resource { "averageUtilization" } else { "averageValue" }, rule);
    }
    if kind == "external" && target.has("value") && has_average {
        let rule = "may not set both a target value for metric and a per-pod target";
        c.forbidden("value", rule);
    }
    if of_resource && target.has("averageUtilization") && has_average {
        let rule = "may not set both a target raw value and a target utilization";
        c.forbidden("averageValue", rule);
    }
}

fn target(c: &mut Check, target: &Value) {
    let kind = target.text("type");
    if kind.is_empty() {
        c.required("type", "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        c.invalid("type", kind, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        if Quantity::parse(target.text(field)).is_ok_and(|value| value.signum() <= 0) {
            c.invalid(field, target.of(field), "must be positive");
        }
    }
    if let Some(percent) = target.int("averageUtilization").filter(|percent| *percent < 1) {
        c.invalid("averageUtilization", percent, "must be greater than 0");
    }
}
