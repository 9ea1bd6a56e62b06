//! The difference of two JSON values: a pure function.

use serde::Serialize;
use serde_json::{Map, Value};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Field(String),
    Item(usize),
}

/// A value that was added, changed or removed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) path: Vec<Step>,
    /// `None` if the value did not exist.
    pub(crate) old: Option<Value>,
    /// `None` if the value no longer exists.
    pub(crate) new: Option<Value>,
}

/// An entry as it is sent.
#[derive(Clone, Debug, Serialize)]
pub struct ShownEntry {
    /// As `spec.containers[0].image`.
    pub path: String,
    /// `None` if the value did not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// `None` if the value no longer exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Returns the differences between two values. The entries name values without common parts: fields and items are
/// compared one by one, items by their position.
pub(crate) fn diff(old: &Value, new: &Value) -> Vec<Entry> {
    let mut entries = Vec::new();
    compare(&mut Vec::new(), old, new, &mut entries);
    entries
}

fn compare(path: &mut Vec<Step>, old: &Value, new: &Value, entries: &mut Vec<Entry>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(added) {
                path.push(Step::Field(name.clone()));
                one(path, before.get(name), after.get(name), entries);
                path.pop();
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for index in 0..before.len().max(after.len()) {
                path.push(Step::Item(index));
                one(path, before.get(index), after.get(index), entries);
                path.pop();
            }
        }
        (old, new) if old == new => {}
        (old, new) => {
            entries.push(Entry { path: path.clone(), old: Some(old.clone()), new: Some(new.clone()) });
        }
    }
}

fn one(path: &mut Vec<Step>, old: Option<&Value>, new: Option<&Value>, entries: &mut Vec<Entry>) {
    match (old, new) {
        (Some(old), Some(new)) => compare(path, old, new, entries),
        (old, new) => entries.push(Entry { path: path.clone(), old: old.cloned(), new: new.cloned() }),
    }
}

/// Returns at most `most` entries as they are sent, in which no value is longer than `longest` bytes of JSON, and whether
/// anything was left out.
pub(crate) fn shown(entries: Vec<Entry>, most: usize, longest: usize) -> (Vec<ShownEntry>, bool) {
    let mut truncated = entries.len() > most;
    let mut short = |value: Option<Value>| {
        value.map(|value| match length(&value) {
            length if length > longest => {
                truncated = true;
                Value::String(format!("({length} bytes of JSON, not shown)"))
            }
            _ => value,
        })
    };
    let shown: Vec<ShownEntry> = entries
        .into_iter()
        .take(most)
        .map(|Entry { path, old, new }| ShownEntry { path: text(&path), old: short(old), new: short(new) })
        .collect();
    (shown, truncated)
}

fn length(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting does not fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// The text of a path: `spec.containers[0].image`, with other names as `metadata.labels["a.b/c"]`.
fn text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Item(index) => text.push_str(&format!("[{index}]")),
            Step::Field(name)
                if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c)) =>
            {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Step::Field(name) => text.push_str(&format!("[{}]", Value::String(name.clone()))),
        }
    }
    text
}

/// Removes the value at a path of field names, if there is one.
pub(crate) fn remove(value: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut fields: Option<&mut Map<String, Value>> = value.as_object_mut();
    for parent in parents {
        fields = fields.and_then(|fields| fields.get_mut(*parent)).and_then(Value::as_object_mut);
    }
    if let Some(fields) = fields {
        fields.remove(*last);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Applies entries to the old value. Items are removed from the end, so that the positions of others are unchanged.
    fn apply(old: &Value, entries: &[Entry]) -> Value {
        let mut value = old.clone();
        let (removed, changed): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().partition(|entry| entry.new.is_none());
        for entry in changed.into_iter().chain(removed.into_iter().rev()) {
            let Some((last, parents)) = entry.path.split_last() else {
                value = entry.new.clone().unwrap();
                continue;
            };
            let mut parent = &mut value;
            for step in parents {
                parent = match step {
                    Step::Field(name) => parent.get_mut(name).unwrap(),
                    Step::Item(index) => parent.get_mut(*index).unwrap(),
                };
            }
            match (last, &entry.new) {
                (Step::Field(name), Some(new)) => {
                    parent.as_object_mut().unwrap().insert(name.clone(), new.clone());
                }
                (Step::Field(name), None) => {
                    assert_eq!(parent.as_object_mut().unwrap().remove(name), entry.old);
                }
                (Step::Item(index), Some(new)) => {
                    let items = parent.as_array_mut().unwrap();
                    if *index < items.len() { items[*index] = new.clone() } else { items.push(new.clone()) }
                }
                (Step::Item(index), None) => {
                    assert_eq!(Some(parent.as_array_mut().unwrap().remove(*index)), entry.old);
                }
            }
        }
        value
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c.]{0,2}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        // contract: H-09a
        #[test]
        fn diff_applied_to_old_gives_new(old in value(), new in value()) {
            let entries = diff(&old, &new);
            prop_assert_eq!(apply(&old, &entries), new.clone());
            prop_assert_eq!(entries.is_empty(), old == new);
            prop_assert!(entries.iter().all(|entry| entry.old != entry.new));
        }
    }

    // contract: H-09b
    #[test]
    fn entries_are_limited() {
        let old = json!({"a": {"b.c": 1, "": 2}, "list": [1, {"x": "y"}]});
        let new = json!({"a": {"b.c": 2, "": 3}, "list": [1, {"x": "a".repeat(100)}, 3]});
        let (entries, truncated) = shown(diff(&old, &new), 50, 50);
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["a[\"\"]", "a[\"b.c\"]", "list[1].x", "list[2]"]);
        assert!(truncated);
        assert_eq!(entries[2].new, Some(json!("(102 bytes of JSON, not shown)")));
        let (entries, truncated) = shown(diff(&old, &new), 50, 1000);
        assert_eq!((entries.len(), truncated), (4, false));
        let (entries, truncated) = shown(diff(&old, &new), 3, 1000);
        assert_eq!((entries.len(), truncated), (3, true));
    }

    #[test]
    fn nested_fields_are_removed() {
        let mut value = json!({"metadata": {"a": 1, "b": 2}});
        remove(&mut value, &["metadata", "a"]);
        remove(&mut value, &["none", "a"]);
        assert_eq!(value, json!({"metadata": {"b": 2}}));
    }
}
