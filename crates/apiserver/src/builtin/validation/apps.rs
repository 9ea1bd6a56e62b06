//! The controllers of pods.

use serde_json::Value;

use super::super::check::{Check, Fields, Object};
use super::super::names;
use super::{claims, labels, pods};

/// An integer or a percentage, which is not negative.
pub(super) fn int_or_percent(c: &mut Check, field: &str, value: &Value) {
    match value.as_str() {
        Some(text) => {
            if let Some(rule) = names::percent(text) {
                c.invalid(field, value, &rule);
            }
        }
        None => c.nonnegative_number(field, value.as_i64().unwrap_or(0)),
    }
}

fn percent(value: &Value) -> Option<i64> {
    let text = value.as_str().filter(|text| names::percent(text).is_none())?;
    text.trim_end_matches('%').parse().ok()
}

pub(super) fn at_most_all(c: &mut Check, field: &str, value: &Value) {
    if percent(value).is_some_and(|percent| percent > 100) {
        c.invalid(field, value, "must not be greater than 100%");
    }
}

fn is_zero(value: &Value) -> bool {
    percent(value).or(value.as_i64()).unwrap_or(0) == 0
}

/// Checks that a selector is given and not empty.
fn required_selector(c: &mut Check, selector: &Value, kind: &str) {
    if selector.is_null() {
        return c.required("selector", "");
    }
    labels::selector(c, "selector", selector);
    if labels::is_empty(selector) {
        c.invalid("selector", selector, &format!("empty selector is invalid for {kind}"));
    }
}

const NO_MATCH: &str = "`selector` does not match template `labels`";

/// Checks a template, and that the selector matches its labels.
fn selected_template(c: &mut Check, spec: &Value, kind: &str) {
    let (selector, template) = (spec.of("selector"), spec.of("template"));
    let template_labels = template.of("metadata").of("labels");
    match labels::matches(selector, template_labels) {
        None => return c.invalid("selector", selector, "invalid label selector"),
        Some(is_match) if !is_match && !labels::is_empty(selector) => {
            c.invalid("template.metadata.labels", template_labels, NO_MATCH);
        }
        // a missing selector matches nothing, and is not empty
        Some(_) if selector.is_null() => {
            c.invalid("template.metadata.labels", template_labels, NO_MATCH);
        }
        Some(_) => {}
    }
    c.enter("template", |c| {
        pods::template(c, template);
        always_restarts(c, template, kind);
    });
}

/// Templates of controllers restart their containers, and have no deadline.
fn always_restarts(c: &mut Check, template: &Value, kind: &str) {
    let spec = template.of("spec");
    if spec.text("restartPolicy") != "Always" {
        c.not_supported("spec.restartPolicy", spec.text("restartPolicy"), &["Always"]);
    }
    if spec.has("activeDeadlineSeconds") {
        let rule = format!("activeDeadlineSeconds in {kind} is not Supported");
        c.forbidden("spec.activeDeadlineSeconds", &rule);
    }
}

pub(super) fn deployment(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        c.nonnegative(spec, "replicas");
        required_selector(c, spec.of("selector"), "deployment");
        selected_template(c, spec, "ReplicaSet");
        c.enter("strategy", |c| deployment_strategy(c, spec.of("strategy")));
        c.nonnegative(spec, "minReadySeconds");
        c.nonnegative(spec, "revisionHistoryLimit");
        c.nonnegative(spec, "progressDeadlineSeconds");
        if let Some(deadline) = spec.int("progressDeadlineSeconds")
            && deadline <= spec.int("minReadySeconds").unwrap_or(0)
        {
            c.invalid("progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
        }
    });
    same_selector(c, spec, before);
}

fn same_selector(c: &mut Check, spec: &Value, before: Option<&Object>) {
    if let Some(before) = before {
        c.immutable("spec.selector", before.of("spec").of("selector"), spec.of("selector"));
    }
}

