//! Kubernetes' protobuf: request bodies, as the typed clients of Go send them, decoded into the JSON they stand
//! for; and answers for the clients that want them so, where the server was told to offer it.
//!
//! What the messages look like says `schema.txt`, made by `codegen/main.go` from the struct tags of `k8s.io/api`
//! 0.37.

mod encode;
mod schema;
mod value;
mod wire;

use serde_json::{Map, Value};

use schema::SCHEMA;
use wire::{Fields, Malformed};

/// The media type of these bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";

/// Why a body could not be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the body does not begin as Kubernetes protobuf does")]
    Magic,
    #[error("no kind {kind:?} is known for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    #[error("proto: {0}")]
    Malformed(#[from] Malformed),
}

/// Decodes a body into the object it holds.
pub(crate) fn decode(body: &[u8]) -> Result<Map<String, Value>, Error> {
    let message = body.strip_prefix(MAGIC).ok_or(Error::Magic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), [].as_slice());
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => {
                for field in Fields::of(field.bytes()?) {
                    let field = field?;
                    match field.number {
                        1 => api_version = field.text()?,
                        2 => kind = field.text()?,
                        _ => {}
                    }
                }
            }
            2 => raw = field.bytes()?,
            _ => {}
        }
    }
    let Some(message) = SCHEMA.of_kind(&api_version, &kind) else {
        return Err(Error::UnknownKind { api_version, kind });
    };
    let mut object = Map::new();
    value::message(&mut object, message, raw, 0)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(object)
}

/// Whether objects of this kind have a protobuf form.
pub(crate) fn knows(api_version: &str, kind: &str) -> bool {
    SCHEMA.of_kind(api_version, kind).is_some()
}

/// The message of an object, without its type; `None` for a kind that has none.
pub(crate) fn message(api_version: &str, kind: &str, object: &Map<String, Value>) -> Option<Vec<u8>> {
    let schema = SCHEMA.of_kind(api_version, kind)?;
    let mut out = Vec::new();
    encode::message(&mut out, schema, object);
    Some(out)
}

/// The message of a `PartialObjectMetadata` with this metadata.
pub(crate) fn metadata_message(metadata: &Value) -> Vec<u8> {
    // Any kind has its metadata in field 1; this one has nothing else that is encoded.
    let mut object = Map::new();
    object.insert("metadata".into(), metadata.clone());
    message("v1", "ConfigMap", &object).unwrap_or_default()
}

/// A message with its type, as a body of its own.
pub(crate) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind, message.len());
    out.extend_from_slice(message);
    out.extend_from_slice(ENVELOPE_END);
    out
}

/// No content encoding and no content type, which Go always says.
const ENVELOPE_END: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

fn envelope_head(api_version: &str, kind: &str, message_length: usize) -> Vec<u8> {
    let mut type_meta = Vec::new();
    encode::bytes(&mut type_meta, 1, api_version.as_bytes());
    encode::bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    encode::bytes(&mut out, 1, &type_meta);
    encode::varint(&mut out, 2 << 3 | 2);
    encode::varint(&mut out, message_length as u64);
    out
}

/// What a list says of itself.
pub(crate) struct ListMeta<'a> {
    pub(crate) version: u64,
    pub(crate) continue_token: Option<&'a str>,
    pub(crate) remaining: Option<usize>,
}

/// A list: its metadata in field 1, its items in field 2.
pub(crate) fn list(api_version: &str, kind: &str, meta: &ListMeta<'_>, items: &[bytes::Bytes]) -> Vec<u8> {
    let mut metadata = Vec::new();
    encode::bytes(&mut metadata, 1, b"");
    encode::bytes(&mut metadata, 2, meta.version.to_string().as_bytes());
    encode::bytes(&mut metadata, 3, meta.continue_token.unwrap_or("").as_bytes());
    if let Some(remaining) = meta.remaining {
        encode::number(&mut metadata, 4, remaining as u64);
    }
    let length = encode::size_of_bytes(metadata.len())
        + items.iter().map(|item| encode::size_of_bytes(item.len())).sum::<usize>();
    let mut out = envelope_head(api_version, kind, length);
    out.reserve(length + ENVELOPE_END.len());
    encode::bytes(&mut out, 1, &metadata);
    items.iter().for_each(|item| encode::bytes(&mut out, 2, item));
    out.extend_from_slice(ENVELOPE_END);
    out
}

