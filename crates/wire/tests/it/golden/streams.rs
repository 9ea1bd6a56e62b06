//! Lists, watches and errors in the form that a server sends.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status};
use kinformer_wire::{
    Encoding, Error, ListDecoder, ListEnvelope, ManagedFields, ObjectDecoder, RawEvent, RawEventType,
    TypeMeta, WatchDecoder, decode_response,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{assert_same, parts, text};

const STREAMS: &[u8] = include_bytes!("streams.bin");
const BOTH: [Encoding; 2] = [Encoding::Protobuf, Encoding::Json];

/// A body in protobuf and in JSON.
pub(crate) fn body(name: &str, encoding: Encoding) -> &'static [u8] {
    let parts: Vec<&[u8]> = parts(STREAMS).collect();
    let found = parts.chunks(3).find(|parts| text(parts[0]) == name).unwrap();
    found[if encoding == Encoding::Protobuf { 1 } else { 2 }]
}

fn list<K: DeserializeOwned>(
    body: &[u8],
    chunk: usize,
    decoder: &ObjectDecoder,
    fields: ManagedFields,
) -> Result<(Vec<K>, ListEnvelope), Error> {
    let mut list = ListDecoder::of(decoder.encoding(), fields);
    let mut items = Vec::new();
    for chunk in body.chunks(chunk) {
        let mut problem = None;
        list.feed(chunk, |item| match decoder.decode(item) {
            Ok(item) => items.push(item),
            Err(error) => problem = Some(error),
        })?;
        problem.map_or(Ok(()), Err)?;
    }
    Ok((items, list.finish()?))
}

fn pods(encoding: Encoding) -> ObjectDecoder {
    ObjectDecoder::new(encoding, "v1", "Pod").unwrap()
}

/// A list decoded from both encodings.
fn both<K: DeserializeOwned>(
    name: &str,
    kind: [&str; 2],
    chunk: usize,
    fields: ManagedFields,
) -> [(Vec<K>, ListEnvelope); 2] {
    BOTH.map(|encoding| {
        let decoder = ObjectDecoder::new(encoding, kind[0], kind[1]).unwrap();
        list(body(name, encoding), chunk, &decoder, fields).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A list decodes to the same objects in both encodings and in any chunks.
    // contract: L-11b
    #[test]
    fn lists_agree_in_both_encodings(
        chunk in prop_oneof![1_usize..50, 50_usize..20_000],
        keep: bool,
    ) {
        let fields = if keep { ManagedFields::Keep } else { ManagedFields::Drop };
        let [ours, json] = both::<Pod>("list", ["v1", "Pod"], chunk, fields);
        prop_assert_eq!(ours.0.len(), 5);
        let managed = ours.0.iter().filter(|pod| pod.metadata.managed_fields.is_some()).count();
        prop_assert_eq!(managed > 0, keep);
        prop_assert_eq!((ours.1.resource_version.as_str(), ours.1.continue_token.as_str()), ("42", "next"));
        prop_assert_eq!((ours.1.kind.as_str(), ours.1.api_version.as_str()), ("PodList", "v1"));
        prop_assert_eq!(ours.1.remaining_item_count, Some(7));
        prop_assert_eq!(ours, json);
    }

    /// A watch decodes to the same events in both encodings and in any chunks.
    // contract: L-10
    #[test]
    fn watches_agree_in_both_encodings(chunk in prop_oneof![1_usize..50, 50_usize..20_000]) {
        let [ours, json] = BOTH.map(|encoding| watch(body("watch", encoding), encoding, chunk));
        let types: Vec<RawEventType> = ours.iter().map(|(event_type, _)| event_type.clone()).collect();
        use RawEventType::{Added, Bookmark, Deleted, Error, Modified};
        prop_assert_eq!(types, [Added, Modified, Deleted, Bookmark, Error]);
        prop_assert_eq!(ours, json);
    }

    /// A list or watch that ends anywhere before its end is truncated.
    #[test]
    fn incomplete_body_is_truncated(end: prop::sample::Index, chunk in 1_usize..5000) {
        let whole = body("list", Encoding::Protobuf);
        // The list is followed by two empty fields.
        let end = end.index(whole.len() - 4);
        let error = list::<Value>(&whole[..end], chunk, &pods(Encoding::Protobuf), ManagedFields::Keep).unwrap_err();
        let is_truncated = matches!(error, Error::Truncated { bytes, .. } if bytes == end as u64);
        prop_assert!(is_truncated, "{error}");
        let whole = body("watch", Encoding::Protobuf);
        let end = end % whole.len();
        let mut decoder = WatchDecoder::of(Encoding::Protobuf, ManagedFields::Drop);
        let mut events = 0;
        for chunk in whole[..end].chunks(chunk) {
            decoder.feed(chunk, |event| events += usize::from(event.is_ok())).unwrap();
        }
        let frames = frames(whole);
        let complete = frames.iter().filter(|frame| **frame <= end).count();
        prop_assert_eq!(events, complete);
        prop_assert_eq!(decoder.finish(|_| {}).is_ok(), end == 0 || frames.contains(&end));
    }
}

/// The ends of the frames.
fn frames(body: &[u8]) -> Vec<usize> {
    let (mut ends, mut position) = (Vec::new(), 0);
    while let Some((length, _)) = body[position..].split_first_chunk::<4>() {
        position += 4 + u32::from_be_bytes(*length) as usize;
        ends.push(position);
    }
    ends
}

/// The objects of a watch, as the JSON of their types.
fn watch(body: &[u8], encoding: Encoding, chunk: usize) -> Vec<(RawEventType, Value)> {
    let mut decoder = WatchDecoder::of(encoding, ManagedFields::Drop);
    let pods = pods(encoding);
    let mut events = Vec::new();
    for chunk in body.chunks(chunk) {
        let on_event = |event: Result<RawEvent<'_>, Error>| {
            let event = event.unwrap();
            let object = if event.event_type == RawEventType::Error {
                serde_json::to_value(event.decode::<Status>().unwrap())
            } else {
                serde_json::to_value(pods.decode::<Pod>(event.object).unwrap())
            };
            if encoding == Encoding::Protobuf {
                let kind = if event.event_type == RawEventType::Error { "Status" } else { "Pod" };
                assert_eq!(event.types, Some(TypeMeta { api_version: "v1", kind }));
            }
            events.push((event.event_type, object.unwrap()));
        };
        decoder.feed(chunk, on_event).unwrap();
    }
    decoder.finish(|event| panic!("{event:?}")).unwrap();
    events
}

#[test]
fn metadata_only_lists_are_read() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Partial {
        metadata: ObjectMeta,
    }
    let kind = ["meta.k8s.io/v1", "PartialObjectMetadata"];
    let [ours, json] = both::<Partial>("metadata", kind, 1000, ManagedFields::Keep);
    assert_eq!((ours.0.len(), ours.1.kind.as_str()), (5, "PartialObjectMetadataList"));
    assert_eq!(ours, json);
}

