//! Objects that stay as they came: the same in both encodings, decoded when they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kinformer_core::{Object, ResourceVersion};
use kinformer_wire::{Encoding, FromWire, MemberPath, ObjectDecoder, Packed, Typed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::streams::body;

/// A pod, in protobuf without its envelope and in JSON.
fn pod() -> (Vec<u8>, Vec<u8>) {
    (message(body("pod", Encoding::Protobuf)).to_vec(), body("pod", Encoding::Json).to_vec())
}

/// The second field of an envelope whose kind is a pod's.
fn message(envelope: &[u8]) -> &[u8] {
    let types = b"k8s\0\n\x09\n\x02v1\x12\x03Pod".len();
    let mut rest = &envelope[types + 1..];
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = usize::from(rest[0]);
        rest = &rest[1..];
        length |= (byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            return &rest[..length];
        }
    }
}

fn packed<K>() -> [Packed<K>; 2] {
    let (protobuf, json) = pod();
    let of_protobuf = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    [
        Packed::from_wire(&protobuf, &of_protobuf).unwrap(),
        Packed::from_wire(&json, &ObjectDecoder::json()).unwrap(),
    ]
}

// contract: L-13
#[test]
fn what_identifies_an_object_is_ready_and_the_rest_is_the_same_as_if_it_was_decoded_at_once() {
    let eager: Pod = serde_json::from_slice(&pod().1).unwrap();
    let meta = &eager.metadata;
    assert!(meta.labels.as_ref().is_some_and(|labels| labels.len() > 1));
    let node = MemberPath::new(&["spec", "nodeName"]);
    let [protobuf, json] = packed::<Pod>();
    assert_eq!((protobuf.encoding(), json.encoding()), (Encoding::Protobuf, Encoding::Json));
    assert!(protobuf.bytes().len() < json.bytes().len());
    for packed in [protobuf, json] {
        assert_eq!(packed.key().namespace(), meta.namespace.as_deref().unwrap());
        assert_eq!(packed.key().name(), meta.name.as_deref().unwrap());
        assert_eq!(packed.uid(), meta.uid.as_deref());
        assert_eq!(
            packed.resource_version(),
            ResourceVersion::from(meta.resource_version.as_deref().unwrap())
        );
        let mut labels: Vec<_> =
            packed.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        labels.sort();
        assert_eq!(labels, meta.labels.clone().unwrap().into_iter().collect::<Vec<_>>());
        for (key, value) in meta.labels.as_ref().unwrap() {
            assert_eq!(packed.label(key), Some(value.as_str()));
        }
        assert_eq!(packed.label("not there"), None);
        assert_eq!(packed.at::<&str>(&node).unwrap(), eager.spec.as_ref().unwrap().node_name.as_deref());
        assert_eq!(packed.at::<String>(&MemberPath::new(&["spec", "hostname"])).unwrap(), None);
        assert_eq!(*packed.typed().unwrap(), eager);
    }
}

/// Counts how often it was decoded.
struct Counted;

static DECODED: AtomicUsize = AtomicUsize::new(0);

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED.fetch_add(1, Ordering::Relaxed);
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

// contract: L-13
#[test]
fn it_is_decoded_when_it_is_read_and_shared_while_it_is_held() {
    let [packed, _] = packed::<Counted>();
    assert_eq!((packed.key().namespace().is_empty(), DECODED.load(Ordering::Relaxed)), (false, 0));
    let first = packed.typed().unwrap();
    assert!(Arc::ptr_eq(&first, &packed.typed().unwrap()));
    assert_eq!(DECODED.load(Ordering::Relaxed), 1);
    drop(first);
    packed.typed().unwrap();
    assert_eq!(DECODED.load(Ordering::Relaxed), 2, "nobody held it");
}

// contract: L-13
#[test]
fn what_makes_no_sense_is_told_to_who_reads_it() {
    let json = br#"{"metadata":{"name":"a","labels":null},"spec":7}"#;
    let packed = Packed::<Pod>::from_wire(json, &ObjectDecoder::json()).unwrap();
    assert_eq!((packed.key().to_string(), packed.uid(), packed.labels().count()), ("a".into(), None, 0));
    let problem = packed.typed().unwrap_err().to_string();
    assert!(problem.contains("invalid type"), "{problem}");
    assert!(packed.at::<String>(&MemberPath::new(&["spec", "nodeName"])).is_err());
    assert!(Packed::<Pod>::from_wire(br#"{"metadata":7}"#, &ObjectDecoder::json()).is_err());
    assert!(Packed::<Pod>::from_wire(b"{", &ObjectDecoder::json()).is_err());
    let empty = Packed::<Pod>::from_wire(b"{}", &ObjectDecoder::json()).unwrap();
    assert!(empty.key().name().is_empty(), "the store refuses it by its key");
}

/// A function that is written once for both.
fn name_of<K: DeserializeOwned + Clone>(object: &impl Typed<K>) -> Result<K, kinformer_wire::Error> {
    object.typed().map(|typed| K::clone(&typed))
}

#[test]
fn code_for_typed_objects_is_written_once_for_both() {
    let (_, json) = pod();
    let eager: Pod = ObjectDecoder::json().decode(&json).unwrap();
    let packed = Packed::<Pod>::from_wire(&json, &ObjectDecoder::json()).unwrap();
    assert_eq!(name_of::<Pod>(&packed).unwrap(), name_of::<Pod>(&eager).unwrap());
}
