//! Field selectors: `spec.nodeName=node-1,status.phase!=Running`.

use std::str::FromStr;

use kinformer_kube::internal::borrowed_field;
use kinformer_kube::{FieldPath, PackedObject};

use crate::index_by_field::Value;

/// A field selector: `spec.nodeName=node-1,status.phase!=Running`. Matches an object if all of its requirements hold.
///
/// A value may contain `,`, `=` and `\\` if they are escaped by `\\`. An empty string matches everything. Follows Kubernetes
/// 1.37 (`fields.ParseSelector`).
///
/// ```
/// use kinformer::FieldSelector;
///
/// let selector: FieldSelector = "spec.nodeName==node-1,status.phase!=Running".parse()?;
/// assert!(selector.requirements().eq([("spec.nodeName", true, "node-1"), ("status.phase", false, "Running")]));
/// assert!("spec.nodeName in (node-1)".parse::<FieldSelector>().is_err());
/// # Ok::<(), kinformer::FieldSelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    field: String,
    /// The field itself, and those that the API server reads under its name if it is no value.
    paths: Vec<FieldPath>,
    is_equal: bool,
    value: String,
}

/// The error of an invalid field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("field selector {selector:?}: {requirement:?} is not field=value, field==value or field!=value")]
pub struct FieldSelectorError {
    /// The parsed string.
    pub selector: String,
    /// The requirement that is invalid.
    pub requirement: String,
}

/// The requirement is not in the grammar.
struct Invalid;

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, FieldSelectorError> {
        let terms = split(text).into_iter().filter(|term| !term.is_empty());
        let parse = |term: &str| {
            let error =
                |Invalid| FieldSelectorError { selector: text.to_owned(), requirement: term.to_owned() };
            Requirement::parse(term).map_err(error)
        };
        terms.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FieldSelector {
    /// Selects the objects in which a field has a value.
    ///
    /// ```
    /// use kinformer::FieldSelector;
    ///
    /// // The value needs no escapes, unlike in a text.
    /// let selector = FieldSelector::exact("spec.schedulerName", "a=b,c");
    /// assert_eq!(selector, r"spec.schedulerName=a\=b\,c".parse()?);
    /// # Ok::<(), kinformer::FieldSelectorError>(())
    /// ```
    pub fn exact(field: impl Into<String>, value: impl Into<String>) -> Self {
        let field = field.into();
        Self(vec![Requirement { paths: paths_of(&field), field, is_equal: true, value: value.into() }])
    }

    /// Selects the objects in which the field at a path has a value: for names that have dots, such as those of labels.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kinformer::{FieldPath, FieldSelector, Packed};
    ///
    /// let path = FieldPath::new(&["metadata", "labels", "app.kubernetes.io/name"]);
    /// let selector = FieldSelector::exact_at(path, "web");
    /// # let labels = serde_json::json!({"app.kubernetes.io/name": "web"});
    /// # let pod = serde_json::json!({"metadata": {"name": "web-0", "namespace": "default", "labels": labels}});
    /// let pod: Pod = serde_json::from_value(pod)?;
    /// assert!(selector.matches(Packed::from_value(pod)?.object()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exact_at(path: FieldPath, value: impl Into<String>) -> Self {
        let field = path.names().collect::<Vec<_>>().join(".");
        Self(vec![Requirement { field, paths: vec![path], is_equal: true, value: value.into() }])
    }

    /// The requirements: a field, whether it must have the value or another one, and the value.
    pub fn requirements(&self) -> impl ExactSizeIterator<Item = (&str, bool, &str)> {
        self.0.iter().map(|Requirement { field, is_equal, value, .. }| (&**field, *is_equal, &**value))
    }

    /// Whether the object has the requested values. A field that is missing has the values empty, `false` and `0`.
    ///
    /// A field that is no string, number or boolean meets every requirement: the API server has a meaning of its own for
    /// its name. Those of `source` (events), `status.successful` (jobs) and `name` (namespaces) are known.
    pub fn matches(&self, object: &PackedObject) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(object))
    }
}

impl Requirement {
    fn parse(term: &str) -> Result<Self, Invalid> {
        let at = term.find('=').ok_or(Invalid)?;
        let (before, after) = term.split_at_checked(at).ok_or(Invalid)?;
        let (field, is_equal) = before.strip_suffix('!').map_or((before, true), |field| (field, false));
        let value = after.strip_prefix("==").filter(|_| is_equal).or_else(|| after.strip_prefix('='));
        let value = unescape(value.ok_or(Invalid)?)?;
        Ok(Self { field: field.to_owned(), paths: paths_of(field), is_equal, value })
    }

    fn is_met(&self, object: &PackedObject) -> bool {
        self.is_value_of(object).is_none_or(|is_value| is_value == self.is_equal)
    }

    /// Whether the field has the value; `None` if it is no value. The API server shows a missing field as the zero of its
    /// type.
    fn is_value_of(&self, object: &PackedObject) -> Option<bool> {
        match &*self.field {
            "metadata.name" => return Some(object.name() == self.value),
            "metadata.namespace" => return Some(object.namespace().unwrap_or_default() == self.value),
            _ => {}
        }
        let has_others = self.paths.len() > 1;
        for path in &self.paths {
            match borrowed_field(object, path) {
                Ok(Some(Value(value))) if !has_others || !value.is_empty() => {
                    return Some(value == self.value);
                }
                Err(_) if !has_others => return None,
                Ok(_) | Err(_) => {}
            }
        }
        Some(matches!(&*self.value, "" | "false" | "0"))
    }
}

