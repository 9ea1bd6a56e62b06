//! The same result in every way of reading an object: as a whole, as its type, field by field, packed, and without
//! some fields; for objects that Go writes and for mutated ones.

use kinformer_wire::{Encoding, FieldPath, FromWire, ObjectDecoder, Packed};
use serde_json::{Map, Value, json};

use super::paths::message;
use super::{COMPARED, SAMPLES, Sample, samples, types};

/// The number of mutations of each kind in each encoding, and of their fields that are read and removed.
const MUTATIONS: u64 = 3;
const READ: usize = 30;
const REMOVED: usize = 4;

/// Reproducible random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % end.max(1)
    }
}

/// Collects the paths of all fields outside of lists.
fn paths(value: &Value, names: &[&str], into: &mut Vec<Vec<String>>) {
    let Value::Object(map) = value else { return };
    for (name, value) in map {
        let names = [names, &[name]].concat();
        into.push(names.iter().map(|name| (*name).to_owned()).collect());
        paths(value, &names, into);
    }
}

/// Returns the field of these names; an error if they lead through a value without fields.
fn field_of<'a>(whole: &'a Value, names: &[String]) -> Result<Option<&'a Value>, ()> {
    let mut value = whole;
    for name in names {
        match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(name) {
                Some(within) => value = within,
                None => return Ok(None),
            },
            _ => return Err(()),
        }
    }
    Ok(Some(value).filter(|value| !value.is_null()))
}

/// Returns the value without empty objects: a removed field may leave an empty one in JSON, and none in protobuf.
fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let members = map.iter().map(|(name, value)| (name.clone(), pruned(value)));
            members.filter(|(_, value)| value.as_object().is_none_or(|map| !map.is_empty())).collect()
        }
        other => other.clone(),
    }
}

/// The number of objects that were read, and of those that do not decode.
#[derive(Default)]
struct Count {
    /// Whether all paths are read, or a random choice.
    is_whole: bool,
    read: usize,
    broken: usize,
    removed: usize,
}

fn assert_same_result(
    sample: &Sample<'_>,
    decoder: &ObjectDecoder,
    object: &[u8],
    known: &[Vec<String>],
    random: &mut Random,
    count: &mut Count,
) {
    let name = format!("{} {} in {:?}", sample.api_version, sample.kind, decoder.encoding());
    let Ok(whole) = decoder.decode::<Value>(object) else { return count.broken += 1 };
    count.read += 1;
    let mut all = known.to_vec();
    paths(&whole, &[], &mut all);
    // All paths of the samples, and some paths of the mutations.
    let chosen: Vec<&Vec<String>> = match count.is_whole {
        true => all.iter().collect(),
        false => (0..READ.min(all.len())).map(|_| &all[random.below(all.len())]).collect(),
    };
    for names in chosen {
        let expected = field_of(&whole, names);
        let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
        let alone = decoder.decode_field::<Value>(object, &FieldPath::new(&borrowed)).map_err(|_| ());
        let alone = alone.map(|alone| alone.filter(|value| !value.is_null()));
        assert_eq!(alone, expected.map(|value| value.cloned()), "{names:?} of {name}: {whole}");
    }
    if let Ok(packed) = Packed::<Value>::from_wire(object, decoder) {
        let metadata = whole.get("metadata").filter(|metadata| !metadata.is_null());
        assert_eq!(packed.metadata_as::<Value>().unwrap().as_ref(), metadata, "{name}");
        let of = |field: &str| metadata.and_then(|metadata| metadata.get(field)).cloned().unwrap_or_default();
        let labels: Map<String, Value> =
            packed.labels().map(|(key, value)| (key.to_owned(), value.into())).collect();
        assert_eq!(Value::Object(labels.clone()), or_empty(of("labels"), json!({})), "{name}");
        for (key, value) in &labels {
            assert_eq!(packed.label(key), value.as_str(), "{name}");
        }
        if let Ok(annotations) = packed.annotations() {
            assert_eq!(json!(annotations), or_empty(of("annotations"), json!({})), "{name}");
        }
        let owners = packed.owner_references_as::<Value>();
        assert_eq!(
            owners.map_or(Value::Null, Value::from),
            or_empty(of("ownerReferences"), json!([])),
            "{name}"
        );
        assert_eq!(packed.key().name(), of("name").as_str().unwrap_or_default(), "{name}");
        assert_eq!(packed.key().namespace(), of("namespace").as_str().filter(|ns| !ns.is_empty()), "{name}");
        assert_eq!(packed.uid().unwrap_or_default(), of("uid").as_str().unwrap_or_default(), "{name}");
    }
    for _ in 0..REMOVED {
        let names = &all[random.below(all.len())];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut expected = whole.clone();
        let kept = matches!(
            names.as_slice(),
            ["metadata"] | ["metadata", "name" | "namespace" | "uid" | "resourceVersion"]
        );
        let (last, around) = names.split_last().unwrap();
        let around = around.iter().try_fold(&mut expected, |value, name| value.get_mut(*name));
        if let Some(Value::Object(map)) = around
            && !kept
        {
            map.remove(*last);
        }
        let without =
            Value::from_wire(object, &decoder.clone().drop_fields([FieldPath::new(&names)])).unwrap();
        assert_eq!(pruned(&without), pruned(&expected), "{names:?} removed of {name}: {whole}");
        count.removed += 1;
    }
    let json = whole.to_string();
    let answer = match decoder.encoding() {
        Encoding::Protobuf => enveloped(sample, object),
        _ => object.to_vec(),
    };
    let read = Some((decoder.encoding(), answer.as_slice()));
    types::check_typed(&Sample { json: json.as_bytes(), read, ..*sample });
}

