//! The schemas of custom resources that OpenAPI v3 publishes.
//!
//! Follows Kubernetes 1.37 (`pkg/controller/openapi/builder`, `Structural.Unfold`).

use serde_json::{Map, Value, json};

use super::object_meta::{PREFIX, definitions, reference};

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// Returns the types that all published schemas refer to. Their fields have no descriptions.
pub(crate) fn meta_definitions() -> Map<String, Value> {
    let list = json!({"type": "object", "properties": {"continue": {"type": "string"}, "remainingItemCount":
        {"type": "integer", "format": "int64"}, "resourceVersion": {"type": "string"}, "selfLink": {"type": "string"}}});
    let all = definitions().chain([("ListMeta", list)]);
    all.map(|(name, of)| (format!("{PREFIX}{name}"), of)).collect()
}

/// Returns the schema of a kind, from the schema of its definition.
pub(super) fn published(schema: &Value) -> Map<String, Value> {
    let mut published = node(schema);
    insert_properties(&mut published, type_meta());
    published
}

/// Returns the schema of the lists of a kind.
pub(crate) fn published_list(kind: &str, list_kind: &str, plural: &str, items: &str) -> Map<String, Value> {
    let mut properties = type_meta();
    properties.insert("metadata".into(), described("ListMeta", "Standard list metadata.", "types-kinds"));
    let items = json!({"type": "array", "description": format!("List of {plural}. More info: {CONVENTIONS}"),
        "items": {"$ref": format!("#/components/schemas/{items}")}});
    properties.insert("items".into(), items);
    let schema = json!({"type": "object", "description": format!("{list_kind} is a list of {kind}"),
        "required": ["items"], "properties": properties});
    schema.as_object().cloned().unwrap_or_default()
}

fn described(name: &str, sentence: &str, anchor: &str) -> Value {
    json!({"allOf": [reference(name)], "description": format!("{sentence} More info: {CONVENTIONS}#{anchor}")})
}

/// The fields of every resource, with the descriptions that kubectl shows.
fn type_meta() -> Map<String, Value> {
    let text = |sentences: &str, anchor: &str| json!({"type": "string", "description": format!("{sentences} More info: {CONVENTIONS}#{anchor}")});
    let api_version = "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
        recognized schemas to the latest internal value, and may reject unrecognized values.";
    let kind = "Kind is a string value representing the REST resource this object represents. Servers may infer this from \
        the endpoint the client submits requests to. Cannot be updated. In CamelCase.";
    Map::from_iter([
        ("apiVersion".to_owned(), text(api_version, "resources")),
        ("kind".to_owned(), text(kind, "types-kinds")),
        ("metadata".to_owned(), described("ObjectMeta", "Standard object's metadata.", "metadata")),
    ])
}

fn insert_properties(schema: &mut Map<String, Value>, more: Map<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.extend(more);
    }
}

fn node(schema: &Value) -> Map<String, Value> {
    let is_set = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    let fields = schema.as_object().into_iter().flatten();
    let mut published: Map<String, Value> = fields
        .filter(|(name, value)| {
            **value != Value::Bool(false) || *name == "default" || *name == "additionalProperties"
        })
        .map(|(name, value)| {
            let value = match (name.as_str(), value) {
                ("properties", Value::Object(properties)) => properties
                    .iter()
                    .map(|(name, property)| (name.clone(), Value::Object(node(property))))
                    .collect(),
                ("items" | "additionalProperties", Value::Object(_)) => Value::Object(node(value)),
                _ => value.clone(),
            };
            (name.clone(), value)
        })
        .collect();
    if is_set("x-kubernetes-int-or-string") {
        unfold(&mut published);
    }
    if is_set("x-kubernetes-embedded-resource") {
        embed(&mut published);
    }
    published
}

/// Says by `anyOf` that a value is an integer or a string.
fn unfold(schema: &mut Map<String, Value>) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let first = schema.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf"));
    if schema.get("anyOf") == Some(&either) || first == Some(&either) {
        return;
    }
    if !schema.contains_key("anyOf") {
        schema.insert("anyOf".into(), either);
        return;
    }
    let all = schema.entry("allOf").or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut() {
        all.insert(0, json!({"anyOf": either}));
    }
}

/// Adds the fields of an embedded resource.
fn embed(schema: &mut Map<String, Value>) {
    let mut fields = type_meta();
    let sentences = [
        (
            "apiVersion",
            "apiVersion defines the versioned schema of this representation of an object.",
            "resources",
        ),
        ("kind", "kind is a string value representing the type of this object. In CamelCase.", "types-kinds"),
    ];
    for (name, sentence, anchor) in sentences {
        let description = format!("{sentence} More info: {CONVENTIONS}#{anchor}");
        fields.insert(name.into(), json!({"type": "string", "description": description}));
    }
    insert_properties(schema, fields);
    let required = schema.entry("required").or_insert_with(|| json!([]));
    for name in ["kind", "apiVersion"] {
        if let Some(names) = required.as_array_mut().filter(|names| !names.contains(&name.into())) {
            names.push(name.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: E-02g
    #[test]
    fn schemas_are_published_as_by_kubernetes() {
        let schema = json!({"type": "object", "properties": {
            "port": {"x-kubernetes-int-or-string": true, "nullable": false, "default": false},
            "size": {"x-kubernetes-int-or-string": true, "anyOf": [{"minimum": 1}]},
            "map": {"type": "object", "additionalProperties": {"type": "object", "x-kubernetes-embedded-resource": true}}}});
        let published = Value::Object(published(&schema));
        let property = |path: &str| published.pointer(&format!("/properties/{path}"));
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let port = json!({"x-kubernetes-int-or-string": true, "default": false, "anyOf": either});
        assert_eq!(property("port"), Some(&port));
        assert_eq!(property("size/allOf"), Some(&json!([{"anyOf": either}])));
        let meta = json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]);
        assert_eq!(property("metadata/allOf"), Some(&meta));
        let embedded = "map/additionalProperties";
        assert_eq!(property(&format!("{embedded}/properties/metadata/allOf")), Some(&meta));
        assert_eq!(property(&format!("{embedded}/required")), Some(&json!(["kind", "apiVersion"])));
    }
}
