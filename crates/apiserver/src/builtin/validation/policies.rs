//! Admission policies and their bindings.

use std::collections::HashSet;

use serde_json::Value;

use crate::schema::definition::dns_1035_fault;
#[cfg(feature = "cel")]
use crate::schema::expression::{Expected, Names, Scope, on_large_stack};
use crate::schema::is_identifier;

use super::super::check::{Check, Fields, Object, texts};
use super::super::names;
use super::{admission_rules, labels};

/// Follows Kubernetes 1.37 (`validateValidatingAdmissionPolicySpec`).
pub(super) fn policy(c: &mut Check, object: &Object, before: Option<&Object>) {
    let (spec, name) = (object.of("spec"), object.of("metadata").text("name"));
    let before = before.map(|before| before.of("spec"));
    let is_unchanged = |field: &str| before.is_some_and(|before| before.of(field) == spec.of(field));
    let checks_conditions = !(is_unchanged("paramKind") && is_unchanged("matchConditions"));
    c.enter("spec", |c| {
        c.supported(spec, "failurePolicy", &["Fail", "Ignore"]);
        if spec.has("paramKind") {
            c.enter("paramKind", |c| param_kind(c, spec.of("paramKind")));
        }
        let constraints = spec.of("matchConstraints");
        if constraints.is_null() {
            c.required("matchConstraints", "");
        } else {
            c.enter("matchConstraints", |c| {
                match_resources(c, constraints);
                if constraints.items("resourceRules").is_empty() {
                    c.required("resourceRules", "");
                }
            });
        }
        expressions(c, spec, name, checks_conditions);
    });
}

/// Checks the conditions of a webhook.
pub(super) fn webhook_conditions(c: &mut Check, hook: &Value) {
    if hook.items("matchConditions").is_empty() {
        return;
    }
    let compiler = Compiler::new(false, false);
    run(|| conditions(c, hook.items("matchConditions"), &compiler));
}

/// Follows Kubernetes 1.37 (`validateValidatingAdmissionPolicyBindingSpec`).
pub(super) fn binding(c: &mut Check, object: &Object, _: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        let policy = spec.text("policyName");
        if policy.is_empty() {
            c.declared(|c| c.required("policyName", ""));
        } else {
            c.rules("policyName", policy, names::subdomain(policy));
        }
        if spec.has("paramRef") {
            param_ref(c, spec.of("paramRef"));
        }
        if spec.has("matchResources") {
            c.enter("matchResources", |c| match_resources(c, spec.of("matchResources")));
        }
        actions(c, spec.of("validationActions"), spec.items("validationActions"));
    });
}

