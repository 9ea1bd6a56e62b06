//! The approval of APIs in the groups of the community.
//!
//! Follows Kubernetes 1.37 (`GetAPIApprovalState`, `validateAPIApproval`).

use serde_json::{Map, Value};

use crate::apply::quoted;
use crate::causes::{invalid, required};
use crate::status::Cause;

/// The annotation with the approval.
const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// What a definition in a protected group says about its approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

/// The condition `KubernetesAPIApprovalPolicyConformant`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Approval {
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

fn is_protected(definition: &Map<String, Value>) -> bool {
    let group = definition.get("spec").and_then(|spec| spec.get("group")).and_then(Value::as_str);
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .and_then(|group| group.strip_suffix(*domain))
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn annotation(definition: &Map<String, Value>) -> &str {
    let annotations = definition.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.and_then(|all| all.get(ANNOTATION)).and_then(Value::as_str).unwrap_or("")
}

/// Returns the state, and why it is so.
fn state(annotation: &str) -> (State, String) {
    let must = format!("protected groups must have approval annotation {}", quoted(ANNOTATION));
    if annotation.is_empty() {
        return (State::Missing, format!("{must}, {SEE}"));
    }
    if annotation.starts_with("unapproved") {
        return (State::Bypassed, format!("not approved: {}", quoted(annotation)));
    }
    if is_url(annotation) {
        return (State::Approved, format!("approved in {annotation}"));
    }
    let forms = "with either a URL or a reason starting with \"unapproved\"";
    (State::Invalid, format!("{must} {forms}, {SEE}"))
}

/// Whether a text is a URL with a scheme and a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or("");
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let is_clean = |c: char| !c.is_ascii_control() && c != ' ';
    is_scheme && !host.is_empty() && text.chars().all(is_clean)
}

/// Returns what is wrong with the annotation. A write that does not change the state is not refused.
pub(super) fn fault(definition: &Map<String, Value>, before: Option<&Map<String, Value>>) -> Option<Cause> {
    if !is_protected(definition) {
        return None;
    }
    let given = annotation(definition);
    let (now, why) = state(given);
    if before.is_some_and(|before| state(annotation(before)).0 == now) {
        return None;
    }
    let path = format!("metadata.annotations[{ANNOTATION}]");
    match now {
        State::Invalid => Some(invalid(&path, &given.into(), &why)),
        State::Missing => Some(required(&path, &why)),
        State::Approved | State::Bypassed => None,
    }
}

/// Returns the condition of a definition, if its group is protected.
pub(crate) fn approval(definition: &Map<String, Value>) -> Option<Approval> {
    if !is_protected(definition) {
        return None;
    }
    let (state, message) = state(annotation(definition));
    let (status, reason) = match state {
        State::Invalid => ("False", "InvalidAnnotation"),
        State::Missing => ("False", "MissingAnnotation"),
        State::Approved => ("True", "ApprovedAnnotation"),
        State::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    Some(Approval { status, reason, message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(group: &str, annotation: &str) -> Map<String, Value> {
        let object = json!({"metadata": {"annotations": {ANNOTATION: annotation}}, "spec": {"group": group}});
        object.as_object().unwrap().clone()
    }

    // contract: E-23g
    #[test]
    fn protected_groups_need_an_approval() {
        let cases = [
            ("example.com", "", None),
            ("my-k8s.io", "", None),
            ("x.k8s.io", "", Some("FieldValueRequired")),
            ("kubernetes.io", "yes", Some("FieldValueInvalid")),
            ("x.k8s.io", "http:///path", Some("FieldValueInvalid")),
            ("x.k8s.io", "https://github.com/kubernetes/kubernetes/pull/1", None),
            ("k8s.io", "unapproved, a test", None),
        ];
        for (group, annotation, reason) in cases {
            let found = fault(&definition(group, annotation), None);
            assert_eq!(found.map(|cause| cause.reason), reason, "{group} {annotation}");
        }
        let same = fault(&definition("k8s.io", ""), Some(&definition("k8s.io", "")));
        assert_eq!(same, None);
        let condition = approval(&definition("k8s.io", "unapproved, a test")).unwrap();
        assert_eq!((condition.status, condition.reason), ("False", "UnapprovedAnnotation"));
        assert_eq!(approval(&definition("example.com", "")), None);
    }
}
