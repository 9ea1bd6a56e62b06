//! Protobuf that no Go server sends: what is wrong with it is told, and where.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer_wire::{Encoding, Error, ObjectDecoder, ProtobufProblem, decode_answer};
use serde_json::Value;

/// A field with bytes in it.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |mut number: usize| {
        while number >= 128 {
            out.push(number as u8 | 128);
            number >>= 7;
        }
        out.push(number as u8);
    };
    put(usize::from(number) << 3 | 2);
    put(bytes.len());
    out.extend_from_slice(bytes);
    out
}

fn problem<T>(result: Result<T, Error>) -> ProtobufProblem {
    match result.err() {
        Some(Error::Protobuf { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_nested_too_deep_is_told() {
    let schema = |levels: usize| {
        let schema = (0..levels).fold(Vec::new(), |inner, _| field(28, &inner));
        field(2, &field(7, &field(4, &field(1, &schema))))
    };
    let decoder =
        ObjectDecoder::new(Encoding::Protobuf, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
            .unwrap();
    decoder.decode::<CustomResourceDefinition>(&schema(100)).unwrap();
    assert_eq!(problem(decoder.decode::<CustomResourceDefinition>(&schema(200))), ProtobufProblem::TooDeep);
    assert_eq!(problem(decoder.decode::<Value>(&schema(10_000))), ProtobufProblem::TooDeep);

    let types = field(1, &[field(1, b"apps/v1"), field(2, b"ControllerRevision")].concat());
    let around = |inner: &[u8]| [b"k8s\0", types.as_slice(), &field(2, &field(2, &field(1, inner)))].concat();
    let within = (0..1000).fold(b"{}".to_vec(), |inner, _| around(&inner));
    assert_eq!(problem(decode_answer::<Value>(Encoding::Protobuf, &within)), ProtobufProblem::TooDeep);
    let once = around(&around(b"{\"a\":1}"));
    let revision: ControllerRevision = decode_answer(Encoding::Protobuf, &once).unwrap();
    assert_eq!(revision.data.0["data"]["a"], 1, "an object within another may be protobuf");
    let json = around("[".repeat(10_000).as_bytes());
    let told = decode_answer::<Value>(Encoding::Protobuf, &json).unwrap_err();
    assert!(matches!(&told, Error::Undecodable { path, .. } if path == "data"), "{told}");
}

#[test]
fn where_it_is_broken_is_told() {
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    let told = |message: &[u8]| decoder.decode::<Pod>(message).unwrap_err().to_string();
    let good = field(1, b"good");
    let image = field(2, &[0xff]);
    let container = |inner: &[u8]| field(2, &[field(2, &good), field(2, inner)].concat());
    assert_eq!(
        told(&container(&[good.clone(), field(6, &field(1, b"")), field(6, &[24, 0x80])].concat())),
        "Pod, in spec.containers[1].ports[1].containerPort, is not what the Kubernetes API sends: a number is cut short, or larger than 64 bits"
    );
    assert_eq!(
        told(&container(&[vec![8, 1], image].concat())),
        "Pod, in spec.containers[1].name, is not what the Kubernetes API sends: a field is a number where bytes belong, or bytes where a number belongs"
    );
    let label = field(11, &field(1, &[0xff]));
    assert!(
        told(&field(1, &label)).starts_with("Pod, in metadata.labels, is not"),
        "{}",
        told(&field(1, &label))
    );
    let disordered = field(1, &[field(3, b"ns"), field(1, b"a")].concat());
    assert_eq!(problem(decoder.decode::<Pod>(&disordered)), ProtobufProblem::Disordered);
    let far = field(1, &field(8, &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]));
    assert_eq!(problem(decoder.decode::<Pod>(&far)), ProtobufProblem::Time);
    // A number that the type has no room for.
    let port = container(&field(6, &[24, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]));
    assert!(
        told(&port).starts_with("Pod, in spec.containers[1].ports[0].containerPort, cannot be decoded: "),
        "{}",
        told(&port)
    );
}

#[test]
fn what_a_newer_server_adds_is_skipped_and_counted() {
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    let newer =
        [field(1, &[field(1, b"a"), field(200, b"new")].concat()), field(90, b"new"), vec![0xa8, 7, 1]]
            .concat();
    assert_eq!(decoder.decode::<Pod>(&newer).unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(decoder.unknown_fields(), 3);
    decoder.clone().decode::<Pod>(&newer).unwrap();
    assert_eq!(decoder.unknown_fields(), 6, "clones count together");
}

// As every reader of protobuf has to, although Go writes neither.
#[test]
fn numbers_behind_each_other_and_text_that_is_none_are_read() {
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    let packed = field(4, &[1, 0x80, 1, 3]);
    let context = field(2, &field(14, &[packed, field(4, b""), vec![32, 5]].concat()));
    let pod: Pod = decoder.decode(&context).unwrap();
    let groups = pod.spec.unwrap().security_context.unwrap().supplemental_groups;
    assert_eq!(groups, Some(vec![1, 128, 3, 5]));
    let pod: Pod = decoder.decode(&field(1, &field(1, b"a\xffb"))).unwrap();
    assert_eq!(pod.metadata.name.as_deref(), Some("a\u{fffd}b"));
    let secret = ObjectDecoder::new(Encoding::Protobuf, "v1", "Secret").unwrap();
    let secret: Secret = secret.decode(&field(2, &[field(1, b"k"), field(2, &[0, 255])].concat())).unwrap();
    assert_eq!(secret.data.unwrap()["k"].0, [0, 255]);
}
