//! The types that the fields of built-in kinds have in JSON.
//!
//! The table of message layouts has no named strings and no widths of numbers, so the messages name the type `string`
//! where kube-apiserver names one such as `v1.PullPolicy`.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use crate::builtin::quantity_fault;

use super::schema::{Base, Card, FieldType, Message, SCHEMA};

const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The fields of 64 bits; other integers have 32.
const LONG: [&str; 30] = [
    "activeDeadlineSeconds",
    "deletionGracePeriodSeconds",
    "expirationSeconds",
    "fsGroup",
    "generation",
    "gid",
    "gracePeriodSeconds",
    "ints",
    "limitBytes",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "minProperties",
    "nodeAllocatableUpdatePeriodSeconds",
    "observedGeneration",
    "remainingItemCount",
    "resourceSliceCount",
    "revision",
    "runAsGroup",
    "runAsUser",
    "seconds",
    "sizeBytes",
    "startingDeadlineSeconds",
    "supplementalGroups",
    "templateGeneration",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
    "uid",
];

/// Whose words a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// Of a JSON body.
    Json,
    /// Of the result of a strategic merge patch (`runtime.DefaultUnstructuredConverter`).
    Unstructured,
}

/// Returns why an object of a built-in kind cannot be decoded, if a field has a value of another type.
///
/// Follows Kubernetes 1.37 (`sigs.k8s.io/json`).
pub(crate) fn type_fault(
    api_version: &str,
    kind: &str,
    object: &Map<String, Value>,
    decoder: Decoder,
) -> Option<String> {
    let message = SCHEMA.of_kind(api_version, kind)?;
    let mut check = Check { decoder, path: Vec::new(), parent: kind };
    check.message(message, kind, object).err()
}

/// Returns why the metadata of a custom object cannot be decoded.
pub(crate) fn metadata_fault(metadata: &Value) -> Option<String> {
    let found = SCHEMA.of_kind("v1", "ConfigMap")?.find("metadata")?;
    let Base::Message(index) = found.base else { return None };
    match metadata {
        Value::Null => None,
        Value::Object(metadata) => {
            let message = SCHEMA.message(index)?;
            let mut check = Check { decoder: Decoder::Json, path: Vec::new(), parent: message.name() };
            check.message(message, message.name(), metadata).err()
        }
        other => Some(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            json_type(other, "")
        )),
    }
}

struct Check<'a> {
    decoder: Decoder,
    /// The names of the fields, without keys of maps and indices.
    path: Vec<&'a str>,
    /// The struct that has the last field.
    parent: &'a str,
}

impl<'a> Check<'a> {
    fn message(
        &mut self,
        message: &'a Message,
        name: &'a str,
        object: &'a Map<String, Value>,
    ) -> Result<(), String> {
        for (member, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            let Some(field) = message.find(member) else { continue };
            let parent = std::mem::replace(&mut self.parent, name);
            self.path.push(member);
            self.field(field, value)?;
            self.path.pop();
            self.parent = parent;
        }
        Ok(())
    }

    fn field(&mut self, field: &'a FieldType, value: &'a Value) -> Result<(), String> {
        match (field.card, value) {
            (Card::One, value) => self.value(field.base, value),
            (Card::Repeated, Value::Array(items)) => {
                items.iter().filter(|item| !item.is_null()).try_for_each(|item| self.value(field.base, item))
            }
            (Card::Map, Value::Object(members)) => {
                let mut values = members.values().filter(|value| !value.is_null());
                values.try_for_each(|value| self.value(field.base, value))
            }
            (Card::Repeated, other) => {
                Err(self.mismatch(other, &format!("[]{}", self.name(field.base)), "slice"))
            }
            (Card::Map, other) => {
                Err(self.mismatch(other, &format!("map[string]{}", self.name(field.base)), "map"))
            }
        }
    }

