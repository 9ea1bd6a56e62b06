//! The decision of all policies about a request.

use serde_json::{Map, Value};

use crate::registry::{Registry, Resource};
use crate::status::{Status, Subject as Of};
use crate::storage::Key;

use super::super::attributes::Attributes;
use super::super::convert::shown;
use super::super::invocation::Invocation;
use super::decision::Denial;
use super::definition::{Binding, Policies, Policy};
use super::evaluation::Subject;
use super::params;

/// The fields of the metadata of `namespaceObject`.
const METADATA: [&str; 12] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
];

impl Policies {
    /// Evaluates the policies that match a request.
    ///
    /// Follows Kubernetes 1.37 (`dispatcher.Dispatch`).
    ///
    /// # Errors
    /// The first denial.
    pub(in crate::admission) fn review(
        &self,
        attributes: &Attributes,
        registry: &Registry,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let mut review = Review { attributes, registry, warnings, denied: None };
        for (policy, bindings) in self.bound() {
            review.policy(policy, &bindings)?;
        }
        review.denied.map_or(Ok(()), Err)
    }
}

struct Review<'a> {
    attributes: &'a Attributes,
    registry: &'a Registry,
    warnings: &'a mut Vec<String>,
    /// The first denial. The policies after it are evaluated for their warnings.
    denied: Option<Status>,
}

impl Review<'_> {
    fn deny(&mut self, denial: &Denial, policy: &Policy, binding: Option<&Binding>) {
        let binding = binding.map(|binding| binding.name.as_str());
        let attributes = self.attributes;
        self.denied.get_or_insert_with(|| denial.status(&policy.name, binding, attributes));
    }

    /// Denies for an error of the configuration, unless the failure policy ignores it.
    fn misconfigured(&mut self, why: &str, policy: &Policy, binding: Option<&Binding>) {
        if !policy.ignores_failures {
            let what = if binding.is_some() { "binding" } else { "policy" };
            let denial = Denial::error(format!("failed to configure {what}: {why}"));
            self.deny(&denial, policy, binding);
        }
    }

    /// # Errors
    /// 404 for a namespace that does not exist.
    fn policy(&mut self, policy: &Policy, bindings: &[&Binding]) -> Result<(), Status> {
        let invocation = match policy.criteria.matched(self.attributes, self.registry) {
            Ok(Some(invocation)) => invocation,
            Ok(None) => return Ok(()),
            Err(status) => {
                self.misconfigured(status.message(), policy, None);
                return Ok(());
            }
        };
        let resource = policy.param_kind.as_ref().map(|kind| params::resource(kind, self.registry));
        let resource = match resource.transpose() {
            Ok(resource) => resource,
            Err(why) => {
                self.misconfigured(&why, policy, None);
                return Ok(());
            }
        };
        let shown = shown(&invocation, self.attributes);
        for binding in bindings {
            self.binding(policy, binding, resource, &invocation, &shown)?;
        }
        Ok(())
    }

    /// # Errors
    /// 404 for a namespace that does not exist.
    fn binding(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        resource: Option<&Resource>,
        invocation: &Invocation,
        shown: &Attributes,
    ) -> Result<(), Status> {
        match binding.criteria.matched(self.attributes, self.registry) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(status) => {
                self.misconfigured(status.message(), policy, Some(binding));
                return Ok(());
            }
        }
        let params = match params::collect(resource, binding.params.as_ref(), &self.attributes.namespace) {
            Ok(params) => params,
            Err(why) => {
                self.misconfigured(&why, policy, Some(binding));
                return Ok(());
            }
        };
        let namespace = self.namespace()?;
        let subject = Subject { invocation, shown, namespace: &namespace };
        for param in &params {
            let verdict = policy.evaluate(&subject, param.as_ref());
            for denial in &verdict.failed {
                self.act(policy, binding, denial);
            }
            for denial in &verdict.errors {
                self.deny(denial, policy, Some(binding));
            }
        }
        Ok(())
    }

    /// Takes the actions of a binding. For `Audit`, there is no log.
    fn act(&mut self, policy: &Policy, binding: &Binding, denial: &Denial) {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.deny(denial, policy, Some(binding)),
                "Warn" => self.warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, binding.name, denial.message
                )),
                _ => {}
            }
        }
    }

    /// Returns `namespaceObject`: null for a namespace, and for what is in none.
    ///
    /// # Errors
    /// 404 for a namespace that does not exist.
    fn namespace(&self) -> Result<Value, Status> {
        let name = &self.attributes.namespace;
        if name.is_empty() || self.attributes.is_namespace() {
            return Ok(Value::Null);
        }
        let namespaces = self.registry.get("", "v1", "namespaces");
        let stored = namespaces.and_then(|namespaces| namespaces.store.get(&Key::new("", name)));
        let stored =
            stored.ok_or_else(|| Status::not_found(Of { group: "", resource: "namespaces" }, name))?;
        let mut object = stored.parse();
        let mut shown = Map::new();
        if let Some(Value::Object(mut metadata)) = object.remove("metadata") {
            metadata.retain(|field, _| METADATA.contains(&field.as_str()));
            shown.insert("metadata".into(), Value::Object(metadata));
        }
        for field in ["spec", "status"] {
            shown.extend(object.remove(field).map(|value| (field.to_owned(), value)));
        }
        Ok(Value::Object(shown))
    }
}
