//! The evaluation of the rules of an object.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use kube_cel::cel::common::ast::IdedExpr;
use serde_json::{Map, Value};

use super::super::structural::Structural;
use super::super::trail::Trail;
use super::super::validate::correlated::{Correlated, Old};
use super::super::violations::Violations;
use super::eval::Evaluation;
use super::fault::{Budget, Fault, Found, NO_OVERLOAD};
use super::library::Library;
use super::rule::Rule;
use super::shape::Shape;
use super::value::Val;
use crate::apply::quoted;
use crate::causes;
use crate::status::Cause;

/// The budget of one expression. Follows Kubernetes 1.37, as do the other limits.
const EXPRESSION_BUDGET: u64 = 1_000_000;
/// The budget of all rules for one object.
const OBJECT_BUDGET: u64 = 10_000_000;
const MAX_MESSAGE: usize = 5 * 1024;

/// What the rules are evaluated for.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) value: &'a Value,
    pub(crate) old: Option<Old<'a>>,
    /// Whether the value is a resource, whose failures before the write are no failures after it.
    pub(crate) is_object: bool,
}

/// Returns the failures of the rules for a value at a path.
///
/// Follows Kubernetes 1.37 (`cel.Validator`). Where that walks a map, whose order is random in Go, names are sorted here.
pub(crate) fn faults(path: &str, subject: Subject<'_>, schema: &Structural) -> Violations {
    if !schema.has_checks {
        return Violations::default();
    }
    let mut trail = Trail::default();
    trail.push_name(path);
    let mut walk = Walk {
        path: trail,
        found: Violations::default(),
        budget: OBJECT_BUDGET,
        is_over: false,
        unchanged: HashMap::new(),
        library: Library::default(),
    };
    let Subject { value, old, is_object } = subject;
    let current = old.filter(|_| is_object).map(|old| Correlated { old, new: value, schema });
    walk.node(schema, value, old, Ratchet { current, nearest: None }, is_object);
    walk.found
}

/// The old values by which it is decided whether a failure is new.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    current: Option<Correlated<'a>>,
    /// The nearest value around it that has an old one.
    nearest: Option<Correlated<'a>>,
}

impl<'a> Ratchet<'a> {
    fn is_unchanged(self, known: &mut HashMap<*const Value, bool>) -> bool {
        let Some(correlated) = self.current.or(self.nearest) else { return false };
        *known.entry(std::ptr::from_ref(correlated.new)).or_insert_with(|| correlated.is_equal())
    }

    fn child(self, child: impl FnOnce(Correlated<'a>) -> Option<Correlated<'a>>) -> Self {
        match self.current {
            None => self,
            Some(current) => Self { current: child(current), nearest: Some(current) },
        }
    }

    fn key(self, name: &str) -> Self {
        if self.current.is_some() && self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self { current: None, nearest: None };
        }
        self.child(|current| current.key(name))
    }
}

struct Walk {
    path: Trail,
    found: Violations,
    budget: u64,
    /// Whether the budget is used up.
    is_over: bool,
    /// Whether values are as before, for those that failures have asked for.
    unchanged: HashMap<*const Value, bool>,
    library: Library,
}

/// The variables of an expression.
type Variables<'a> = Vec<(&'static str, Found<Val<'a>>)>;

/// The messages for a budget that is used up.
const NO_RULES: &str = "no further validation rules will be run";
const NO_BUDGET: &str = "failed due to running out of cost budget";

