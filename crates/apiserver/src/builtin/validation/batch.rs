//! Jobs and cron jobs.

use std::collections::HashSet;

use serde_json::Value;

use super::super::check::{Check, Fields, Object};
use super::super::names;
use super::{cron, labels, pods};
use crate::{order, time_zones};

const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;

pub(super) fn job(c: &mut Check, object: &Object, before: Option<&Object>) {
    let (metadata, spec) = (object.of("metadata"), object.of("spec"));
    if before.is_none() {
        generated_selector(c, metadata, spec);
    }
    c.enter("spec", |c| {
        job_spec(c, spec);
        selected(c, spec);
    });
    if let Some(before) = before {
        c.enter("spec", |c| job_update(c, before.of("spec"), spec, before));
    }
    if spec.text("completionMode") == "Indexed"
        && let Some(completions) = spec.int("completions").filter(|completions| *completions > 0)
    {
        let host = format!("{}-{}", metadata.text("name"), completions - 1);
        if !names::label(&host).is_empty() {
            let rule = format!("will not able to create pod with invalid DNS label: {host}");
            c.invalid("metadata.name", metadata.text("name"), &rule);
        }
    }
}

fn generated_selector(c: &mut Check, metadata: &Value, spec: &Value) {
    if spec.flag("manualSelector") || !spec.has("selector") {
        return;
    }
    let template_labels = spec.of("template").of("metadata").of("labels");
    let (uid, name) = (metadata.text("uid"), metadata.text("name"));
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (label, value) in expected {
        let field = format!("spec.template.metadata.labels[{label}]");
        match template_labels.of(label).as_str() {
            None => c.required(&field, &format!("must be '{value}'")),
            Some(own) if own == value => {}
            Some(_) => c.invalid(&field, template_labels, &format!("must be '{value}'")),
        }
    }
    let expected: Value = Value::Object(order::object(
        expected.iter().map(|(label, value)| ((*label).to_owned(), Value::from(*value))),
    ));
    if labels::matches(spec.of("selector"), &expected) == Some(false) {
        c.invalid("spec.selector", spec.of("selector"), "`selector` not auto-generated");
    }
}

fn selected(c: &mut Check, spec: &Value) {
    let selector = spec.of("selector");
    if selector.is_null() {
        c.required("selector", "");
    }
    labels::selector(c, "selector", selector);
    let template_labels = spec.of("template").of("metadata").of("labels");
    if labels::matches(selector, template_labels) == Some(false) {
        let rule = "`selector` does not match template `labels`";
        c.invalid("template.metadata.labels", template_labels, rule);
    }
}

fn job_spec(c: &mut Check, spec: &Value) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        c.nonnegative(spec, field);
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        c.declared(|c| c.required("backoffLimitPerIndex", "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec.of("managedBy").as_str() {
        if manager.is_empty() {
            c.required("managedBy", "");
        } else {
            for (text, rule) in names::domain_prefixed_path(manager) {
                c.invalid("managedBy", text, &rule);
            }
        }
        if manager.len() > 63 {
            c.too_long("managedBy", 63);
        }
    }
    completion(c, spec);
    if spec.has("podFailurePolicy") {
        c.enter("podFailurePolicy", |c| failure_policy(c, spec));
    }
    if spec.has("successPolicy") {
        if spec.text("completionMode") == "Indexed" {
            c.enter("successPolicy", |c| success_policy(c, spec));
        } else {
            c.invalid("successPolicy", spec.of("successPolicy"), "requires indexed completion mode");
        }
    }
    let replacement = ["Failed", "TerminatingOrFailed"];
    let supported = if spec.has("podFailurePolicy") { ["Failed"].as_slice() } else { &replacement };
    c.supported(spec, "podReplacementPolicy", supported);
    c.enter("template", |c| pods::template(c, spec.of("template")));
    restart_policy(c, spec);
}

