//! One field of an object, compared with the same field of the whole object.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use kinformer_wire::{Encoding, Error, FieldPath, FromWire, ObjectDecoder, Packed};
use serde_json::{Value, json};

use super::{SAMPLES, samples};

/// The message in an envelope.
pub(crate) fn message(envelope: &[u8]) -> &[u8] {
    let types = usize::from(envelope[5]);
    let mut rest = &envelope[6 + types..];
    assert_eq!(rest[0], 0x12);
    let (mut length, mut shift) = (0, 0);
    loop {
        rest = &rest[1..];
        length |= usize::from(rest[0] & 127) << shift;
        shift += 7;
        if rest[0] < 128 {
            return &rest[1..=length];
        }
    }
}

/// Visits each field of an object and of the objects in it, with its path.
fn members<'a>(value: &'a Value, names: &mut Vec<&'a str>, visit: &mut impl FnMut(&[&'a str], &'a Value)) {
    let Value::Object(map) = value else { return };
    for (name, value) in map {
        names.push(name);
        visit(names, value);
        members(value, names, visit);
        names.pop();
    }
}

/// Each field decodes by its path to the same value as in the whole object.
#[test]
fn fields_decode_alone_as_in_the_object() {
    let mut found = 0;
    for sample in samples(SAMPLES) {
        for (encoding, object) in
            [(Encoding::Protobuf, message(sample.protobuf)), (Encoding::Json, sample.json)]
        {
            let decoder = ObjectDecoder::new(encoding, sample.api_version, sample.kind).unwrap();
            let whole: Value = decoder.decode(object).unwrap();
            members(&whole, &mut Vec::new(), &mut |names, value| {
                let alone: Option<Value> = decoder.decode_field(object, &FieldPath::new(names)).unwrap();
                let expected = (!value.is_null()).then_some(value);
                assert_eq!(alone.as_ref(), expected, "{names:?} of {} in {encoding:?}", sample.kind);
                found += 1;
            });
        }
    }
    assert!(found > 10_000, "{found}");
}

/// Returns the value without empty objects: a dropped field may leave an empty message, and no empty map.
fn pruned(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    let members = map.iter().map(|(name, value)| (name.clone(), pruned(value)));
    members.filter(|(_, value)| value.as_object().is_none_or(|map| !map.is_empty())).collect()
}

/// Each field that does not identify an object can be dropped, and nothing else changes.
// contract: L-14a, L-14c
#[test]
fn each_field_can_be_dropped() {
    let mut dropped = 0;
    for sample in samples(SAMPLES) {
        for (encoding, object) in
            [(Encoding::Protobuf, message(sample.protobuf)), (Encoding::Json, sample.json)]
        {
            let decoder = ObjectDecoder::new(encoding, sample.api_version, sample.kind).unwrap();
            let whole: Value = decoder.decode(object).unwrap();
            members(&whole, &mut Vec::new(), &mut |names, _| {
                let identifies = matches!(
                    names,
                    ["metadata"] | ["metadata", "name" | "namespace" | "uid" | "resourceVersion"]
                );
                if names.len() > 4 {
                    return;
                }
                let mut without = whole.clone();
                let (last, around) = names.split_last().unwrap();
                let around = around.iter().try_fold(&mut without, |value, name| value.get_mut(name)).unwrap();
                if !identifies {
                    around.as_object_mut().unwrap().remove(*last);
                }
                let decoded =
                    Value::from_wire(object, &decoder.clone().drop_fields([FieldPath::new(names)])).unwrap();
                assert_eq!(
                    pruned(&decoded),
                    pruned(&without),
                    "{names:?} of {} in {encoding:?}",
                    sample.kind
                );
                dropped += usize::from(!identifies);
            });
        }
    }
    assert!(dropped > 5_000, "{dropped}");
}

/// Go writes some missing fields as null in JSON.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let present = map.iter().filter(|(_, value)| !value.is_null());
            present.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(values) => values.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Objects from which the same fields were dropped are equal in both encodings, also if no field is left around them.
