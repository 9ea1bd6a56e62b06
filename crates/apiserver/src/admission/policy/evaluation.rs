//! The evaluation of a policy for one request and one parameter.

use serde_json::Value;

use crate::schema::expression::{Evaluator, Expression, Failure, Output};

use super::super::attributes::Attributes;
use super::super::conditions::request;
use super::super::invocation::Invocation;
use super::decision::Denial;
use super::definition::{Annotation, Policy, Validation};

/// The budget of all expressions for one parameter. Follows Kubernetes 1.37, as does the other limit.
const BUDGET: u64 = 10_000_000;
const MAX_MESSAGE: usize = 5 * 1024;

/// What a policy says about a request.
#[derive(Default)]
pub(super) struct Verdict {
    /// The failed validations, on which the actions of the binding are taken.
    pub(super) failed: Vec<Denial>,
    /// Errors of audit annotations, which refuse a write in any case.
    pub(super) errors: Vec<Denial>,
}

/// A request in the version of a policy.
pub(super) struct Subject<'a> {
    pub(super) invocation: &'a Invocation,
    pub(super) shown: &'a Attributes,
    /// `namespaceObject`, which conditions do not have.
    pub(super) namespace: &'a Value,
}

impl Policy {
    /// Follows Kubernetes 1.37 (`validator.Validate`).
    pub(super) fn evaluate(&self, subject: &Subject<'_>, param: Option<&Value>) -> Verdict {
        let Subject { invocation, shown, namespace } = subject;
        let mut verdict = Verdict::default();
        if !self.conditions.is_empty() {
            match self.conditions.matched(&self.scope, invocation, shown, param) {
                Ok(true) => {}
                Ok(false) => return verdict,
                Err(why) => {
                    verdict.failed.extend(self.failure(why));
                    return verdict;
                }
            }
        }
        let of = |object: &Option<_>| object.clone().map_or(Value::Null, Value::Object);
        let (object, old, request) = (of(&shown.object), of(&shown.old), request(invocation, shown));
        let inputs = [
            ("object", &object),
            ("oldObject", &old),
            ("request", &request),
            ("namespaceObject", *namespace),
            ("params", param.unwrap_or(&Value::Null)),
        ];
        let mut evaluator = Evaluator::new(&self.scope, &inputs, BUDGET);
        match self.validated(&mut evaluator) {
            Ok(failed) => verdict.failed = failed,
            Err(why) => {
                verdict.failed.extend(self.failure(why));
                return verdict;
            }
        }
        evaluator.budget = BUDGET;
        for annotation in &self.annotations {
            match annotate(annotation, &mut evaluator) {
                Ok(()) => {}
                Err(Fault::Exceeded(why)) => {
                    verdict.failed.clear();
                    verdict.errors.clear();
                    verdict.failed.extend(self.failure(why));
                    return verdict;
                }
                Err(Fault::Type(why)) => verdict.errors.push(Denial::error(why)),
                Err(Fault::Error(why)) => verdict.errors.extend(self.failure(why)),
            }
        }
        verdict
    }

    /// Returns the denial for an error; `None` if the failure policy ignores it.
    fn failure(&self, why: String) -> Option<Denial> {
        (!self.ignores_failures).then(|| Denial::error(why))
    }

    /// # Errors
    /// The budget is used up.
    fn validated(&self, evaluator: &mut Evaluator<'_>) -> Result<Vec<Denial>, String> {
        let mut results = Vec::new();
        for validation in &self.validations {
            match evaluated(&validation.expression, evaluator) {
                Err(failure @ Failure::Exceeded) => return Err(failure.into_message()),
                result => results.push((validation, result)),
            }
        }
        let (mut messages, mut is_over) = (Vec::new(), None);
        for validation in &self.validations {
            let made = validation.message_expression.as_ref().filter(|_| is_over.is_none());
            messages.push(match made.map(|expression| evaluated(expression, evaluator)) {
                Some(Err(failure @ Failure::Exceeded)) => {
                    is_over = Some(failure.into_message());
                    None
                }
                Some(Ok(Output::Text(text))) => Some(text),
                _ => None,
            });
        }
        let mut denials = Vec::new();
        for ((validation, result), made) in results.into_iter().zip(messages) {
            match (result, &is_over) {
                (Err(failure), _) => denials.extend(self.failure(failure.into_message())),
                (Ok(_), Some(why)) => {
                    denials.extend(self.failure(format!("failed messageExpression: {why}")))
                }
                (Ok(Output::Bool(true)), None) => {}
                (Ok(_), None) => denials.push(denial(validation, made)),
            }
        }
        Ok(denials)
    }
}

fn denial(validation: &Validation, made: Option<String>) -> Denial {
    let made = made.map(|text| text.trim().to_owned());
    let made = made.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n'));
    let given = || Some(validation.message.trim().to_owned()).filter(|text| !text.is_empty());
    let message =
        made.or_else(given).unwrap_or_else(|| format!("failed expression: {}", validation.text.trim()));
    Denial { message, reason: validation.reason.clone() }
}

fn evaluated(
    expression: &Result<Expression, String>,
    evaluator: &mut Evaluator<'_>,
) -> Result<Output, Failure> {
    match expression {
        Ok(expression) => evaluator.evaluate(expression),
        Err(why) => Err(Failure::Error(format!("compilation error: {why}"))),
    }
}

/// Why an audit annotation has no value.
enum Fault {
    Error(String),
    /// The value is neither a text nor null, which the failure policy does not ignore.
    Type(String),
    Exceeded(String),
}

fn annotate(annotation: &Annotation, evaluator: &mut Evaluator<'_>) -> Result<(), Fault> {
    let of = match evaluated(&annotation.expression, evaluator) {
        Ok(Output::Text(_) | Output::Null) => return Ok(()),
        Ok(Output::Bool(_)) => "bool".to_owned(),
        Ok(Output::Other(of)) => of,
        Err(failure @ Failure::Exceeded) => return Err(Fault::Exceeded(failure.into_message())),
        Err(Failure::Error(why)) => return Err(Fault::Error(why)),
    };
    Err(Fault::Type(format!(
        "valueExpression '{}' resulted in unsupported return type: {of}. Return type must be either string or null.",
        annotation.text
    )))
}
