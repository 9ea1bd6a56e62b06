//! Labels, annotations, and selectors of labels.

use serde_json::Value;

use super::super::check::{Check, Fields, texts};
use super::super::names;

/// The limit of the keys and values of all annotations. Follows Kubernetes 1.37 (`TotalAnnotationSizeLimitB`).
pub(crate) const MAX_ANNOTATIONS: usize = 256 * 1024;

pub(super) fn labels(c: &mut Check, field: &str, owner: &Value) {
    c.enter(field, |c| each_label(c, owner));
}

pub(super) fn each_label(c: &mut Check, labels: &Value) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or("");
        c.rules("", key, names::qualified_name(key));
        c.rules("", value, names::label_value(value));
    }
}

pub(super) fn annotations(c: &mut Check, field: &str, annotations: &Value) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        c.rules(field, key, names::qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS {
        c.too_long(field, i64::try_from(MAX_ANNOTATIONS).unwrap_or(i64::MAX));
    }
}

/// Checks a selector, if there is one.
pub(super) fn selector(c: &mut Check, field: &str, selector: &Value) {
    if selector.is_null() {
        return;
    }
    c.enter(field, |c| {
        labels(c, "matchLabels", selector.of("matchLabels"));
        c.each("matchExpressions", selector.items("matchExpressions"), requirement);
    });
}

fn requirement(c: &mut Check, requirement: &Value) {
    let values = requirement.items("values");
    let operator = requirement.text("operator");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            c.required("values", "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            c.forbidden("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        operator => c.invalid("operator", operator, "not a valid selector operator"),
    }
    let key = requirement.text("key");
    c.rules("key", key, names::qualified_name(key));
    for (index, value) in texts(values).enumerate() {
        c.rules(&format!("values[{index}]"), value, names::label_value(value));
    }
}

pub(super) fn is_empty(selector: &Value) -> bool {
    selector.members("matchLabels").next().is_none() && selector.items("matchExpressions").is_empty()
}

/// Whether a selector matches labels; `None` if it is invalid. No selector matches nothing.
pub(super) fn matches(selector: &Value, labels: &Value) -> Option<bool> {
    if selector.is_null() {
        return Some(false);
    }
    let is_good_key = |key: &str| names::qualified_name(key).is_empty();
    let is_good_value = |value: &str| names::label_value(value).is_empty();
    let mut is_match = true;
    for (key, value) in selector.members("matchLabels") {
        if !is_good_key(key) || !is_good_value(value.as_str().unwrap_or("")) {
            return None;
        }
        is_match &= labels.of(key) == value;
    }
    for requirement in selector.items("matchExpressions") {
        let (key, values) = (requirement.text("key"), requirement.items("values"));
        if !is_good_key(key) || !texts(values).all(is_good_value) {
            return None;
        }
        let value = labels.of(key);
        let is_in = values.contains(value);
        is_match &= match (requirement.text("operator"), values.is_empty()) {
            ("In", false) => is_in,
            ("NotIn", false) => !is_in,
            ("Exists", true) => !value.is_null(),
            ("DoesNotExist", true) => value.is_null(),
            _ => return None,
        };
    }
    Some(is_match)
}