// contract: L-14a, L-14f
#[test]
fn objects_agree_after_dropping() {
    let (mut single, mut all) = (0, 0);
    for sample in samples(SAMPLES) {
        let objects = [(Encoding::Protobuf, message(sample.protobuf)), (Encoding::Json, sample.json)];
        let decoders = objects
            .map(|(encoding, _)| ObjectDecoder::new(encoding, sample.api_version, sample.kind).unwrap());
        let agree = |paths: &[FieldPath]| {
            let [ours, json] = [0, 1].map(|place| {
                let decoder = decoders[place].clone().drop_fields(paths.iter().cloned());
                without_nulls(&Value::from_wire(objects[place].1, &decoder).unwrap())
            });
            assert_eq!(ours, json, "{paths:?} of {} {}", sample.api_version, sample.kind);
        };
        let whole: Value = decoders[1].decode(sample.json).unwrap();
        members(&whole, &mut Vec::new(), &mut |names, value| {
            agree(&[FieldPath::new(names)]);
            single += 1;
            if let Value::Object(members) = value {
                let paths = members.keys().map(|name| FieldPath::new(&[names, &[name]].concat()));
                agree(&paths.collect::<Vec<_>>());
                all += 1;
            }
        });
    }
    assert!(single > 5_000 && all > 1_000, "{single} {all}");
}

/// A map that loses its last key is left out. Other objects stay, and so do maps that were empty before.
// contract: L-14f
#[test]
fn emptied_maps_are_left_out() {
    let paths =
        [&["metadata", "labels", "a"][..], &["metadata", "annotations", "a"], &["data", "a"], &["spec", "a"]];
    let decoder = ObjectDecoder::json().drop_fields(paths.map(FieldPath::new));
    let drop = |object: Value| Value::from_wire(object.to_string().as_bytes(), &decoder).unwrap();
    let object = |kind: &str, [metadata, spec, data]: [Value; 3]| -> Value {
        json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec, "data": data})
    };
    let full = || json!({"name": "n", "labels": {"a": "1"}, "annotations": {}});
    let (one, none) = (|| json!({"a": "1"}), || json!({}));
    let metadata = || json!({"name": "n", "annotations": {}});
    // The members around a map that is left out are separated as before.
    assert_eq!(
        drop(object("ConfigMap", [full(), one(), one()])),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(), "spec": {}})
    );
    assert_eq!(
        drop(object("Custom", [full(), one(), one()])),
        object("Custom", [metadata(), none(), none()])
    );
}

/// A path reads, drops and records the same field in both encodings.
// contract: L-28b, L-29a
#[test]
fn paths_agree_in_both_encodings() {
    let (mut read, mut dropped) = (0, 0);
    let mut shared: BTreeMap<Vec<String>, FieldPath> = BTreeMap::new();
    for sample in samples(SAMPLES) {
        let objects = [(Encoding::Protobuf, message(sample.protobuf)), (Encoding::Json, sample.json)];
        let decoders = objects
            .map(|(encoding, _)| ObjectDecoder::new(encoding, sample.api_version, sample.kind).unwrap());
        let whole: Value = decoders[1].decode(sample.json).unwrap();
        members(&whole, &mut Vec::new(), &mut |names, value| {
            let within = [names, &["within"]].concat();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
            let path = shared.entry(names.clone()).or_insert_with(|| FieldPath::new(&borrowed));
            let name = format!("{names:?} of {} {}", sample.api_version, sample.kind);
            let [ours, json] =
                [0, 1].map(|place| decoders[place].decode_field::<Value>(objects[place].1, path).unwrap());
            assert_eq!(ours.as_ref().map(without_nulls), json.as_ref().map(without_nulls), "{name}");
            assert_eq!(json.as_ref(), (!value.is_null()).then_some(value), "{name}");
            let within = FieldPath::new(&within);
            let [ours, json] = [0, 1].map(|place| {
                decoders[place].decode_field::<Value>(objects[place].1, &within).map_err(|_| ())
            });
            assert_eq!(ours, json, "through {name}");
            read += 1;
            // Every path of every sample would take too long in a build without optimization.
            if read % 3 > 0 || borrowed == ["metadata"] {
                return;
            }
            let [ours, json] = [0, 1].map(|place| {
                let packed = Packed::<Value>::from_wire(objects[place].1, &decoders[place]);
                let Ok(packed) = packed else { return None };
                // Fields that identify an object are refused in both.
                let Ok(less) = packed.without_fields(&[path]) else { return Some(None) };
                assert_eq!(less.field::<Value>(path).unwrap(), None, "{name}");
                let expected = Some(path.clone()).filter(|_| !value.is_null());
                assert_eq!(less.dropped_fields(), Vec::from_iter(expected), "{name}");
                Some(Some(pruned(&without_nulls(&less.decode().unwrap()))))
            });
            assert_eq!(ours, json, "without {name}");
            dropped += usize::from(json.flatten().is_some());
        });
    }
    assert!(read > 9_000 && dropped > 2_500, "{read} {dropped}");
}

