//! The evaluation of the rules of an object.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use kube_cel::cel::common::ast::IdedExpr;
use serde_json::{Map, Value};

use super::super::structural::{ListKind, Structural};
use super::super::trail::Trail;
use super::super::validate::correlated::{Correlated, Old, key_of};
use super::super::violations::Violations;
use super::eval::Evaluation;
use super::fault::{Budget, Fault, Found, NO_OVERLOAD};
use super::library::Library;
use super::rule::Rule;
use super::shape::Shape;
use super::value::Val;
use crate::apply::quoted;
use crate::causes;

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
    let (found, library) = (Violations::default(), Library::default());
    let mut walk = Walk { path: trail, found, budget: OBJECT_BUDGET, is_over: false, library };
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
    fn is_unchanged(self) -> bool {
        self.current.or(self.nearest).is_some_and(Correlated::is_equal)
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
    library: Library,
}

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
                let olds = old.and_then(Old::items).map_or(&[][..], Vec::as_slice);
                for (index, item) in items.iter().enumerate() {
                    let length = self.path.push_index(index);
                    let old = old_item(schema, olds, item).map(Old::Value);
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
        if schema.checks.is_empty() {
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
        for rule in &schema.checks {
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
            let variables: Vec<_> =
                std::iter::once(("self", own.clone())).chain(old.map(|old| ("oldSelf", old))).collect();
            let Some(result) = self.evaluate(schema, condition, &variables) else { return };
            self.judge(schema, value, rule, result, &variables, ratchet);
        }
    }

    /// Evaluates an expression; `None` if the budget for the object is used up, which is reported.
    fn evaluate<'a>(
        &mut self,
        schema: &Structural,
        expression: &IdedExpr,
        variables: &[(&'static str, Found<Val<'a>>)],
    ) -> Option<Found<Val<'a>>> {
        let mut budget = Budget(EXPRESSION_BUDGET);
        let evaluation = || {
            let variables = variables.to_vec();
            Evaluation { variables, budget: &mut budget, library: &self.library }.value(expression)
        };
        // the functions of the library are not known to be free of panics
        let result = catch_unwind(AssertUnwindSafe(evaluation))
            .unwrap_or_else(|_| Err(Fault::Error("internal error".into())));
        let used = EXPRESSION_BUDGET.saturating_sub(budget.0);
        let used = if matches!(result, Err(Fault::Exceeded)) { EXPRESSION_BUDGET } else { used };
        match self.budget.checked_sub(used) {
            Some(left) => self.budget = left,
            None => {
                self.report(
                    schema,
                    "validation failed due to running out of cost budget, no further validation rules will be run",
                );
                self.is_over = true;
                return None;
            }
        }
        Some(result)
    }

    fn judge(
        &mut self,
        schema: &Structural,
        value: &Value,
        rule: &Rule,
        result: Found<Val<'_>>,
        variables: &[(&'static str, Found<Val<'_>>)],
        ratchet: Ratchet<'_>,
    ) {
        let name = rule.message().unwrap_or_else(|| rule.text.trim());
        match result {
            Ok(result) if result.as_bool() == Some(true) => return,
            Ok(_) => {}
            Err(Fault::Exceeded) => {
                self.is_over = true;
                let limit = "operation cancelled: actual cost limit exceeded";
                let rest = "no further validation rules will be run due to call cost exceeds limit for rule";
                return self.report(schema, &format!("'{limit}': {rest}: {name}"));
            }
            Err(Fault::Error(why)) if why.starts_with(NO_OVERLOAD) => {
                let rest =
                    "call arguments did not match a supported operator, function or macro signature for rule";
                return self.report(schema, &format!("'{why}': {rest}: {name}"));
            }
            Err(Fault::Error(why)) => return self.report(schema, &format!("{why} evaluating rule: {name}")),
        }
        let detail = self.detail(schema, rule, variables);
        let path = self.path.text().to_owned();
        let path = match (path.as_str(), rule.field_path()) {
            (_, "") => path,
            ("", field) => field.to_owned(),
            (path, field) => format!("{path}.{field}"),
        };
        let shown =
            (!matches!(schema.declared.as_ref(), "object" | "array")).then(|| causes::value_text(value));
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
        if !rule.uses_old() && ratchet.is_unchanged() {
            self.found.warnings.push(format!("{}: {}", cause.field.unwrap_or_default(), cause.message));
        } else {
            self.found.causes.push(cause);
        }
    }

    /// Returns the message of a failed rule.
    fn detail(
        &mut self,
        schema: &Structural,
        rule: &Rule,
        variables: &[(&'static str, Found<Val<'_>>)],
    ) -> String {
        let made = rule.message_expression().ok().flatten();
        let made = match made.and_then(|expression| self.evaluate(schema, expression, variables)) {
            Some(Ok(made)) => made.as_text().map(|text| text.trim().to_owned()),
            _ => None,
        };
        let made = made.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n'));
        made.unwrap_or_else(|| {
            rule.message().map_or_else(|| format!("failed rule: {}", rule.text.trim()), str::to_owned)
        })
    }

    /// Reports that a rule could not be evaluated.
    fn report(&mut self, schema: &Structural, detail: &str) {
        self.found.causes.push(causes::invalid_text(self.path.text(), &quoted(&schema.declared), detail));
    }
}

/// Returns the old item of a list with keys.
fn old_item<'a>(schema: &Structural, olds: &'a [Value], item: &Value) -> Option<&'a Value> {
    let ListKind::Map(keys) = &schema.list else { return None };
    let key = key_of(item, keys)?;
    olds.iter().find(|old| key_of(old, keys).as_ref() == Some(&key))
}
