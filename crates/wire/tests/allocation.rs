//! Arbitrary bytes neither panic nor allocate more than a multiple of their size. A test binary of its own, because it
//! counts the allocations of the process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "a test fails by a panic")]

use std::alloc::System;
use std::hint::black_box;

use k8s_openapi::api::core::v1::Pod;
use kinformer_wire::{
    Encoding, FieldPath, FromWire, ListDecoder, ManagedFields, ObjectDecoder, Packed, WatchDecoder,
    decode_response,
};
use proptest::prelude::*;
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The maximum allocation of a type per byte: two bytes are an empty container, and a list of them grows by doubling.
const TYPED: usize = 4000;
/// The maximum allocation of a stream per byte: a buffer that grows by doubling, and a copy.
const STREAMED: usize = 8;
const SOME: usize = 64 * 1024;

fn parts(mut bytes: &'static [u8]) -> Vec<&'static [u8]> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (part, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        parts.push(part);
        bytes = rest;
    }
    parts
}

fn golden() -> Vec<&'static [u8]> {
    parts(include_bytes!("it/golden/samples.bin")).chunks(3).map(|parts| parts[1]).collect()
}

fn streams() -> Vec<&'static [u8]> {
    parts(include_bytes!("it/golden/streams.bin")).chunks(3).map(|parts| parts[1]).collect()
}

/// Returns the number of bytes that the closure allocates in total.
fn allocated(run: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    run();
    region.change().bytes_allocated
}

fn decode_all(bytes: &[u8]) {
    let _ = black_box(decode_response::<Value>(Encoding::Protobuf, bytes));
    let _ = black_box(decode_response::<Pod>(Encoding::Protobuf, bytes));
    for (api_version, kind) in [("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")] {
        let decoder = ObjectDecoder::new(Encoding::Protobuf, api_version, kind).unwrap();
        let _ = black_box(decoder.decode::<Value>(bytes));
        black_box(decoder.identify(bytes));
    }
    let decoder = ObjectDecoder::new(Encoding::Protobuf, "v1", "Pod").unwrap();
    let _ = black_box(decoder.decode::<Pod>(bytes));
    let dropping = decoder
        .drop_fields([FieldPath::new(&["metadata", "labels", "app"])])
        .drop_fields([FieldPath::new(&["spec", "nodeSelector"])])
        .decoded_cache_size(0);
    if let Ok(packed) = Packed::<Pod>::from_wire(bytes, &dropping) {
        let _ = black_box((packed.annotations(), packed.metadata_as::<Value>(), packed.decode()));
        black_box((packed.key().name().len(), packed.labels().count()));
        let _ = black_box(packed.field::<String>(&FieldPath::new(&["spec", "nodeName"])));
        let _ = black_box(packed.without_fields(&[&FieldPath::new(&["status"])]));
    }
}

fn stream_all(bytes: &[u8], chunk: usize) {
    let mut list = ListDecoder::of(Encoding::Protobuf, ManagedFields::Drop);
    let mut watch = WatchDecoder::of(Encoding::Protobuf, ManagedFields::Drop);
    let fed = bytes.chunks(chunk).try_for_each(|chunk| {
        list.feed(chunk, |item| {
            black_box(item.len());
        })
    });
    if fed.is_ok() {
        let _ = black_box(list.finish());
    }
    let fed = bytes.chunks(chunk).try_for_each(|chunk| {
        watch.feed(chunk, |event| {
            black_box(event.is_ok());
        })
    });
    if fed.is_ok() {
        let _ = black_box(watch.finish(|_| {}));
    }
}

/// Bytes with changed, removed and inserted ranges, and with very large lengths and numbers.
fn mutated(of: Vec<&'static [u8]>) -> impl Strategy<Value = Vec<u8>> {
    let huge = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let insert = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        Just(huge),
        Just(vec![0xff, 0xff, 0xff, 0xff, 0x0f]),
        Just(vec![0x80; 11]),
    ];
    let change = (any::<prop::sample::Index>(), 0_usize..4, insert);
    (prop::sample::select(of), prop::collection::vec(change, 1..6)).prop_map(|(bytes, changes)| {
        let mut bytes = bytes.to_vec();
        for (index, remove, insert) in changes {
            let start = index.index(bytes.len() + 1);
            let end = (start + remove).min(bytes.len());
            bytes.splice(start..end, insert);
        }
        bytes
    })
}

// The only test here, because allocations are counted for the whole program.
/// Arbitrary bytes neither panic nor allocate more than a multiple of their size.
#[test]
fn bytes_never_panic_or_allocate_without_limit() {
    let cases = |cases| {
        proptest::test_runner::TestRunner::new(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(cases)
        })
    };
    let objects = prop_oneof![mutated(golden()), prop::collection::vec(any::<u8>(), 0..300)];
    cases(3000)
        .run(&objects, |bytes| {
            let used = allocated(|| decode_all(&bytes));
            prop_assert!(used <= TYPED * bytes.len() + SOME, "{used} for {}", bytes.len());
            // Without the envelope, which mutations damage.
            let message = bytes.get(24..).unwrap_or_default();
            let used = allocated(|| decode_all(message));
            prop_assert!(used <= TYPED * bytes.len() + SOME, "{used} for {}", bytes.len());
            Ok(())
        })
        .unwrap();
    let bodies = (mutated(streams()), prop_oneof![1_usize..20, 20_usize..100_000]);
    cases(600)
        .run(&bodies, |(bytes, chunk)| {
            let used = allocated(|| stream_all(&bytes, chunk));
            prop_assert!(used <= STREAMED * bytes.len() + SOME, "{used} for {}", bytes.len());
            Ok(())
        })
        .unwrap();

    // Announced lengths of gigabytes that are never sent.
    let list = [
        b"k8s\0\n\x0d\n\x02v1\x12\x07PodList\x12".as_slice(),
        &[0xff, 0xff, 0xff, 0xff, 0x0f, 0x12, 0xff, 0xff, 0xff, 0x0f],
    ]
    .concat();
    for body in [list.as_slice(), &[0x03, 0xff, 0xff, 0xff, 1, 2, 3], &[0xff; 8]] {
        let used = allocated(|| stream_all(body, 1));
        assert!(used < SOME, "{used}");
    }
}
