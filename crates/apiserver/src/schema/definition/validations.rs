//! The rules for `x-kubernetes-validations`.
//!
//! Follows Kubernetes 1.37 (`ValidateCustomResourceDefinitionOpenAPISchema`). The cost of expressions is not estimated.

use serde_json::Value;

use crate::apply::go_json;
use crate::causes::{invalid, not_supported, required};
use crate::status::Cause;

use super::super::field_path;
use super::super::structural::Structural;
use super::node::Node;

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Returns what is wrong with the rules of a node, apart from their expressions.
pub(super) fn faults(node: Node<'_>, path: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in node.listed("x-kubernetes-validations") {
        let at = |field: &str| format!("{path}.x-kubernetes-validations[{index}].{field}");
        let (text, message, made) = (rule.text("rule"), rule.text("message"), rule.text("messageExpression"));
        let no_message = message.trim().is_empty();
        if text.trim().is_empty() {
            found.push(required(&at("rule"), "rule is not specified"));
        } else if !message.is_empty() && no_message {
            found.push(invalid(&at("message"), &message.into(), "must be non-empty if specified"));
        } else if has_breaks(message.trim()) {
            found.push(invalid(&at("message"), &message.into(), "must not contain line breaks"));
        } else if has_breaks(text.trim()) && no_message {
            found.push(required(&at("message"), "message must be specified if rule contains line breaks"));
        }
        if !made.is_empty() && made.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            found.push(required(&at("messageExpression"), why));
        }
        if let Some(reason) =
            rule.get("reason").filter(|reason| !REASONS.iter().any(|known| *reason == known))
        {
            found.push(not_supported(&at("reason"), reason, &REASONS));
        }
        let field = rule.text("fieldPath");
        if !field.is_empty() && field.trim().is_empty() {
            found.push(invalid(&at("fieldPath"), &field.into(), "must be non-empty if specified"));
        }
        if has_breaks(field) {
            found.push(invalid(&at("fieldPath"), &field.into(), "must not contain line breaks"));
        }
        let is_valid =
            || field_path::normalized(field, &Structural::parse(&Value::Object(node.0.clone()))).is_some();
        if !field.is_empty() && !is_valid() {
            found.push(invalid(&at("fieldPath"), &field.into(), "must be a valid path"));
        }
    }
    found
}

/// Returns what is wrong with the expressions of a node. `uncorrelated` is the node around it whose old values cannot be
/// found.
#[cfg(feature = "cel")]
pub(super) fn expression_faults(
    node: Node<'_>,
    typed: &Structural,
    path: &str,
    uncorrelated: Option<&str>,
) -> Vec<Cause> {
    let mut found = Vec::new();
    let rules = format!("{path}.x-kubernetes-validations");
    if !typed.checks.is_empty() && !super::super::cel::is_typed(typed) {
        let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to \
                   convert structural schema to CEL declarations";
        return vec![crate::causes::without_value(
            "InternalError",
            &rules,
            &format!("Internal error: {why}"),
        )];
    }
    for (rule, (index, given)) in typed.checks.iter().zip(node.listed("x-kubernetes-validations")) {
        let at = |field: &str| format!("{rules}[{index}].{field}");
        if let Err(why) = rule.condition() {
            found.push(crate::causes::invalid_text(&at("rule"), &printed(given), why));
        }
        if let Err(why) = rule.message_expression() {
            found.push(crate::causes::invalid_text(&at("messageExpression"), &printed(given), why));
        }
        if !rule.uses_old() {
            if let Some(optional) = given.get("optionalOldSelf") {
                let why = "may not be set if oldSelf is not used in rule";
                found.push(invalid(&at("optionalOldSelf"), optional, why));
            }
        } else if let Some(within) = uncorrelated {
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
            found.push(invalid(&at("rule"), &given.text("rule").into(), &why));
        }
    }
    found
}

/// Prints a rule, as Go prints its internal form.
pub(super) fn printed(rule: Node<'_>) -> String {
    let text = |field: &str| go_json(&rule.text(field).into());
    let other = |field: &str| rule.get(field).map_or_else(|| "null".to_owned(), go_json);
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        other("reason"),
        text("fieldPath"),
        other("optionalOldSelf")
    )
}
