//! The rules for `x-kubernetes-validations`.
//!
//! Follows Kubernetes 1.37 (`ValidateCustomResourceDefinitionOpenAPISchema`).

use serde_json::Value;

use crate::apply::go_json;
#[cfg(feature = "cel")]
use crate::causes::forbidden;
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

/// The largest cost of an expression, and of all expressions of a schema.
#[cfg(feature = "cel")]
const MAX_COST: u64 = 10_000_000;
#[cfg(feature = "cel")]
const MAX_TOTAL_COST: u64 = 100_000_000;

/// The estimated costs of the expressions of a schema.
#[cfg(feature = "cel")]
pub(super) struct Costs {
    /// Whether single expressions may cost any amount, since the schema is as before.
    pub(super) is_unchanged: bool,
    total: u64,
    /// The expressions that cost most, by their paths.
    most: Vec<(String, u64)>,
}

#[cfg(feature = "cel")]
impl Costs {
    pub(super) fn new(is_unchanged: bool) -> Self {
        Self { is_unchanged, total: 0, most: Vec::new() }
    }

    /// Counts an expression at a path. Returns the error for one that costs too much.
    fn count(&mut self, path: String, what: &str, cost: u64) -> Option<Cause> {
        let is_refused = cost > MAX_COST && !self.is_unchanged;
        let fault =
            is_refused.then(|| forbidden(&path, &excess(&format!("estimated {what} cost"), cost, MAX_COST)));
        self.total = self.total.saturating_add(cost);
        if cost >= MAX_TOTAL_COST / 100 {
            self.most.push((path, cost));
            self.most.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.most.truncate(4);
        }
        fault
    }

    /// Returns the errors if all expressions of the schema at a path cost too much.
    pub(super) fn faults(&self, path: &str) -> Vec<Cause> {
        if self.total <= MAX_TOTAL_COST {
            return Vec::new();
        }
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let total = forbidden(path, &excess(what, self.total, MAX_TOTAL_COST));
        self.most.iter().map(|(path, _)| forbidden(path, why)).chain([total]).collect()
    }
}

#[cfg(feature = "cel")]
#[allow(clippy::cast_precision_loss, reason = "as in Go")]
fn excess(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// Where the expressions of a node are.
#[cfg(feature = "cel")]
pub(super) struct Around<'a> {
    /// The node around it whose old values cannot be found.
    pub(super) uncorrelated: Option<&'a str>,
    /// How many values of the node an object may have; `None` if there is no limit.
    pub(super) cardinality: Option<u64>,
}

/// Returns what is wrong with the expressions of a node.
#[cfg(feature = "cel")]
pub(super) fn expression_faults(
    node: Node<'_>,
    typed: &Structural,
    path: &str,
    around: &Around<'_>,
    costs: &mut Costs,
) -> Vec<Cause> {
    let mut found = Vec::new();
    let rules = format!("{path}.x-kubernetes-validations");
    if !typed.validations.is_empty() && !super::super::cel::is_typed(typed) {
        let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to \
                   convert structural schema to CEL declarations";
        return vec![crate::causes::without_value(
            "InternalError",
            &rules,
            &format!("Internal error: {why}"),
        )];
    }
    let cardinality = around.cardinality.unwrap_or_else(|| super::super::cel::max_cardinality(typed));
    for (rule, (index, given)) in typed.validations.iter().zip(node.listed("x-kubernetes-validations")) {
        let at = |field: &str| format!("{rules}[{index}].{field}");
        let (cost, message_cost) = rule.costs();
        found.extend(costs.count(at("rule"), "rule", cost.saturating_mul(cardinality)));
        if let Err(why) = rule.condition() {
            found.push(crate::causes::invalid_text(&at("rule"), &printed(given), why));
        }
        match rule.message_expression() {
            Err(why) => {
                found.push(crate::causes::invalid_text(&at("messageExpression"), &printed(given), why))
            }
            Ok(_) => found.extend(costs.count(at("messageExpression"), "messageExpression", message_cost)),
        }
        if !rule.uses_old() {
            if let Some(optional) = given.get("optionalOldSelf") {
                let why = "may not be set if oldSelf is not used in rule";
                found.push(invalid(&at("optionalOldSelf"), optional, why));
            }
        } else if let Some(within) = around.uncorrelated {
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
