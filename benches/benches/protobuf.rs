//! Decodes a pod, as created by a controller and updated by a kubelet, from protobuf and from JSON: one, and in a
//! list of 500.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench is a program without users"
)]

use std::hint::black_box;

use benches::field;
use criterion::{Criterion, criterion_group, criterion_main};
use k8s_openapi::api::core::v1::Pod;
use kinformer_wire::internal::borrowed_field;
use kinformer_wire::{Encoding, FieldPath, FromWire, ListDecoder, ManagedFields, ObjectDecoder, Packed};

const STREAMS: &[u8] = include_bytes!("../../crates/wire/tests/it/golden/streams.bin");
const ITEMS: usize = 500;

/// The pod in protobuf and in JSON.
fn pod() -> [&'static [u8]; 2] {
    let (mut rest, mut parts) = (STREAMS, Vec::new());
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let (part, tail) = tail.split_at(u32::from_le_bytes(*length) as usize);
        parts.push(part);
        rest = tail;
    }
    let found = parts.chunks(3).find(|parts| parts[0] == b"pod").unwrap();
    [found[1], found[2]]
}

/// The message in the envelope of a pod.
fn message(envelope: &[u8]) -> &[u8] {
    let types = b"k8s\0\n\x09\n\x02v1\x12\x03Pod".len();
    let mut rest = &envelope[types + 1..];
    while rest[0] >= 128 {
        rest = &rest[1..];
    }
    // Two empty fields follow.
    &rest[1..rest.len() - 4]
}

fn lists(protobuf: &[u8], json: &[u8]) -> [Vec<u8>; 2] {
    let items = field(2, message(protobuf)).repeat(ITEMS);
    let list = [field(1, &field(2, b"7")), items].concat();
    let types = field(1, &[field(1, b"v1"), field(2, b"PodList")].concat());
    let protobuf = [b"k8s\0".to_vec(), types, field(2, &list)].concat();
    let items = vec![std::str::from_utf8(json).unwrap(); ITEMS].join(",");
    let json = format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{items}]}}"#
    );
    [protobuf, json.into_bytes()]
}

fn list(body: &[u8], decoder: &ObjectDecoder, managed_fields: ManagedFields) -> Vec<Pod> {
    let mut list = ListDecoder::of(decoder.encoding(), managed_fields);
    let mut pods = Vec::with_capacity(ITEMS);
    for chunk in body.chunks(16 * 1024) {
        list.feed(chunk, |item| pods.push(decoder.decode(item).unwrap())).unwrap();
    }
    list.finish().unwrap();
    pods
}

#[expect(clippy::too_many_lines, reason = "one object with many fields")]
fn protobuf(c: &mut Criterion) {
    let [protobuf, json] = pod();
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    let message = message(protobuf);
    let pod: Pod = decoder.decode(message).unwrap();
    assert_eq!(pod, serde_json::from_slice(json).unwrap());
    let mut without = pod.clone();
    without.metadata.managed_fields = None;
    let json_without = serde_json::to_vec(&without).unwrap();
    let mut stripped = Vec::new();
    let [list_protobuf, list_json] = lists(protobuf, json);
    ListDecoder::of(Encoding::Protobuf, ManagedFields::Drop)
        .feed(&list_protobuf, |item| stripped = item.to_vec())
        .unwrap();
    assert_eq!(decoder.decode::<Pod>(&stripped).unwrap(), without);
    println!(
        "bytes: protobuf {}, without managed fields {}; JSON {}, without {}",
        message.len(),
        stripped.len(),
        json.len(),
        json_without.len()
    );

    let mut group = c.benchmark_group("a pod");
    group.bench_function("protobuf", |b| b.iter(|| decoder.decode::<Pod>(black_box(message)).unwrap()));
    group.bench_function("JSON", |b| b.iter(|| serde_json::from_slice::<Pod>(black_box(json)).unwrap()));
    group.bench_function("protobuf, no managed fields", |b| {
        b.iter(|| decoder.decode::<Pod>(black_box(&stripped)).unwrap());
    });
    group.bench_function("JSON, no managed fields", |b| {
        b.iter(|| serde_json::from_slice::<Pod>(black_box(&json_without)).unwrap());
    });
    group.bench_function("clone", |b| b.iter(|| black_box(&without).clone()));
    group.bench_function("identify", |b| b.iter(|| decoder.identify(black_box(message))));
    let node = FieldPath::new(&["spec", "nodeName"]);
    group.bench_function("only its node", |b| {
        b.iter(|| decoder.decode_field::<&str>(black_box(message), &node).unwrap());
    });
    let phase = FieldPath::new(&["status", "phase"]);
    group.bench_function("only its phase", |b| {
        b.iter(|| decoder.decode_field::<&str>(black_box(message), &phase).unwrap());
    });
    group.finish();

    let pack = |decoder: &ObjectDecoder| Packed::<Pod>::from_wire(&stripped, decoder).unwrap();
    let (packed, uncached) = (pack(&decoder), pack(&decoder.clone().decoded_cache_size(0)));
    let by_names = FieldPath::new(&["spec", "nodeName"]);
    assert!(borrowed_field::<&str>(&packed, &by_names).unwrap().is_some());
    let mut group = c.benchmark_group("a packed pod");
    group.bench_function("from the wire", |b| b.iter(|| pack(black_box(&decoder))));
    group.bench_function("its key", |b| b.iter(|| black_box(&packed).key().name().len()));
    group.bench_function("its label", |b| b.iter(|| black_box(&packed).label("app").is_some()));
    group.bench_function("its node", |b| {
        b.iter(|| borrowed_field::<&str>(black_box(&packed), &by_names).unwrap())
    });
    group.bench_function("its annotations", |b| b.iter(|| black_box(&packed).annotations().unwrap()));
    group.bench_function("typed, kept", |b| b.iter(|| black_box(&packed).decode().unwrap()));
    group.bench_function("typed, not kept", |b| b.iter(|| black_box(&uncached).decode_owned().unwrap()));
    group.finish();

    let mut group = c.benchmark_group("a list of 500 pods, managed fields dropped");
    group.bench_function("protobuf", |b| {
        b.iter(|| list(black_box(&list_protobuf), &decoder, ManagedFields::Drop));
    });
    group.bench_function("JSON", |b| {
        b.iter(|| list(black_box(&list_json), &ObjectDecoder::json(), ManagedFields::Drop));
    });
    group.finish();
}

criterion_group! {
    name = group;
    config = Criterion::default().sample_size(30).warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(800));
    targets = protobuf
}
criterion_main!(group);
