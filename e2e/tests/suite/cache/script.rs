//! Calls with their expected answers.

use serde_json::{Value, json};

/// The lines and rows by which differences are documented.
const CONTRACT: &str = include_str!("../../../../docs/contract.md");
const COMPARISON: &str = include_str!("../../../../docs/cache.md");

/// The row about the kind of metadata-only objects.
pub(super) const KIND_OF_METADATA: &str = "metadata-only objects have the kind of their resource";

/// The kind of an object in a view of kinformer-cache, if only metadata is cached.
pub(super) fn kind_of<'a>(view: &str, kind: &'a str) -> &'a str {
    if view == "metadata" { "meta.k8s.io/v1/PartialObjectMetadata" } else { kind }
}

/// Calls of one or several caches, one after the other.
pub(super) struct Script {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
}

pub(super) struct Step {
    pub(super) call: Value,
    /// The answer of kinformer-cache.
    pub(super) ours: Value,
    /// The answer of controller-runtime.
    pub(super) theirs: Value,
    /// Whether controller-runtime may give its answer only after some time.
    pub(super) is_late: bool,
}

impl Script {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), steps: Vec::new() }
    }

    /// Adds a new cache with these options, and starts it.
    pub(super) fn cache(self, options: Value) -> Self {
        self.call(json!({"call": "cache", "options": options}), ok()).call(json!({"call": "start"}), ok())
    }

    /// Adds a call that both answer alike.
    pub(super) fn call(mut self, call: Value, answer: Value) -> Self {
        self.steps.push(Step { call, ours: answer.clone(), theirs: answer, is_late: false });
        self
    }

    /// Adds a call that both answer alike, controller-runtime perhaps only after some time.
    pub(super) fn call_late(mut self, call: Value, answer: Value) -> Self {
        self.steps.push(Step { call, ours: answer.clone(), theirs: answer, is_late: true });
        self
    }

    /// Adds a call that they answer differently, as a line of the contract or a row of docs/cache.md says.
    pub(super) fn differs(mut self, documented: &str, call: Value, ours: Value, theirs: Value) -> Self {
        let is_documented = CONTRACT.contains(&format!("- {documented} "))
            || COMPARISON.contains(&format!("| {documented} |"));
        assert!(is_documented, "{documented} is neither a line of the contract nor a row of docs/cache.md");
        assert_ne!(ours, theirs, "{call}");
        self.steps.push(Step { call, ours, theirs, is_late: false });
        self
    }
}

pub(super) fn ok() -> Value {
    json!({"ok": true})
}

pub(super) fn error(class: &str) -> Value {
    json!({"error": class})
}

/// The answer to a list: its keys, in any order.
pub(super) fn keys<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> Value {
    let mut keys: Vec<String> = keys.into_iter().map(|key| key.as_ref().to_owned()).collect();
    keys.sort();
    json!({"keys": keys})
}

pub(super) fn count(count: usize) -> Value {
    json!({"count": count})
}

/// Joins the fields of two objects.
pub(super) fn with(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}
