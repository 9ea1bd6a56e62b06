//! What a policy or a binding matches.

use serde::Deserialize;
use serde_json::Value;

use crate::registry::Registry;
use crate::status::Status;

use super::super::attributes::Attributes;
use super::super::invocation::Invocation;
use super::super::matching::{equivalent, matches_namespace, matches_object, rule_matches};
use super::super::rule::Rule;

/// Follows Kubernetes 1.37 (`MatchResources`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Criteria {
    namespace_selector: Value,
    object_selector: Value,
    resource_rules: Vec<NamedRule>,
    exclude_resource_rules: Vec<NamedRule>,
    match_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NamedRule {
    /// All names if there is none.
    resource_names: Vec<String>,
    #[serde(flatten)]
    rule: Rule,
}

impl NamedRule {
    fn has_name(&self, name: &str) -> bool {
        self.resource_names.is_empty() || self.resource_names.iter().any(|known| known == name)
    }
}

impl Criteria {
    /// Returns in which version a request matches; `None` if it does not.
    ///
    /// Follows Kubernetes 1.37 (`matching.Matcher.Matches`).
    ///
    /// # Errors
    /// 404 for a namespace that does not exist, 500 for an invalid selector.
    pub(super) fn matched(
        &self,
        attributes: &Attributes,
        registry: &Registry,
    ) -> Result<Option<Invocation>, Status> {
        let in_namespace = matches_namespace(&self.namespace_selector, attributes, registry);
        let of_object = matches_object(&self.object_selector, attributes);
        if matches!(in_namespace, Ok(false)) || matches!(of_object, Ok(false)) {
            return Ok(None);
        }
        if self.of_rules(&self.exclude_resource_rules, attributes, registry).is_some() {
            return Ok(None);
        }
        let invocation = if self.resource_rules.is_empty() {
            Some(as_asked(attributes))
        } else {
            self.of_rules(&self.resource_rules, attributes, registry)
        };
        if invocation.is_some() {
            in_namespace?;
            of_object?;
        }
        Ok(invocation)
    }

    fn of_rules(
        &self,
        rules: &[NamedRule],
        attributes: &Attributes,
        registry: &Registry,
    ) -> Option<Invocation> {
        let named = || rules.iter().filter(|rule| rule.has_name(&attributes.name)).map(|rule| &rule.rule);
        if named().any(|rule| rule_matches(rule, attributes, &attributes.resource().kind)) {
            return Some(as_asked(attributes));
        }
        if self.match_policy == "Exact" {
            return None;
        }
        equivalent(named(), attributes, registry)
    }
}

fn as_asked(attributes: &Attributes) -> Invocation {
    let asked = &attributes.asked;
    Invocation { resource: asked.resource.clone(), kind: asked.kind.clone() }
}
