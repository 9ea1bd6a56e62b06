//! Single objects: arrival and decoding.

use std::hint::black_box;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{FieldPath, Packed};
use kinformer_wire::{Encoding, FromWire as _, ObjectDecoder};

use crate::pods;
use crate::run::Run;

fn decoder(encoding: Encoding) -> ObjectDecoder {
    ObjectDecoder::new(encoding, "v1", "Pod").unwrap()
}

pub(crate) fn packed<K>(encoding: Encoding) -> Packed<K> {
    Packed::from_wire(&pods::stored(encoding), &decoder(encoding)).unwrap()
}

/// Decodes a whole pod.
pub(crate) fn decode(encoding: Encoding, count: usize) -> Run {
    let pod = packed::<Pod>(encoding);
    Box::new(move || {
        (0..count).for_each(|_| drop(black_box(pod.object().decode_new::<Pod>().unwrap())));
    })
}

/// Reads one field of a packed pod.
pub(crate) fn field_read(encoding: Encoding, count: usize) -> Run {
    let (pod, path) = (packed::<Pod>(encoding), FieldPath::new(&["spec", "nodeName"]));
    Box::new(move || {
        (0..count).for_each(|_| drop(black_box(pod.object().field::<String>(&path).unwrap().unwrap())));
    })
}

/// Packs a pod without these fields.
pub(crate) fn drop_fields(encoding: Encoding, fields: &[&[&str]], count: usize) -> Run {
    let fields = fields.iter().map(|names| FieldPath::new(names));
    let decoder = decoder(encoding).drop_fields(fields);
    let bytes = pods::stored(encoding);
    Box::new(move || {
        (0..count).for_each(|_| drop(black_box(Packed::<Pod>::from_wire(&bytes, &decoder).unwrap())));
    })
}
