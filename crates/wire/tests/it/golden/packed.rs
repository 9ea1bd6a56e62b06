//! Packed objects: the same in both encodings, decoded on read.

use std::sync::Barrier;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kinformer_core::{Object, ResourceVersion};
use kinformer_wire::{Encoding, FieldPath, FromWire, ObjectDecoder, Packed};
use serde_json::{Value, json};

use super::counted::{Counted, decoded};
use super::paths::message;
use super::streams::body;
use super::{SAMPLES, samples};

/// A pod, in protobuf without its envelope and in JSON.
fn pod() -> (Vec<u8>, Vec<u8>) {
    (message(body("pod", Encoding::Protobuf)).to_vec(), body("pod", Encoding::Json).to_vec())
}

fn packed<K>() -> [Packed<K>; 2] {
    let (protobuf, json) = pod();
    let of_protobuf = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    [
        Packed::from_wire(&protobuf, &of_protobuf).unwrap(),
        Packed::from_wire(&json, &ObjectDecoder::json()).unwrap(),
    ]
}

/// The identity of a packed object is parsed on arrival, and the rest decodes as in an object decoded on arrival.
// contract: L-13b, L-13c, L-13f
#[test]
fn packed_object_equals_eager_object() {
    let eager: Pod = serde_json::from_slice(&pod().1).unwrap();
    let meta = &eager.metadata;
    assert!(meta.labels.as_ref().is_some_and(|labels| labels.len() > 1));
    let node = FieldPath::new(&["spec", "nodeName"]);
    let [protobuf, json] = packed::<Pod>();
    assert_eq!((protobuf.encoding(), json.encoding()), (Encoding::Protobuf, Encoding::Json));
    assert!(protobuf.encoded_len() < json.encoded_len());
    for packed in [protobuf, json] {
        assert_eq!(packed.key().namespace(), meta.namespace.as_deref());
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
        assert_eq!(packed.field::<String>(&node).unwrap(), eager.spec.as_ref().unwrap().node_name);
        assert_eq!(packed.field::<String>(&FieldPath::new(&["spec", "hostname"])).unwrap(), None);
        assert_eq!(*packed.decode().unwrap(), eager);
    }
}

/// A packed object is decoded on read, and the value is shared while a reader holds it.
// contract: L-13d
#[test]
fn decoded_on_read_and_shared_while_held() {
    let decoder = ObjectDecoder::json().decoded_cache_size(0);
    let packed = Packed::<Counted<0>>::from_wire(&pod().1, &decoder).unwrap();
    assert_eq!((packed.key().namespace().is_none(), decoded::<0>()), (false, 0));
    let first = packed.decode_owned().unwrap();
    assert!(std::ptr::eq(&raw const *first, &raw const *packed.decode().unwrap()));
    assert_eq!((decoded::<0>(), packed.is_decoded()), (1, true));
    drop(first);
    assert!(!packed.is_decoded());
    packed.decode().unwrap();
    assert_eq!(decoded::<0>(), 2, "no reader held it");
}

/// The most recently read objects stay decoded, up to the size of the cache.
// contract: L-13e
#[test]
fn recently_read_objects_stay_decoded() {
    let decoder = ObjectDecoder::json().decoded_cache_size(2);
    let pack = || Packed::<Counted<1>>::from_wire(&pod().1, &decoder).unwrap();
    let many = [pack(), pack(), pack()];
    let are_decoded = |many: &[Packed<_>]| many.iter().map(|packed| packed.is_decoded()).collect::<Vec<_>>();
    many.iter().for_each(|packed| drop(packed.decode().unwrap()));
    assert_eq!((decoded::<1>(), are_decoded(&many)), (3, vec![false, true, true]));
    // Read again, so that the other one is evicted.
    many[1].decode().unwrap();
    many[0].decode().unwrap();
    assert_eq!((decoded::<1>(), are_decoded(&many)), (4, vec![true, true, false]));
    let [first, second, third] = many;
    drop((first, second));
    // Dropped objects leave the cache: both places are free.
    let others = [third, pack()];
    others.iter().for_each(|packed| drop(packed.decode().unwrap()));
    assert_eq!((decoded::<1>(), are_decoded(&others)), (6, vec![true, true]));
}

// contract: L-13d
#[test]
fn concurrent_readers_decode_once() {
    let packed = Packed::<Counted<2>>::from_wire(&pod().1, &ObjectDecoder::json()).unwrap();
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                packed.decode().unwrap();
            });
        }
    });
    assert_eq!(decoded::<2>(), 1);
}

