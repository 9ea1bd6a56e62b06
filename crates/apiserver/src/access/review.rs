//! The answers of the reviews: `SelfSubjectAccessReview`, `SubjectAccessReview`, `LocalSubjectAccessReview`,
//! `SelfSubjectRulesReview`, `SelfSubjectReview` and `TokenReview`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::attributes::Attributes;
use super::control::AccessControl;
use super::identity::User;
use super::issued::AUDIENCE;
use super::rules::{Rule, list};
use super::selectors::{Selector, SelectorOf};
use crate::api::METADATA_FIELDS;
use crate::clock::Clock;
use crate::registry::Registry;
use crate::status::{Cause, Status, Subject};

const GROUP: &str = "authorization.k8s.io";

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<NonResourceAttributes>,
    user: String,
    #[serde(deserialize_with = "list")]
    groups: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    name: String,
    field_selector: Option<Selector>,
    label_selector: Option<Selector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NonResourceAttributes {
    path: String,
    verb: String,
}

impl NonResourceAttributes {
    /// As in messages, where it is an internal type.
    fn text(&self) -> String {
        format!("{{\"Path\":{},\"Verb\":{}}}", Value::from(&*self.path), Value::from(&*self.verb))
    }
}

impl ResourceAttributes {
    fn selectors(&self) -> impl Iterator<Item = (SelectorOf, &Selector)> {
        let fields = self.field_selector.iter().map(|selector| (SelectorOf::Fields, selector));
        fields.chain(self.label_selector.iter().map(|selector| (SelectorOf::Labels, selector)))
    }
}

