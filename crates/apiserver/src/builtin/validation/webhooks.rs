//! Configurations of webhooks.

use std::collections::HashSet;

use serde_json::Value;

use super::super::check::{Check, Fields, Object, texts};
use super::super::names;
use super::webhook_client::webhook_client_faults;
use super::{admission_rules, labels, policies};

pub(super) fn configuration(c: &mut Check, object: &Object, before: Option<&Object>) {
    let mut seen = HashSet::new();
    let conditions = |object: &Object| -> Vec<Vec<Value>> {
        object.items("webhooks").iter().map(|hook| hook.items("matchConditions").to_vec()).collect()
    };
    // stored conditions are not checked again
    let is_unchanged = before.is_some_and(|before| conditions(before) == conditions(object));
    c.each("webhooks", object.items("webhooks"), |c, hook| {
        webhook(c, hook);
        if !is_unchanged {
            policies::webhook_conditions(c, hook);
        }
        versions(c, hook);
        let name = hook.text("name");
        if !name.is_empty() && !seen.insert(name) {
            c.duplicate("name", name);
        }
    });
}

fn webhook(c: &mut Check, hook: &Value) {
    let name = hook.text("name");
    let broken = names::subdomain(name);
    if name.is_empty() {
        c.required("name", "");
    } else if !broken.is_empty() {
        c.invalid("name", name, &broken.join(","));
    } else if name.split('.').count() < 3 {
        c.invalid("name", name, "should be a domain with at least three segments separated by dots");
    }
    c.each("rules", hook.items("rules"), admission_rules::rule);
    c.supported(hook, "failurePolicy", &["Fail", "Ignore"]);
    c.supported(hook, "matchPolicy", &["Equivalent", "Exact"]);
    if hook.has("sideEffects") {
        c.supported(hook, "sideEffects", &["None", "NoneOnDryRun"]);
    } else {
        c.required("sideEffects", "must specify one of None, NoneOnDryRun");
    }
    if let Some(seconds) = hook.int("timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        c.invalid("timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds");
    }
    for field in ["namespaceSelector", "objectSelector"] {
        labels::selector(c, field, hook.of(field));
    }
    if hook.has("reinvocationPolicy") {
        c.supported(hook, "reinvocationPolicy", &["IfNeeded", "Never"]);
    }
    c.found("clientConfig", |path| webhook_client_faults(hook.of("clientConfig"), path));
}

fn versions(c: &mut Check, hook: &Value) {
    let versions = hook.items("admissionReviewVersions");
    if versions.is_empty() {
        return c.required("admissionReviewVersions", "must specify one of v1, v1beta1");
    }
    let mut seen = HashSet::new();
    for (index, version) in texts(versions).enumerate() {
        let field = format!("admissionReviewVersions[{index}]");
        if !seen.insert(version) {
            c.invalid(&field, version, "duplicate version");
            continue;
        }
        c.rules(&field, version, names::lowercase_identifier(version));
    }
    if !texts(versions).any(|version| matches!(version, "v1" | "v1beta1")) {
        let value = hook.of("admissionReviewVersions");
        c.invalid("admissionReviewVersions", value, "must include at least one of v1, v1beta1");
    }
}
