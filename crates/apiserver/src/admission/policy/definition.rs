//! Policies and bindings of the storage, compiled.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::schema::expression::{Expected, Expression, Names, Scope, on_large_stack};
use crate::storage::ResourceStore;

use super::super::conditions::{Condition, Conditions};
use super::criteria::Criteria;

/// All policies that have a binding, by name.
#[derive(Debug, Default)]
pub(in crate::admission) struct Policies(pub(super) Vec<Policy>);

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
    pub(super) bindings: Vec<Binding>,
}

impl Policies {
    pub(in crate::admission) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads and compiles the policies that have a binding.
    pub(in crate::admission) fn read(policies: &ResourceStore, bindings: &ResourceStore) -> Self {
        let mut bound: HashMap<String, Vec<Binding>> = HashMap::new();
        for (name, spec) in specs::<BindingSpec>(bindings) {
            let BindingSpec { policy_name, param_ref, match_resources, validation_actions } = spec;
            let (params, criteria, actions) = (param_ref, match_resources, validation_actions);
            bound.entry(policy_name).or_default().push(Binding { name, params, criteria, actions });
        }
        if bound.is_empty() {
            return Self::default();
        }
        let specs = specs::<PolicySpec>(policies);
        let compile = || {
            specs
                .into_iter()
                .filter_map(|(name, spec)| bound.remove(&name).map(|bindings| compiled(name, spec, bindings)))
                .collect()
        };
        Self(on_large_stack(compile).unwrap_or_default())
    }
}

fn specs<T: Default + for<'d> Deserialize<'d>>(store: &ResourceStore) -> Vec<(String, T)> {
    let mut specs = Vec::new();
    for stored in store.snapshot().objects.values() {
        let name = stored.key().name().to_owned();
        let mut object: Map<String, Value> = stored.parse();
        match object.remove("spec").map_or_else(|| Ok(T::default()), T::deserialize) {
            Ok(spec) => specs.push((name, spec)),
            Err(error) => tracing::warn!(name, %error, "malformed policy or binding does not act"),
        }
    }
    specs
}

/// Follows Kubernetes 1.37 (`compilePolicy`).
fn compiled(name: String, spec: PolicySpec, bindings: Vec<Binding>) -> Policy {
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
        bindings,
    }
}
