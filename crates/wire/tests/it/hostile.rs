//! Protobuf that no Go server sends: what is wrong with it is told, and where.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinformer_wire::{
    Encoding, Error, FieldPath, FromWire, ObjectDecoder, Packed, ProtobufProblem, decode_answer,
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

#[test]
fn what_is_nested_too_deep_is_told() {
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
    let around = |inner: &[u8]| [b"k8s\0", types.as_slice(), &field(2, &field(2, &field(1, inner)))].concat();
    let within = (0..1000).fold(b"{}".to_vec(), |inner, _| around(&inner));
    assert!(is_too_deep(decode_answer::<Value>(Encoding::Protobuf, &within)));
    let once = around(&around(b"{\"a\":1}"));
    let revision: ControllerRevision = decode_answer(Encoding::Protobuf, &once).unwrap();
    assert_eq!(revision.data.0["data"]["a"], 1, "an object within another may be protobuf");
    let json = around("[".repeat(10_000).as_bytes());
    assert!(is_too_deep(decode_answer::<Value>(Encoding::Protobuf, &json)));
    assert!(is_too_deep(ObjectDecoder::json().decode::<Value>("[".repeat(10_000).as_bytes())));
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
        "Pod, in spec.containers[1].ports[1].containerPort, is malformed: a number is truncated, or larger than 64 bits"
    );
    assert_eq!(
        told(&container(&[vec![8, 1], image].concat())),
        "Pod, in spec.containers[1].name, is malformed: a field has the wrong wire type: a number instead of bytes, or bytes instead of a number"
    );
    let label = field(11, &field(1, &[0xff]));
    assert!(
        told(&field(1, &label)).starts_with("Pod, in metadata.labels, is malformed"),
        "{}",
        told(&field(1, &label))
    );
    let disordered = field(1, &[field(3, b"ns"), field(1, b"a")].concat());
    assert_eq!(problem(decoder.decode::<Pod>(&disordered)), ProtobufProblem::Disordered);
    let far = field(1, &field(8, &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]));
    assert_eq!(problem(decoder.decode::<Pod>(&far)), ProtobufProblem::Time);
    let name = container(&[field(2, b"a"), field(2, b"b")].concat());
    assert_eq!(
        told(&name),
        "Pod, in spec.containers[1], is malformed: the fields of a message are not in order, or one is duplicated"
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

const BOTH: [Encoding; 2] = [Encoding::Protobuf, Encoding::Json];

fn decoders(api_version: &str, kind: &str) -> [ObjectDecoder; 2] {
    BOTH.map(|encoding| ObjectDecoder::new(encoding, api_version, kind).unwrap())
}

fn at<K: serde::de::DeserializeOwned>(
    decoder: &ObjectDecoder,
    object: &[u8],
    names: &[&str],
) -> Result<Option<K>, Error> {
    decoder.decode_field(object, &FieldPath::new(names))
}

// contract: L-25
// Go merges the copies of a message; here they are an error, whichever way they are read.
#[test]
fn a_field_that_is_there_twice_is_an_error_however_it_is_read() {
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
            problem(at::<String>(&decoder, &split, &["spec", "nodeName"])),
            ProtobufProblem::Disordered
        );
    }
    // Metadata is read as an object arrives.
    let metadata = [field(1, &field(1, b"a")), field(1, &field(3, b"b"))].concat();
    assert_eq!(problem(Packed::<Pod>::from_wire(&metadata, &decoder)), ProtobufProblem::Disordered);
    assert_eq!(decoder.identify(&metadata).key, None);
}