/// A frame of a watch: the length in four bytes, then the event with the object's envelope in it.
pub(crate) fn watch_frame(out: &mut Vec<u8>, event: &str, envelope: &[u8]) {
    let mut raw = Vec::with_capacity(envelope.len() + 8);
    encode::bytes(&mut raw, 1, envelope);
    let mut message = Vec::with_capacity(raw.len() + 24);
    encode::bytes(&mut message, 1, event.as_bytes());
    encode::bytes(&mut message, 2, &raw);
    // A frame is a single object, which is far below four gigabytes.
    out.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// A field with bytes in it.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        out.push(u8::try_from(length).unwrap());
        out.extend_from_slice(bytes);
        out
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw)].concat()
    }

    #[test]
    fn a_pod_with_what_is_special_in_it() {
        let label = [field(1, b"app"), field(2, b"web")].concat();
        // Zero values that Go writes and JSON leaves out: an empty generateName, generation 0, a zero time.
        let zeros = [field(2, b""), vec![7 << 3, 0], field(8, b"")].concat();
        let deleted = [vec![1 << 3], vec![0x80, 0x9a, 0xc3, 0x9d, 0x06]].concat();
        let metadata = [field(1, b"a"), zeros, field(9, &deleted), field(11, &label)].concat();
        let quantity = [field(1, b"cpu"), field(2, &field(1, b"100m"))].concat();
        let resources = field(2, &quantity);
        let port = [vec![3 << 3, 0x90, 0x3f]].concat();
        let http = field(2, &[vec![1 << 3, 1], field(3, b"web")].concat());
        let probe = field(1, &field(2, &http));
        let container = [field(1, b"c"), field(6, &port), field(8, &resources), field(10, &probe)].concat();
        let raw = [field(1, &metadata), field(2, &field(2, &container))].concat();
        let object = decode(&body("v1", "Pod", &raw)).unwrap();
        assert_eq!(
            Value::Object(object),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a", "deletionTimestamp": "2023-01-01T00:00:00Z", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 8080}],
                    "resources": {"requests": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"port": "web"}}}]}})
        );
    }

    #[test]
    fn what_is_encoded_is_decoded_again() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "labels": {"x": "y", "": ""}, "creationTimestamp": "2023-01-01T00:00:00Z",
                "generation": -1, "finalizers": ["f"]},
            "spec": {"containers": [{"name": "c", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
                "resources": {"limits": {"cpu": "1"}}, "livenessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 3}}],
                "volumes": [{"name": "v", "emptyDir": {}}], "hostNetwork": true, "priority": 0}});
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {"holderIdentity": "me", "renewTime": "2023-01-01T00:00:00.000001Z"}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "d"}, "spec": {"group": "g", "versions": [{"name": "v1", "served": true, "storage": false,
                "schema": {"openAPIV3Schema": {"default": {"a": [1, null]}, "maximum": 0.5,
                    "items": {"type": "string"}, "additionalProperties": false}}}]}});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "AAH/"}});
        for object in [pod, lease, definition, secret] {
            let map = object.as_object().unwrap();
            let (api_version, kind) = (map["apiVersion"].as_str().unwrap(), map["kind"].as_str().unwrap());
            let bytes = envelope(api_version, kind, &message(api_version, kind, map).unwrap());
            assert_eq!(Value::Object(decode(&bytes).unwrap()), object);
        }
        assert_eq!(message("example.com/v1", "Widget", &Map::new()), None);
    }

    /// Leaves out what Go writes for nothing: null, and empty lists and objects.
    fn without_empties(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.values_mut().for_each(without_empties);
                map.retain(|_, value| *value != json!(null) && *value != json!({}) && *value != json!([]));
            }
            Value::Array(list) => list.iter_mut().for_each(without_empties),
            // 3.0 and 3 are one number; JSON written by Go does not tell them apart.
            Value::Number(number) => {
                let float = number.as_f64().unwrap();
                if float.fract() == 0.0 && float.abs() < 1e15 {
                    *value = json!(float as i64);
                }
            }
            _ => {}
        }
    }

    // `protobuf.bin`: one random object of almost every kind, as Go's types of `k8s.io/api` 0.37 write it in
    // protobuf and in JSON; each part with its length, four bytes, before it.
    #[test]
    fn what_go_writes_reads_as_go_says() {
        let mut rest = include_bytes!("../../tests/data/protobuf.bin").as_slice();
        let mut kinds = 0;
        while !rest.is_empty() {
            let [protobuf, expected] = std::array::from_fn(|_| {
                let (head, tail) = rest.split_first_chunk::<4>().unwrap();
                let (part, tail) = tail.split_at(usize::try_from(u32::from_le_bytes(*head)).unwrap());
                rest = tail;
                part
            });
            let decoded = decode(protobuf).unwrap();
            let text = |member: &str| decoded[member].as_str().unwrap();
            let message = message(text("apiVersion"), text("kind"), &decoded).unwrap();
            let again = decode(&envelope(text("apiVersion"), text("kind"), &message)).unwrap();
            assert_eq!(again, decoded, "encoding it keeps it");
            let (mut decoded, mut expected) =
                (Value::Object(decoded.clone()), serde_json::from_slice::<Value>(expected).unwrap());
            without_empties(&mut decoded);
            without_empties(&mut expected);
            assert_eq!(decoded, expected);
            kinds += 1;
        }
        assert_eq!(kinds, 56);
    }

    #[test]
    fn what_is_not_decoded() {
        assert!(matches!(decode(b"{}"), Err(Error::Magic)));
        assert!(matches!(decode(&body("v9", "Pod", b"")), Err(Error::UnknownKind { .. })));
        assert!(matches!(decode(&body("v1", "Pod", &[0x0a, 0xff])), Err(Error::Malformed(_))));
        assert_eq!(decode(&body("apps/v1", "DeleteOptions", b"")).unwrap()["kind"], "DeleteOptions");
        // A schema that is its own property, deeper than anyone means it.
        let mut schema = Vec::new();
        for _ in 0..200 {
            schema = field(28, &schema);
        }
        let spec = field(2, &field(7, &field(4, &field(1, &schema))));
        assert!(decode(&body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &spec)).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            for kind in ["Pod", "Node", "Secret"] {
                let _ = decode(&body("v1", kind, &raw));
            }
            let _ = decode(&raw);
        }
    }
}
