//! Entries of `managedFields` with their sets as text: a set is one value then, instead of one for each of its fields.
//!
//! A stored object is read with packed entries to be changed, and the field managers write packed ones. Serialization
//! takes both forms. Objects that come from clients have no packed entries.

use serde_json::{Map, Value};

const SET: &str = "fieldsV1";

fn sets(object: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let entries = metadata.and_then(|metadata| metadata.get_mut("managedFields"));
    sets_of(entries)
}

fn sets_of(entries: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    let entries = entries.and_then(Value::as_array_mut).into_iter().flatten();
    entries.filter_map(|entry| entry.as_object_mut()?.get_mut(SET))
}

/// Packs entries.
pub(crate) fn pack(entries: &mut Value) {
    for set in sets_of(Some(entries)).filter(|set| set.is_object()) {
        *set = Value::String(set.to_string());
    }
}

/// Replaces the sets of an object, which are not packed, by these texts in turn; the rest is packed.
pub(crate) fn pack_with<'a>(object: &mut Map<String, Value>, mut texts: impl Iterator<Item = &'a str>) {
    for set in sets(object).filter(|set| set.is_object()) {
        *set = Value::String(texts.next().map_or_else(|| set.to_string(), str::to_owned));
    }
}

/// Unpacks the entries of an object.
pub(crate) fn unpack(object: &mut Map<String, Value>) {
    for set in sets(object) {
        if let Value::String(text) = &*set
            && let Ok(unpacked @ Value::Object(_)) = serde_json::from_str(text)
        {
            *set = unpacked;
        }
    }
}

/// Replaces sets that are texts by a value that is no set either. A client sends no packed entries.
pub(crate) fn refuse_packed(object: &mut Map<String, Value>) {
    for set in sets(object).filter(|set| set.is_string()) {
        *set = Value::Bool(false);
    }
}

/// Whether a text is a packed set: a JSON object without line breaks.
pub(crate) fn is_packed(text: &str) -> bool {
    text.starts_with('{')
        && text.bytes().all(|byte| byte >= b' ')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // contract: E-19a
    #[test]
    fn entries_are_packed_and_unpacked() {
        let entries = |set: Value| json!([{"manager": "a", SET: set}, {"manager": "b"}, 1]);
        let object = json!({"metadata": {"managedFields": entries(json!({"f:a": {}}))}});
        let mut packed = object.as_object().unwrap().clone();
        pack(&mut packed["metadata"]["managedFields"]);
        assert_eq!(packed["metadata"]["managedFields"], entries(json!("{\"f:a\":{}}")));
        unpack(&mut packed);
        assert_eq!(packed, *object.as_object().unwrap());
        pack_with(&mut packed, ["{}"].into_iter());
        assert_eq!(packed["metadata"]["managedFields"], entries(json!("{}")));
        refuse_packed(&mut packed);
        assert_eq!(packed["metadata"]["managedFields"], entries(json!(false)));
        for mut other in [json!({}), json!({"metadata": {"managedFields": {"a": 1}}}), json!({"metadata": 1})]
        {
            let before = other.clone();
            let other = other.as_object_mut().unwrap();
            unpack(other);
            refuse_packed(other);
            assert_eq!(*other, *before.as_object().unwrap());
        }
        assert!(is_packed("{\"f:a\":{}}"));
        for text in ["{", "1", "\"x\"", "{}\n", "{\n}", " {}", "{}{}"] {
            assert!(!is_packed(text), "{text}");
        }
    }
}