// contract: L-13c
#[test]
fn metadata_is_read_without_the_rest() {
    let mut found = [0; 3];
    for sample in samples(SAMPLES) {
        for (encoding, object) in
            [(Encoding::Protobuf, message(sample.protobuf)), (Encoding::Json, sample.json)]
        {
            let decoder = ObjectDecoder::new(encoding, sample.api_version, sample.kind).unwrap();
            let whole: Value = decoder.decode(object).unwrap();
            let Some(metadata) = whole.get("metadata").filter(|metadata| metadata.is_object()) else {
                continue;
            };
            let packed = Packed::<Counted<3>>::from_wire(object, &decoder).unwrap();
            assert_eq!(packed.metadata_as::<Value>().unwrap().as_ref(), Some(metadata));
            let annotations = packed.annotations().unwrap();
            assert_eq!(json!(annotations), *metadata.get("annotations").unwrap_or(&json!({})));
            let owners = packed.owner_references_as::<Value>().unwrap();
            assert_eq!(json!(owners), *metadata.get("ownerReferences").unwrap_or(&json!([])));
            let deleted = packed.deletion_timestamp_as::<Value>().unwrap();
            let expected = metadata.get("deletionTimestamp").filter(|time| !time.is_null());
            assert_eq!(deleted.as_ref(), expected);
            for (found, is) in
                found.iter_mut().zip([!annotations.is_empty(), !owners.is_empty(), deleted.is_some()])
            {
                *found += usize::from(is);
            }
        }
    }
    assert_eq!((decoded::<3>(), found.iter().all(|found| *found > 50)), (0, true), "{found:?}");
    let packed = Packed::<Pod>::from_wire(
        br#"{"metadata":{"annotations":null,"ownerReferences":null}}"#,
        &ObjectDecoder::json(),
    );
    let packed = packed.unwrap();
    assert_eq!(
        (packed.annotations().unwrap().len(), packed.owner_references_as::<OwnerReference>().unwrap().len()),
        (0, 0)
    );
    assert_eq!(packed.deletion_timestamp_as::<Time>().unwrap(), None);
    assert!(packed.metadata_as::<u8>().is_err());
}

#[test]
fn path_works_for_several_kinds() {
    let phase = FieldPath::new(&["status", "phase"]);
    let pack = |kind, message: &[u8]| {
        let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", kind).unwrap();
        Packed::<Pod>::from_wire(message, &decoder).unwrap()
    };
    // The third field of a pod is its status; the third field of a config map, which has no status, is its data.
    let (pod, namespace) = (pack("Pod", b"\x1a\x03\n\x01p"), pack("Namespace", b"\x1a\x03\n\x01n"));
    let config_map = pack("ConfigMap", b"\x1a\x03\n\x01n");
    assert_eq!(pod.field::<String>(&phase).unwrap().as_deref(), Some("p"));
    assert_eq!(namespace.field::<String>(&phase).unwrap().as_deref(), Some("n"));
    assert_eq!(config_map.field::<String>(&phase).unwrap(), None);
}

// contract: L-14a, L-14c
#[test]
fn transform_drops_fields_of_single_objects() {
    let (annotations, status) = (FieldPath::new(&["metadata", "annotations"]), FieldPath::new(&["status"]));
    for packed in packed::<Pod>() {
        let less = packed.without_fields(&[&annotations, &status, &FieldPath::new(&["no", "such"])]).unwrap();
        let mut expected = Pod::clone(&packed.decode().unwrap());
        expected.metadata.annotations = None;
        expected.status = None;
        assert_eq!(*less.decode().unwrap(), expected);
        assert!(less.encoded_len() < packed.encoded_len());
        assert_eq!(
            (less.key(), less.uid(), less.labels().count()),
            (packed.key(), packed.uid(), packed.labels().count())
        );
    }
}

/// A path does not lead into a list, neither by the names of fields nor by a position.
// contract: L-14d
#[test]
fn paths_do_not_lead_into_lists() {
    let eager: Pod = serde_json::from_slice(&pod().1).unwrap();
    assert!(!eager.spec.as_ref().unwrap().containers.is_empty());
    for path in [
        &["spec", "containers", "name"][..],
        &["spec", "containers", "0"],
        &["spec", "containers", "0", "name"],
        &["spec", "containers", "[0]"],
        &["spec", "containers", "*", "name"],
    ] {
        let path = FieldPath::new(path);
        for packed in packed::<Pod>() {
            assert_eq!(packed.field::<Value>(&path).ok().flatten(), None, "{path}");
            let same = packed.without_fields(&[&path]).unwrap();
            assert_eq!((same.dropped_fields(), &*same.decode().unwrap()), (vec![], &eager), "{path}");
        }
    }
}