/// An object records the fields dropped by its decoder and by transforms. A transform does not change other objects.
// contract: L-28a, L-28b, L-29c
#[test]
fn objects_record_their_dropped_fields() {
    const REVISION: &[u8] =
        b"\n\x10\n\x01aZ\x0b\n\x01k\x12\x06v-long\x12\x17\n\x15{\"a\":{\"b\":1},\"c\":[2]}\x18\x07";
    let json = br#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a","labels":{"k":"v-long"}},
        "data":{"a":{"b":1},"c":[2]},"revision":7}"#;
    let paths = [&["data", "a", "b"][..], &["status"], &["metadata", "annotations"], &["data", "no"]];
    let (text, kind) = (FieldPath::new(&["data", "c"]), FieldPath::new(&["kind"]));
    let key = FieldPath::new(&["metadata", "labels", "k"]);
    for (encoding, object) in [(Encoding::Protobuf, REVISION), (Encoding::Json, json)] {
        let plain = ObjectDecoder::new(encoding, "apps/v1", "ControllerRevision").unwrap();
        let packed = Packed::<Value>::from_wire(object, &plain).unwrap();
        assert_eq!((packed.dropped_fields(), packed.labels().count()), (vec![], 1));
        let decoder = plain.clone().drop_fields(paths.map(FieldPath::new));
        let packed = Packed::<Value>::from_wire(object, &decoder).unwrap();
        assert_eq!(packed.dropped_fields(), [FieldPath::new(paths[0])], "{encoding:?}: only what it had");
        assert_eq!(packed.decode().unwrap()["data"], json!({"a": {}, "c": [2]}));
        let less = packed.without_fields(&[&text, &kind, &key, &text]).unwrap();
        let mut names: Vec<String> = less.dropped_fields().iter().map(FieldPath::to_string).collect();
        names.sort();
        assert_eq!(names, ["data.a.b", "data.c", "kind", "metadata.labels.k"], "{encoding:?}");
        assert_eq!(less.dropped_fields()[0].names().collect::<Vec<_>>(), paths[0]);
        assert_eq!((less.labels().count(), less.label("k")), (0, None));
        let whole = less.decode().unwrap();
        assert_eq!((whole.get("kind"), whole["apiVersion"].as_str()), (None, Some("apps/v1")));
        assert_eq!(less.field::<Value>(&kind).unwrap(), None);
        // The fields are already dropped.
        let again = less.without_fields(&[&text, &kind]).unwrap();
        assert_eq!((again.dropped_fields(), again.encoded()), (less.dropped_fields(), less.encoded()));
        assert_eq!(packed.decode().unwrap()["kind"], "ControllerRevision");
        assert_eq!(packed.dropped_fields().len(), 1);
        let dropping = plain.drop_fields([kind.clone()]);
        let packed = Packed::<Value>::from_wire(object, &dropping).unwrap();
        assert_eq!(
            (packed.dropped_fields(), packed.decode().unwrap().get("kind")),
            (vec![kind.clone()], None)
        );
    }
}

