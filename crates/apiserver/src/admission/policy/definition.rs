//! Policies and bindings of the storage, compiled.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::registry::Each;
use crate::schema::expression::{Expected, Expression, Names, Scope, on_large_stack};
use crate::storage::{ResourceStore, Stored};

use super::super::conditions::{Condition, Conditions};
use super::criteria::Criteria;

/// All policies and bindings; `None` for those that cannot be read.
#[derive(Debug, Default)]
pub(in crate::admission) struct Policies {
    policies: Each<Option<Policy>>,
    bindings: Each<Option<Binding>>,
}

/// The kind of parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ParamKind {
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// Which parameters a binding has.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ParamRef {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: Option<Value>,
    pub(super) parameter_not_found_action: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PolicySpec {
    param_kind: Option<ParamKind>,
    match_constraints: Criteria,
    validations: Vec<ValidationSpec>,
    failure_policy: String,
    audit_annotations: Vec<AnnotationSpec>,
    match_conditions: Vec<Condition>,
    variables: Vec<VariableSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ValidationSpec {
    expression: String,
    message: String,
    reason: String,
    message_expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnnotationSpec {
    value_expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VariableSpec {
    name: String,
    expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BindingSpec {
    policy_name: String,
    param_ref: Option<ParamRef>,
    match_resources: Criteria,
    validation_actions: Vec<String>,
}

/// A binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    policy: String,
    pub(super) name: String,
    pub(super) params: Option<ParamRef>,
    pub(super) criteria: Criteria,
    pub(super) actions: Vec<String>,
}

/// An expression that has to be true.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) text: String,
    pub(super) expression: Result<Expression, String>,
    pub(super) message: String,
    pub(super) message_expression: Option<Result<Expression, String>>,
    pub(super) reason: String,
}

/// The value of an audit annotation.
#[derive(Debug)]
pub(super) struct Annotation {
    pub(super) text: String,
    pub(super) expression: Result<Expression, String>,
}

/// A policy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) ignores_failures: bool,
    pub(super) criteria: Criteria,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) scope: Scope,
    pub(super) conditions: Conditions,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<Annotation>,
}

impl Policies {
    pub(in crate::admission) fn is_empty(&self) -> bool {
        // asked for each write
        let is_bound =
            |policy: &Policy| self.bindings.iter().flatten().any(|binding| binding.policy == *policy.name);
        !self.policies.iter().flatten().any(is_bound)
    }

    /// Reads and compiles the policies and the bindings that were written since the former state.
    pub(in crate::admission) fn read(
        policies: Option<&ResourceStore>,
        bindings: Option<&ResourceStore>,
        former: Option<&Self>,
    ) -> Self {
        Self {
            policies: Each::read(policies, former.map(|former| &former.policies), policy_of),
            bindings: Each::read(bindings, former.map(|former| &former.bindings), binding_of),
        }
    }

    /// Returns the policies that have bindings, with these.
    pub(super) fn bound(&self) -> impl Iterator<Item = (&Policy, Vec<&Binding>)> {
        let mut bound: HashMap<&str, Vec<&Binding>> = HashMap::new();
        for binding in self.bindings.iter().flatten() {
            bound.entry(&binding.policy).or_default().push(binding);
        }
        let policies = self.policies.iter().flatten();
        policies.filter_map(move |policy| Some((policy, bound.remove(&*policy.name)?)))
    }
}

fn binding_of(stored: &Stored) -> Option<Binding> {
    let BindingSpec { policy_name, param_ref, match_resources, validation_actions } = spec(stored)?;
    let (policy, params, criteria, actions) = (policy_name, param_ref, match_resources, validation_actions);
    Some(Binding { policy, name: stored.key().name().to_owned(), params, criteria, actions })
}

fn policy_of(stored: &Stored) -> Option<Policy> {
    let spec = spec(stored)?;
    on_large_stack(|| compiled(stored.key().name().to_owned(), spec))
}

fn spec<T: Default + for<'d> Deserialize<'d>>(stored: &Stored) -> Option<T> {
    let spec = stored.parse().remove("spec").map_or_else(|| Ok(T::default()), T::deserialize);
    let name = stored.key().name();
    spec.inspect_err(|error| tracing::warn!(name, %error, "malformed policy or binding does not act")).ok()
}

/// Follows Kubernetes 1.37 (`compilePolicy`).
fn compiled(name: String, spec: PolicySpec) -> Policy {
    let mut scope = Scope::new(Names { has_params: spec.param_kind.is_some(), has_variables: true });
    for variable in &spec.variables {
        // the error is that of the expressions that read it
        let _ = scope.declare(&variable.name, &variable.expression);
    }
    let validation = |of: ValidationSpec| Validation {
        expression: scope.compile(&of.expression, Expected::Bool),
        message_expression: (!of.message_expression.is_empty())
            .then(|| scope.compile(&of.message_expression, Expected::Text)),
        text: of.expression,
        message: of.message,
        reason: of.reason,
    };
    let annotation = |of: AnnotationSpec| Annotation {
        expression: scope.compile(&of.value_expression, Expected::TextOrNull),
        text: of.value_expression,
    };
    let validations = spec.validations.into_iter().map(validation).collect();
    let annotations = spec.audit_annotations.into_iter().map(annotation).collect();
    let conditions = Conditions::of_policy(&spec.match_conditions, &scope);
    Policy {
        name,
        ignores_failures: spec.failure_policy == "Ignore",
        criteria: spec.match_constraints,
        param_kind: spec.param_kind,
        scope,
        conditions,
        validations,
        annotations,
    }
}
