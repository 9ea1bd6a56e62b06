//! Nested objects on the 2 MiB stack of a tokio thread: they decode, or are a typed error.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer_wire::{Encoding, Error, FieldPath, FromWire, ObjectDecoder, Packed};
use serde::Deserialize;
use serde_json::Value;

use crate::common::field;

const STACK: usize = 2 * 1024 * 1024;
/// Numbers of levels, up to the limit of serde_json and beyond it.
const DEEP: [usize; 6] = [1, 40, 60, 100, 127, 10_000];

/// Like a dynamic object: serde buffers all fields but some.
#[derive(Debug, Deserialize)]
struct Dynamic {
    #[serde(flatten)]
    _types: Option<Types>,
    #[serde(flatten)]
    data: Value,
}

#[derive(Debug, Deserialize)]
struct Types {
    #[serde(rename = "kind")]
    _kind: String,
}

fn on_a_small_stack<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

/// Definitions with a schema of this depth, one for each field in which a schema can contain a schema.
fn definitions(levels: usize) -> Vec<(ObjectDecoder, Vec<u8>)> {
    const API_VERSION: &str = "apiextensions.k8s.io/v1";
    let json = ["{\"not\":|}", "{\"properties\":{\"a\":|}}", "{\"items\":|}", "{\"allOf\":[|]}"].map(|around| {
        let (open, close) = around.split_once('|').unwrap();
        let schema = open.repeat(levels) + "{}" + &close.repeat(levels);
        format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
        )
        .into_bytes()
    });
    let entry = |value: &[u8]| [field(1, b"a"), field(2, value)].concat();
    let levels = levels.min(2_000);
    let nested = |around: &dyn Fn(&[u8]) -> Vec<u8>| (0..levels).fold(Vec::new(), |inner, _| around(&inner));
    let protobuf = [
        nested(&|inner| field(28, inner)),
        nested(&|inner| field(29, &entry(inner))),
        nested(&|inner| field(24, &field(1, inner))),
        nested(&|inner| field(25, inner)),
    ]
    .map(|schema| [field(1, &field(1, b"a")), field(2, &field(7, &field(4, &field(1, &schema))))].concat());
    let decoder = |encoding| ObjectDecoder::new(encoding, API_VERSION, "CustomResourceDefinition").unwrap();
    let json = json.map(|json| (decoder(Encoding::Json), json));
    let protobuf = protobuf.map(|message| (decoder(Encoding::Protobuf), message));
    json.into_iter().chain(protobuf).collect()
}

/// Whether an object decodes. Panics at any error other than that of the depth.
fn decodes<T>(result: Result<T, Error>, levels: usize) -> bool {
    match result {
        Ok(_) => true,
        Err(Error::TooDeep { key: Some(key), .. }) => {
            assert_eq!(key.name(), "a");
            false
        }
        // With ten thousand levels the key may be unreadable.
        Err(Error::TooDeep { key: None, .. }) if levels > 127 => false,
        Err(other) => panic!("{levels}: {other}"),
    }
}

/// An object of any depth decodes, or is a typed error, on the stack of a tokio thread.
// contract: L-27a, L-27b
#[test]
fn deep_object_decodes_or_is_too_deep() {
    for levels in DEEP {
        for (decoder, object) in definitions(levels) {
            let results = on_a_small_stack(|| {
                let versions = FieldPath::new(&["spec", "versions"]);
                [
                    decodes(decoder.decode::<CustomResourceDefinition>(&object), levels),
                    decodes(decoder.decode::<Dynamic>(&object).map(|object| object.data), levels),
                    decodes(decoder.decode::<Value>(&object), levels),
                    decodes(decoder.decode_field::<Value>(&object, &versions), levels),
                ]
            });
            assert!(levels > 40 || results == [true; 4], "{levels}: {results:?}");
            assert!(levels < 200 || results == [false; 4], "{levels}: {results:?}");
        }
    }
}

/// The metadata and the fields of a packed object of any depth are read or are a typed error.
// contract: L-27a, L-27b
#[test]
fn packed_fields_are_read_at_any_depth() {
    for levels in DEEP {
        for (decoder, object) in definitions(levels) {
            on_a_small_stack(|| {
                let packed = Packed::<CustomResourceDefinition>::from_wire(&object, &decoder).unwrap();
                let typed = decodes(packed.decode(), levels);
                let versions: Result<Option<Value>, _> = packed.field(&FieldPath::new(&["spec", "versions"]));
                let by_path = decodes(versions, levels);
                assert!(levels > 40 || typed && by_path, "{levels}");
                assert!(levels < 200 || !typed && !by_path, "{levels}");
                assert_eq!(packed.metadata_as::<Value>().unwrap(), Some(serde_json::json!({"name": "a"})));
                let names = vec!["spec"; 5_000];
                let missing: Option<Value> = packed.field(&FieldPath::new(&names)).unwrap();
                assert_eq!(missing, None);
                assert!(packed.without_fields(&[&FieldPath::new(&names)]).is_ok());
            });
        }
    }
}

/// Small types decode at nearly the depth that serde_json accepts.
// contract: L-27c
#[test]
fn small_types_decode_at_high_depth() {
    let list = "[".repeat(126) + &"]".repeat(126);
    let object = definitions(115).swap_remove(4);
    on_a_small_stack(|| {
        assert!(decodes(ObjectDecoder::json().decode::<Value>(list.as_bytes()), 126));
        assert!(decodes(object.0.decode::<Value>(&object.1), 115));
        assert!(decodes(object.0.decode::<Dynamic>(&object.1), 115));
    });
}