    fn value(&mut self, base: Base, value: &'a Value) -> Result<(), String> {
        let fits = match base {
            Base::Json => true,
            Base::Text => value.is_string(),
            Base::Bool => value.is_boolean(),
            Base::Double => value.is_number(),
            Base::Int => self.is_int(value),
            Base::Bytes => return self.bytes(value),
            Base::Time | Base::MicroTime => return self.time(value),
            Base::Quantity => return self.quantity(value),
            Base::IntOrString => value.is_string() || is_int32(value),
            Base::TextList => {
                let Value::Array(items) = value else {
                    return Err(self.mismatch(value, "[]string", "slice"));
                };
                match items.iter().find(|item| !item.is_string() && !item.is_null()) {
                    Some(item) => return Err(self.mismatch(item, "string", "string")),
                    None => true,
                }
            }
            Base::Message(index) => {
                let Value::Object(object) = value else {
                    return Err(self.mismatch(value, &self.name(base), "struct"));
                };
                let Some(message) = SCHEMA.message(index) else { return Ok(()) };
                return self.message(message, message.name(), object);
            }
            // They decode whatever they have.
            Base::SchemaOrArray(_) | Base::SchemaOrBool(_) | Base::SchemaOrStrings(_) => true,
        };
        if fits { Ok(()) } else { Err(self.mismatch(value, &self.name(base), &self.name(base))) }
    }

    fn name(&self, base: Base) -> String {
        match base {
            Base::Text | Base::IntOrString | Base::Quantity | Base::Time | Base::MicroTime => "string".into(),
            Base::Bytes => "[]uint8".into(),
            Base::Bool => "bool".into(),
            Base::Int if self.is_long() => "int64".into(),
            Base::Int => "int32".into(),
            Base::Double => "float64".into(),
            Base::TextList => "[]string".into(),
            Base::Json => "interface {}".into(),
            Base::Message(index)
            | Base::SchemaOrArray(index)
            | Base::SchemaOrBool(index)
            | Base::SchemaOrStrings(index) => {
                SCHEMA.message(index).map(|message| format!("v1.{}", message.name())).unwrap_or_default()
            }
        }
    }

    fn is_long(&self) -> bool {
        self.path.last().is_some_and(|name| LONG.contains(name))
    }

    fn is_int(&self, value: &Value) -> bool {
        let is_whole = self.decoder == Decoder::Unstructured
            && value.as_f64().is_some_and(|number| number.is_finite() && number.fract() == 0.0);
        is_whole || (if self.is_long() { value.is_i64() } else { is_int32(value) })
    }

    fn bytes(&self, value: &Value) -> Result<(), String> {
        let Value::String(text) = value else { return Err(self.mismatch(value, "[]uint8", "slice")) };
        let Err(error) = BASE64.decode(text.replace(['\r', '\n'], "")) else { return Ok(()) };
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(length) => length - length % 4,
            base64::DecodeError::InvalidPadding => text.len() - text.len() % 4,
        };
        Err(match self.decoder {
            Decoder::Json => format!("illegal base64 data at input byte {at}"),
            Decoder::Unstructured => {
                format!("error decoding from json: illegal base64 data at input byte {at}")
            }
        })
    }

    fn quantity(&self, value: &Value) -> Result<(), String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            // the decoder of quantities reads the text of any value
            other => other.to_string(),
        };
        let Some(fault) = quantity_fault(&text) else { return Ok(()) };
        Err(match self.decoder {
            Decoder::Json => fault.message().to_owned(),
            Decoder::Unstructured => format!("error decoding from json: {}", fault.message()),
        })
    }

    fn time(&self, value: &Value) -> Result<(), String> {
        let Value::String(text) = value else { return Err(self.mismatch(value, "string", "string")) };
        if text.parse::<jiff::Timestamp>().is_ok() {
            return Ok(());
        }
        let layout = "2006-01-02T15:04:05Z07:00";
        Err(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
    }

    fn mismatch(&self, value: &Value, of: &str, form: &str) -> String {
        match self.decoder {
            Decoder::Json => {
                let (parent, path, value) = (self.parent, self.path.join("."), json_type(value, of));
                format!("json: cannot unmarshal {value} into Go struct field {parent}.{path} of type {of}")
            }
            Decoder::Unstructured => {
                let found = go_type(value);
                match form {
                    "map" | "slice" => format!("cannot restore {form} from {found}"),
                    "struct" => format!("cannot restore struct from: {found}"),
                    "string" if found == "int64" => format!("cannot convert {found} to string"),
                    "int32" | "int64" if value.is_number() => format!("cannot convert {found} to {form}"),
                    _ => format!("unrecognized type: {form}"),
                }
            }
        }
    }
}

