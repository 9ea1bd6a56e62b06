//! The rules of a node.

use std::sync::Arc;

use kube_cel::cel::common::ast::IdedExpr;
use serde_json::{Map, Value};

/// A rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    pub(super) text: Box<str>,
    message: Box<str>,
    pub(super) message_expression: Box<str>,
    pub(super) reason: Option<Box<str>>,
    pub(super) field_path: Box<str>,
    pub(super) is_optional: bool,
    pub(super) compiled: Option<Arc<Compiled>>,
}

#[derive(Debug)]
pub(super) struct Compiled {
    /// `None` for an empty rule.
    pub(super) condition: Result<Option<IdedExpr>, String>,
    pub(super) message: Result<Option<IdedExpr>, String>,
    /// The most that the rule may cost, and the expression of its message.
    pub(super) cost: u64,
    pub(super) message_cost: u64,
    pub(super) uses_old: bool,
    pub(super) field_path: String,
}

impl Compiled {
    pub(super) fn empty() -> Self {
        let (condition, message) = (Ok(None), Ok(None));
        Self { condition, message, cost: 0, message_cost: 0, uses_old: false, field_path: String::new() }
    }

    pub(super) fn failed(why: &str) -> Self {
        Self { condition: Err(format!("compilation failed: {why}")), ..Self::empty() }
    }
}

impl Rule {
    /// Parses the `x-kubernetes-validations` of a node.
    pub(crate) fn list(rules: Option<&Value>) -> Box<[Self]> {
        let text = |rule: &Map<String, Value>, field: &str| {
            Box::from(rule.get(field).and_then(Value::as_str).unwrap_or(""))
        };
        let rules = rules.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
        rules
            .map(|rule| Self {
                text: text(rule, "rule"),
                message: text(rule, "message"),
                message_expression: text(rule, "messageExpression"),
                reason: rule.get("reason").and_then(Value::as_str).map(Box::from),
                field_path: text(rule, "fieldPath"),
                is_optional: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
                compiled: None,
            })
            .collect()
    }

    /// Returns the expression; `None` for an empty rule.
    ///
    /// # Errors
    /// Why it does not compile.
    pub(crate) fn condition(&self) -> Result<Option<&IdedExpr>, &str> {
        match &self.compiled {
            None => Ok(None),
            Some(compiled) => compiled.condition.as_ref().map(Option::as_ref).map_err(String::as_str),
        }
    }

    /// As [`Self::condition`], for the expression of the message.
    pub(crate) fn message_expression(&self) -> Result<Option<&IdedExpr>, &str> {
        match &self.compiled {
            None => Ok(None),
            Some(compiled) => compiled.message.as_ref().map(Option::as_ref).map_err(String::as_str),
        }
    }

    /// Returns the most that the rule may cost, and the expression of its message.
    pub(crate) fn costs(&self) -> (u64, u64) {
        self.compiled.as_ref().map_or((0, 0), |compiled| (compiled.cost, compiled.message_cost))
    }

    /// Whether it is a rule about changes.
    pub(crate) fn uses_old(&self) -> bool {
        self.compiled.as_ref().is_some_and(|compiled| compiled.uses_old)
    }

    pub(super) fn field_path(&self) -> &str {
        self.compiled.as_ref().map_or("", |compiled| &compiled.field_path)
    }

    pub(super) fn message(&self) -> Option<&str> {
        Some(self.message.trim()).filter(|_| !self.message.is_empty())
    }
}
