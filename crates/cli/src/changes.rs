//! What an update changed, in one line: the differences of the page of `kinformer serve`.

use kinformer::PackedObject;
use kinformer_serve::internal::{ShownEntry, differences};
use serde_json::Value;

/// How many differences a line has.
const ENTRIES: usize = 3;
/// How many characters of a value are shown.
const LONGEST: usize = 60;

/// Describes an update: `spec.replicas 3 -> 5 +1 field`. Empty if nothing but the version changed.
pub(crate) fn describe(old: &PackedObject, new: &PackedObject) -> String {
    let Some((entries, truncated)) = differences(old, new) else { return String::new() };
    let all = entries.len();
    let (noise, mut shown): (Vec<ShownEntry>, Vec<ShownEntry>) =
        entries.into_iter().partition(|entry| is_noise(&entry.path));
    if shown.is_empty() {
        shown = noise;
    }
    // Conditions and fields deep inside repeat what other fields say.
    shown.sort_by_key(|ShownEntry { path, .. }| {
        (path.contains("conditions["), path.matches(['.', '[']).count())
    });
    shown.truncate(ENTRIES);
    let more = all - shown.len();
    let parts: Vec<String> = shown.iter().map(part).collect();
    let text = parts.join(", ");
    match (more, truncated) {
        (0, _) => text,
        (1, false) => format!("{text} +1 field"),
        (more, false) => format!("{text} +{more} fields"),
        (more, true) => format!("{text} +{more} or more fields"),
    }
}

fn part(entry: &ShownEntry) -> String {
    let ShownEntry { path, old, new } = entry;
    match (old.as_ref().map(value), new.as_ref().map(value)) {
        (Some(old), Some(new)) => format!("{path} {old} -> {new}"),
        (None, Some(new)) => format!("{path} {new}"),
        (_, None) => format!("{path} removed"),
    }
}

/// A value in one line; texts without quotes.
fn value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or("")),
        None => text,
    }
}

/// Whether a field changes with every write.
fn is_noise(path: &str) -> bool {
    path == "metadata.generation" || path.ends_with("Time") || path.ends_with("heartbeat")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::display_fields::tests::packed;

    fn described(old: Value, new: Value) -> String {
        let object = |spec: Value, version: &str| {
            packed(&json!({"metadata": {"name": "a", "resourceVersion": version}, "spec": spec}))
        };
        describe(&object(old, "1"), &object(new, "2"))
    }

    // contract: T-08a
    #[test]
    fn updates_are_described_by_their_fields() {
        assert_eq!(described(json!({"replicas": 3}), json!({"replicas": 5})), "spec.replicas 3 -> 5");
        assert_eq!(described(json!({}), json!({"a": {"b": "c"}})), "spec.a {\"b\":\"c\"}");
        assert_eq!(described(json!({"a": "x y"}), json!({})), "spec.a removed");
        assert_eq!(described(json!({"a": 1}), json!({"a": 1})), "");
        let long = "x".repeat(LONGEST + 1);
        assert!(described(json!({"a": ""}), json!({"a": long})).ends_with("x..."));
        let before = json!({"lastTime": "1", "conditions": [{"s": 1}], "a": 1, "b": 1, "c": 1});
        let after = json!({"lastTime": "2", "conditions": [{"s": 2}], "a": 2, "b": 2, "c": 2});
        assert_eq!(described(before, after), "spec.a 1 -> 2, spec.b 1 -> 2, spec.c 1 -> 2 +2 fields");
        assert_eq!(described(json!({"lastTime": "1"}), json!({"lastTime": "2"})), "spec.lastTime 1 -> 2");
    }
}
