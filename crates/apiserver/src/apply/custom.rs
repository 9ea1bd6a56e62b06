//! The types of custom resources, from the schema of a CustomResourceDefinition.

use serde_json::{Map, Value};

use super::schema::{
    ATOMIC, Atom, BOOLEAN, DEDUCED, FieldType, ListKind, ListType, MapType, NUMERIC, SCALAR, STRING, Scalar,
    Schema, TypeRef,
};

/// How deep a schema may be nested. Deeper values are merged without a schema.
const MAX_DEPTH: usize = 100;

/// Returns the types of a custom resource in all its versions. The fields of a version without a schema are merged by
/// their values.
///
/// Follows Kubernetes 1.37 (`schemaconv.ToSchemaFromOpenAPI`).
pub(crate) fn schema_of_definition<'a>(
    kind: &str,
    versions: impl Iterator<Item = (String, Option<&'a Value>)>,
) -> Schema {
    let mut types = Schema::extending();
    for (api_version, definition) in versions {
        let of = match definition {
            Some(definition) => Converter { types: &mut types }.root(definition),
            None => DEDUCED,
        };
        types.set_kind(&api_version, kind, of);
    }
    types
}

/// Whether fields that are not declared are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Refused,
    Kept,
}

impl Unknown {
    fn of(schema: &Value, parent: Self) -> Self {
        let is_kept = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        if is_kept { Self::Kept } else { parent }
    }
}

struct Converter<'a> {
    types: &'a mut Schema,
}

impl Converter<'_> {
    /// The fields that every object has.
    fn object_fields() -> [FieldType; 3] {
        [
            FieldType::new("apiVersion", STRING),
            FieldType::new("kind", STRING),
            FieldType::new("metadata", Schema::object_meta()),
        ]
    }

    fn root(&mut self, schema: &Value) -> TypeRef {
        let unknown = Unknown::of(schema, Unknown::Refused);
        let mut fields = self.map(schema, unknown, 0);
        fields.retain(|field| !matches!(field.name.as_ref(), "apiVersion" | "kind" | "metadata"));
        fields.extend(Self::object_fields());
        let element = self.element(schema, unknown, 0);
        let map = MapType::new(element, is_atomic_map(schema), fields);
        self.types.add(Atom { map: Some(map), ..Atom::default() })
    }

    fn reference(&mut self, schema: &Value, unknown: Unknown, depth: usize) -> TypeRef {
        if depth > MAX_DEPTH {
            return DEDUCED;
        }
        let unknown = Unknown::of(schema, unknown);
        match text(schema, "type") {
            "integer" | "number" => NUMERIC,
            "boolean" => BOOLEAN,
            "string" if matches!(text(schema, "format"), "" | "byte") => STRING,
            "string" => SCALAR,
            "object" => {
                let map = self.map_type(schema, unknown, depth);
                self.types.add(Atom { map: Some(map), ..Atom::default() })
            }
            "array" => {
                let list = self.list_type(schema, unknown, depth);
                self.types.add(Atom { list: Some(list), ..Atom::default() })
            }
            _ => {
                let list = self.list_type(schema, unknown, depth);
                let map = self.map_type(schema, unknown, depth);
                self.types.add(Atom { scalar: Some(Scalar::Untyped), list: Some(list), map: Some(map) })
            }
        }
    }

    fn map_type(&mut self, schema: &Value, unknown: Unknown, depth: usize) -> MapType {
        let mut fields = self.map(schema, unknown, depth);
        if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
            fields.retain(|field| !matches!(field.name.as_ref(), "apiVersion" | "kind" | "metadata"));
            fields.extend(Self::object_fields());
        }
        let element = self.element(schema, unknown, depth);
        MapType::new(element, is_atomic_map(schema), fields)
    }

    fn map(&mut self, schema: &Value, unknown: Unknown, depth: usize) -> Vec<FieldType> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut fields = Vec::new();
        for (name, property) in properties.into_iter().flatten() {
            let of = self.reference(property, unknown, depth + 1);
            let is_nullable = property.get("nullable") == Some(&Value::Bool(true));
            let default = property.get("default").cloned();
            fields.push(FieldType { default, is_nullable, ..FieldType::new(name.clone(), of) });
        }
        fields
    }

    /// The type of the fields that are not declared.
    fn element(&mut self, schema: &Value, unknown: Unknown, depth: usize) -> Option<TypeRef> {
        match schema.get("additionalProperties") {
            Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(DEDUCED),
            Some(values) => Some(self.reference(values, unknown, depth + 1)),
            None => {
                let is_free = schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
                (is_free || unknown == Unknown::Kept).then_some(DEDUCED)
            }
        }
    }

    fn list_type(&mut self, schema: &Value, unknown: Unknown, depth: usize) -> ListType {
        let kind = match text(schema, "x-kubernetes-list-type") {
            "set" => ListKind::Set,
            "map" => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                ListKind::Keys(keys.map(|key| key.to_owned().into()).collect())
            }
            _ => ListKind::Atomic,
        };
        let element = match schema.get("items") {
            Some(items) => self.reference(items, unknown, depth + 1),
            None => ATOMIC,
        };
        ListType { element: Some(element), kind }
    }
}

fn is_atomic_map(schema: &Value) -> bool {
    text(schema, "x-kubernetes-map-type") == "atomic"
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or("")
}