fn restart_policy(c: &mut Check, spec: &Value) {
    let (field, policy) =
        ("template.spec.restartPolicy", spec.of("template").of("spec").text("restartPolicy"));
    match policy {
        "" | "Always" => c.required(field, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.has("podFailurePolicy") => {
            c.invalid(field, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        policy => c.not_supported(field, policy, &["OnFailure", "Never"]),
    }
}

fn completion(c: &mut Check, spec: &Value) {
    let mode = spec.text("completionMode");
    c.supported(spec, "completionMode", &["NonIndexed", "Indexed"]);
    let max_failed = spec.int("maxFailedIndexes");
    if mode == "Indexed" {
        if !spec.has("completions") {
            c.required("completions", "when completion mode is Indexed");
        }
        let parallelism = spec.int("parallelism").unwrap_or(0);
        if parallelism > MAX_PARALLELISM {
            let rule = "must be less than or equal to 100000 when completion mode is Indexed";
            c.invalid("parallelism", parallelism, rule);
        }
        if let (Some(completions), Some(failed)) = (spec.int("completions"), max_failed)
            && failed > completions
        {
            c.invalid("maxFailedIndexes", failed, "must be less than or equal to completions");
        }
        if let Some(failed) = max_failed.filter(|failed| *failed > MAX_FAILED_INDEXES) {
            c.invalid("maxFailedIndexes", failed, "must be less than or equal to 100000");
        }
        return many_completions(c, spec, parallelism);
    }
    if mode == "NonIndexed" || mode.is_empty() {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(number) = spec.int(field) {
                c.invalid(field, number, "requires indexed completion mode");
            }
        }
    }
}

fn many_completions(c: &mut Check, spec: &Value, parallelism: i64) {
    let is_many = spec.int("completions").is_some_and(|completions| completions > 100_000);
    if !is_many || !spec.has("backoffLimitPerIndex") {
        return;
    }
    let rule = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index";
    match spec.int("maxFailedIndexes") {
        None => c.required("maxFailedIndexes", "must be specified when completions is above 100000"),
        Some(failed) if failed > 10_000 => c.invalid("maxFailedIndexes", failed, rule),
        Some(_) => {}
    }
    if parallelism > 10_000 {
        c.invalid("parallelism", parallelism, rule);
    }
}

fn failure_policy(c: &mut Check, spec: &Value) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let template = spec.of("template").of("spec");
    let containers: HashSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| template.items(list))
        .map(|container| container.text("name"))
        .collect();
    let rules = spec.of("podFailurePolicy").items("rules");
    if rules.len() > 20 {
        c.too_many("rules", rules.len(), 20);
    }
    c.each("rules", rules, |c, rule| {
        match rule.text("action") {
            "" => c.required("action", r#"valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#),
            "FailIndex" if !spec.has("backoffLimitPerIndex") => {
                c.invalid("action", "FailIndex", "requires the backoffLimitPerIndex to be set");
            }
            action if ACTIONS.contains(&action) => {}
            action => c.not_supported("action", action, &ACTIONS),
        }
        let (codes, conditions) = (rule.of("onExitCodes"), rule.items("onPodConditions"));
        if !codes.is_null() {
            c.enter("onExitCodes", |c| exit_codes(c, codes, &containers));
        }
        c.each("onPodConditions", conditions, |c, condition| {
            let kind = condition.text("type");
            c.rules("type", kind, names::qualified_name(kind));
            let statuses = ["False", "True", "Unknown"];
            match condition.text("status") {
                "" => c.required("status", r#"valid values: ["False" "True" "Unknown"]"#),
                status => c.one_of("status", status, &statuses),
            }
        });
        let rule = match (codes.is_null(), conditions.is_empty()) {
            (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => return,
        };
        c.invalid_alone("", rule);
    });
}

fn exit_codes(c: &mut Check, codes: &Value, containers: &HashSet<&str>) {
    let operator = codes.text("operator");
    match operator {
        "" => c.required("operator", r#"valid values: ["In" "NotIn"]"#),
        operator => c.one_of("operator", operator, &["In", "NotIn"]),
    }
    if let Some(name) = codes.of("containerName").as_str()
        && !containers.contains(name)
    {
        let rule = "must be one of the container or initContainer names in the pod template";
        c.invalid("containerName", name, rule);
    }
    let values = codes.items("values");
    match values.len() {
        0 => c.invalid("values", codes.of("values"), "at least one value is required"),
        1..=255 => {}
        count => c.too_many("values", count, 255),
    }
    let mut seen = HashSet::new();
    c.each("values", values, |c, value| {
        let code = value.as_i64().unwrap_or(0);
        if operator == "In" && code == 0 {
            c.invalid("", code, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            c.duplicate("", code);
        }
    });
    if !values.is_sorted_by_key(|value| value.as_i64()) {
        c.invalid("values", codes.of("values"), "must be ordered");
    }
}

fn success_policy(c: &mut Check, spec: &Value) {
    let rules = spec.of("successPolicy").items("rules");
    if rules.is_empty() {
        c.required("rules", "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > 20 {
        c.too_many("rules", rules.len(), 20);
    }
    let completions = spec.int("completions").unwrap_or(0);
    c.each("rules", rules, |c, rule| {
        let count = rule.int("succeededCount");
        if count.is_none() && !rule.has("succeededIndexes") {
            c.required("", "at least one of succeededCount or succeededIndexes must be specified");
        }
        if let Some(count) = count {
            c.nonnegative(rule, "succeededCount");
            if count > completions {
                let why = format!(
                    "must be less than or equal to {completions} (the number of specified completions)"
                );
                c.invalid("succeededCount", count, &why);
            }
        }
    });
}

fn job_update(c: &mut Check, old: &Value, new: &Value, before: &Object) {
    if new.text("completionMode") != "Indexed" {
        c.immutable("completions", old.of("completions"), new.of("completions"));
    } else if new.has("completions")
        && old.of("completions") != new.of("completions")
        && new.of("completions") != new.of("parallelism")
    {
        let rule = "can only be modified in tandem with spec.parallelism";
        c.invalid("completions", new.of("completions"), rule);
    }
    c.immutable("selector", old.of("selector"), new.of("selector"));
    let (old_template, new_template) = (old.of("template"), new.of("template"));
    if old.flag("suspend") && is_stopped(before.of("status")) {
        if without_directives(old_template) != without_directives(new_template) {
            c.invalid("template.spec", new_template.of("spec"), "field is immutable");
        }
    } else {
        c.immutable("template", old_template, new_template);
    }
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        c.immutable(field, old.of(field), new.of(field));
    }
}

/// Whether a job has no pods: it has never started, or has been suspended.
fn is_stopped(status: &Value) -> bool {
    let conditions = status.items("conditions");
    let is_suspended = conditions
        .iter()
        .any(|condition| condition.text("type") == "Suspended" && condition.text("status") == "True");
    (!status.has("startTime") || is_suspended) && status.int("active").unwrap_or(0) == 0
}

/// Returns what an update of a suspended job must not change in its template.
fn without_directives(template: &Value) -> Value {
    let mut template = template.clone();
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        spec.remove(field);
    }
    pods::remove_node_affinity(spec);
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            container.remove("resources");
        }
    }
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("labels");
        metadata.remove("annotations");
    }
    template
}

pub(super) fn cron_job(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        let schedule = spec.text("schedule");
        if schedule.is_empty() {
            c.declared(|c| c.required("schedule", ""));
        } else {
            schedule_faults(c, schedule, before.map(|before| before.of("spec")), spec);
        }
        c.nonnegative(spec, "startingDeadlineSeconds");
        let is_new = before.is_none_or(|before| before.of("spec").of("timeZone") != spec.of("timeZone"));
        if let Some(zone) = spec.of("timeZone").as_str().filter(|_| is_new) {
            time_zone(c, zone);
        }
        c.one_of("concurrencyPolicy", spec.text("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
        c.enter("jobTemplate", |c| job_template(c, spec.of("jobTemplate").of("spec")));
        c.nonnegative(spec, "successfulJobsHistoryLimit");
        c.nonnegative(spec, "failedJobsHistoryLimit");
    });
    let name = object.of("metadata").text("name");
    if before.is_none() && name.len() > 52 {
        c.invalid("metadata.name", name, "must be no more than 52 characters");
    }
}

fn job_template(c: &mut Check, spec: &Value) {
    c.enter("spec", |c| {
        job_spec(c, spec);
        if spec.has("selector") {
            c.invalid("selector", spec.of("selector"), "`selector` will be auto-generated");
        }
        if spec.flag("manualSelector") {
            c.not_supported("manualSelector", spec.of("manualSelector"), &["nil", "false"]);
        }
    });
}

fn schedule_faults(c: &mut Check, schedule: &str, before: Option<&Value>, spec: &Value) {
    if let Some(why) = cron::fault(schedule) {
        c.invalid("schedule", schedule, &why);
    }
    let has_zone = |schedule: &str| schedule.contains("TZ");
    let is_allowed = before.is_some_and(|before| has_zone(before.text("schedule")));
    if is_allowed && has_zone(schedule) && spec.has("timeZone") {
        c.invalid("schedule", schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    } else if !is_allowed && has_zone(schedule) {
        let rule = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        c.invalid("schedule", schedule, rule);
    }
}

fn time_zone(c: &mut Check, zone: &str) {
    let is_part = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || ".-_+".contains(c))
    };
    if zone.is_empty() {
        c.invalid("timeZone", zone, "timeZone must be nil or non-empty string");
    } else if !zone.split('/').all(is_part) {
        c.invalid("timeZone", zone, &format!("unknown time zone {zone}"));
    } else if zone.eq_ignore_ascii_case("local") {
        let rule = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        c.invalid("timeZone", zone, rule);
    } else if time_zones::are_known() && time_zones::find(zone).is_none() {
        c.invalid("timeZone", zone, &format!("unknown time zone {zone}"));
    }
}