fn deployment_strategy(c: &mut Check, strategy: &Value) {
    let update = strategy.of("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if !update.is_null() => {
            c.forbidden("rollingUpdate", "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => c.enter("rollingUpdate", |c| {
            let (unavailable, surge) = (update.of("maxUnavailable"), update.of("maxSurge"));
            int_or_percent(c, "maxUnavailable", unavailable);
            int_or_percent(c, "maxSurge", surge);
            if is_zero(unavailable) && is_zero(surge) {
                c.invalid("maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(c, "maxUnavailable", unavailable);
        }),
        _ => c.not_supported("", strategy, &["Recreate", "RollingUpdate"]),
    }
}

pub(super) fn replica_set(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        c.nonnegative(spec, "replicas");
        c.nonnegative(spec, "minReadySeconds");
        required_selector(c, spec.of("selector"), "deployment");
        selected_template(c, spec, "ReplicaSet");
    });
    same_selector(c, spec, before);
}

pub(super) fn replication_controller(c: &mut Check, object: &Object, _: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        c.nonnegative(spec, "minReadySeconds");
        if spec.members("selector").next().is_none() {
            c.required("selector", "");
        }
        c.nonnegative(spec, "replicas");
        let template = spec.of("template");
        if template.is_null() {
            return c.required("template", "");
        }
        let template_labels = template.of("metadata").of("labels");
        if spec.members("selector").any(|(key, value)| template_labels.of(key) != value) {
            c.invalid("template.metadata.labels", template_labels, NO_MATCH);
        }
        c.enter("template", |c| {
            pods::template(c, template);
            always_restarts(c, template, "ReplicationController");
        });
    });
}

pub(super) fn daemon_set(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    same_selector(c, spec, before);
    c.enter("spec", |c| {
        let (selector, template) = (spec.of("selector"), spec.of("template"));
        labels::selector(c, "selector", selector);
        let template_labels = template.of("metadata").of("labels");
        if labels::matches(selector, template_labels) == Some(false) {
            c.invalid("template.metadata.labels", template_labels, NO_MATCH);
        }
        if selector.is_object() && labels::is_empty(selector) {
            c.invalid("selector", selector, "empty selector is invalid for daemonset");
        }
        c.enter("template", |c| {
            pods::template(c, template);
            always_restarts(c, template, "DaemonSet");
        });
        c.nonnegative(spec, "minReadySeconds");
        c.enter("updateStrategy", |c| daemon_strategy(c, spec.of("updateStrategy")));
        c.nonnegative(spec, "revisionHistoryLimit");
    });
}

fn daemon_strategy(c: &mut Check, strategy: &Value) {
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" => c.enter("rollingUpdate", |c| {
            let update = strategy.of("rollingUpdate");
            for field in ["maxUnavailable", "maxSurge"] {
                int_or_percent(c, field, update.of(field));
            }
            for field in ["maxUnavailable", "maxSurge"] {
                at_most_all(c, field, update.of(field));
            }
            let (unavailable, surge) = (update.of("maxUnavailable"), update.of("maxSurge"));
            match (is_zero(unavailable), is_zero(surge)) {
                (false, false) => {
                    c.invalid("maxSurge", surge, "may not be set when maxUnavailable is non-zero")
                }
                (true, true) => c.required("maxUnavailable", "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }),
        _ => c.not_supported("", strategy, &["RollingUpdate", "OnDelete"]),
    }
}

pub(super) fn stateful_set(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        match spec.text("podManagementPolicy") {
            "" => c.required("podManagementPolicy", ""),
            "OrderedReady" | "Parallel" => {}
            policy => c.invalid("podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"),
        }
        c.enter("updateStrategy", |c| stateful_strategy(c, spec.of("updateStrategy")));
        let retention = spec.of("persistentVolumeClaimRetentionPolicy");
        c.enter("persistentVolumeClaimRetentionPolicy", |c| {
            for field in ["whenDeleted", "whenScaled"] {
                c.supported(retention, field, &["Retain", "Delete"]);
            }
        });
        let templates = if before.is_none() { spec.items("volumeClaimTemplates") } else { &[] };
        c.each("volumeClaimTemplates", templates, |c, template| {
            c.enter("spec", |c| claims::spec(c, template.of("spec")));
        });
        c.nonnegative(spec, "replicas");
        c.nonnegative(spec, "minReadySeconds");
        c.nonnegative_number("ordinals.start", spec.of("ordinals").int("start").unwrap_or(0));
        let service = spec.text("serviceName");
        if !service.is_empty() && before.is_none() {
            c.rules("serviceName", service, names::label(service));
        }
        required_selector(c, spec.of("selector"), "statefulset");
        stateful_template(c, spec);
    });
    let Some(before) = before else { return };
    let old = before.of("spec");
    for field in ["selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
        let (old, new) = (old.of(field), spec.of(field));
        if field == "volumeClaimTemplates" && without_status(old) == without_status(new) {
            continue;
        }
        c.enter("spec", |c| c.immutable(field, old, new));
    }
}

