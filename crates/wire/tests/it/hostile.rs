//! Protobuf that no Go server sends: typed errors with the position.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer_wire::{
    Encoding, Error, FieldPath, FromWire, ListDecoder, ManagedFields, ObjectDecoder, Packed, ProtobufProblem,
    WatchDecoder, decode_response,
};
use serde_json::Value;

use crate::common::field;

fn problem<T>(result: Result<T, Error>) -> ProtobufProblem {
    match result.err() {
        Some(Error::Protobuf { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

fn is_too_deep<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::TooDeep { .. }))
}

/// Too deep nesting is a typed error in messages, in envelopes and in JSON, also in JSON within protobuf.
#[test]
fn too_deep_nesting_is_a_typed_error() {
    let schema = |levels: usize| {
        let schema = (0..levels).fold(Vec::new(), |inner, _| field(28, &inner));
        field(2, &field(7, &field(4, &field(1, &schema))))
    };
    let decoder =
        ObjectDecoder::new(Encoding::Protobuf, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
            .unwrap();
    decoder.decode::<CustomResourceDefinition>(&schema(40)).unwrap();
    assert!(is_too_deep(decoder.decode::<CustomResourceDefinition>(&schema(200))));
    assert!(is_too_deep(decoder.decode::<Value>(&schema(10_000))));

    let types = field(1, &[field(1, b"apps/v1"), field(2, b"ControllerRevision")].concat());
    let enclose =
        |inner: &[u8]| [b"k8s\0", types.as_slice(), &field(2, &field(2, &field(1, inner)))].concat();
    let within = (0..1000).fold(b"{}".to_vec(), |inner, _| enclose(&inner));
    assert!(is_too_deep(decode_response::<Value>(Encoding::Protobuf, &within)));
    let once = enclose(&enclose(b"{\"a\":1}"));
    let revision: ControllerRevision = decode_response(Encoding::Protobuf, &once).unwrap();
    assert_eq!(revision.data.0["data"]["a"], 1, "an object within another may be protobuf");
    let json = enclose("[".repeat(10_000).as_bytes());
    assert!(is_too_deep(decode_response::<Value>(Encoding::Protobuf, &json)));
    assert!(is_too_deep(ObjectDecoder::json().decode::<Value>("[".repeat(10_000).as_bytes())));
}

/// The error for malformed protobuf has the path of the field.
// contract: L-11d
#[test]
fn error_has_path_of_malformed_field() {
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    let message_of = |message: &[u8]| decoder.decode::<Pod>(message).unwrap_err().to_string();
    let good = field(1, b"good");
    let image = field(2, &[0xff]);
    let container = |inner: &[u8]| field(2, &[field(2, &good), field(2, inner)].concat());
    assert_eq!(
        message_of(&container(&[good.clone(), field(6, &field(1, b"")), field(6, &[24, 0x80])].concat())),
        "Pod, in spec.containers[1].ports[1].containerPort, is malformed: a number is truncated, or larger than 64 bits"
    );
    assert_eq!(
        message_of(&container(&[vec![8, 1], image].concat())),
        "Pod, in spec.containers[1].name, is malformed: a field has the wrong wire type: a number instead of bytes, or bytes instead of a number"
    );
    let label = field(11, &field(1, &[0xff]));
    assert!(
        message_of(&field(1, &label)).starts_with("Pod, in metadata.labels, is malformed"),
        "{}",
        message_of(&field(1, &label))
    );
    let disordered = field(1, &[field(3, b"ns"), field(1, b"a")].concat());
    assert_eq!(problem(decoder.decode::<Pod>(&disordered)), ProtobufProblem::Disordered);
    let far = field(1, &field(8, &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]));
    assert_eq!(problem(decoder.decode::<Pod>(&far)), ProtobufProblem::Time);
    let name = container(&[field(2, b"a"), field(2, b"b")].concat());
    assert_eq!(
        message_of(&name),
        "Pod, in spec.containers[1], is malformed: the fields of a message are not in order, or one is duplicated"
    );
}

/// Fields that a newer server adds are skipped and counted.
// contract: L-11c
#[test]
fn unknown_fields_are_skipped_and_counted() {
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    let newer =
        [field(1, &[field(1, b"a"), field(200, b"new")].concat()), field(90, b"new"), vec![0xa8, 7, 1]]
            .concat();
    assert_eq!(decoder.decode::<Pod>(&newer).unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(decoder.unknown_fields(), 3);
    decoder.clone().decode::<Pod>(&newer).unwrap();
    assert_eq!(decoder.unknown_fields(), 6, "clones share the counter");
}

/// Packed numbers and strings that are not UTF-8 are read, as by every reader of protobuf, although Go writes
/// neither.
#[test]
fn packed_numbers_and_invalid_utf8_are_read() {
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

const BOTH: [Encoding; 2] = [Encoding::Protobuf, Encoding::Json];

fn decoders(api_version: &str, kind: &str) -> [ObjectDecoder; 2] {
    BOTH.map(|encoding| ObjectDecoder::new(encoding, api_version, kind).unwrap())
}

fn read_field<K: serde::de::DeserializeOwned>(
    decoder: &ObjectDecoder,
    object: &[u8],
    names: &[&str],
) -> Result<Option<K>, Error> {
    decoder.decode_field(object, &FieldPath::new(names))
}

/// A duplicate field is an error in every way of reading. Go merges the copies of a message.
// contract: L-25f
#[test]
fn duplicate_field_is_an_error() {
    let [decoder, _] = decoders("v1", "Pod");
    let (node, host) = (field(2, &field(10, b"n")), field(2, &field(16, b"h")));
    let status = field(3, &field(1, b"p"));
    for split in [
        [node.clone(), host.clone()].concat(),
        [node.clone(), status.clone(), host.clone()].concat(),
        [status, node.clone()].concat(),
        field(2, &[field(10, b"n"), field(10, b"m")].concat()),
        field(2, &[field(10, b"n"), field(16, b"h"), field(10, b"m")].concat()),
    ] {
        assert_eq!(problem(decoder.decode::<Value>(&split)), ProtobufProblem::Disordered);
        assert_eq!(problem(decoder.decode::<Pod>(&split)), ProtobufProblem::Disordered);
        assert_eq!(
            problem(read_field::<String>(&decoder, &split, &["spec", "nodeName"])),
            ProtobufProblem::Disordered
        );
    }
    // Metadata is read on arrival.
    let metadata = [field(1, &field(1, b"a")), field(1, &field(3, b"b"))].concat();
    assert_eq!(problem(Packed::<Pod>::from_wire(&metadata, &decoder)), ProtobufProblem::Disordered);
    assert_eq!(decoder.identify(&metadata).key, None);
}

/// Of duplicate keys the last one is used in every way of reading.
// contract: L-25c
#[test]
fn last_of_duplicate_keys_wins() {
    let label = |value: &[u8]| field(11, &[field(1, b"k"), field(2, value)].concat());
    let other = field(11, &[field(1, b"a"), field(2, b"b")].concat());
    let labels = field(1, &[field(1, b"n"), label(b"1"), other, label(b"2")].concat());
    let json = br#"{"metadata":{"name":"x","labels":{"k":"0"}},"spec":{"nodeName":"x","hostname":"h"},"spec":{"nodeName":"y"},
        "metadata":{"name":"x","name":"n","labels":{"c":"d"},"labels":{"k":"1","a":"b","k":"2"}}}"#;
    for (decoder, object) in decoders("v1", "Pod").iter().zip([labels.as_slice(), json]) {
        let packed = Packed::<Pod>::from_wire(object, decoder).unwrap();
        let expected = [("a", "b"), ("k", "2")];
        assert_eq!((packed.key().name(), packed.label("k")), ("n", Some("2")));
        assert_eq!(decoder.identify(object).key.unwrap().name(), "n");
        assert_eq!(packed.labels().collect::<Vec<_>>(), expected);
        let typed = packed.decode().unwrap().metadata.labels.clone().unwrap();
        assert_eq!(typed.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(), expected);
        let whole: Value = decoder.decode(object).unwrap();
        assert_eq!(whole["metadata"]["labels"], serde_json::json!({"a": "b", "k": "2"}));
        assert_eq!(packed.metadata_as::<Value>().unwrap().as_ref(), whole.get("metadata"));
        assert_eq!(
            packed.field::<Value>(&FieldPath::new(&["metadata", "labels", "k"])).unwrap(),
            Some("2".into())
        );
        assert_eq!(packed.field::<Value>(&FieldPath::new(&["spec", "hostname"])).unwrap(), None);
    }
    let mut watch = kinformer_wire::WatchDecoder::new(kinformer_wire::ManagedFields::Drop);
    let line = [
        b"{\"type\":\"ADDED\",\"object\":",
        json.split(|byte| *byte == b'\n').collect::<Vec<_>>().concat().as_slice(),
        b"}\n",
    ]
    .concat();
    let mut keys = Vec::new();
    watch
        .feed(&line, |event| keys.push(ObjectDecoder::json().identify(event.unwrap().object).key.unwrap()))
        .unwrap();
    assert_eq!(keys[0].name(), "n");
}

/// Invalid UTF-8 is replaced as Go does in JSON, and large numbers are truncated as by Go's generated code.
// contract: L-25d, L-25e
#[test]
fn invalid_utf8_and_large_numbers_match_go() {
    let [decoder, _] = decoders("v1", "Pod");
    let text = b"a\xe2\x82b\xff\xfe\xf0\x9f\x98";
    let port = field(6, &[24, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    let priority = vec![0xc8, 1, 0x85, 0x80, 0x80, 0x80, 0x10];
    let spec = field(2, &[field(2, &[field(1, b"c"), port].concat()), field(10, text), priority].concat());
    let object = [field(1, &field(1, text)), spec].concat();
    let go = "a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}";
    let typed: Pod = decoder.decode(&object).unwrap();
    let whole: Value = decoder.decode(&object).unwrap();
    let packed = Packed::<Pod>::from_wire(&object, &decoder).unwrap();
    assert_eq!(typed.metadata.name.as_deref(), Some(go));
    assert_eq!((packed.key().name(), decoder.identify(&object).key.unwrap().name()), (go, go));
    assert_eq!(whole["spec"]["nodeName"], go);
    assert_eq!(read_field::<String>(&decoder, &object, &["spec", "nodeName"]).unwrap().as_deref(), Some(go));
    let ports = typed.spec.as_ref().unwrap().containers[0].ports.as_ref().unwrap();
    assert_eq!((ports[0].container_port, typed.spec.as_ref().unwrap().priority), (-1, Some(5)));
    assert_eq!(whole["spec"]["containers"][0]["ports"][0]["containerPort"], -1);
    assert_eq!(read_field::<i64>(&decoder, &object, &["spec", "priority"]).unwrap(), Some(5));
}

/// A revision with this data, in both encodings.
fn revisions(data: &str) -> [Vec<u8>; 2] {
    let protobuf = [field(1, &field(1, b"a")), field(2, &field(1, data.as_bytes())), vec![24, 7]].concat();
    let types = r#""apiVersion":"apps/v1","kind":"ControllerRevision""#;
    let json = format!(r#"{{{types},"metadata":{{"name":"a"}},"data":{data},"revision":7}}"#);
    [protobuf, json.into_bytes()]
}

/// Fields of JSON within protobuf are read and dropped by path, as in JSON.
// contract: L-25b, L-25c, L-14b, L-14c
#[test]
fn embedded_json_is_read_and_dropped_by_path() {
    let data = r#"{"spec":{"replicas":3,"replicas":4,"name":"x"},"list":[1],"none":null,"text":"t"}"#;
    for (decoder, object) in decoders("apps/v1", "ControllerRevision").iter().zip(revisions(data)) {
        let read = |names: &[&str]| read_field::<Value>(decoder, &object, names);
        assert_eq!(read(&["data", "spec", "replicas"]).unwrap(), Some(4.into()));
        assert_eq!(read_field::<u8>(decoder, &object, &["data", "spec", "replicas"]).unwrap(), Some(4));
        assert_eq!(read_field::<String>(decoder, &object, &["data", "text"]).unwrap().as_deref(), Some("t"));
        assert_eq!(read(&["data", "none"]).unwrap(), None);
        assert_eq!(read(&["data", "none", "more"]).unwrap(), None);
        assert_eq!(read(&["data", "no", "such"]).unwrap(), None);
        assert_eq!(read(&["kind"]).unwrap(), Some("ControllerRevision".into()));
        assert_eq!(read(&["apiVersion"]).unwrap(), Some("apps/v1".into()));
        assert_eq!(read(&[]).unwrap().unwrap()["data"]["text"], "t");
        for through in [["data", "list", "0"], ["data", "text", "a"], ["metadata", "name", "a"]] {
            assert!(read(&through).is_err(), "{through:?}");
        }
        assert!(read(&["kind", "a"]).is_err());
        let whole: Value = decoder.decode(&object).unwrap();
        let packed = Packed::<ControllerRevision>::from_wire(&object, decoder).unwrap();
        for names in [
            ["data", "spec"].as_slice(),
            &["data", "spec", "replicas"],
            &["data"],
            &["kind"],
            &["apiVersion"],
        ] {
            let mut expected = whole.clone();
            let (last, around) = names.split_last().unwrap();
            let around = around.iter().fold(&mut expected, |value, name| &mut value[*name]);
            around.as_object_mut().unwrap().remove(*last);
            let without =
                Value::from_wire(&object, &decoder.clone().drop_fields([FieldPath::new(names)])).unwrap();
            assert_eq!(without, expected, "{names:?}");
            let less = packed.without_fields(&[&FieldPath::new(names)]).unwrap();
            assert_eq!(less.field::<Value>(&FieldPath::new(&[])).unwrap(), Some(expected), "{names:?}");
            assert_eq!(less.field::<Value>(&FieldPath::new(names)).unwrap(), None);
        }
        for kept in [&[][..], &["metadata"], &["metadata", "name"]] {
            assert!(matches!(
                packed.without_fields(&[&FieldPath::new(kept)]),
                Err(Error::NotRemovable { .. })
            ));
        }
        // A broken field on the path is an error: it is not kept.
        let text = decoder.clone().drop_fields([FieldPath::new(&["data", "spec"])]);
        let broken: Vec<u8> = object.iter().map(|byte| if *byte == b'x' { 0xff } else { *byte }).collect();
        assert!(Packed::<ControllerRevision>::from_wire(&broken, &text).is_err());
    }
    // An object within another may be protobuf.
    let [inner, _] = revisions(data);
    let types = field(1, &[field(1, b"apps/v1"), field(2, b"ControllerRevision")].concat());
    let outer = [
        field(1, &field(1, b"b")),
        field(2, &field(1, &[b"k8s\0", types.as_slice(), &field(2, &inner)].concat())),
    ]
    .concat();
    let [decoder, _] = decoders("apps/v1", "ControllerRevision");
    assert_eq!(read_field::<u8>(&decoder, &outer, &["data", "data", "spec", "replicas"]).unwrap(), Some(4));
    assert_eq!(
        read_field::<String>(&decoder, &outer, &["data", "metadata", "name"]).unwrap().as_deref(),
        Some("a")
    );
    assert_eq!(
        read_field::<String>(&decoder, &outer, &["data", "kind"]).unwrap().as_deref(),
        Some("ControllerRevision")
    );
    let without =
        Value::from_wire(&outer, &decoder.clone().drop_fields([FieldPath::new(&["data", "data", "spec"])]))
            .unwrap();
    assert_eq!(without["data"]["data"].get("spec"), None);
    assert_eq!(without["data"]["data"]["text"], "t");
    assert!(
        Value::from_wire(&outer, &decoder.clone().drop_fields([FieldPath::new(&["data", "kind"])])).is_err()
    );
}

/// A value that may be a number or a string is read as the type that it has.
// contract: L-25a, L-25e
#[test]
fn int_or_string_is_read_as_its_type() {
    let budget = field(2, &field(1, &[vec![8, 1], field(3, b"5%")].concat()));
    let json = br#"{"spec":{"minAvailable":"5%"}}"#;
    let path = ["spec", "minAvailable"];
    for (decoder, object) in
        decoders("policy/v1", "PodDisruptionBudget").iter().zip([budget.as_slice(), json])
    {
        assert_eq!(read_field::<String>(decoder, object, &path).unwrap().as_deref(), Some("5%"));
        assert!(read_field::<i32>(decoder, object, &path).is_err());
    }
    let budget = field(2, &field(1, &[16, 0x85, 0x80, 0x80, 0x80, 0x10]));
    let [decoder, _] = decoders("policy/v1", "PodDisruptionBudget");
    assert_eq!(read_field::<i32>(&decoder, &budget, &path).unwrap(), Some(5));
}

const MIB: usize = 1024 * 1024;

/// Feeds the start and then chunks of 1 MiB. Returns the error, and after how many chunks it was returned.
fn fed(start: &[u8], filler: u8, mut feed: impl FnMut(&[u8]) -> Result<(), Error>) -> Option<(Error, usize)> {
    feed(start).unwrap();
    let chunk = vec![filler; MIB];
    (1..=66).find_map(|chunks| feed(&chunk).err().map(|error| (error, chunks)))
}

/// Bodies without an end are typed errors, as soon as they exceed 64 MiB.
// contract: L-17f
#[test]
fn endless_parts_of_a_body_are_too_large() {
    let list = || ListDecoder::new(ManagedFields::Drop);
    let (mut item, mut envelope, mut empty, mut watch) =
        (list(), list(), list(), WatchDecoder::new(ManagedFields::Drop));
    let found = [
        fed(br#"{"items":[{"metadata":{"name":""#, b'a', |chunk| item.feed(chunk, |_| {})),
        fed(br#"{"kind":"PodList","metadata":{"continue":""#, b'a', |chunk| envelope.feed(chunk, |_| {})),
        fed(br#"{"kind":"PodList","#, b' ', |chunk| empty.feed(chunk, |_| {})),
        fed(br#"{"type":"ADDED","object":{"kind":""#, b'a', |chunk| watch.feed(chunk, |_| {})),
    ];
    for (part, found) in found.into_iter().enumerate() {
        assert!(matches!(found, Some((Error::TooLarge { .. }, 64..=65))), "{part} {found:?}");
    }

    // In protobuf the size is announced, and refused before it is received.
    let types = field(1, &[field(1, b"v1"), field(2, b"PodList")].concat());
    let announced = |tag: u8, bytes: usize| {
        let byte = |shift: usize| u8::try_from((bytes >> shift) & 0x7f).unwrap();
        [tag, byte(0) | 0x80, byte(7) | 0x80, byte(14) | 0x80, byte(21) | 0x80, byte(28)]
    };
    let start = [b"k8s\0", types.as_slice(), &announced(0x12, 80 * MIB), &announced(0x12, 65 * MIB)].concat();
    let error = ListDecoder::of(Encoding::Protobuf, ManagedFields::Drop).feed(&start, |_| {}).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    let start = u32::try_from(65 * MIB).unwrap().to_be_bytes();
    let error = WatchDecoder::of(Encoding::Protobuf, ManagedFields::Drop).feed(&start, |_| {}).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
}
