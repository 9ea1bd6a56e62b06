//! Lists read in chunks, compared with the whole list read by serde.

use k8s_openapi::api::core::v1::Pod;
use kinformer_core::ResourceVersion;
use kinformer_wire::{Error, ListDecoder, ListEnvelope, ManagedFields, ObjectDecoder};
use proptest::prelude::*;
use serde_json::{Value, json};

fn decode(body: &[u8], chunk: usize, fields: ManagedFields) -> Result<(Vec<Vec<u8>>, ListEnvelope), Error> {
    let mut decoder = ListDecoder::new(fields);
    let mut items = Vec::new();
    for chunk in body.chunks(chunk.max(1)) {
        decoder.feed(chunk, |item| items.push(item.to_vec()))?;
    }
    Ok((items, decoder.finish()?))
}

/// Arbitrary JSON, with the relevant names anywhere and with strings that look like structure.
fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-z]{0,4}",
        Just("managedFields".to_owned()),
        Just("metadata".to_owned()),
        Just("items".to_owned()),
        Just("\\\"},]{[".to_owned()),
        Just("ü\u{1F600}\n\u{0}".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    let members = prop::collection::vec(
        (prop_oneof!["[a-f]{1,3}", Just("managedFields".to_owned())], any_json()),
        0..5,
    )
    .boxed();
    let metadata =
        prop_oneof![members.clone().prop_map(|m| Value::Object(m.into_iter().collect())), any_json(),];
    (members, prop::option::of(metadata)).prop_map(|(members, metadata)| {
        let mut object: serde_json::Map<_, _> = members.into_iter().collect();
        if let Some(metadata) = metadata {
            object.insert("metadata".into(), metadata);
        }
        Value::Object(object)
    })
}

fn without_managed_fields(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}

proptest! {
    // contract: L-25a
    #[test]
    fn any_list_decodes_in_any_chunks(
        items in prop::collection::vec(any_object(), 0..5),
        extra in any_json(),
        chunk in 1usize..40,
        pretty: bool,
        keep: bool,
    ) {
        let list = json!({
            "apiVersion": "v1",
            "before": extra,
            "items": items,
            "kind": "PodList",
            "metadata": {"resourceVersion": "42", "continue": "next\"", "remainingItemCount": 3, "items": [{"a": 1}]},
            "zafter": extra,
        });
        let body = if pretty { serde_json::to_vec_pretty(&list) } else { serde_json::to_vec(&list) }.unwrap();
        let fields = if keep { ManagedFields::Keep } else { ManagedFields::Drop };
        let (got, envelope) = decode(&body, chunk, fields).unwrap();
        let got: Vec<Value> = got.iter().map(|item| serde_json::from_slice(item).unwrap()).collect();
        let want: Vec<Value> =
            if keep { items } else { items.into_iter().map(without_managed_fields).collect() };
        prop_assert_eq!(got, want);
        prop_assert_eq!(envelope.resource_version, "42");
        prop_assert_eq!(envelope.continue_token, "next\"");
        prop_assert_eq!(envelope.remaining_item_count, Some(3));
        prop_assert_eq!(envelope.kind, "PodList");
    }

    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(prop_oneof![
        any::<u8>(),
        prop::sample::select(b"{}[]\",:\\".to_vec()),
    ], 0..200), chunk in 1usize..10) {
        if let Ok((items, _)) = decode(&body, chunk, ManagedFields::Drop) {
            prop_assert!(items.iter().all(|item| item.first() == Some(&123)));
        }
        ObjectDecoder::json().identify(&body);
    }

    /// A list that ends anywhere before its end is truncated.
    #[test]
    fn incomplete_list_is_truncated(end in 0usize..1000) {
        let body = json!({"kind": "PodList", "metadata": {}, "items": [{"metadata": {"name": "a"}}]}).to_string();
        let end = end % body.len();
        let error = decode(&body.as_bytes()[..end], 7, ManagedFields::Drop).unwrap_err();
        prop_assert!(matches!(error, Error::Truncated { bytes, .. } if bytes == end as u64), "{error}");
    }
}

