//! The status of a job. Follows Kubernetes 1.37 (`ValidateJobStatusUpdate`).

use std::collections::HashSet;

use serde_json::Value;

use super::super::check::{Check, Fields, Object, texts};

/// A status, with the meaning of its conditions.
struct Status<'a> {
    fields: &'a Value,
    is_complete: bool,
    is_failed: bool,
    has_failure_target: bool,
    meets_criteria: bool,
}

impl<'a> Status<'a> {
    fn of(job: &'a Object) -> Self {
        let fields = job.of("status");
        let is_true = |kind: &str| has_condition(fields, kind, "True");
        Self {
            fields,
            is_complete: is_true("Complete"),
            is_failed: is_true("Failed"),
            has_failure_target: is_true("FailureTarget"),
            meets_criteria: is_true("SuccessCriteriaMet"),
        }
    }

    fn is_finished(&self) -> bool {
        self.is_complete || self.is_failed
    }

    fn count(&self, field: &str) -> i64 {
        self.fields.int(field).unwrap_or(0)
    }
}

fn has_condition(status: &Value, kind: &str, value: &str) -> bool {
    let mut conditions = status.items("conditions").iter();
    conditions.any(|condition| condition.text("type") == kind && condition.text("status") == value)
}

pub(super) fn job_status(c: &mut Check, job: &Object, before: &Object) {
    let (spec, old, new) = (job.of("spec"), Status::of(before), Status::of(job));
    c.enter("status", |c| {
        for field in ["active", "succeeded", "failed", "ready", "terminating"] {
            c.nonnegative(new.fields, field);
        }
        uncounted(c, new.fields.of("uncountedTerminatedPods"));
        conditions(c, spec, &old, &new);
        times(c, spec, &old, &new);
        counts(c, spec, &old, &new);
        changes(c, spec, &old, &new);
    });
}

fn uncounted(c: &mut Check, pods: &Value) {
    let mut seen = HashSet::new();
    for list in ["succeeded", "failed"] {
        for (index, uid) in texts(pods.items(list)).enumerate() {
            let field = format!("uncountedTerminatedPods.{list}[{index}]");
            if uid.is_empty() {
                c.invalid(&field, uid, "must not be empty");
            } else if !seen.insert(uid) {
                c.duplicate(&field, uid);
            }
        }
    }
}