#[test]
fn list_without_items_is_a_list() {
    let [ours, json] = both::<Value>("empty", ["v1", "Pod"], 7, ManagedFields::Drop);
    assert_eq!((ours.0.len(), ours.1.resource_version.as_str()), (0, "1"));
    assert_eq!(ours, json);
}

#[test]
fn errors_are_statuses_in_both_encodings() {
    let [ours, json] =
        BOTH.map(|encoding| decode_response::<Status>(encoding, body("status", encoding)).unwrap());
    assert_eq!(ours, json);
    assert_eq!((ours.code, ours.reason.as_deref()), (Some(410), Some("Expired")));
    assert_same(
        &serde_json::to_value(&ours).unwrap(),
        body("status", Encoding::Json),
        super::empty,
        "Status",
    );
}

/// A `Status`, a list in JSON and a truncated prefix are refused as a list in protobuf.
#[test]
fn other_body_is_refused_as_list() {
    let error =
        |body: &[u8]| list::<Value>(body, 100, &pods(Encoding::Protobuf), ManagedFields::Drop).unwrap_err();
    let problem = error(body("status", Encoding::Protobuf));
    assert!(problem.to_string().contains("Status"), "{problem}");
    let problem = error(body("list", Encoding::Json));
    assert!(matches!(problem, Error::Protobuf { .. }) && problem.to_string().contains("k8s"), "{problem}");
    assert!(matches!(error(b""), Error::Truncated { bytes: 0, .. }));
    assert!(matches!(error(b"k8s"), Error::Truncated { bytes: 3, .. }));
}

/// An item that cannot be decoded is identified, and the others are read.
// contract: L-08a, L-08b
#[test]
fn undecodable_item_does_not_affect_others() {
    let mut whole = body("list", Encoding::Protobuf).to_vec();
    let start = whole.windows(5).position(|bytes| bytes == b"pod-1").unwrap();
    // The field after the namespace of pod-1 now has an invalid wire type.
    let after = start + whole[start..].windows(7).position(|bytes| bytes == b"default").unwrap() + 7;
    whole[after] |= 7;
    let decoder = pods(Encoding::Protobuf);
    let mut list = ListDecoder::of(Encoding::Protobuf, ManagedFields::Drop);
    let (mut named, mut failed) = (Vec::new(), Vec::new());
    list.feed(&whole, |item| match decoder.decode::<Pod>(item) {
        Ok(pod) => named.push(pod.metadata.name.unwrap()),
        Err(error) => failed.push((decoder.identify(item).key.unwrap(), error.to_string())),
    })
    .unwrap();
    list.finish().unwrap();
    assert_eq!(named, ["pod-0", "pod-2", "pod-3", "pod-4"]);
    assert_eq!(failed[0].0.to_string(), "default/pod-1");
    assert_eq!(
        failed[0].1,
        "Pod, in metadata.selfLink, is malformed: a field has the unsupported wire type 7"
    );
}
