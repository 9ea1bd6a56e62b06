//! The selectors of access reviews. RBAC does not look at them, but they are validated.

use serde::Deserialize;

use super::rules::list;
use crate::builtin::names;
use crate::causes;
use crate::selectors::{LabelSelector, is_field_selector};
use crate::status::Cause;

/// A field or label selector of a review.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Selector {
    raw_selector: String,
    #[serde(deserialize_with = "list")]
    requirements: Vec<Requirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(deserialize_with = "list")]
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectorOf {
    Fields,
    Labels,
}

impl SelectorOf {
    fn field(self) -> &'static str {
        match self {
            Self::Fields => "spec.resourceAttributes.fieldSelector",
            Self::Labels => "spec.resourceAttributes.labelSelector",
        }
    }
}

impl Selector {
    /// Follows Kubernetes 1.37 (`validateFieldSelectorAttributes`, `validateLabelSelectorAttributes`).
    pub(super) fn faults(&self, of: SelectorOf) -> Vec<Cause> {
        let path = of.field();
        let mut causes = Vec::new();
        if !self.raw_selector.is_empty() && !self.requirements.is_empty() {
            let why = "may not specified at the same time as requirements";
            let text = format!("Invalid value: {:?}: {why}", self.raw_selector);
            causes.push(Cause::invalid(&format!("{path}.rawSelector"), text));
        }
        if self.raw_selector.is_empty() && self.requirements.is_empty() {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            causes.push(causes::required(&format!("{path}.requirements"), &why));
        }
        for (index, requirement) in self.requirements.iter().enumerate() {
            causes.extend(requirement.faults(of, &format!("{path}.requirements[{index}]")));
        }
        causes
    }

    /// Returns why the selector is not considered. Follows Kubernetes 1.37 (`BuildEvaluationError`).
    pub(super) fn evaluation_error(&self, of: SelectorOf) -> Option<String> {
        let known = self.requirements.iter().filter(|requirement| requirement.is_known(of)).count();
        let is_raw_known = match of {
            _ if self.raw_selector.is_empty() => true,
            SelectorOf::Fields => is_field_selector(&self.raw_selector),
            SelectorOf::Labels => LabelSelector::parse(&self.raw_selector).is_ok(),
        };
        if known == self.requirements.len() && (is_raw_known || known > 0) {
            return None;
        }
        let how = if known > 0 { "partially ignored" } else { "ignored" };
        Some(format!("{} {how} due to parse error", of.field()))
    }
}

impl Requirement {
    fn faults(&self, of: SelectorOf, path: &str) -> Vec<Cause> {
        let mut causes = Vec::new();
        if of == SelectorOf::Fields && self.key.is_empty() {
            causes.push(causes::required(&format!("{path}.key"), "must be specified"));
        }
        let values = format!("{path}.values");
        match self.operator.as_str() {
            "In" | "NotIn" if self.values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(causes::required(&values, why));
            }
            "Exists" | "DoesNotExist" if !self.values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(causes::forbidden(&values, why));
            }
            _ => {}
        }
        if of == SelectorOf::Labels {
            let mut broken = |path: &str, value: &str, rules: Vec<String>| {
                causes.extend(rules.iter().map(|rule| causes::invalid(path, &value.into(), rule)));
            };
            broken(&format!("{path}.key"), &self.key, names::qualified_name(&self.key));
            for (index, value) in self.values.iter().enumerate() {
                broken(&format!("{values}[{index}]"), value, names::label_value(value));
            }
        }
        causes
    }

    fn is_known(&self, of: SelectorOf) -> bool {
        match (of, self.operator.as_str()) {
            (SelectorOf::Fields, "In" | "NotIn") => self.values.len() == 1,
            (SelectorOf::Labels, "In" | "NotIn" | "Exists" | "DoesNotExist") => true,
            _ => false,
        }
    }
}
