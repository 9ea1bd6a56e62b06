//! Protobuf written by Go, compared with JSON written by Go.
//!
//! The samples and streams are written by `e2e/protobuf-tables` with the serializers of Kubernetes:
//! `go run . samples 2 1 > samples.bin` and `go run . streams 1 > streams.bin`. Further samples are tested
//! if the variable `KINFORMER_PROTOBUF_SAMPLES` names their file.

mod answers;
mod counted;
mod object;
mod packed;
mod paths;
mod streams;
mod types;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};

use kinformer_wire::{Encoding, Error, decode_response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SAMPLES: &[u8] = include_bytes!("samples.bin");
/// The number of objects compared as their type and as a whole.
pub(crate) static COMPARED: AtomicUsize = AtomicUsize::new(0);
const MORE_SAMPLES: &str = "KINFORMER_PROTOBUF_SAMPLES";

/// One object in both encodings.
pub(crate) struct Sample<'a> {
    api_version: &'a str,
    kind: &'a str,
    protobuf: &'a [u8],
    json: &'a [u8],
    /// The object to read instead of `protobuf`; `json` is then its decoded form.
    read: Option<(Encoding, &'a [u8])>,
}

/// The length-prefixed parts of a file.
fn parts(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        bytes = rest;
        Some(part)
    })
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn samples(bytes: &[u8]) -> Vec<Sample<'_>> {
    let parts: Vec<&[u8]> = parts(bytes).collect();
    let sample = |parts: &[_; 3]| {
        let [name, protobuf, json] = *parts;
        let (api_version, kind) = text(name).split_once(' ').unwrap();
        Sample { api_version, kind, protobuf, json, read: None }
    };
    let (samples, rest) = parts.as_chunks();
    assert!(rest.is_empty());
    samples.iter().map(sample).collect()
}

/// Returns the first difference from Go's JSON. Go writes some values in two ways: null for a missing value, 3 for
/// 3.0. `empty` decides which other values are equal to a missing one.
fn difference(ours: &Value, go: &Value, empty: fn(&Value) -> bool) -> Option<String> {
    let same = match (ours, go) {
        (Value::Object(ours), Value::Object(go)) => {
            let names: BTreeSet<_> = ours.keys().chain(go.keys()).collect();
            let member = |of: &serde_json::Map<_, _>, name| of.get(name).cloned().unwrap_or_default();
            return names.into_iter().find_map(|name| {
                difference(&member(ours, name), &member(go, name), empty).map(|rest| format!("{name} {rest}"))
            });
        }
        (Value::Array(ours), Value::Array(go)) if ours.len() == go.len() => {
            return ours.iter().zip(go).find_map(|(ours, go)| difference(ours, go, empty));
        }
        (ours, Value::Null) => ours.is_null() || empty(ours),
        (Value::Number(ours), Value::Number(go)) => ours == go || ours.as_f64() == go.as_f64(),
        _ => ours == go,
    };
    (!same).then(|| format!("is {ours} and Go's {go}"))
}

/// Types write required fields even if they are empty, and the version and kind of embedded objects.
fn empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().all(empty),
        Value::String(text) => ["", "v1", "APIGroup", "PersistentVolumeClaim"].contains(&text.as_str()),
        other => [json!([]), json!(0), json!(false)].contains(other),
    }
}

fn assert_same(ours: &Value, json: &[u8], empty: fn(&Value) -> bool, name: &str) {
    let found = difference(ours, &serde_json::from_slice(json).unwrap(), empty);
    assert_eq!(found, None, "{name}");
}

/// Both encodings decode to equal objects, which are written as Go's JSON. A value that the type does not accept in
/// JSON (a null time in a map) is not accepted in protobuf.
pub(crate) fn check<K: DeserializeOwned + Serialize + PartialEq + Debug>(sample: &Sample<'_>) {
    let name = format!("{} {}", sample.api_version, sample.kind);
    let (encoding, object) = sample.read.unwrap_or((Encoding::Protobuf, sample.protobuf));
    let ours: Result<K, Error> = decode_response(encoding, object);
    let Ok(theirs) = serde_json::from_slice(sample.json) else {
        let is_type_error = matches!(ours, Err(Error::Undecodable { .. } | Error::Malformed { .. }));
        assert!(is_type_error, "{name}: {ours:?}");
        return;
    };
    // A type may refuse a value before the last one of duplicate names.
    if encoding == Encoding::Json && ours.is_err() {
        return;
    }
    let ours = ours.unwrap_or_else(|error| panic!("{name}: {error}: {}", text(sample.json)));
    assert_eq!(ours, theirs, "{name}: {}", text(sample.json));
    if sample.read.is_some() {
        COMPARED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    assert_same(&serde_json::to_value(&ours).unwrap(), sample.json, empty, &name);
}

/// The protobuf decodes to exactly Go's JSON.
fn check_untyped(sample: &Sample<'_>) {
    let name = format!("{} {}", sample.api_version, sample.kind);
    let ours: Value = decode_response(Encoding::Protobuf, sample.protobuf)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_same(&ours, sample.json, |_| false, &name);
}

fn check_all(bytes: &[u8]) -> (usize, usize) {
    let (mut typed, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for sample in samples(bytes) {
        check_untyped(&sample);
        kinds.insert((sample.api_version, sample.kind));
        if types::check_typed(&sample) {
            typed.insert((sample.api_version, sample.kind));
        }
    }
    (kinds.len(), typed.len())
}

/// The protobuf that Go writes for each kind decodes to the JSON that Go writes.
#[test]
fn all_kinds_written_by_go_decode() {
    assert_eq!(check_all(SAMPLES), (181, types::COUNT));
}

#[test]
fn more_samples_on_demand() {
    match std::env::var_os(MORE_SAMPLES) {
        Some(file) => assert_eq!(check_all(&std::fs::read(file).unwrap()), (181, types::COUNT)),
        None => println!("skipped: {MORE_SAMPLES} names no file of samples"),
    }
}