fn conditions(c: &mut Check, spec: &Value, old: &Status<'_>, new: &Status<'_>) {
    let complete_changed = old.is_complete != new.is_complete;
    let failed_changed = old.is_failed != new.is_failed;
    let target_changed = old.has_failure_target != new.has_failure_target;
    let criteria_changed = old.meets_criteria != new.meets_criteria;
    let indexes_changed = old.fields.of("failedIndexes") != new.fields.of("failedIndexes");
    let broken = [
        (
            (complete_changed || failed_changed) && new.is_complete && new.is_failed,
            "cannot set Complete=True and Failed=true conditions",
        ),
        (
            (complete_changed || target_changed) && new.is_complete && new.has_failure_target,
            "cannot set Complete=True and FailureTarget=true conditions",
        ),
        (
            (failed_changed || indexes_changed) && new.is_failed && !new.has_failure_target,
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            (complete_changed || criteria_changed) && new.is_complete && !new.meets_criteria,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
        (
            new.meets_criteria && new.is_failed,
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        ),
        (
            new.meets_criteria && new.has_failure_target,
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
        (
            spec.has("successPolicy") && !new.meets_criteria && new.is_complete,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        ),
        (old.is_failed && !new.is_failed, "cannot disable the terminal Failed=True condition"),
        (old.is_complete && !new.is_complete, "cannot disable the terminal Complete=True condition"),
        (
            old.has_failure_target && !new.has_failure_target,
            "cannot disable the terminal FailureTarget=True condition",
        ),
        (old.meets_criteria && !new.meets_criteria, "cannot disable the SuccessCriteriaMet=True condition"),
        (
            old.is_complete && !old.meets_criteria && new.meets_criteria,
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        ),
    ];
    for (_, rule) in broken.into_iter().filter(|(is_broken, _)| *is_broken) {
        c.invalid_alone("conditions", rule);
    }
}

fn times(c: &mut Check, spec: &Value, old: &Status<'_>, new: &Status<'_>) {
    let changed = |field: &str| old.fields.of(field) != new.fields.of(field);
    let (start, end) = (new.fields.of("startTime"), new.fields.of("completionTime"));
    if old.is_complete != new.is_complete || changed("completionTime") {
        if !end.is_null() && !new.is_complete {
            let rule = "cannot set completionTime when there is no Complete=True condition";
            c.invalid("completionTime", end, rule);
        }
        if end.is_null() && new.is_complete {
            c.required("completionTime", "completionTime is required for Complete jobs");
        }
    }
    let is_before = matches!((start.as_str(), end.as_str()), (Some(start), Some(end)) if end < start);
    if is_before && (changed("startTime") || changed("completionTime")) {
        c.invalid("completionTime", end, "must be equal to or after `startTime`");
    }
    let is_empty = spec.flag("suspend") && spec.int("completions") == Some(0);
    let finished_changed = old.is_finished() != new.is_finished();
    if start.is_null() && new.is_finished() && (finished_changed || changed("startTime")) && !is_empty {
        c.required("startTime", "startTime is required for finished job");
    }
    if !end.is_null() && old.fields.has("completionTime") && changed("completionTime") {
        c.invalid("completionTime", end, "field is immutable");
    }
    let is_resumed =
        has_condition(old.fields, "Suspended", "True") && has_condition(new.fields, "Suspended", "False");
    let is_fixed = old.fields.has("startTime") && !spec.flag("suspend") && !is_resumed;
    if is_fixed && changed("startTime") {
        c.invalid("startTime", start, "field is immutable for unsuspended job once set");
    }
}

fn counts(c: &mut Check, spec: &Value, old: &Status<'_>, new: &Status<'_>) {
    let changed = |field: &str| old.fields.of(field) != new.fields.of(field);
    let finished_changed = old.is_finished() != new.is_finished();
    for (field, rule) in [
        ("active", "active>0 is invalid for finished job"),
        ("terminating", "terminating>0 is invalid for finished job"),
    ] {
        if new.is_finished() && new.count(field) > 0 && (finished_changed || changed(field)) {
            c.invalid(field, new.count(field), rule);
        }
    }
    let uncounted = new.fields.of("uncountedTerminatedPods");
    let has_uncounted = ["failed", "succeeded"].iter().any(|list| !uncounted.items(list).is_empty());
    if new.is_finished() && has_uncounted && (finished_changed || changed("uncountedTerminatedPods")) {
        c.invalid("uncountedTerminatedPods", uncounted, "must be empty for finished job");
    }
    let completed = new.fields.text("completedIndexes");
    if changed("completedIndexes") && !completed.is_empty() && spec.text("completionMode") != "Indexed" {
        let rule = "cannot set non-empty completedIndexes when non-indexed completion mode";
        c.invalid("completedIndexes", completed, rule);
    }
    let failed = new.fields.of("failedIndexes");
    if changed("failedIndexes") && !failed.is_null() && !spec.has("backoffLimitPerIndex") {
        let rule = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        c.invalid("failedIndexes", failed, rule);
    }
    if (changed("ready") || changed("active")) && new.count("ready") > new.count("active") {
        c.invalid("ready", new.count("ready"), "cannot set more ready pods than active");
    }
}

fn changes(c: &mut Check, spec: &Value, old: &Status<'_>, new: &Status<'_>) {
    if new.count("failed") < old.count("failed") {
        c.invalid("failed", new.count("failed"), "cannot decrease the failed counter");
    }
    let is_elastic =
        spec.text("completionMode") == "Indexed" && spec.of("completions") == spec.of("parallelism");
    if !is_elastic && new.count("succeeded") < old.count("succeeded") {
        c.invalid("succeeded", new.count("succeeded"), "cannot decrease the succeeded counter");
    }
}