/// Follows Kubernetes 1.37 (`ToSelectableFields`, `AddFieldLabelConversionsForEvent`).
fn paths_of(field: &str) -> Vec<FieldPath> {
    let others: &[&[&str]] = match field {
        "source" => &[&["source", "component"], &["reportingComponent"]],
        "status.successful" => &[&["status", "succeeded"]],
        "name" => &[&["metadata", "name"]],
        _ => &[],
    };
    let path = FieldPath::new(&field.split('.').collect::<Vec<_>>());
    std::iter::once(path).chain(others.iter().map(|names| FieldPath::new(names))).collect()
}

/// Splits at the commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut rest, mut from) = (text, 0);
    while let Some(at) = rest.get(from..).and_then(|part| part.find([',', '\\'])).map(|at| at + from) {
        if rest.get(at..).is_some_and(|found| found.starts_with('\\')) {
            // The escaped character is passed over, also if it has several bytes.
            from =
                at + 1 + rest.get(at + 1..).and_then(|after| after.chars().next()).map_or(0, char::len_utf8);
        } else {
            terms.push(rest.get(..at).unwrap_or_default());
            rest = rest.get(at + 1..).unwrap_or_default();
            from = 0;
        }
    }
    terms.push(rest);
    terms
}

/// Replaces `\\`, `\,` and `\=`. No other character may be escaped, and these three must be.
fn unescape(value: &str) -> Result<String, Invalid> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(next) = chars.next() {
        plain.push(match next {
            '\\' => chars.next().filter(|escaped| matches!(escaped, '\\' | ',' | '=')).ok_or(Invalid)?,
            '=' => return Err(Invalid),
            other => other,
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use kinformer_kube::{ObjectDecoder, Packed};

    use super::*;

    fn pod() -> Packed<()> {
        let json =
            br#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "team-a"},
            "spec": {"nodeName": "node-1", "hostNetwork": true, "schedulerName": "a=b,c"}}"#;
        kinformer_kube::FromWire::from_wire(json, &ObjectDecoder::json()).unwrap()
    }

    #[test]
    fn objects_are_matched() {
        for (selector, expected) in [
            ("", true),
            ("metadata.name=web", true),
            ("metadata.name!=web", false),
            ("metadata.namespace!=team-b,metadata.namespace!=team-c", true),
            ("spec.nodeName==node-1,spec.hostNetwork=true", true),
            ("spec.nodeName=node-2", false),
            (r"spec.schedulerName=a\=b\,c", true),
            (r"spec.schedulerName!=a\=b\,c,metadata.name=web", false),
            ("status.phase=", true),
            ("spec.hostPID=false", true),
            ("spec.hostPID=true", false),
        ] {
            let parsed: FieldSelector = selector.parse().unwrap();
            assert_eq!(parsed.matches(pod().object()), expected, "{selector}");
        }
    }

    // contract: F-24f
    #[test]
    fn labels_that_are_no_paths() {
        let kubelet = r#"{"kind": "Event", "metadata": {"name": "a"}, "source": {"component": "kubelet"},
            "reportingComponent": "other"}"#;
        let reported =
            r#"{"kind": "Event", "metadata": {"name": "a"}, "source": {}, "reportingComponent": "kubelet"}"#;
        let job = r#"{"kind": "Job", "metadata": {"name": "a"}, "status": {"succeeded": 1}}"#;
        let namespace = r#"{"kind": "Namespace", "metadata": {"name": "a"}}"#;
        let custom = r#"{"kind": "Custom", "metadata": {"name": "a"}, "source": "kubelet", "spec": {"owner": {"name": "b"}}}"#;
        for (object, selector, expected) in [
            (kubelet, "source=kubelet", true),
            (kubelet, "source=other", false),
            (kubelet, "source!=kubelet", false),
            (reported, "source=kubelet", true),
            (reported, "source=", false),
            (namespace, "source=", true),
            (job, "status.successful=1", true),
            (job, "status.successful=0", false),
            (namespace, "status.successful=0", true),
            (namespace, "name=a", true),
            (namespace, "name=b", false),
            (custom, "source=kubelet", true),
            (custom, "source=other", false),
            // An unknown label: the object may be selected.
            (custom, "spec.owner=b", true),
            (custom, "spec.owner!=b", true),
        ] {
            let object: Packed<()> =
                kinformer_kube::FromWire::from_wire(object.as_bytes(), &ObjectDecoder::json()).unwrap();
            let parsed: FieldSelector = selector.parse().unwrap();
            assert_eq!(parsed.matches(object.object()), expected, "{selector}");
        }
    }

    #[test]
    fn other_grammars_are_refused() {
        for selector in ["metadata.name", "a=b=c", r"a=\b", "a in (b)"] {
            assert!(selector.parse::<FieldSelector>().is_err(), "{selector}");
        }
        let error = "a=b,c".parse::<FieldSelector>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "field selector \"a=b,c\": \"c\" is not field=value, field==value or field!=value"
        );
    }
}