#[test]
fn items_are_separated_by_single_commas() {
    for items in [",", "{},", ",{}", "{}{}", "{},,{}", "{} 1", "{}}"] {
        let body = format!(r#"{{"kind":"PodList","metadata":{{}},"items":[{items}]}}"#);
        for chunk in [1, 100] {
            let error = decode(body.as_bytes(), chunk, ManagedFields::Drop).unwrap_err();
            assert!(matches!(error, Error::Malformed { .. }), "{items}: {error}");
        }
    }
}

/// Items decode into types, with the managed fields dropped in any position of the metadata.
#[test]
fn managed_fields_are_dropped_in_any_position() {
    for metadata in [
        r#"{"managedFields":[{"a":"}"}],"name":"web","resourceVersion":"5"}"#,
        r#"{"name":"web","managedFields":[{"a":{"b":["]"]}}],"resourceVersion":"5"}"#,
        r#"{"name":"web","resourceVersion":"5" , "managedFields" : [ ] }"#,
        r#"{ "managedFields":null, "name":"web","resourceVersion":"5"}"#,
    ] {
        let body = format!(
            r#"{{"kind":"PodList","items":[{{"metadata":{metadata},"spec":null}}],"metadata":{{}}}}"#
        );
        let (items, _) = decode(body.as_bytes(), 3, ManagedFields::Drop).unwrap();
        let text = String::from_utf8(items[0].clone()).unwrap();
        assert!(!text.contains("managedFields"), "{text}");
        let pod: Pod = serde_json::from_slice(&items[0]).unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("web"), "{text}");
        assert_eq!(ObjectDecoder::json().identify(&items[0]).resource_version, ResourceVersion::number(5));
    }
}

/// The key and the version of an object are read even if it cannot be decoded.
// contract: L-08a
#[test]
fn undecodable_object_is_identified() {
    let body = r#"{"kind":"PodList","metadata":{},"items":[{"metadata":{"name":"a","namespace":"ns","resourceVersion":"3"},"spec":7},{"metadata":{"name":"b"}}]}"#;
    let (items, _) = decode(body.as_bytes(), 16, ManagedFields::Drop).unwrap();
    assert!(serde_json::from_slice::<Pod>(&items[0]).is_err());
    assert_eq!(ObjectDecoder::json().identify(&items[0]).key.unwrap().to_string(), "ns/a");
    assert_eq!(ObjectDecoder::json().identify(&items[0]).resource_version, ResourceVersion::number(3));
    assert!(serde_json::from_slice::<Pod>(&items[1]).is_ok());
    assert_eq!(ObjectDecoder::json().identify(b"{\"metadata\":3}").key, None);
    assert_eq!(ObjectDecoder::json().identify(b"not json").key, None);
}

/// A body that is not a list is refused, with its start or kind in the error.
#[test]
fn other_body_is_refused_with_its_start() {
    let cases: [(&[u8], &str); 7] = [
        (b"<html><body>bad gateway</body></html>", "<html>"),
        (b"{\"kind\":\"Status\",\"code\":500}", "Status"),
        (b"{\"items\":[1]}", "not an object"),
        (b"{\"items\":[\"a\"]}", "not an object"),
        (b"[]", "expected"),
        (b"{\"kind\":\"Pod\",\"metadata\":{}}", "no items"),
        (b"{\"kind\":\"PodList\",\"it\\u0065ms\":[{}]}", "escapes"),
    ];
    for (body, expected) in cases {
        let error = decode(body, 1000, ManagedFields::Drop).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(matches!(decode(b"", 1, ManagedFields::Drop), Err(Error::Truncated { bytes: 0, .. })));
}

#[test]
fn empty_list_may_have_null_items() {
    let (items, envelope) = decode(
        br#"{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":null}"#,
        9,
        ManagedFields::Drop,
    )
    .unwrap();
    assert_eq!((items.len(), envelope.resource_version.as_str()), (0, "1"));
}
