//! What Go writes in protobuf against what it writes in JSON.
//!
//! The samples and streams are written by `e2e/protobuf-tables` with the serializers of Kubernetes:
//! `go run . samples 2 1 > samples.bin` and `go run . streams 1 > streams.bin`. Others, and more of them, are tested
//! when the variable `KINFORMER_PROTOBUF_SAMPLES` names their file.

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

use kinformer_wire::{Encoding, Error, decode_answer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SAMPLES: &[u8] = include_bytes!("samples.bin");
/// How many objects were the same as their type and as a whole.
pub(crate) static COMPARED: AtomicUsize = AtomicUsize::new(0);
const MORE_SAMPLES: &str = "KINFORMER_PROTOBUF_SAMPLES";

/// One object in both encodings.
pub(crate) struct Sample<'a> {
    api_version: &'a str,
    kind: &'a str,
    protobuf: &'a [u8],
    json: &'a [u8],
    /// Another object, of which `json` is only what was made of it as a whole.
    read: Option<(Encoding, &'a [u8])>,
}

/// The parts of a file, each with its length before it.
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

/// Where JSON does not say the same as Go's. Go has two words for some things: null for what is absent, 3 for 3.0.
/// `empty` is what else may be where Go has nothing.
fn difference(ours: &Value, go: &Value, empty: fn(&Value) -> bool) -> Option<String> {
    let same = match (ours, go) {
        (Value::Object(ours), Value::Object(go)) => {
            let names: BTreeSet<_> = ours.keys().chain(go.keys()).collect();
            let member = |of: &serde_json::Map<_, _>, name| of.get(name).cloned().unwrap_or_default();
            return names.into_iter().find_map(|name| {
                difference(&member(ours, name), &member(go, name), empty).map(|told| format!("{name} {told}"))
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

/// The types have no null for what must be there, and say what they are inside of others as well.
fn empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().all(empty),
        Value::String(text) => ["", "v1", "APIGroup", "PersistentVolumeClaim"].contains(&text.as_str()),
        other => [json!([]), json!(0), json!(false)].contains(other),
    }
}

fn assert_same(ours: &Value, json: &[u8], empty: fn(&Value) -> bool, name: &str) {
    let told = difference(ours, &serde_json::from_slice(json).unwrap(), empty);
    assert_eq!(told, None, "{name}");
}

/// Both encodings give equal objects, and writing those gives Go's JSON. What the type does not take from JSON (a
/// null among the times of a map) it does not take from protobuf.
pub(crate) fn check<K: DeserializeOwned + Serialize + PartialEq + Debug>(sample: &Sample<'_>) {
    let name = format!("{} {}", sample.api_version, sample.kind);
    let (encoding, object) = sample.read.unwrap_or((Encoding::Protobuf, sample.protobuf));
    let ours: Result<K, Error> = decode_answer(encoding, object);
    let Ok(theirs) = serde_json::from_slice(sample.json) else {
        let of_the_type = matches!(ours, Err(Error::Undecodable { .. } | Error::Malformed { .. }));
        assert!(of_the_type, "{name}: {ours:?}");
        return;
    };
    // A type may refuse what is there before the last of equal names.
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

/// All that is in Go's JSON, and nothing else, comes out of the protobuf.
fn check_untyped(sample: &Sample<'_>) {
    let name = format!("{} {}", sample.api_version, sample.kind);
    let ours: Value =
        decode_answer(Encoding::Protobuf, sample.protobuf).unwrap_or_else(|error| panic!("{name}: {error}"));
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

#[test]
fn what_go_writes_of_every_kind_is_read_as_go_says() {
    assert_eq!(check_all(SAMPLES), (181, types::COUNT));
}

#[test]
fn more_samples_on_demand() {
    match std::env::var_os(MORE_SAMPLES) {
        Some(file) => assert_eq!(check_all(&std::fs::read(file).unwrap()), (181, types::COUNT)),
        None => println!("skipped: {MORE_SAMPLES} names no file of samples"),
    }
}
