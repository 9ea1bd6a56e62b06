//! Configurations of webhooks.

use std::collections::HashSet;

use serde_json::Value;

use super::super::check::{Check, Fields, Object, texts};
use super::super::names;
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
    client(c, hook.of("clientConfig"));
}

fn client(c: &mut Check, config: &Value) {
    let (url, service) = (config.of("url"), config.of("service"));
    if url.is_null() == service.is_null() {
        return c.required("clientConfig", "exactly one of url or service is required");
    }
    c.enter("clientConfig", |c| {
        if let Some(url) = url.as_str() {
            const FORM: &str = "; desired format: https://host[/path]";
            if !url.starts_with("https://") {
                let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
                c.invalid("url", scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
            }
            return url_parts(c, url);
        }
        c.enter("service", |c| {
            // the fields change places in Kubernetes 1.37
            for (field, named) in [("name", "namespace"), ("namespace", "name")] {
                if service.text(field).is_empty() {
                    c.required(named, "");
                }
            }
            let path = service.text("path");
            service_path(c, path);
            let port = service.int("port").unwrap_or(443);
            if !(1..=65535).contains(&port) {
                c.invalid("port", port, "port is not valid: must be between 1 and 65535, inclusive");
            }
        });
    });
}

/// Follows Kubernetes 1.37 (`ValidateWebhookURL`).
fn url_parts(c: &mut Check, url: &str) {
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(""));
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        c.invalid("url", "", "host must be specified; desired format: https://host[/path]");
    }
    if let Some(user) = user {
        c.invalid("url", user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        c.invalid("url", fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        c.invalid("url", query, "query parameters are not permitted in the URL");
    }
}

fn service_path(c: &mut Check, path: &str) {
    if path.is_empty() || path == "/" {
        return;
    }
    if !path.starts_with('/') {
        c.invalid("path", path, "must start with a '/'");
    }
    let rest = path.strip_prefix('/').unwrap_or(path);
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            c.invalid("path", path, &format!("segment[{index}] may not be empty"));
        }
        for broken in names::subdomain(segment).iter().filter(|_| !segment.is_empty()) {
            c.invalid("path", path, &format!("segment[{index}]: {broken}"));
        }
    }
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
