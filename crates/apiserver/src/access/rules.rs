//! The rules of roles.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::attributes::Attributes;

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    #[serde(deserialize_with = "list")]
    pub(super) verbs: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) api_groups: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) resources: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list")]
    pub(super) non_resource_urls: Vec<String>,
}

/// A list, or null.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(from)?.unwrap_or_default())
}

pub(super) fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|other| other == text)
}

impl Rule {
    /// Whether the rule allows a request. Follows Kubernetes 1.37 (`RuleAllows`).
    pub(super) fn allows(&self, asked: &Attributes) -> bool {
        let any_or = |list: &[String], text: &str| has(list, "*") || has(list, text);
        if !any_or(&self.verbs, &asked.verb) {
            return false;
        }
        if !asked.is_resource {
            return self.non_resource_urls.iter().any(|url| url_covers(url, &asked.path));
        }
        any_or(&self.api_groups, &asked.group)
            && self.has_resource(asked)
            && (self.resource_names.is_empty() || has(&self.resource_names, &asked.name))
    }

    fn has_resource(&self, asked: &Attributes) -> bool {
        let combined = asked.combined();
        let is_any_of_subresource = |resource: &String| {
            !asked.subresource.is_empty() && resource.strip_prefix("*/") == Some(&asked.subresource)
        };
        self.resources
            .iter()
            .any(|resource| resource == "*" || *resource == combined || is_any_of_subresource(resource))
    }

    /// The rule as `ResourceRule` or `NonResourceRule` of a review.
    pub(super) fn to_json(&self, of_resources: bool) -> Value {
        let mut rule = Map::new();
        rule.insert("verbs".into(), json!(self.verbs));
        let lists: &[(&str, &Vec<String>)] = if of_resources {
            &[
                ("apiGroups", &self.api_groups),
                ("resources", &self.resources),
                ("resourceNames", &self.resource_names),
            ]
        } else {
            &[("nonResourceURLs", &self.non_resource_urls)]
        };
        for (field, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            rule.insert((*field).into(), json!(list));
        }
        Value::Object(rule)
    }
}

pub(super) fn url_covers(rule: &str, path: &str) -> bool {
    rule == "*" || rule == path || rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*'))
}