fn or_empty(value: Value, empty: Value) -> Value {
    if value.is_null() { empty } else { value }
}

/// Writes JSON with duplicate names, nulls, other values, and too large numbers.
fn mutated_json(value: &Value, random: &mut Random, out: &mut String) {
    match value {
        Value::Object(map) => {
            out.push('{');
            let mut first = true;
            for (name, value) in map {
                let real = |random: &mut Random| {
                    let mut text = String::new();
                    mutated_json(value, random, &mut text);
                    text
                };
                let values = match random.below(16) {
                    0 => vec![other_json(value, random), real(random)],
                    1 => vec![real(random), other_json(value, random)],
                    2 => vec![other_json(value, random)],
                    _ => vec![real(random)],
                };
                for value in values {
                    out.push_str(if std::mem::take(&mut first) { "" } else { "," });
                    out.push_str(&json!(name).to_string());
                    out.push(':');
                    out.push_str(&value);
                }
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (place, value) in list.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                mutated_json(value, random, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn other_json(value: &Value, random: &mut Random) -> String {
    match (value, random.below(3)) {
        (_, 0) => "null".into(),
        (Value::Object(map), _) => {
            let half = map.iter().filter(|_| random.below(2) == 0);
            Value::Object(half.map(|(name, value)| (name.clone(), value.clone())).collect()).to_string()
        }
        (Value::Array(_), _) => "[]".into(),
        (Value::String(text), 1) => json!(format!("{text}\u{1F600}\n")).to_string(),
        (Value::Number(_), _) => ["4294967301", "-1", "9223372036854775807"][random.below(3)].into(),
        (Value::Bool(value), _) => (!value).to_string(),
        _ => "\"\"".into(),
    }
}

/// A field of a message. Bytes that can be parsed as a message are one.
#[derive(Clone)]
struct Field {
    tag: Vec<u8>,
    value: Bytes,
}

#[derive(Clone)]
enum Bytes {
    Number(Vec<u8>),
    Text(Vec<u8>),
    Message(Vec<Field>),
}

fn number(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let end = bytes.iter().take(10).position(|byte| *byte < 128)? + 1;
    let (number, rest) = bytes.split_at(end);
    *bytes = rest;
    Some(number.to_vec())
}

fn value_of(number: &[u8]) -> usize {
    number.iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 127))
}

fn parsed(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes)?;
        if tag.len() > 2 || value_of(&tag) < 8 {
            return None;
        }
        let value = match tag[0] & 7 {
            0 => Bytes::Number(number(&mut bytes)?),
            1 => Bytes::Number(bytes.split_off(..8)?.to_vec()),
            2 => {
                let length = value_of(&number(&mut bytes)?);
                let inner = bytes.split_off(..length)?;
                match parsed(inner).filter(|fields| !fields.is_empty()) {
                    Some(fields) => Bytes::Message(fields),
                    None => Bytes::Text(inner.to_vec()),
                }
            }
            _ => return None,
        };
        fields.push(Field { tag, value });
    }
    Some(fields)
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

fn written(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for Field { tag, value } in fields {
        out.extend_from_slice(tag);
        let inner = match value {
            Bytes::Number(number) => {
                out.extend_from_slice(number);
                continue;
            }
            Bytes::Text(text) => text.clone(),
            Bytes::Message(fields) => written(fields),
        };
        put_number(&mut out, inner.len());
        out.extend_from_slice(&inner);
    }
    out
}

/// Changes one random field: duplicated, split, moved to the end, emptied, invalid UTF-8, or a too large number.
fn mutate(fields: &mut Vec<Field>, random: &mut Random) {
    let place = random.below(fields.len());
    let Some(field) = fields.get_mut(place) else { return };
    if let Bytes::Message(inner) = &mut field.value
        && random.below(4) > 0
    {
        return mutate(inner, random);
    }
    let mut copy = field.clone();
    match (&mut field.value, random.below(6)) {
        (_, 0) => fields.insert(place, copy),
        (_, 1) => fields.push(copy),
        (Bytes::Message(inner), 2) => {
            let rest = inner.split_off(random.below(inner.len()));
            copy.value = Bytes::Message(rest);
            fields.insert(place + 1, copy);
        }
        (Bytes::Message(_), 3) => {
            if let Bytes::Message(inner) = &mut copy.value {
                mutate(inner, random);
            }
            fields.insert(place + 1, copy);
        }
        (Bytes::Message(_) | Bytes::Text(_), 4) => field.value = Bytes::Text(Vec::new()),
        (Bytes::Message(inner), _) => mutate(inner, random),
        (Bytes::Text(text), _) => {
            let place = random.below(text.len());
            text.splice(place..place, [0xe2, 0x82, b'a', 0xff]);
        }
        (Bytes::Number(number), large) if number.len() != 8 => {
            let numbers: [&[u8]; 3] = [
                &[0x85, 0x80, 0x80, 0x80, 0x10],
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            ];
            *number = numbers[large % 3].to_vec();
        }
        _ => {}
    }
}

fn enveloped(sample: &Sample<'_>, object: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let mut out = vec![number << 3 | 2];
        put_number(&mut out, bytes.len());
        [out, bytes.to_vec()].concat()
    };
    let types = [field(1, sample.api_version.as_bytes()), field(2, sample.kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &types), field(2, object)].concat()
}

/// Whole, by field, packed and without fields: every way of reading an object gives the same result.
// contract: L-25a
#[test]
fn all_ways_of_reading_agree() {
    let (mut random, mut golden, mut mutated) = (
        Random(0x9e37_79b9_7f4a_7c15),
        Count { is_whole: true, ..Count::default() },
        [0, 1].map(|_| Count::default()),
    );
    for (place, sample) in samples(SAMPLES).iter().enumerate() {
        let decoders = [Encoding::Protobuf, Encoding::Json]
            .map(|encoding| ObjectDecoder::new(encoding, sample.api_version, sample.kind).unwrap());
        let [protobuf, json] = &decoders;
        let whole: Value = serde_json::from_slice(sample.json).unwrap();
        let mut known = Vec::new();
        paths(&whole, &[], &mut known);
        known.push(["no", "such"].map(str::to_owned).to_vec());
        for (decoder, object) in [(protobuf, message(sample.protobuf)), (json, sample.json)] {
            assert_same_result(sample, decoder, object, &known, &mut random, &mut golden);
        }
        if place % 2 == 1 {
            continue;
        }
        for _ in 0..MUTATIONS {
            let mut text = String::new();
            mutated_json(&whole, &mut random, &mut text);
            assert_same_result(sample, json, text.as_bytes(), &known, &mut random, &mut mutated[0]);
            let mut fields = parsed(message(sample.protobuf)).unwrap();
            mutate(&mut fields, &mut random);
            let bytes = written(&fields);
            assert_same_result(sample, protobuf, &bytes, &known, &mut random, &mut mutated[1]);
        }
    }
    assert_eq!((golden.read, golden.broken), (2 * 362, 0));
    let [json, protobuf] = mutated;
    assert!(json.read > 500 && json.broken == 0, "{} {}", json.read, json.broken);
    assert!(protobuf.read > 100 && protobuf.broken > 100, "{} {}", protobuf.read, protobuf.broken);
    let compared = COMPARED.load(std::sync::atomic::Ordering::Relaxed);
    assert!(compared > 400, "{compared}");
    assert!(golden.removed + json.removed + protobuf.removed > 4_000);
}
