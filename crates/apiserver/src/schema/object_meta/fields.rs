//! The fields of an `ObjectMeta` and their types.

use serde_json::{Map, Value, json};

/// The type of a field.
#[derive(Clone, Copy)]
enum Of {
    Text,
    /// A text that Go does not omit.
    Required,
    Int,
    /// An integer that may be 0.
    Pointer,
    Flag,
    Time,
    /// A map of strings.
    Texts,
    /// A list of strings.
    Names,
    List(&'static str, &'static [(&'static str, Of)]),
    Free,
}

const META: &[(&str, Of)] = &[
    ("annotations", Of::Texts),
    ("creationTimestamp", Of::Time),
    ("deletionGracePeriodSeconds", Of::Pointer),
    ("deletionTimestamp", Of::Time),
    ("finalizers", Of::Names),
    ("generateName", Of::Text),
    ("generation", Of::Int),
    ("labels", Of::Texts),
    ("managedFields", Of::List("ManagedFieldsEntry", ENTRY)),
    ("name", Of::Text),
    ("namespace", Of::Text),
    ("ownerReferences", Of::List("OwnerReference", OWNER)),
    ("resourceVersion", Of::Text),
    ("selfLink", Of::Text),
    ("uid", Of::Text),
];

const OWNER: &[(&str, Of)] = &[
    ("apiVersion", Of::Required),
    ("blockOwnerDeletion", Of::Flag),
    ("controller", Of::Flag),
    ("kind", Of::Required),
    ("name", Of::Required),
    ("uid", Of::Required),
];

const ENTRY: &[(&str, Of)] = &[
    ("apiVersion", Of::Text),
    ("fieldsType", Of::Text),
    ("fieldsV1", Of::Free),
    ("manager", Of::Text),
    ("operation", Of::Text),
    ("subresource", Of::Text),
    ("time", Of::Time),
];

/// How the names of the types of `meta/v1` begin in OpenAPI.
pub(in crate::schema) const PREFIX: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Returns a reference to a type of `meta/v1`.
pub(in crate::schema) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{PREFIX}{name}")})
}

/// Returns an `ObjectMeta` and the types of its fields in OpenAPI.
pub(in crate::schema) fn definitions() -> impl Iterator<Item = (&'static str, Value)> {
    let types = [("ObjectMeta", META), ("ManagedFieldsEntry", ENTRY), ("OwnerReference", OWNER)];
    types.into_iter().map(|(name, fields)| {
        let properties: Map<String, Value> =
            fields.iter().map(|(name, of)| ((*name).to_owned(), property(*of))).collect();
        let required = fields.iter().filter(|(_, of)| matches!(of, Of::Required)).map(|(name, _)| *name);
        let mut schema = json!({"type": "object", "properties": properties});
        let required: Vec<&str> = required.collect();
        if let Some(schema) = schema.as_object_mut().filter(|_| !required.is_empty()) {
            schema.insert("required".into(), json!(required));
        }
        (name, schema)
    })
}

fn property(of: Of) -> Value {
    match of {
        Of::Text | Of::Required => json!({"type": "string"}),
        Of::Int | Of::Pointer => json!({"type": "integer", "format": "int64"}),
        Of::Flag => json!({"type": "boolean"}),
        Of::Time => json!({"type": "string", "format": "date-time"}),
        Of::Texts => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Of::Names => json!({"type": "array", "items": {"type": "string"}}),
        Of::List(name, _) => json!({"type": "array", "items": reference(name)}),
        Of::Free => json!({"type": "object"}),
    }
}

/// Removes the fields that an `ObjectMeta` does not have.
pub(in crate::schema) fn restrict(metadata: &mut Map<String, Value>) {
    let is_known = |types: &[(&str, Of)], name: &str| types.iter().any(|(known, _)| *known == name);
    metadata.retain(|name, _| is_known(META, name));
    let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten().filter_map(Value::as_object_mut) {
        owner.retain(|name, _| is_known(OWNER, name));
    }
}

/// Returns a value as an `ObjectMeta`: without other fields, whose paths are added to `removed`, and without empty ones.
///
/// # Errors
/// The message of Go for a value of a wrong type.
pub(super) fn typed(value: &Value, removed: &mut Vec<String>) -> Result<Map<String, Value>, String> {
    match value {
        Value::Null => Ok(Map::new()),
        Value::Object(fields) => object(fields, META, "ObjectMeta", "", removed),
        other => {
            Err(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", json_type(other)))
        }
    }
}

/// Returns the fields of a metadata that have the right types, as [`typed`] does.
pub(super) fn fitting(metadata: &Map<String, Value>) -> Map<String, Value> {
    let one = |(name, value): (&String, &Value)| {
        let field = Map::from_iter([(name.clone(), value.clone())]);
        object(&field, META, "ObjectMeta", "", &mut Vec::new()).ok()
    };
    metadata.iter().filter_map(one).flatten().collect()
}

fn object(
    fields: &Map<String, Value>,
    types: &[(&str, Of)],
    go_type: &str,
    path: &str,
    removed: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut result = Map::new();
    for (name, value) in fields {
        let path = || if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let Some((_, of)) = types.iter().find(|(known, _)| known == name) else {
            removed.push(path());
            continue;
        };
        if value.is_null() {
            continue;
        }
        let fits = match (of, value) {
            (Of::List(item, types), Value::Array(items)) => {
                list(items, (item, types), go_type, &path(), removed)?
            }
            _ => scalar(*of, value)
                .map_err(|expected| wrong_type(value, &format!("{go_type}.{}", path()), &expected))?,
        };
        if !is_omitted(*of, &fits) {
            result.insert(name.clone(), fits);
        }
    }
    for (name, _) in types.iter().filter(|(_, of)| matches!(of, Of::Required)) {
        result.entry(*name).or_insert_with(|| "".into());
    }
    Ok(result)
}

fn wrong_type(value: &Value, field: &str, expected: &str) -> String {
    let given = json_type(value);
    format!("json: cannot unmarshal {given} into Go struct field {field} of type {expected}")
}

fn list(
    items: &[Value],
    (item, types): (&str, &[(&str, Of)]),
    go_type: &str,
    path: &str,
    removed: &mut Vec<String>,
) -> Result<Value, String> {
    let mut result = Vec::with_capacity(items.len());
    for (index, value) in items.iter().enumerate() {
        let empty = Map::new();
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Null => &empty,
            _ => return Err(wrong_type(value, &format!("{go_type}.{path}"), &format!("v1.{item}"))),
        };
        let typed = object(fields, types, item, &format!("{path}[{index}]"), removed)?;
        result.push(Value::Object(typed));
    }
    Ok(Value::Array(result))
}

/// # Errors
/// The type that the value should have.
fn scalar(of: Of, value: &Value) -> Result<Value, String> {
    let fits = match of {
        Of::Text | Of::Required => value.is_string(),
        Of::Int | Of::Pointer => value.is_i64(),
        Of::Flag => value.is_boolean(),
        Of::Free => true,
        Of::Time => {
            let time = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let time = time.ok_or("v1.Time")?;
            return Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
        }
        Of::Texts => return texts(value),
        Of::Names => {
            let items = value.as_array().ok_or("[]string")?;
            if items.iter().any(|item| !item.is_string() && !item.is_null()) {
                return Err("string".into());
            }
            return Ok(items.iter().map(|item| item.as_str().unwrap_or("")).collect());
        }
        Of::List(..) => false,
    };
    let expected = || match of {
        Of::Int | Of::Pointer => "int64".to_owned(),
        Of::Flag => "bool".to_owned(),
        Of::List(item, _) => format!("[]v1.{item}"),
        _ => "string".to_owned(),
    };
    if fits { Ok(value.clone()) } else { Err(expected()) }
}

fn texts(value: &Value) -> Result<Value, String> {
    let map = value.as_object().ok_or("map[string]string")?;
    if map.values().any(|value| !value.is_string() && !value.is_null()) {
        return Err("string".into());
    }
    Ok(map.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str().unwrap_or("")))).collect())
}

/// Whether Go omits a value.
fn is_omitted(of: Of, value: &Value) -> bool {
    match (of, value) {
        (Of::Required | Of::Pointer | Of::Free, _) => false,
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Object(fields)) => fields.is_empty(),
        (_, Value::Number(number)) => number.as_i64() == Some(0),
        _ => false,
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