fn actions(c: &mut Check, all: &Value, list: &[Value]) {
    let mut seen = HashSet::new();
    for (index, action) in texts(list).enumerate() {
        let field = format!("validationActions[{index}]");
        if !["Audit", "Deny", "Warn"].contains(&action) {
            c.not_supported(&field, action, &["Audit", "Deny", "Warn"]);
        }
        if !seen.insert(action) {
            c.duplicate(&field, action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        c.invalid("validationActions", all, why);
    }
    if seen.is_empty() {
        c.declared(|c| c.required("validationActions", ""));
    }
}

fn param_ref(c: &mut Check, given: &Value) {
    let name = given.text("name");
    let exclusive = "name and selector are mutually exclusive";
    c.enter("paramRef", |c| {
        c.rules("name", name, names::path_segment(name).filter(|_| !name.is_empty()));
        if !name.is_empty() && given.has("selector") {
            c.forbidden("name", exclusive);
        }
        labels::selector(c, "selector", given.of("selector"));
        if !name.is_empty() && given.has("selector") {
            c.forbidden("selector", exclusive);
        }
        if name.is_empty() && !given.has("selector") {
            c.required("", "one of name or selector must be specified");
        }
        c.one_of("parameterNotFoundAction", given.text("parameterNotFoundAction"), &["Deny", "Allow"]);
    });
}

fn param_kind(c: &mut Check, kind: &Value) {
    let given = kind.text("apiVersion");
    match given.split('/').collect::<Vec<_>>().as_slice() {
        [""] => c.required("apiVersion", ""),
        [version] => version_of(c, given, version),
        [group, version] => {
            let broken = names::subdomain(group);
            if !group.is_empty() && !broken.is_empty() {
                c.invalid("apiVersion", *group, &broken.join(","));
            }
            version_of(c, given, version);
        }
        _ => c.invalid("apiVersion", given, &format!("unexpected GroupVersion string: {given}")),
    }
    if kind.text("kind").is_empty() {
        c.required("kind", "");
    } else {
        let name = kind.text("kind");
        if let Some(broken) = dns_1035_fault(&name.to_lowercase()) {
            c.invalid("kind", name, &format!("may have mixed case, but should otherwise match: {broken}"));
        }
    }
}

fn version_of(c: &mut Check, given: &str, version: &str) {
    if version.is_empty() {
        c.invalid("apiVersion", given, "version must be specified");
    } else if let Some(broken) = dns_1035_fault(version) {
        c.invalid("apiVersion", version, &broken);
    }
}

fn match_resources(c: &mut Check, given: &Value) {
    c.supported(given, "matchPolicy", &["Equivalent", "Exact"]);
    for field in ["namespaceSelector", "objectSelector"] {
        labels::selector(c, field, given.of(field));
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        c.each(field, given.items(field), |c, rule| {
            let mut seen = HashSet::new();
            for (index, name) in texts(rule.items("resourceNames")).enumerate() {
                let field = format!("resourceNames[{index}]");
                c.rules(&field, name, names::path_segment(name));
                if !seen.insert(name) {
                    c.duplicate(&field, name);
                }
            }
            admission_rules::rule(c, rule);
        });
    }
}

fn expressions(c: &mut Check, spec: &Value, name: &str, checks_conditions: bool) {
    run(|| {
        let has_params = spec.has("paramKind");
        if checks_conditions {
            let plain = Compiler::new(has_params, false);
            conditions(c, spec.items("matchConditions"), &plain);
        }
        let mut compiler = Compiler::new(has_params, !spec.items("variables").is_empty());
        c.each("variables", spec.items("variables"), |c, of| variable(c, of, &mut compiler));
        let (validations, annotations) = (spec.items("validations"), spec.items("auditAnnotations"));
        if validations.is_empty() && annotations.is_empty() {
            let why = "validations or auditAnnotations must contain at least one item";
            c.required("validations", why);
            c.required("auditAnnotations", why);
            return;
        }
        c.each("validations", validations, |c, of| validation(c, of, &compiler));
        let mut seen = HashSet::new();
        if annotations.len() > 20 {
            let why = "must not have more than 20 auditAnnotations";
            c.invalid("auditAnnotations", spec.of("auditAnnotations"), why);
        }
        c.each("auditAnnotations", annotations, |c, of| {
            annotation(c, of, name, &compiler);
            if !seen.insert(of.text("key")) {
                c.duplicate("key", of.text("key"));
            }
        });
    });
}

fn conditions(c: &mut Check, conditions: &[Value], compiler: &Compiler) {
    if conditions.len() > 64 {
        c.too_many("matchConditions", conditions.len(), 64);
    }
    let mut seen = HashSet::new();
    c.each("matchConditions", conditions, |c, condition| {
        let text = condition.text("expression").trim();
        if text.is_empty() {
            c.required("expression", "");
        } else if let Err(why) = compiler.bool(text) {
            c.invalid("expression", text, &why);
        }
        let name = condition.text("name");
        if name.is_empty() {
            c.required("name", "");
        } else {
            c.rules("name", name, names::qualified_name(name));
            if !seen.insert(name) {
                c.duplicate("name", name);
            }
        }
    });
}

fn variable(c: &mut Check, variable: &Value, compiler: &mut Compiler) {
    let (name, text) = (variable.text("name"), variable.text("expression"));
    if name.trim().is_empty() {
        c.required("name", "name is not specified");
    } else if !is_identifier(name) {
        c.invalid("name", name, "must be a valid CEL identifier");
    }
    if text.trim().is_empty() {
        c.required("expression", "expression is not specified");
    } else if let Err(why) = compiler.declare(name, text) {
        c.invalid("expression", text, &why);
    }
}

fn validation(c: &mut Check, validation: &Value, compiler: &Compiler) {
    let text = validation.text("expression");
    if text.trim().is_empty() {
        c.required("expression", "expression is not specified");
    } else if let Err(why) = compiler.bool(text) {
        c.invalid("expression", text, &why);
    }
    let made = validation.text("messageExpression");
    if !made.is_empty() && made.trim().is_empty() {
        c.invalid("messageExpression", made, "must be non-empty if specified");
    } else if let Err(why) = compiler.message(made) {
        c.invalid("messageExpression", made, &why);
    }
    let message = validation.text("message");
    if !message.is_empty() && message.trim().is_empty() {
        c.invalid("message", message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        c.invalid("message", message, "must not contain line breaks");
    }
    c.supported(validation, "reason", &["Forbidden", "Invalid", "RequestEntityTooLarge"]);
}

fn annotation(c: &mut Check, annotation: &Value, policy: &str, compiler: &Compiler) {
    let key = annotation.text("key");
    if policy.is_empty() {
        c.invalid("key", key, "requires metadata.name be non-empty");
    } else {
        let name = format!("{policy}/{key}");
        c.rules("key", &name, names::qualified_name(&name));
    }
    let given = annotation.text("valueExpression");
    let text = given.trim();
    if text.is_empty() {
        c.required("valueExpression", "valueExpression is not specified");
    } else if text.len() > 5 * 1024 {
        c.required("valueExpression", "must not exceed 5120 bytes in length");
    } else if let Err(why) = compiler.text_or_null(text) {
        c.invalid("valueExpression", given, &why);
    }
}

/// Runs checks that compile expressions.
fn run(check: impl FnOnce() + Send) {
    #[cfg(feature = "cel")]
    on_large_stack(check);
    #[cfg(not(feature = "cel"))]
    check();
}

/// Compiles the expressions of a policy. Without the feature `cel`, each is accepted.
struct Compiler {
    #[cfg(feature = "cel")]
    scope: Scope,
}

#[cfg(feature = "cel")]
impl Compiler {
    fn new(has_params: bool, has_variables: bool) -> Self {
        Self { scope: Scope::new(Names { has_params, has_variables }) }
    }

    fn declare(&mut self, name: &str, text: &str) -> Result<(), String> {
        self.scope.declare(name, text)
    }

    fn bool(&self, text: &str) -> Result<(), String> {
        self.scope.compile(text, Expected::Bool).map(drop)
    }

    fn message(&self, text: &str) -> Result<(), String> {
        if text.is_empty() { Ok(()) } else { self.scope.compile(text, Expected::Text).map(drop) }
    }

    fn text_or_null(&self, text: &str) -> Result<(), String> {
        self.scope.compile(text, Expected::TextOrNull).map(drop)
    }
}

#[cfg(not(feature = "cel"))]
#[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
impl Compiler {
    fn new(_: bool, _: bool) -> Self {
        Self {}
    }

    fn declare(&mut self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn bool(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn message(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn text_or_null(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}
