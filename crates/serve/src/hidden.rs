//! Fields and kinds that are not shown.

use serde_json::Value;

use crate::Error;

/// The annotation in which `kubectl apply` keeps a copy of the object.
const LAST_APPLIED: &str = "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration";

/// The description of the fields and of who manages them.
const MANAGED: &str = "metadata.managedFields";

/// The fields that are never part of a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct HiddenFields {
    /// The paths, such as `spec.template`, without empty ones.
    paths: Vec<String>,
}

impl HiddenFields {
    /// # Errors
    /// [`Error::NotHideable`] for fields that identify an object. [`Error::InvalidField`] for a path of another syntax,
    /// which would hide nothing.
    pub(crate) fn new(paths: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        let mut all = Vec::new();
        for path in paths {
            let path = path.trim().trim_start_matches('.').to_owned();
            let identifies = matches!(
                path.as_str(),
                "" | "metadata"
                    | "metadata.name"
                    | "metadata.namespace"
                    | "metadata.uid"
                    | "metadata.resourceVersion"
                    | "apiVersion"
                    | "kind"
            );
            if identifies {
                return Err(Error::NotHideable { field: path });
            }
            if !is_path(&path) {
                return Err(Error::InvalidField { field: path });
            }
            all.push(path);
        }
        if !all.is_empty() {
            // A copy of the hidden fields, and the names of their parts, in which are the values of sets.
            all.extend([LAST_APPLIED, MANAGED].map(str::to_owned));
        }
        Ok(Self { paths: all })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether a field is hidden, or a part of a hidden one.
    pub(crate) fn hides(&self, field: &str) -> bool {
        self.paths.iter().any(|path| is_within(field, path))
    }

    /// Whether a field is hidden, is a part of a hidden one, or has a hidden part.
    pub(crate) fn touches(&self, field: &str) -> bool {
        self.paths.iter().any(|path| is_within(field, path) || is_within(path, field))
    }

    /// Removes the hidden fields. A name may be followed by others in one key, since keys may have dots.
    pub(crate) fn remove_from(&self, object: &mut Value) {
        for path in &self.paths {
            remove(object, path);
        }
    }
}

/// Whether a path is names with dots between them. The keys of annotations and of data may have dots and slashes, the
/// fields of an object have none, and there are no positions or wildcards.
fn is_path(path: &str) -> bool {
    let mut names = path.split('.');
    let is_field = names
        .next()
        .is_some_and(|first| first.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)));
    is_field
        && path.split('.').all(|name| !name.is_empty())
        && !path.contains(|c: char| c.is_whitespace() || c.is_control() || "[]*\"'".contains(c))
}

/// Whether a path is another one or continues it.
fn is_within(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn remove(value: &mut Value, path: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| remove(item, path)),
        Value::Object(fields) => {
            fields.remove(path);
            for (index, _) in path.match_indices('.') {
                let (Some(name), Some(rest)) = (path.get(..index), path.get(index + 1..)) else { continue };
                if let Some(field) = fields.get_mut(name) {
                    remove(field, rest);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hidden(paths: &[&str]) -> HiddenFields {
        HiddenFields::new(paths.iter().map(|path| (*path).to_owned())).unwrap()
    }

    #[test]
    fn fields_are_removed_through_lists_and_dotted_keys() {
        let mut object = json!({
            "metadata": {
                "name": "a",
                "annotations": {
                    "example.com/key": "x", "other": "y",
                    "kubectl.kubernetes.io/last-applied-configuration": "{\"spec\":1}",
                },
                "managedFields": [{"fieldsV1": {"f:spec": {"k:{\"name\":\"A\"}": {}}}}],
            },
            "spec": {"containers": [{"name": "c", "env": [1]}, {"name": "d", "env": [2]}], "replicas": 1},
        });
        hidden(&["spec.containers.env", "metadata.annotations.example.com/key", "spec.none.at.all"])
            .remove_from(&mut object);
        let expected = json!({
            "metadata": {"name": "a", "annotations": {"other": "y"}},
            "spec": {"containers": [{"name": "c"}, {"name": "d"}], "replicas": 1},
        });
        assert_eq!(object, expected);
        hidden(&["spec"]).remove_from(&mut object);
        assert!(object.get("spec").is_none());
    }

    #[test]
    fn paths_are_compared_by_names() {
        let hidden = hidden(&["spec.template"]);
        assert!(hidden.hides("spec.template") && hidden.hides("spec.template.spec"));
        assert!(!hidden.hides("spec") && !hidden.hides("spec.templates"));
        assert!(hidden.touches("spec") && !hidden.touches("status"));
    }

    #[test]
    fn identifying_fields_are_refused() {
        for path in ["metadata", "metadata.name", "", ".kind"] {
            assert!(HiddenFields::new([path.to_owned()]).is_err(), "{path}");
        }
        for path in [
            "spec.containers[*].env",
            "spec.",
            "spec..env",
            "/spec/env",
            "spec/env",
            "$.spec",
            "*",
            "data.*",
            "a b",
        ] {
            let error = HiddenFields::new([path.to_owned()]).unwrap_err();
            assert!(matches!(error, Error::InvalidField { .. }), "{path}");
        }
        hidden(&[
            ".spec",
            "data.a_b.yaml",
            "metadata.annotations.example.com/key",
            "spec.schema.$ref",
            "metadata.labels.ä",
        ]);
        assert!(HiddenFields::new([]).unwrap().is_empty());
    }
}
