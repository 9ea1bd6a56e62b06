//! Merge patch (RFC 7386).
//!
//! Follows Kubernetes 1.37 (`gopkg.in/evanphx/json-patch.v4`), where a value that is new, or replaces one that is no map,
//! loses the nulls of the maps in its lists too.

use serde_json::{Map, Value};

use crate::order;

pub(super) fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        if value.is_null() {
            object.remove(name);
            continue;
        }
        match (object.get_mut(name), value) {
            (Some(Value::Object(present)), Value::Object(value)) => merge(present, value),
            (Some(present @ Value::Object(_)), value) => *present = value.clone(),
            (_, value) => {
                object.insert(name.clone(), without_nulls(value));
            }
        }
    }
}

/// Returns a value without the members that are null.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(order::object(members.map(|(name, value)| (name.clone(), without_nulls(value)))))
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_are_removed() {
        let mut object = json!({"a": 1, "m": {"x": 1}, "l": [1], "o": {"y": 1}}).as_object().unwrap().clone();
        let patch = json!({"a": null, "m": {"x": null, "z": {"n": null}}, "l": [{"n": null, "k": 1}, null],
            "o": [{"n": null}], "new": [{"n": null}], "none": null});
        merge(&mut object, patch.as_object().unwrap());
        let merged = json!({"m": {"z": {}}, "l": [{"k": 1}, null], "o": [{"n": null}], "new": [{}]});
        assert_eq!(Value::Object(object), merged);
    }
}