/// Whose access a review is about.
#[derive(Clone, Copy)]
pub(crate) enum ReviewOf<'a> {
    /// That of the user who sends it.
    Own(&'a User),
    /// That of the user that it names.
    Named,
    /// The same, in this namespace.
    Local(&'a str),
}

impl Spec {
    /// Follows Kubernetes 1.37 (`ValidateSubjectAccessReview`, `ValidateLocalSubjectAccessReview`).
    fn faults(&self, of: ReviewOf<'_>, metadata: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        let other = self.non_resource_attributes.as_ref();
        if self.resource_attributes.is_some() == other.is_some() {
            let value = other.map_or_else(|| "null".to_owned(), NonResourceAttributes::text);
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            causes.push(Cause::invalid("spec", format!("Invalid value: {value}: {why}")));
        }
        if !matches!(of, ReviewOf::Own(_)) && self.user.is_empty() && self.groups.is_empty() {
            let why = "Invalid value: \"\": at least one of user or group must be specified";
            causes.push(Cause::invalid("spec.user", why));
        }
        let attributes = self.resource_attributes.as_ref();
        for (selector_of, selector) in attributes.into_iter().flat_map(ResourceAttributes::selectors) {
            causes.extend(selector.faults(selector_of));
        }
        let own = if matches!(of, ReviewOf::Local(_)) {
            &["managedFields", "namespace"][..]
        } else {
            &["managedFields"]
        };
        let fields = metadata.as_object().into_iter().flat_map(Map::keys);
        if fields.filter(|field| !own.contains(&field.as_str())).count() > 0 {
            let but = if matches!(of, ReviewOf::Local(_)) { " except for namespace" } else { "" };
            let why = format!("Invalid value: {}: must be empty{but}", metadata_text(metadata));
            causes.push(Cause::invalid("metadata", why));
        }
        let ReviewOf::Local(namespace) = of else { return causes };
        if let Some(given) = attributes.map(|given| &given.namespace).filter(|given| *given != namespace) {
            let why = format!("Invalid value: {given:?}: must match metadata.namespace");
            causes.push(Cause::invalid("spec.resourceAttributes.namespace", why));
        }
        if let Some(other) = other {
            let why = format!("Invalid value: {}: disallowed on this kind of request", other.text());
            causes.push(Cause::invalid("spec.nonResourceAttributes", why));
        }
        causes
    }

    fn asked(&self) -> Attributes {
        match (&self.resource_attributes, &self.non_resource_attributes) {
            (Some(of), _) => Attributes {
                subresource: of.subresource.clone(),
                ..Attributes::of_resource(&of.group, &of.resource, &of.namespace, &of.name, &of.verb)
            },
            (None, other) => {
                let (path, verb) = other.as_ref().map_or(("", ""), |other| (&*other.path, &*other.verb));
                Attributes { verb: verb.into(), path: path.into(), ..Attributes::default() }
            }
        }
    }
}

/// Metadata as in messages, with its fields in the order of Go.
fn metadata_text(metadata: &Value) -> String {
    const ENTRY: [&str; 7] =
        ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
    let object = |value: &Value, fields: &[&str], text: &dyn Fn(&str, &Value) -> String| {
        let present = fields.iter().filter_map(|field| Some((*field, value.get(*field)?)));
        let members = present.map(|(field, value)| format!("\"{field}\":{}", text(field, value)));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    object(metadata, &METADATA_FIELDS, &|field, value| match (field, value.as_array()) {
        ("managedFields", Some(entries)) => {
            let entries = entries.iter().map(|entry| object(entry, &ENTRY, &|_, value| value.to_string()));
            format!("[{}]", entries.collect::<Vec<_>>().join(","))
        }
        _ => value.to_string(),
    })
}

/// Returns the status of an access review.
///
/// # Errors
/// 422 for an invalid review.
pub(crate) fn access_review(
    control: &AccessControl,
    registry: &Registry,
    of: ReviewOf<'_>,
    review: &Map<String, Value>,
) -> Result<Value, Status> {
    let spec = review.get("spec").cloned().unwrap_or_default();
    let spec: Spec = serde_json::from_value(spec).unwrap_or_default();
    let faults = spec.faults(of, review.get("metadata").unwrap_or(&Value::Null));
    if !faults.is_empty() {
        return Err(Status::invalid(Subject { group: GROUP, resource: "" }, "", faults));
    }
    let named = User { name: spec.user.clone(), groups: spec.groups.clone(), ..User::default() };
    let user = if let ReviewOf::Own(user) = of { user } else { &named };
    let decision = control.decide(registry, user, &spec.asked());
    let mut status = Map::new();
    status.insert("allowed".into(), decision.allowed.into());
    let selectors = spec.resource_attributes.iter().flat_map(ResourceAttributes::selectors);
    let errors: Vec<String> = selectors.filter_map(|(of, selector)| selector.evaluation_error(of)).collect();
    for (field, text) in [("reason", decision.reason), ("evaluationError", errors.join("; "))] {
        if !text.is_empty() {
            status.insert(field.into(), text.into());
        }
    }
    Ok(status.into())
}

/// Returns the answer to a `SelfSubjectRulesReview`.
///
/// # Errors
/// 400 without a namespace.
pub(crate) fn rules_review(
    control: &AccessControl,
    registry: &Registry,
    user: &User,
    review: &Map<String, Value>,
) -> Result<Value, Status> {
    let namespace = review.get("spec").and_then(|spec| spec.get("namespace")).and_then(Value::as_str);
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    let namespace = namespace.ok_or_else(|| Status::bad_request("no namespace on request"))?;
    let mut status = json!({"incomplete": false,
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]});
    if control.has_roles() {
        let policy = control.policy(registry);
        let (rules, errors) = policy.rules(user, namespace);
        let select = |of_resources: bool, is_it: &dyn Fn(&Rule) -> bool| -> Value {
            rules.iter().filter(|rule| is_it(rule)).map(|rule| rule.to_json(of_resources)).collect()
        };
        status = json!({"incomplete": false,
            "resourceRules": select(true, &|rule| !rule.resources.is_empty()),
            "nonResourceRules": select(false, &|rule| !rule.non_resource_urls.is_empty())});
        let errors = errors.text();
        if let (false, Some(status)) = (errors.is_empty(), status.as_object_mut()) {
            status.insert("evaluationError".into(), errors.into());
        }
    }
    Ok(
        json!({"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {},
        "status": status}),
    )
}

/// Returns the answer to a `SelfSubjectReview`.
pub(crate) fn self_review(user: &User, now: &str) -> Value {
    json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": now}, "status": {"userInfo": user.to_json()}})
}

/// Returns the status of a `TokenReview`.
///
/// # Errors
/// 400 without a token.
pub(crate) fn token_review(
    control: &AccessControl,
    registry: &Registry,
    clock: &Clock,
    review: &Map<String, Value>,
) -> Result<Value, Status> {
    let spec = review.get("spec");
    let token = spec.and_then(|spec| spec.get("token")).and_then(Value::as_str).unwrap_or("");
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let given = spec.and_then(|spec| spec.get("audiences")).and_then(Value::as_array);
    let given = given.filter(|given| !given.is_empty());
    let audiences: Vec<String> = match given {
        Some(given) => given.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => vec![AUDIENCE.to_owned()],
    };
    Ok(match control.user_of(registry, clock, token, &audiences) {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": user.to_json(), "audiences": audiences})
        }
        Err(error) => json!({"user": {}, "error": error}),
    })
}