/// Several fields are dropped together, and missing ones are ignored.
#[test]
fn several_fields_are_dropped_together() {
    for (encoding, object) in [
        (
            Encoding::Protobuf,
            b"\n\x12\n\x01a\x5a\x06\n\x01k\x12\x01v\x5a\x05\n\x01l\x12\0\x12\x03R\x01n".as_slice(),
        ),
        (Encoding::Json, br#"{"metadata":{"name":"a","labels":{"k":"v","l":""}},"spec":{"nodeName":"n"}}"#),
    ] {
        let decoder = ObjectDecoder::new(encoding, "v1", "Pod").unwrap();
        let decoder = decoder
            .drop_fields([FieldPath::new(&["metadata", "labels", "k"])])
            .drop_fields([FieldPath::new(&["spec"])])
            .drop_fields([FieldPath::new(&["spec", "nodeName"])])
            .drop_fields([FieldPath::new(&["status", "phase"])])
            .drop_fields([FieldPath::new(&["no", "such"])])
            .drop_fields([FieldPath::new(&[])]);
        let mut expected = json!({"metadata": {"name": "a", "labels": {"l": ""}}});
        let decoded = Value::from_wire(object, &decoder).unwrap();
        if encoding == Encoding::Protobuf {
            expected["apiVersion"] = "v1".into();
            expected["kind"] = "Pod".into();
        }
        assert_eq!(decoded, expected, "{encoding:?}");
        let broken = object.get(..object.len() - 1).unwrap();
        let error = Value::from_wire(broken, &decoder).unwrap_err().to_string();
        assert_eq!(
            error,
            decoder.decode::<Value>(broken).unwrap_err().to_string(),
            "as without dropped fields"
        );
    }
}

#[test]
fn missing_fields_are_none() {
    for (encoding, object) in [
        (Encoding::Protobuf, b"\n\x0a\n\x01a\x5a\x05\n\x01k\x12\0\x12\x02R\0".as_slice()),
        (Encoding::Json, br#"{"metadata":{"name":"a","labels":{"k":""}},"spec":{"other":{"x":1}}}"#),
    ] {
        let decoder = ObjectDecoder::new(encoding, "v1", "Pod").unwrap();
        let read = |names: &[&str]| decoder.decode_field::<String>(object, &FieldPath::new(names)).unwrap();
        assert_eq!(read(&["metadata", "name"]).as_deref(), Some("a"));
        assert_eq!(read(&["metadata", "labels", "k"]).as_deref(), Some(""));
        assert_eq!(read(&["metadata", "labels", "l"]), None);
        assert_eq!(read(&["metadata", "annotations", "k"]), None);
        assert_eq!((read(&["spec", "nodeName"]), read(&["status", "phase"])), (None, None));
    }
}

/// The error of a field has the path of the field.
#[test]
fn field_error_has_its_path() {
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    let containers = FieldPath::new(&["spec", "containers"]);
    let result = decoder.decode_field::<Vec<Container>>(b"\x12\x05\x12\x03\x12\x01\xff", &containers);
    assert!(result.is_ok(), "an image that is not UTF-8: {result:?}");
    let error = decoder.decode_field::<Vec<Container>>(b"\x12\x04\x12\x02\x10\x01", &containers).unwrap_err();
    assert!(matches!(&error, Error::Protobuf { path, .. } if path == "spec.containers.image"), "{error}");
    let error = decoder.decode_field::<u8>(b"\x12\x02\x12\0", &containers).unwrap_err();
    assert!(matches!(&error, Error::Undecodable { path, .. } if path == "spec.containers"), "{error}");
}
