//! Compiled conditions.

use serde_json::Value;

use crate::schema::expression::{Evaluator, Expected, Expression, Failure, Output, Scope, on_large_stack};

use super::super::attributes::Attributes;
use super::super::invocation::Invocation;
use super::super::review::{self, Version};
use super::condition::Condition;

/// The budget of all conditions of a webhook or a policy. Follows Kubernetes 1.37.
const BUDGET: u64 = 2_500_000;

/// The conditions of a webhook or a policy, in their order.
#[derive(Debug, Default)]
pub(in crate::admission) struct Conditions {
    /// That of the conditions of webhooks; those of policies have the scope of the policy.
    scope: Scope,
    expressions: Vec<Result<Expression, String>>,
}

impl Conditions {
    /// Compiles the conditions of a webhook.
    pub(in crate::admission) fn compile(conditions: &[Condition]) -> Self {
        if conditions.is_empty() {
            return Self::default();
        }
        let scope = Scope::default();
        let expressions = on_large_stack(|| Self::compiled(conditions, &scope));
        let failed = || conditions.iter().map(|_| Err("internal error".to_owned())).collect();
        Self { expressions: expressions.unwrap_or_else(failed), scope }
    }

    /// Compiles the conditions of a policy, on a large stack.
    pub(in crate::admission) fn of_policy(conditions: &[Condition], scope: &Scope) -> Self {
        Self { expressions: Self::compiled(conditions, scope), scope: Scope::default() }
    }

    fn compiled(conditions: &[Condition], scope: &Scope) -> Vec<Result<Expression, String>> {
        conditions.iter().map(|condition| scope.compile(&condition.expression, Expected::Bool)).collect()
    }

    pub(in crate::admission) fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Returns whether a request in the version of a webhook matches.
    ///
    /// # Errors
    /// As [`Self::matched`].
    pub(in crate::admission) fn of_webhook(
        &self,
        invocation: &Invocation,
        shown: &Attributes,
    ) -> Result<bool, String> {
        self.matched(&self.scope, invocation, shown, None)
    }

    /// Returns whether a request matches. A condition that is false outweighs the errors of others.
    ///
    /// Follows Kubernetes 1.37 (`matchconditions.matcher.Match`).
    ///
    /// # Errors
    /// Why conditions cannot be evaluated.
    pub(in crate::admission) fn matched(
        &self,
        scope: &Scope,
        invocation: &Invocation,
        shown: &Attributes,
        params: Option<&Value>,
    ) -> Result<bool, String> {
        // the resource is that of the request, whatever the version of the objects is
        let own = Invocation { resource: shown.asked.resource.clone(), kind: invocation.kind.clone() };
        let request = request(&own, shown);
        let of = |object: &Option<_>| object.clone().map_or(Value::Null, Value::Object);
        let (object, old) = (of(&shown.object), of(&shown.old));
        let inputs = [
            ("object", &object),
            ("oldObject", &old),
            ("request", &request),
            ("namespaceObject", &Value::Null),
            ("params", params.unwrap_or(&Value::Null)),
        ];
        let mut evaluator = Evaluator::new(scope, &inputs, BUDGET);
        let (mut errors, mut is_false) = (Vec::<String>::new(), false);
        for expression in &self.expressions {
            let result = match expression {
                Err(why) => Err(Failure::Error(format!("compilation error: {why}"))),
                Ok(expression) => evaluator.evaluate(expression),
            };
            match result {
                Ok(Output::Bool(false)) => is_false = true,
                Ok(_) => {}
                Err(failure @ Failure::Exceeded) => return Err(failure.into_message()),
                Err(Failure::Error(why)) if !errors.contains(&why) => errors.push(why),
                Err(Failure::Error(_)) => {}
            }
        }
        match errors.as_slice() {
            _ if is_false => Ok(false),
            [] => Ok(true),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}

/// Returns the variable `request`: a review without its objects.
pub(in crate::admission) fn request(invocation: &Invocation, attributes: &Attributes) -> Value {
    let plain = Attributes { object: None, old: None, ..attributes.clone() };
    let mut review = review::request(Version::V1, "", invocation, &plain);
    let mut request = review.get_mut("request").map(Value::take).unwrap_or_default();
    if let Some(request) = request.as_object_mut() {
        for field in ["uid", "object", "oldObject"] {
            request.remove(field);
        }
    }
    request
}