impl Walk {
    fn node<'a>(
        &mut self,
        schema: &'a Structural,
        value: &'a Value,
        old: Option<Old<'a>>,
        ratchet: Ratchet<'a>,
        is_root: bool,
    ) {
        if value.is_null() || self.is_over || !schema.has_checks {
            return;
        }
        let old = old.filter(|old| !matches!(old, Old::Value(Value::Null)));
        self.rules(schema, value, old, ratchet, is_root);
        match value {
            Value::Array(items) => {
                let Some(of) = schema.items.as_deref().filter(|of| of.has_checks) else { return };
                let unchanged = ratchet.current.and_then(Correlated::items);
                let olds = old.and_then(|old| Correlated { old, new: value, schema }.items());
                for (index, item) in items.iter().enumerate() {
                    let length = self.path.push_index(index);
                    let old = olds.as_ref().and_then(|olds| olds.of(item)).map(|item| item.old);
                    let ratchet = ratchet.child(|_| unchanged.as_ref().and_then(|items| items.of(item)));
                    self.node(of, item, old, ratchet, false);
                    self.path.truncate(length);
                }
            }
            Value::Object(fields) => self.fields(schema, fields, old, ratchet),
            _ => {}
        }
    }

    fn fields<'a>(
        &mut self,
        schema: &'a Structural,
        fields: &'a Map<String, Value>,
        old: Option<Old<'a>>,
        ratchet: Ratchet<'a>,
    ) {
        let old = |name: &str| old.and_then(Old::fields)?.get(name).map(Old::Value);
        if let Some(of) = schema.additional.schema().filter(|of| of.has_checks) {
            for (name, value) in fields {
                let length = self.path.push_key(name);
                self.node(of, value, old(name), ratchet.key(name), false);
                self.path.truncate(length);
            }
        }
        for (name, value) in fields {
            let Some(property) = schema.property(name).filter(|property| property.has_checks) else {
                continue;
            };
            let length = self.path.push_name(name);
            self.node(property, value, old(name), ratchet.key(name), false);
            self.path.truncate(length);
        }
    }

    fn rules<'a>(
        &mut self,
        schema: &'a Structural,
        value: &'a Value,
        old: Option<Old<'a>>,
        ratchet: Ratchet<'a>,
        is_root: bool,
    ) {
        if schema.validations.is_empty() {
            return;
        }
        let read = |old: Old<'a>| match old {
            Old::Value(Value::Object(fields)) | Old::Fields(fields) if is_root => {
                Ok(Val::Object(fields, Shape::of_root(schema)))
            }
            Old::Fields(fields) => Ok(Val::Object(fields, Shape::of(schema))),
            Old::Value(value) => Val::read(value, schema),
        };
        let (own, old) = (read(Old::Value(value)), old.map(read));
        // messages get the old value as it is, if some rule is about changes
        let message_old = old.clone().filter(|_| schema.validations.iter().any(Rule::uses_old));
        let message_variables = variables(&own, message_old);
        for rule in &schema.validations {
            if self.is_over {
                return;
            }
            let condition = match rule.condition() {
                Err(why) => {
                    self.report(schema, &format!("rule compile error: {why}"));
                    continue;
                }
                Ok(None) => continue,
                Ok(Some(condition)) => condition,
            };
            if rule.uses_old() && old.is_none() && !rule.is_optional {
                continue;
            }
            let old = match (&old, rule.is_optional) {
                (Some(Ok(old)), true) => Some(Ok(Val::Optional(Some(Rc::new(old.clone()))))),
                (None, true) => Some(Ok(Val::Optional(None))),
                (old, _) => old.clone(),
            };
            let Some(result) = self.evaluate(condition, &variables(&own, old)) else {
                self.is_over = true;
                return self.report(schema, &format!("validation {NO_BUDGET}, {NO_RULES}"));
            };
            self.judge(schema, value, rule, result, &message_variables, ratchet);
        }
    }

    /// Evaluates an expression; `None` if the budget for the object is used up.
    fn evaluate<'a>(&mut self, expression: &IdedExpr, variables: &Variables<'a>) -> Option<Found<Val<'a>>> {
        let mut budget = Budget(EXPRESSION_BUDGET);
        let evaluation = || {
            let variables = variables.clone();
            Evaluation { variables, budget: &mut budget, library: &self.library }.value(expression)
        };
        // the functions of the library are not known to be free of panics
        let result = catch_unwind(AssertUnwindSafe(evaluation))
            .unwrap_or_else(|_| Err(Fault::Error("internal error".into())));
        let used = EXPRESSION_BUDGET.saturating_sub(budget.0);
        let used = if matches!(result, Err(Fault::Exceeded)) { EXPRESSION_BUDGET } else { used };
        self.budget = self.budget.checked_sub(used)?;
        Some(result)
    }

    fn judge(
        &mut self,
        schema: &Structural,
        value: &Value,
        rule: &Rule,
        result: Found<Val<'_>>,
        message_variables: &Variables<'_>,
        ratchet: Ratchet<'_>,
    ) {
        let name = rule.message().unwrap_or_else(|| rule.text.trim());
        match result {
            Ok(result) if result.as_bool() == Some(true) => return,
            Ok(_) => {}
            Err(Fault::Exceeded) => {
                self.is_over = true;
                let limit = "operation cancelled: actual cost limit exceeded";
                let rest = format!("{NO_RULES} due to call cost exceeds limit for rule");
                return self.report(schema, &format!("'{limit}': {rest}: {name}"));
            }
            Err(Fault::Error(why)) if why.starts_with(NO_OVERLOAD) => {
                let rest =
                    "call arguments did not match a supported operator, function or macro signature for rule";
                return self.report(schema, &format!("'{why}': {rest}: {name}"));
            }
            Err(Fault::Error(why)) => return self.report(schema, &format!("{why} evaluating rule: {name}")),
        }
        let detail = self.detail(rule, message_variables);
        let path = self.path.text().to_owned();
        let path = match (path.as_str(), rule.field_path()) {
            (_, "") => path,
            ("", field) => field.to_owned(),
            (path, field) => format!("{path}.{field}"),
        };
        let shown =
            (!matches!(schema.declared.as_ref(), "object" | "array")).then(|| causes::value_text(value));
        let detail = match detail {
            Ok(detail) => detail,
            Err(why) => {
                self.is_over = true;
                let cause = causes::invalid_text(&path, &quoted(&schema.declared), &why);
                return self.fail(cause, rule, ratchet);
            }
        };
        let cause = match (rule.reason.as_deref(), shown) {
            (Some("FieldValueForbidden"), _) => causes::forbidden(&path, &detail),
            (Some("FieldValueRequired"), _) => causes::required(&path, &detail),
            (Some("FieldValueDuplicate"), Some(_)) => causes::duplicate(&path, value),
            (Some("FieldValueDuplicate"), None) => {
                causes::without_value("FieldValueDuplicate", &path, "Duplicate value")
            }
            (_, Some(text)) => causes::invalid_text(&path, &text, &detail),
            (_, None) => {
                causes::without_value("FieldValueInvalid", &path, &format!("Invalid value: {detail}"))
            }
        };
        self.fail(cause, rule, ratchet);
    }

    /// Reports a failure: a warning if the value is as before.
    fn fail(&mut self, cause: Cause, rule: &Rule, ratchet: Ratchet<'_>) {
        if !rule.uses_old() && ratchet.is_unchanged(&mut self.unchanged) {
            self.found.warnings.push(format!("{}: {}", cause.field.unwrap_or_default(), cause.message));
        } else {
            self.found.causes.push(cause);
        }
    }

    /// Returns the message of a failed rule.
    ///
    /// # Errors
    /// The expression of the message has used up a budget.
    fn detail(&mut self, rule: &Rule, variables: &Variables<'_>) -> Result<String, String> {
        let message = match rule.message_expression() {
            Ok(Some(expression)) => match self.evaluate(expression, variables) {
                None => return Err(format!("messageExpression evaluation {NO_BUDGET}, {NO_RULES}")),
                Some(Err(Fault::Exceeded)) => {
                    let text = quoted(&rule.message_expression);
                    return Err(format!(
                        "{NO_RULES} due to call cost exceeds limit for messageExpression: {text}"
                    ));
                }
                Some(message) => message.ok().and_then(|message| Some(message.as_text()?.trim().to_owned())),
            },
            _ => None,
        };
        let message =
            message.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n'));
        Ok(message.unwrap_or_else(|| {
            rule.message().map_or_else(|| format!("failed rule: {}", rule.text.trim()), str::to_owned)
        }))
    }

    /// Reports that a rule could not be evaluated.
    fn report(&mut self, schema: &Structural, detail: &str) {
        self.found.causes.push(causes::invalid_text(self.path.text(), &quoted(&schema.declared), detail));
    }
}

/// Returns the variables of an expression.
fn variables<'a>(own: &Found<Val<'a>>, old: Option<Found<Val<'a>>>) -> Variables<'a> {
    std::iter::once(("self", own.clone())).chain(old.map(|old| ("oldSelf", old))).collect()
}
