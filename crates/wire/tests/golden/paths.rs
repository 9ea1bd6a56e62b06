//! One member of an object against the same member of the whole object.

use k8s_openapi::api::core::v1::Container;
use kinformer_wire::{Encoding, Error, FromWire, ObjectDecoder};
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

/// Every member of an object and of the objects in it, with the names that lead to it.
fn members<'a>(value: &'a Value, names: &mut Vec<&'a str>, visit: &mut impl FnMut(&[&'a str], &'a Value)) {
    let Value::Object(map) = value else { return };
    for (name, value) in map {
        names.push(name);
        visit(names, value);
        members(value, names, visit);
        names.pop();
    }
}

#[test]
fn every_member_is_found_alone_as_in_the_whole() {
    let (mut found, mut unknown) = (0, 0);
    for sample in samples(SAMPLES) {
        for (encoding, object) in
            [(Encoding::Protobuf, message(sample.protobuf)), (Encoding::Json, sample.json)]
        {
            let decoder = ObjectDecoder::new(encoding, sample.api_version, sample.kind).unwrap();
            let whole: Value = decoder.decode(object).unwrap();
            members(&whole, &mut Vec::new(), &mut |names, value| {
                // Raw JSON is not gone into, nor are schemas that may be something else.
                let Some(path) = decoder.field_path(names) else { return unknown += 1 };
                let alone: Option<Value> = decoder.decode_at(object, &path).unwrap();
                let expected = (!value.is_null()).then_some(value);
                assert_eq!(alone.as_ref(), expected, "{names:?} of {} in {encoding:?}", sample.kind);
                found += 1;
            });
        }
    }
    assert!(found > 10_000 && unknown < found / 10, "{found} {unknown}");
}

/// Without the objects that have nothing in them: what is cut may leave one behind, or in protobuf none.
fn pruned(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    let members = map.iter().map(|(name, value)| (name.clone(), pruned(value)));
    members.filter(|(_, value)| value.as_object().is_none_or(|map| !map.is_empty())).collect()
}

// contract: L-14
#[test]
fn every_member_can_be_cut_and_nothing_else_goes() {
    let mut cut = 0;
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
                if decoder.field_path(names).is_none() || names.len() > 4 {
                    return;
                }
                let mut without = whole.clone();
                let (last, around) = names.split_last().unwrap();
                let around = around.iter().try_fold(&mut without, |value, name| value.get_mut(name)).unwrap();
                if !identifies {
                    around.as_object_mut().unwrap().remove(*last);
                }
                let decoded = Value::from_wire(object, &decoder.clone().cutting(names)).unwrap();
                assert_eq!(
                    pruned(&decoded),
                    pruned(&without),
                    "{names:?} of {} in {encoding:?}",
                    sample.kind
                );
                cut += usize::from(!identifies);
            });
        }
    }
    assert!(cut > 5_000, "{cut}");
}

#[test]
fn several_members_are_cut_at_once_and_what_is_not_there_need_not_be() {
    for (encoding, object) in [
        (
            Encoding::Protobuf,
            b"\n\x12\n\x01a\x5a\x06\n\x01k\x12\x01v\x5a\x05\n\x01l\x12\0\x12\x03R\x01n".as_slice(),
        ),
        (Encoding::Json, br#"{"metadata":{"name":"a","labels":{"k":"v","l":""}},"spec":{"nodeName":"n"}}"#),
    ] {
        let decoder = ObjectDecoder::new(encoding, "v1", "Pod").unwrap();
        let decoder = decoder
            .cutting(&["metadata", "labels", "k"])
            .cutting(&["spec"])
            .cutting(&["spec", "nodeName"])
            .cutting(&["status", "phase"])
            .cutting(&["no", "such"])
            .cutting(&[]);
        let mut expected = json!({"metadata": {"name": "a", "labels": {"l": ""}}});
        let cut = Value::from_wire(object, &decoder).unwrap();
        if encoding == Encoding::Protobuf {
            expected["apiVersion"] = "v1".into();
            expected["kind"] = "Pod".into();
        }
        assert_eq!(cut, expected, "{encoding:?}");
        let broken = object.get(..object.len() - 1).unwrap();
        let told = Value::from_wire(broken, &decoder).unwrap_err().to_string();
        assert_eq!(told, decoder.decode::<Value>(broken).unwrap_err().to_string(), "as without a cut");
    }
}

#[test]
fn what_an_object_does_not_have_is_absent() {
    for (encoding, object) in [
        (Encoding::Protobuf, b"\n\x0a\n\x01a\x5a\x05\n\x01k\x12\0\x12\x02R\0".as_slice()),
        (Encoding::Json, br#"{"metadata":{"name":"a","labels":{"k":""}},"spec":{"other":{"x":1}}}"#),
    ] {
        let decoder = ObjectDecoder::new(encoding, "v1", "Pod").unwrap();
        let at = |names: &[&str]| {
            decoder.decode_at::<String>(object, &decoder.field_path(names).unwrap()).unwrap()
        };
        assert_eq!(at(&["metadata", "name"]).as_deref(), Some("a"));
        assert_eq!(at(&["metadata", "labels", "k"]).as_deref(), Some(""));
        assert_eq!(at(&["metadata", "labels", "l"]), None);
        assert_eq!(at(&["metadata", "annotations", "k"]), None);
        assert_eq!((at(&["spec", "nodeName"]), at(&["status", "phase"])), (None, None));
    }
}

#[test]
fn what_is_wrong_with_a_member_is_told_with_its_path() {
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    let containers = decoder.field_path(&["spec", "containers"]).unwrap();
    let told = decoder.decode_at::<Vec<Container>>(b"\x12\x05\x12\x03\x12\x01\xff", &containers);
    assert!(told.is_ok(), "an image that is no text: {told:?}");
    let told = decoder.decode_at::<Vec<Container>>(b"\x12\x04\x12\x02\x10\x01", &containers).unwrap_err();
    assert!(matches!(&told, Error::Protobuf { path, .. } if path == "spec.containers.image"), "{told}");
    let told = decoder.decode_at::<u8>(b"\x12\x02\x12\0", &containers).unwrap_err();
    assert!(matches!(&told, Error::Undecodable { path, .. } if path == "spec.containers"), "{told}");
}
