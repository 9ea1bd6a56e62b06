//! The memory use of decoding: at most 64 times the bytes plus 1 MiB, or a typed error. A test binary of its own,
//! because it counts the allocations of the process.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "a test fails by a panic"
)]

#[allow(dead_code, unreachable_pub, reason = "the tests of the other binary use the rest")]
#[path = "it/common/mod.rs"]
mod common;

use std::alloc::System;
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer_wire::{Encoding, Error, FieldPath, FromWire, ObjectDecoder, Packed};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use common::field;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn limit(bytes: &[u8]) -> usize {
    64 * bytes.len() + 1024 * 1024
}

/// Whether an object decodes. Counts all allocations, which is more than the peak memory use.
fn decodes<T>(what: &str, bytes: &[u8], decode: impl FnOnce() -> Result<T, Error>) -> bool {
    let region = Region::new(ALLOCATOR);
    let decoded = decode();
    let used = region.change().bytes_allocated;
    assert!(
        used <= limit(bytes),
        "{what}: {} bytes took {used}, {} for each",
        bytes.len(),
        used / bytes.len()
    );
    match black_box(decoded) {
        Ok(_) => true,
        Err(Error::DecodedTooLarge { limit: reported, key, .. }) => {
            assert_eq!(reported, limit(bytes), "{what}");
            assert_eq!(key.as_ref().map(|key| key.name()), Some("a"), "{what}");
            false
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

fn all<K: DeserializeOwned + Send + Sync + 'static>(
    what: &str,
    decoder: &ObjectDecoder,
    bytes: &[u8],
) -> bool {
    let typed = decodes(what, bytes, || decoder.decode::<K>(bytes));
    decodes(what, bytes, || decoder.decode::<Value>(bytes));
    decodes(what, bytes, || decoder.decode::<Dynamic>(bytes).map(|object| object.data));
    let mut packed = None;
    if decodes(what, bytes, || Packed::<K>::from_wire(bytes, decoder).map(|object| packed = Some(object))) {
        let packed = packed.unwrap();
        assert_eq!(decodes(what, bytes, || packed.decode()), typed, "{what}");
        decodes(what, bytes, || packed.field::<Value>(&FieldPath::new(&["spec"])));
        decodes(what, bytes, || packed.metadata_as::<Value>());
        decodes(what, bytes, || packed.annotations());
    }
    typed
}

/// Like a dynamic object: serde buffers all fields but some.
#[derive(Deserialize)]
struct Dynamic {
    #[serde(flatten)]
    _types: Option<Types>,
    #[serde(flatten)]
    data: Value,
}

#[derive(Deserialize)]
struct Types {
    #[serde(rename = "kind")]
    _kind: String,
}

#[derive(Deserialize)]
struct Of<T> {
    #[serde(default)]
    _spec: Option<T>,
}

fn json_of(spec: &str) -> Vec<u8> {
    format!(r#"{{"metadata":{{"name":"a"}},"spec":{spec}}}"#).into_bytes()
}

fn repeated(open: &str, one: &str, close: &str, count: usize) -> String {
    let mut text = open.to_owned();
    for number in 0..count {
        text.push_str(if number == 0 { "" } else { "," });
        text.push_str(&one.replace('#', &format!("{number:x}")));
    }
    text + close
}

fn protobuf_of(spec: &[u8]) -> Vec<u8> {
    [field(1, &field(1, b"a")), field(2, spec)].concat()
}

fn decoder(encoding: Encoding, api_version: &str, kind: &str) -> ObjectDecoder {
    ObjectDecoder::new(encoding, api_version, kind).unwrap().decoded_cache_size(0)
}

const CRD: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");

fn hostile_pods(count: usize) -> Vec<bool> {
    let mut decode = Vec::new();
    let json = ObjectDecoder::json().decoded_cache_size(0);
    let protobuf = decoder(Encoding::Protobuf, "v1", "Pod");
    for (name, number) in [("containers", 2), ("volumes", 1), ("initContainers", 20), ("tolerations", 22)] {
        let spec = repeated(&format!("{{\"{name}\":["), "{}", "]}", count);
        decode.push(all::<Pod>(name, &json, &json_of(&spec)));
        decode.push(all::<Pod>(name, &protobuf, &protobuf_of(&field(number, b"").repeat(count))));
    }
    for one in [r#"{"env":[{}]}"#, r#"{"resources":{"limits":{"":""}}}"#, r#"{"ports":[{},{},{}]}"#] {
        let spec = repeated("{\"containers\":[", one, "]}", count);
        decode.push(all::<Pod>(one, &json, &json_of(&spec)));
    }
    decode
}

fn hostile_definitions(count: usize) {
    let json = ObjectDecoder::json().decoded_cache_size(0);
    let protobuf = decoder(Encoding::Protobuf, CRD.0, CRD.1);
    for one in [
        r##""#":{}"##,
        r##""#":{"items":{}}"##,
        r##""#":{"not":{}}"##,
        r##""#":{"properties":{"":{}}}"##,
        r##""#":{"additionalProperties":{}}"##,
        r##""#":{"allOf":[{}]}"##,
    ] {
        let schema = repeated("{\"properties\":{", one, "}}", count);
        let spec = format!(r#"{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}"#);
        all::<CustomResourceDefinition>(one, &json, &json_of(&spec));
    }
    for one in [field(25, b""), field(25, &field(28, b"")), field(25, &field(24, &field(1, b"")))] {
        let spec = field(7, &field(4, &field(1, &one.repeat(count))));
        all::<CustomResourceDefinition>("allOf", &protobuf, &protobuf_of(&spec));
    }
}

fn hostile_collections(count: usize) {
    let json = ObjectDecoder::json().decoded_cache_size(0);
    for one in ["{}", "[]", "null", "\"\"", "[{}]", "{\"\":0}", "{\"\":{\"\":0}}", "[[[]]]", "0"] {
        let bytes = json_of(&repeated("[", one, "]", count));
        all::<Of<Vec<Value>>>(one, &json, &bytes);
        decodes(one, &bytes, || json.decode::<Of<Box<[Value]>>>(&bytes));
    }
    let numbers = json_of(&repeated("[", "0", "]", count));
    decodes("Vec<u128>", &numbers, || json.decode::<Of<Vec<u128>>>(&numbers));
    decodes("HashSet", &numbers, || json.decode::<Of<std::collections::HashSet<u64>>>(&numbers));
    decodes("VecDeque", &numbers, || json.decode::<Of<std::collections::VecDeque<[u8; 0]>>>(&json_of("[]")));
    let lists = json_of(&repeated("[", "[]", "]", count));
    decodes("Vec<Vec>", &lists, || json.decode::<Of<Vec<Vec<[u64; 9]>>>>(&lists));
    for one in [r##""#":0"##, r##""":0"##] {
        let map = json_of(&repeated("{", one, "}", count));
        decodes("BTreeMap", &map, || json.decode::<Of<BTreeMap<String, u64>>>(&map));
        decodes("BTreeMap", &map, || json.decode::<Of<BTreeMap<String, [Value; 2]>>>(&json_of("{}")));
        decodes("HashMap", &map, || json.decode::<Of<HashMap<String, u64>>>(&map));
        all::<Of<Value>>("a map", &json, &map);
    }
    // Labels with an entry for every two bytes.
    let labels = [field(1, &[field(1, b"a"), field(11, b"").repeat(count)].concat())].concat();
    all::<Pod>("labels", &decoder(Encoding::Protobuf, "v1", "Pod"), &labels);
    let annotations = [field(1, &[field(1, b"a"), field(12, b"").repeat(count)].concat())].concat();
    all::<Pod>("annotations", &decoder(Encoding::Protobuf, "v1", "Pod"), &annotations);
    let labels = repeated("{\"metadata\":{\"name\":\"a\",\"labels\":{", "\"#\":\"\"", "}}}", count);
    all::<Pod>("labels", &json, labels.as_bytes());
    // A string in which each byte becomes three.
    let text = protobuf_of(&field(10, &vec![0xff; count]));
    assert!(all::<Pod>("text", &decoder(Encoding::Protobuf, "v1", "Pod"), &text));
    // JSON in protobuf.
    let revision = repeated("[", "{}", "]", count);
    let revision = [field(1, &field(1, b"a")), field(2, &field(1, revision.as_bytes()))].concat();
    let decoder = decoder(Encoding::Protobuf, "apps/v1", "ControllerRevision");
    all::<k8s_openapi::api::apps::v1::ControllerRevision>("JSON", &decoder, &revision);
}

fn parts(mut bytes: &'static [u8]) -> Vec<&'static [u8]> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (part, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        parts.push(part);
        bytes = rest;
    }
    parts
}

/// Objects of real servers are within the limit.
fn real_objects() {
    let json = ObjectDecoder::json().decoded_cache_size(0);
    for sample in parts(include_bytes!("it/golden/samples.bin")).chunks(3) {
        decodes("a sample", sample[2], || json.decode::<Value>(sample[2]).map_err(|_| panic!()));
    }
    let streams = parts(include_bytes!("it/golden/streams.bin"));
    let pod = streams.chunks(3).find(|parts| parts[0] == b"pod").unwrap();
    let mut object: Value = serde_json::from_slice(pod[2]).unwrap();
    object["metadata"] = json!({"name": "a"});
    let containers = object["spec"]["containers"].as_array().unwrap().clone();
    while object.to_string().len() < 100_000 {
        object["spec"]["containers"].as_array_mut().unwrap().extend(containers.clone());
    }
    let bytes = object.to_string().into_bytes();
    assert!(all::<Pod>("a pod of 100 KB", &json, &bytes));
    let data: BTreeMap<String, String> = (0..20_000).map(|n| (format!("key-{n}"), "v".repeat(20))).collect();
    let bytes = json!({"metadata": {"name": "a"}, "data": data}).to_string().into_bytes();
    assert!(all::<ConfigMap>("a config map", &json, &bytes));
    let leaf =
        json!({"type": "string", "description": "What the field of this name is good for, in a sentence."});
    let properties: BTreeMap<String, &Value> = (0..6).map(|n| (format!("property{n}"), &leaf)).collect();
    let inner = json!({"type": "object", "description": "What these are.", "properties": properties});
    let properties: BTreeMap<String, &Value> = (0..2_000).map(|n| (format!("group{n}"), &inner)).collect();
    let schema = json!({"type": "object", "properties": properties});
    let spec = json!({"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]});
    let bytes = json!({"metadata": {"name": "a"}, "spec": spec}).to_string().into_bytes();
    assert!(bytes.len() > 1_000_000);
    assert!(all::<CustomResourceDefinition>("a definition of 1 MB", &json, &bytes));
}

/// Returns the bytes that a packed object retains.
fn retained(decoder: &ObjectDecoder, bytes: &[u8]) -> isize {
    let region = Region::new(ALLOCATOR);
    let packed = Packed::<Pod>::from_wire(bytes, decoder).unwrap();
    let change = region.change();
    drop(packed);
    change.bytes_allocated as isize - change.bytes_deallocated as isize
}

/// Dropped fields take memory for their names, and none if the object has none of them.
fn names_of_dropped_fields() {
    const NAME: &str = "a-name-of-some-length";
    let object = |name: &str| json_of(&format!(r#"{{"{name}":1}}"#));
    let (plain, dropping) = (ObjectDecoder::json(), ObjectDecoder::json());
    let dropping = dropping.drop_fields([FieldPath::new(&["spec", NAME])]);
    let other = object(&NAME.replace("name", "lane"));
    assert_eq!(retained(&plain, &other), retained(&dropping, &other));
    let without = retained(&plain, &json_of("{}"));
    let dropped = retained(&dropping, &object(NAME)) - without;
    assert!((1..=4 * NAME.len() as isize).contains(&dropped), "{dropped}");
}

// The only test here, because allocations are counted for the whole program.
/// Decoding allocates at most 64 times the size of the object plus 1 MiB, or is a typed error.
// contract: L-26a, L-26b, L-11d, L-28c
#[test]
fn decoding_stays_within_the_memory_limit() {
    names_of_dropped_fields();
    real_objects();
    for count in [1, 1_000, 10_000] {
        let decode = hostile_pods(count);
        assert!(count > 1 || decode.iter().all(|decodes| *decodes));
        assert!(count < 10_000 || decode.iter().any(|decodes| !decodes));
        hostile_definitions(count);
        hostile_collections(count);
    }
    let bytes = protobuf_of(&field(2, b"").repeat(200_000));
    let decoder = decoder(Encoding::Protobuf, "v1", "Pod");
    assert!(!decodes("200,000 containers", &bytes, || decoder.decode::<Pod>(&bytes)));
    let error = decoder.decode::<Pod>(&bytes).unwrap_err().to_string();
    assert_eq!(error, format!("decoding Pod a takes more than {} bytes of memory", limit(&bytes)));
}
