//! Decodes arbitrary bytes as a response, a message, a list and a watch.
#![no_main]

use std::hint::black_box;

use k8s_openapi::api::core::v1::Pod;
use kinformer_wire::{
    Encoding, FromWire, ListDecoder, ManagedFields, FieldPath, ObjectDecoder, Packed, WatchDecoder,
    decode_response,
};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let _ = black_box(decode_response::<Value>(Encoding::Protobuf, bytes));
    let _ = black_box(decode_response::<Pod>(Encoding::Protobuf, bytes));
    let _ = black_box(ObjectDecoder::json().decode::<Pod>(bytes));
    let _ = black_box(ObjectDecoder::json().decode::<Value>(bytes));
    for (api_version, kind) in [("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")] {
        if let Some(decoder) = ObjectDecoder::new(Encoding::Protobuf, api_version, kind) {
            let _ = black_box(decoder.decode::<Value>(bytes));
            black_box(decoder.identify(bytes));
            let decoder =
                decoder.drop_fields([FieldPath::new(&["metadata", "labels", "app"])]).drop_fields([FieldPath::new(&["spec", "nodeSelector"])]).decoded_cache_size(0);
            if let Ok(packed) = Packed::<Pod>::from_wire(bytes, &decoder) {
                let _ = black_box((packed.annotations(), packed.metadata_as::<Value>(), packed.decode()));
                let _ = black_box(packed.field::<String>(&FieldPath::new(&["spec", "nodeName"])));
                let _ = black_box(packed.without_fields(&[&FieldPath::new(&["status"])]));
            }
        }
    }
    // The first byte is the chunk size.
    let (chunk, bytes) =
        bytes.split_first().map_or((1, bytes), |(first, rest)| (usize::from(*first) + 1, rest));
    let mut list = ListDecoder::of(Encoding::Protobuf, ManagedFields::Drop);
    if bytes.chunks(chunk).try_for_each(|chunk| list.feed(chunk, |item| _ = black_box(item.len()))).is_ok() {
        let _ = black_box(list.finish());
    }
    let mut watch = WatchDecoder::of(Encoding::Protobuf, ManagedFields::Drop);
    if bytes.chunks(chunk).try_for_each(|chunk| watch.feed(chunk, |event| _ = black_box(event))).is_ok() {
        let _ = black_box(watch.finish(|_| {}));
    }
});
