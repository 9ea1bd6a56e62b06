//! A webhook of a configuration.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::client_config::ClientConfig;
use super::conditions::{Condition, Conditions};
use super::rule::Rule;

/// A webhook of a configuration. Missing fields have the defaults of Kubernetes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) client_config: ClientConfig,
    pub(super) rules: Vec<Rule>,
    failure_policy: String,
    match_policy: String,
    pub(super) namespace_selector: Value,
    pub(super) object_selector: Value,
    side_effects: String,
    timeout_seconds: Option<u64>,
    reinvocation_policy: String,
    pub(super) admission_review_versions: Vec<String>,
    pub(super) match_conditions: Vec<Condition>,
    #[serde(skip)]
    pub(super) conditions: Conditions,
    /// Why the webhook could not be read. All writes that it may match fail.
    #[serde(skip)]
    pub(super) fault: Option<String>,
}

impl Hook {
    /// Reads a webhook. Those that cannot be read fail all writes.
    pub(super) fn read(value: &Value) -> Self {
        let mut value = value.clone();
        drop_nulls(&mut value);
        Self::deserialize(&value).unwrap_or_else(|error| Self {
            name: value.get("name").and_then(Value::as_str).unwrap_or("").to_owned(),
            rules: vec![Rule::of_all()],
            fault: Some(error.to_string()),
            ..Self::default()
        })
    }

    /// Whether a write goes on when the webhook cannot be called.
    pub(super) fn ignores_failures(&self) -> bool {
        self.failure_policy == "Ignore"
    }

    /// Whether the rules also match other versions of their resources.
    pub(super) fn matches_equivalents(&self) -> bool {
        self.match_policy != "Exact"
    }

    /// Whether the webhook may be called for a dry run.
    pub(super) fn allows_dry_run(&self) -> bool {
        matches!(self.side_effects.as_str(), "None" | "NoneOnDryRun")
    }

    /// Whether the webhook is called again after later ones have changed the object.
    pub(super) fn is_reinvoked(&self) -> bool {
        self.reinvocation_policy == "IfNeeded"
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.unwrap_or(10))
    }
}

/// Removes fields that are null: they are missing.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::attributes::Operation;
    use super::Hook;

    #[test]
    fn webhooks_that_cannot_be_read_fail_all_writes() {
        let hook = Hook::read(&json!({"name": "a", "failurePolicy": "Ignore", "timeoutSeconds": "no"}));
        assert!(hook.fault.is_some() && !hook.ignores_failures());
        assert!(hook.rules.iter().any(|rule| rule.has_operation(Operation::Delete)));
        let hook = Hook::read(&json!({"name": "a", "failurePolicy": null, "rules": null}));
        assert!(hook.fault.is_none() && hook.rules.is_empty());
    }
}