fn without_status(templates: &Value) -> Vec<Value> {
    let without = |template: &Value| {
        let mut template = template.clone();
        if let Value::Object(fields) = &mut template {
            fields.remove("status");
        }
        template
    };
    templates.as_array().into_iter().flatten().map(without).collect()
}

fn stateful_strategy(c: &mut Check, strategy: &Value) {
    let update = strategy.of("rollingUpdate");
    match strategy.text("type") {
        "" => c.required("", ""),
        "OnDelete" if !update.is_null() => {
            c.invalid("rollingUpdate", update, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" if update.is_null() => {}
        "RollingUpdate" => c.enter("rollingUpdate", |c| {
            c.nonnegative(update, "partition");
            let unavailable = update.of("maxUnavailable");
            if !unavailable.is_null() {
                int_or_percent(c, "maxUnavailable", unavailable);
                if is_zero(unavailable) {
                    c.invalid("maxUnavailable", unavailable, "cannot be 0");
                }
                at_most_all(c, "maxUnavailable", unavailable);
            }
        }),
        _ => c.invalid("", strategy, "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn stateful_template(c: &mut Check, spec: &Value) {
    let (selector, template) = (spec.of("selector"), spec.of("template"));
    let template_labels = template.of("metadata").of("labels");
    match labels::matches(selector, template_labels) {
        None => c.invalid("selector", selector, ""),
        Some(is_match) => {
            if !is_match && (selector.is_null() || !labels::is_empty(selector)) {
                c.invalid("template.metadata.labels", template_labels, NO_MATCH);
            }
            let checked = with_claims(spec, template);
            c.enter("template", |c| {
                pods::template(c, &checked);
                labels::labels(c, "labels", template_labels);
                labels::annotations(c, "annotations", template.of("metadata").of("annotations"));
                let annotations = template.of("metadata").of("annotations");
                pods::annotations(c, annotations, template.of("spec"));
            });
        }
    }
    c.enter("template", |c| always_restarts(c, template, "StatefulSet"));
}

/// Returns a template with the volumes of the claims, and without names that the controller sets.
fn with_claims(spec: &Value, template: &Value) -> Value {
    let mut template = template.clone();
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    pod.remove("subdomain");
    pod.remove("hostname");
    let names: Vec<&str> =
        spec.items("volumeClaimTemplates").iter().map(|claim| claim.of("metadata").text("name")).collect();
    if names.is_empty() {
        return template;
    }
    let claimed = names
        .iter()
        .map(|name| serde_json::json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .chain(pod.items("volumes").iter().filter(|volume| !names.contains(&volume.text("name"))).cloned());
    let volumes: Value = claimed.collect();
    pod.insert("volumes".into(), volumes);
    template
}

pub(super) fn revision(c: &mut Check, object: &Object, before: Option<&Object>) {
    c.nonnegative_number("revision", object.int("revision").unwrap_or(0));
    let data = object.of("data");
    match before {
        Some(before) => c.immutable("data", before.of("data"), data),
        None if data.is_null() => c.required("data", "data is mandatory"),
        None if !data.is_object() => c.required("data", "data must be a valid JSON object"),
        None => {}
    }
}