/// An object from which a field cannot be dropped is an error: the field is never stored.
// contract: L-14e
#[test]
fn failure_to_drop_a_field_is_an_error() {
    let decoder = ObjectDecoder::json().drop_fields([FieldPath::new(&["spec", "token"])]);
    let pack = |spec: &str| {
        let json = format!(r#"{{"metadata":{{"name":"a"}},"spec":{spec}}}"#);
        Packed::<Pod>::from_wire(json.as_bytes(), &decoder)
    };
    assert!(pack(r#"{"token":"secret","\ud800":1}"#).is_err());
    assert!(pack(r#"{"\ud800":1,"token":"secret"}"#).is_err());
    let without = pack(r#"{"token":"secret","nodeName":"n"}"#).unwrap();
    assert!(!String::from_utf8_lossy(&without.encoded()).contains("secret"));
    assert_eq!(pack("[1]").unwrap().encoded(), pack(" [1] ").unwrap().encoded());
}

// contract: L-13a, L-13b
#[test]
fn escaped_strings_are_parsed_on_arrival() {
    let json = r#"{"metadata":{"name":"a\u0062","namespace":"n","labels":{"k\"":"v\\","plain":"text"}}}"#;
    let packed = Packed::<Pod>::from_wire(json.as_bytes(), &ObjectDecoder::json()).unwrap();
    assert_eq!(packed.key().to_string(), "n/ab");
    assert_eq!(packed.labels().collect::<Vec<_>>(), [("k\"", "v\\"), ("plain", "text")]);
    assert_eq!(packed.encoded(), json.as_bytes());
}

/// An object that does not match its type is an error on read, and one without readable metadata on arrival.
// contract: L-13g
#[test]
fn undecodable_object_fails_on_read() {
    let json = br#"{"metadata":{"name":"a","labels":null},"spec":7}"#;
    let packed = Packed::<Pod>::from_wire(json, &ObjectDecoder::json()).unwrap();
    assert_eq!((packed.key().to_string(), packed.uid(), packed.labels().count()), ("a".into(), None, 0));
    let problem = packed.decode().unwrap_err().to_string();
    assert!(problem.contains("invalid type"), "{problem}");
    assert!(packed.field::<String>(&FieldPath::new(&["spec", "nodeName"])).is_err());
    assert!(Packed::<Pod>::from_wire(br#"{"metadata":7}"#, &ObjectDecoder::json()).is_err());
    assert!(Packed::<Pod>::from_wire(b"{", &ObjectDecoder::json()).is_err());
    let empty = Packed::<Pod>::from_wire(b"{}", &ObjectDecoder::json()).unwrap();
    assert!(empty.key().name().is_empty(), "the store refuses it by its key");
}

/// Objects of every kind are compared across encodings, and an object with one changed field is not equal.
// contract: I-14c
#[test]
fn equal_content_is_equal_in_both_encodings() {
    let mut compared = 0;
    for sample in samples(SAMPLES) {
        let name = format!("{} {}", sample.api_version, sample.kind);
        let of_protobuf = ObjectDecoder::new(Encoding::Protobuf, sample.api_version, sample.kind).unwrap();
        let of_json = ObjectDecoder::new(Encoding::Json, sample.api_version, sample.kind).unwrap();
        let protobuf = Packed::<Value>::from_wire(message(sample.protobuf), &of_protobuf);
        let json = Packed::<Value>::from_wire(sample.json, &of_json);
        let (Ok(protobuf), Ok(json)) = (protobuf, json) else { continue };
        let mut value: Value = serde_json::from_slice(sample.json).unwrap();
        value.as_object_mut().unwrap().remove("kind");
        let item = serde_json::to_vec(&value).unwrap();
        let item = Packed::<Value>::from_wire(&item, &of_json).unwrap();
        value["metadata"]["labels"]["changed"] = json!("yes");
        let changed = serde_json::to_vec(&value).unwrap();
        let changed = Packed::<Value>::from_wire(&changed, &of_json).unwrap();
        for same in [&protobuf, &json, &item] {
            for other in [&protobuf, &json, &item] {
                assert_eq!(same.has_same_content(other), Some(true), "{name}: {same:?} {other:?}");
            }
            assert_eq!(same.has_same_content(&changed), Some(false), "{name}");
            assert_eq!(changed.has_same_content(same), Some(false), "{name}");
        }
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

/// A whole object with no other fields has the same bytes as metadata only, in which the other fields are unknown.
// contract: I-14c
#[test]
fn metadata_only_never_equals_whole_object() {
    let json = br#"{"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"7"}}"#;
    let decoded = |api_version, kind| {
        let decoder = ObjectDecoder::new(Encoding::Json, api_version, kind).unwrap();
        Packed::<Value>::from_wire(json, &decoder).unwrap()
    };
    let (whole, metadata) = (decoded("v1", "ConfigMap"), decoded("meta.k8s.io/v1", "PartialObjectMetadata"));
    assert!(metadata.is_metadata_only() && !whole.is_metadata_only());
    assert_eq!(
        (whole.has_same_content(&metadata), metadata.has_same_content(&whole)),
        (Some(false), Some(false))
    );
    assert_eq!(metadata.has_same_content(&metadata), Some(true));
}