fn is_int32(value: &Value) -> bool {
    value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

/// The type of a value in an error about a field of this type.
pub(crate) fn json_type(value: &Value, of: &str) -> String {
    match value {
        Value::Number(number) if of.starts_with("int") => format!("number {number}"),
        Value::Number(_) => "number".into(),
        Value::Object(_) => "object".into(),
        Value::Array(_) => "array".into(),
        Value::String(_) => "string".into(),
        Value::Bool(_) => "bool".into(),
        Value::Null => "null".into(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Object(_) => "map",
        Value::Array(_) => "slice",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Null => "invalid",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fault(api_version: &str, kind: &str, object: &Value, decoder: Decoder) -> String {
        type_fault(api_version, kind, object.as_object().unwrap(), decoder).unwrap_or_default()
    }

    /// A type, a body, and the messages of both decoders.
    #[rustfmt::skip]
    const CASES: &[(&str, &str, &str, &str, &str)] = &[
        ("v1", "ConfigMap", r#"{"data": {"a": 1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            "cannot convert int64 to string"),
        ("v1", "ConfigMap", r#"{"immutable": "yes"}"#,
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
            "unrecognized type: bool"),
        ("v1", "ConfigMap", r#"{"data": []}"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
            "cannot restore map from slice"),
        ("v1", "ConfigMap", r#"{"metadata": 1}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
            "cannot restore struct from: int64"),
        ("v1", "Secret", r#"{"data": {"b": "%%%"}}"#,
            "illegal base64 data at input byte 0",
            "error decoding from json: illegal base64 data at input byte 0"),
        ("apps/v1", "StatefulSet", r#"{"spec": {"replicas": "three"}}"#,
            "json: cannot unmarshal string into Go struct field StatefulSetSpec.spec.replicas of type int32",
            "unrecognized type: int32"),
        ("apps/v1", "StatefulSet", r#"{"spec": {"replicas": 3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field StatefulSetSpec.spec.replicas of type int32",
            ""),
        ("v1", "Pod", r#"{"spec": {"containers": [{"name": "a"}, {"name": 1}]}}"#,
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
            "cannot convert int64 to string"),
    ];

    // contract: E-01t
    #[test]
    fn fields_of_another_type_are_named() {
        for (api_version, kind, object, json, unstructured) in CASES {
            let object = serde_json::from_str(object).unwrap();
            assert_eq!(&fault(api_version, kind, &object, Decoder::Json), json);
            assert_eq!(&fault(api_version, kind, &object, Decoder::Unstructured), unstructured);
        }
    }

    #[test]
    fn fields_of_their_types_are_accepted() {
        let pod = json!({"metadata": {"name": "a", "generation": 5_000_000_000_i64, "labels": null,
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"fieldsV1": {"f:a": {}}}]},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": "http"}}, "readinessProbe": {"httpGet": {"port": 80}}}],
                "volumes": [{"name": "v", "configMap": {"name": "m"}}], "other": {}}});
        assert_eq!(fault("v1", "Pod", &pod, Decoder::Json), "");
        assert_eq!(fault("example.com/v1", "Widget", &pod, Decoder::Json), "");
    }
}
