//! Request bodies in protobuf, as the typed clients of Go send them: decoded into the JSON they stand for.
//!
//! What the messages look like says `schema.txt`, made by reflection over the struct tags of `k8s.io/api`
//! 0.37. Answers are never in protobuf.

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
