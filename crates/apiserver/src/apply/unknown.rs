//! The fields of an object that its type does not have.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::form::{Form, Forms};
use super::schema::{Atom, Schema, TypeRef};

/// Returns the paths of the fields that a kind does not have, as kube-apiserver writes them: `spec.containers[0].a`.
///
/// Follows Kubernetes 1.37 (strict decoding), in the order of the names.
pub(crate) fn unknown_fields(
    schema: &Schema,
    api_version: &str,
    kind: &str,
    object: &Map<String, Value>,
) -> Vec<String> {
    let mut search = Search { schema, path: Vec::new(), found: Vec::new() };
    if let Some(atom) = schema.of_kind(api_version, kind).and_then(|of| schema.atom(of)) {
        search.fields(atom, object);
    }
    search.found
}

enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

struct Search<'a> {
    schema: &'a Schema,
    path: Vec<Step<'a>>,
    found: Vec<String>,
}

impl<'a> Search<'a> {
    fn value(&mut self, of: TypeRef, value: &'a Value) {
        let Some(atom) = self.schema.atom(of) else { return };
        match (Forms::of(atom, Some(value)).form(atom), value) {
            (Some(Form::List(list)), Value::Array(items)) => {
                let Some(of) = list.element else { return };
                for (index, item) in items.iter().enumerate() {
                    self.path.push(Step::Index(index));
                    self.value(of, item);
                    self.path.pop();
                }
            }
            (Some(Form::Map(_)), Value::Object(fields)) => self.fields(atom, fields),
            _ => {}
        }
    }

    fn fields(&mut self, atom: &'a Atom, fields: &'a Map<String, Value>) {
        let Some(map) = &atom.map else { return };
        for (name, value) in fields {
            self.path.push(Step::Name(name));
            match map.type_of(name) {
                Some(of) => self.value(of, value),
                None => self.found.push(self.text()),
            }
            self.path.pop();
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            let _ = match step {
                Step::Name(name) if text.is_empty() => text.write_str(name),
                Step::Name(name) => write!(text, ".{name}"),
                Step::Index(index) => write!(text, "[{index}]"),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // contract: E-18b
    #[test]
    fn unknown_fields_are_named_by_their_paths() {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "extra": 1,
            "metadata": {"name": "a", "labels": {"x": "y"}, "managedFields": [{"fieldsV1": {"f:a": {}}}], "label": {}},
            "spec": {"nodeSelector": {"any": "b"}, "containers": [{"name": "a",
                "resources": {"limits": {"cpu": "1"}}}, {"name": "b", "ports": [{"port": 1}]}], "volumes": {"a": 1}}});
        let find = |kind: &str| unknown_fields(Schema::builtin(), "v1", kind, object.as_object().unwrap());
        assert_eq!(find("Pod"), ["extra", "metadata.label", "spec.containers[1].ports[0].port"]);
        assert!(find("Unknown").is_empty());
    }
}