// contract: L-25
#[test]
fn of_equal_keys_the_last_one_counts_however_they_are_read() {
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
        assert_eq!(packed.metadata::<Value>().unwrap().as_ref(), whole.get("metadata"));
        assert_eq!(packed.field(&FieldPath::new(&["metadata", "labels", "k"])).unwrap(), Some("2"));
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

// contract: L-25
// As Go writes this name into JSON, and as its generated code reads this number.
#[test]
fn text_that_is_none_and_numbers_that_are_too_large_are_read_as_go_reads_them() {
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
    assert_eq!(at::<String>(&decoder, &object, &["spec", "nodeName"]).unwrap().as_deref(), Some(go));
    let ports = typed.spec.as_ref().unwrap().containers[0].ports.as_ref().unwrap();
    assert_eq!((ports[0].container_port, typed.spec.as_ref().unwrap().priority), (-1, Some(5)));
    assert_eq!(whole["spec"]["containers"][0]["ports"][0]["containerPort"], -1);
    assert_eq!(at::<i64>(&decoder, &object, &["spec", "priority"]).unwrap(), Some(5));
}

/// A revision whose data is that, in both encodings.
fn revisions(data: &str) -> [Vec<u8>; 2] {
    let protobuf = [field(1, &field(1, b"a")), field(2, &field(1, data.as_bytes())), vec![24, 7]].concat();
    let types = r#""apiVersion":"apps/v1","kind":"ControllerRevision""#;
    let json = format!(r#"{{{types},"metadata":{{"name":"a"}},"data":{data},"revision":7}}"#);
    [protobuf, json.into_bytes()]
}

// contract: L-25
#[test]
fn json_in_protobuf_is_read_and_removed_by_path() {
    let data = r#"{"spec":{"replicas":3,"replicas":4,"name":"x"},"list":[1],"none":null,"text":"t"}"#;
    for (decoder, object) in decoders("apps/v1", "ControllerRevision").iter().zip(revisions(data)) {
        let read = |names: &[&str]| at::<Value>(decoder, &object, names);
        assert_eq!(read(&["data", "spec", "replicas"]).unwrap(), Some(4.into()));
        assert_eq!(at::<u8>(decoder, &object, &["data", "spec", "replicas"]).unwrap(), Some(4));
        assert_eq!(at::<String>(decoder, &object, &["data", "text"]).unwrap().as_deref(), Some("t"));
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
            let cut =
                Value::from_wire(&object, &decoder.clone().drop_fields([FieldPath::new(names)])).unwrap();
            assert_eq!(cut, expected, "{names:?}");
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
        // What is broken on the way is not left in.
        let text = decoder.clone().drop_fields([FieldPath::new(&["data", "spec"])]);
        let broken: Vec<u8> = object.iter().map(|byte| if *byte == b'x' { 0xff } else { *byte }).collect();
        assert!(Packed::<ControllerRevision>::from_wire(&broken, &text).is_err());
    }
    // An object within another may be protobuf.
    let [inner, _] = revisions(data);
    let types = field(1, &[field(1, b"apps/v1"), field(2, b"ControllerRevision")].concat());
    let around = [
        field(1, &field(1, b"b")),
        field(2, &field(1, &[b"k8s\0", types.as_slice(), &field(2, &inner)].concat())),
    ]
    .concat();
    let [decoder, _] = decoders("apps/v1", "ControllerRevision");
    assert_eq!(at::<u8>(&decoder, &around, &["data", "data", "spec", "replicas"]).unwrap(), Some(4));
    assert_eq!(at::<String>(&decoder, &around, &["data", "metadata", "name"]).unwrap().as_deref(), Some("a"));
    assert_eq!(
        at::<String>(&decoder, &around, &["data", "kind"]).unwrap().as_deref(),
        Some("ControllerRevision")
    );
    let cut =
        Value::from_wire(&around, &decoder.clone().drop_fields([FieldPath::new(&["data", "data", "spec"])]))
            .unwrap();
    assert_eq!(cut["data"]["data"].get("spec"), None);
    assert_eq!(cut["data"]["data"]["text"], "t");
    assert!(
        Value::from_wire(&around, &decoder.clone().drop_fields([FieldPath::new(&["data", "kind"])])).is_err()
    );
}

// contract: L-25
#[test]
fn a_value_that_is_a_number_or_a_text_is_read_as_the_type_that_it_has() {
    let budget = field(2, &field(1, &[vec![8, 1], field(3, b"5%")].concat()));
    let json = br#"{"spec":{"minAvailable":"5%"}}"#;
    let path = ["spec", "minAvailable"];
    for (decoder, object) in
        decoders("policy/v1", "PodDisruptionBudget").iter().zip([budget.as_slice(), json])
    {
        assert_eq!(at::<String>(decoder, object, &path).unwrap().as_deref(), Some("5%"));
        assert!(at::<i32>(decoder, object, &path).is_err());
    }
    let budget = field(2, &field(1, &[16, 0x85, 0x80, 0x80, 0x80, 0x10]));
    let [decoder, _] = decoders("policy/v1", "PodDisruptionBudget");
    assert_eq!(at::<i32>(&decoder, &budget, &path).unwrap(), Some(5));
}
