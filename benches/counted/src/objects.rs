//! Single objects: arrival, decoding, printing.

use std::hint::black_box;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{FieldPath, Packed};
use kinformer_wire::{Encoding, FromWire as _, ObjectDecoder};

use crate::args::Format;
use crate::display_fields::{DROPPED_FIELDS, DisplayFields};
use crate::lines::{Event, EventKind, Lines};
use crate::text::Text;
use crate::{Run, pods};

fn decoder(encoding: Encoding) -> ObjectDecoder {
    ObjectDecoder::new(encoding, "v1", "Pod").unwrap()
}

fn packed<K>(encoding: Encoding) -> Packed<K> {
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

/// Packs a pod without the fields that `kinformer watch` drops.
pub(crate) fn drop_fields(encoding: Encoding, count: usize) -> Run {
    let decoder = decoder(encoding).drop_fields(DROPPED_FIELDS.map(FieldPath::new));
    let bytes = pods::stored(encoding);
    Box::new(move || {
        (0..count).for_each(|_| drop(black_box(Packed::<Pod>::from_wire(&bytes, &decoder).unwrap())));
    })
}

/// A line of `kinformer watch -o json`.
pub(crate) fn printed_line(count: usize) -> Run {
    let pod = packed::<DisplayFields>(Encoding::Protobuf);
    let lines = Lines::new(Format::Json, "pods".to_owned(), 4);
    Box::new(move || {
        let mut text = Text::with_capacity(count * 256);
        for _ in 0..count {
            let event = Event {
                kind: EventKind::Add,
                key: pod.key(),
                object: Some(&pod),
                old: None,
                initial: true,
                final_state_unknown: false,
            };
            lines.event(&mut text, &event);
        }
        black_box(text);
    })
}
