//! The evaluation of the expressions of a scope.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::Value as Plain;
use kube_cel::cel::objects::Key;
use serde_json::Value;

use super::super::eval::Evaluation;
use super::super::fault::{Budget, Fault, Found};
use super::super::library::Library;
use super::super::value::{Val, text};
use super::scope::{Expression, Scope};

/// The budget of one expression. Follows Kubernetes 1.37.
const EXPRESSION_BUDGET: u64 = 1_000_000;

/// The value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Bool(bool),
    Text(String),
    Null,
    /// Any other; the name of its type.
    Other(String),
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Error(String),
    /// The budget is used up.
    Exceeded,
}

impl Failure {
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Error(why) => why,
            Self::Exceeded => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .into()
            }
        }
    }
}

/// Evaluates the expressions of a scope for one request.
pub(crate) struct Evaluator<'s> {
    scope: &'s Scope,
    inputs: Vec<(&'static str, Val<'static>)>,
    /// The values of the variables that were read.
    values: Vec<Option<Found<Val<'static>>>>,
    library: Library,
    /// How much work is left.
    pub(crate) budget: u64,
}

impl<'s> Evaluator<'s> {
    pub(crate) fn new(scope: &'s Scope, inputs: &[(&'static str, &Value)], budget: u64) -> Self {
        let inputs = inputs.iter().map(|(name, value)| (*name, untyped(value))).collect();
        let values = vec![None; scope.variables.len()];
        Self { scope, inputs, values, library: Library::default(), budget }
    }

    /// Returns the value of an expression.
    ///
    /// # Errors
    /// Why it has none.
    pub(crate) fn evaluate(&mut self, expression: &Expression) -> Result<Output, Failure> {
        self.read(&expression.reads)?;
        match self.run(expression)? {
            Ok(Val::Plain(Plain::Bool(flag))) => Ok(Output::Bool(flag)),
            Ok(Val::Plain(Plain::String(text))) => Ok(Output::Text(text.to_string())),
            Ok(Val::Plain(Plain::Null)) => Ok(Output::Null),
            Ok(other) => Ok(Output::Other(other.type_name())),
            Err(fault) => Err(Failure::Error(format!(
                "expression '{}' resulted in error: {}",
                expression.text,
                why(fault)
            ))),
        }
    }

    /// Evaluates variables, after those that they read.
    fn read(&mut self, indexes: &[usize]) -> Result<(), Failure> {
        let scope = self.scope;
        let mut waiting = indexes.to_vec();
        while let Some(index) = waiting.last().copied() {
            let variable = scope.variables.get(index).filter(|_| self.is_missing(index));
            let Some(variable) = variable else {
                waiting.pop();
                continue;
            };
            let expression = variable.expression.as_ref();
            // each of them reads only earlier ones
            let before = waiting.len();
            let reads = expression.map_or(&[][..], |expression| &expression.reads);
            waiting.extend(reads.iter().copied().filter(|index| self.is_missing(*index)));
            if waiting.len() > before {
                continue;
            }
            let failed = |what: &str, why: String| {
                Err(Fault::Error(format!("composited variable {:?} fails to {what}: {why}", variable.name)))
            };
            let value = match expression {
                Err(why) => failed("compile", why.clone()),
                Ok(expression) => self.run(expression)?.or_else(|fault| failed("evaluate", why(fault))),
            };
            if let Some(slot) = self.values.get_mut(index) {
                *slot = Some(value);
            }
        }
        Ok(())
    }

    fn is_missing(&self, index: usize) -> bool {
        matches!(self.values.get(index), Some(None))
    }

    /// # Errors
    /// The budget of all expressions is used up.
    fn run(&mut self, expression: &Expression) -> Result<Found<Val<'static>>, Failure> {
        let mut variables: Vec<(&str, Found<Val<'static>>)> =
            self.inputs.iter().map(|(name, value)| (*name, Ok(value.clone()))).collect();
        for index in &expression.reads {
            let value = self.values.get(*index).cloned().flatten();
            if let (Some(variable), Some(value)) = (self.scope.variables.get(*index), value) {
                variables.push((&*variable.identifier, value));
            }
        }
        let mut budget = Budget(EXPRESSION_BUDGET);
        let evaluation =
            || Evaluation { variables, budget: &mut budget, library: &self.library }.value(&expression.tree);
        // the functions of the library are not known to be free of panics
        let result = catch_unwind(AssertUnwindSafe(evaluation))
            .unwrap_or_else(|_| Err(Fault::Error("internal error".into())));
        let is_over = matches!(result, Err(Fault::Exceeded));
        let used = if is_over { EXPRESSION_BUDGET } else { EXPRESSION_BUDGET.saturating_sub(budget.0) };
        self.budget = self.budget.checked_sub(used).ok_or(Failure::Exceeded)?;
        Ok(result)
    }
}

fn why(fault: Fault) -> String {
    match fault {
        Fault::Error(why) => why,
        Fault::Exceeded => "operation cancelled: actual cost limit exceeded".into(),
    }
}

/// Copies a value of JSON. Its objects are maps, and its arrays lists.
fn untyped(value: &Value) -> Val<'static> {
    match value {
        Value::Null => Val::Plain(Plain::Null),
        Value::Bool(flag) => Val::Plain(Plain::Bool(*flag)),
        Value::Number(number) => Val::Plain(match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Plain::Int(number),
            (None, Some(number)) => Plain::UInt(number),
            _ => Plain::Float(number.as_f64().unwrap_or_default()),
        }),
        Value::String(given) => text(given),
        Value::Array(items) => Val::List(Rc::new(items.iter().map(untyped).collect())),
        Value::Object(fields) => {
            let entry =
                |(name, value): (&String, &Value)| (Key::String(Arc::new(name.clone())), untyped(value));
            Val::Map(Rc::new(fields.iter().map(entry).collect()))
        }
    }
}
