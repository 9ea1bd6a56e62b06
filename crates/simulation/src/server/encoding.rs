//! The encodings of objects: JSON, or protobuf for config maps and metadata, whose fields the model knows.

use serde_json::{Map, Value};

use crate::state::{field, text_of};

/// The prefix of an object in protobuf.
const MAGIC: &[u8] = b"k8s\0";

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    pub(crate) fn media_type(self, is_watch: bool) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf if is_watch => "application/vnd.kubernetes.protobuf;stream=watch",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns a list.
    pub(crate) fn list(self, list: &Value) -> Vec<u8> {
        match self {
            Self::Json => list.to_string().into_bytes(),
            Self::Protobuf => {
                let mut message = Vec::new();
                bytes(&mut message, 1, &list_metadata(&list["metadata"]));
                for item in items(list) {
                    bytes(&mut message, 2, &object(item));
                }
                envelope(list, &message)
            }
        }
    }

    /// The number of bytes of the last item of a list in protobuf, which end the list.
    pub(crate) fn last_item(self, list: &Value) -> Option<usize> {
        let mut field = Vec::new();
        bytes(&mut field, 2, &object(items(list).last()?));
        (self == Self::Protobuf).then_some(field.len())
    }

    /// Appends an event of a watch: a line, or a frame after its length.
    pub(crate) fn event(self, out: &mut Vec<u8>, name: &str, content: &Value) {
        match self {
            Self::Json => {
                let line = serde_json::json!({"type": name, "object": content});
                out.extend_from_slice(line.to_string().as_bytes());
                out.push(b'\n');
            }
            Self::Protobuf => {
                let message = if name == "ERROR" { status(content) } else { object(content) };
                let mut raw = Vec::new();
                bytes(&mut raw, 1, &envelope(content, &message));
                let mut event = Vec::new();
                bytes(&mut event, 1, name.as_bytes());
                bytes(&mut event, 2, &raw);
                frame(out, &event);
            }
        }
    }

    /// Truncates the last event, which begins at an offset. Its line or its frame ends as usual.
    pub(crate) fn truncate(self, out: &mut Vec<u8>, start: usize) {
        let event = out.split_off(start);
        match self {
            Self::Json => {
                out.extend_from_slice(event.get(..event.len() / 2).unwrap_or_default());
                out.push(b'\n');
            }
            Self::Protobuf => frame(out, event.get(4..event.len() / 2).unwrap_or_default()),
        }
    }
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

fn frame(out: &mut Vec<u8>, content: &[u8]) {
    let length = u32::try_from(content.len()).unwrap_or_default();
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(content);
}

fn envelope(content: &Value, message: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    value(&mut types, 1, content.get("apiVersion"));
    value(&mut types, 2, content.get("kind"));
    let mut out = MAGIC.to_vec();
    bytes(&mut out, 1, &types);
    bytes(&mut out, 2, message);
    out
}

/// A `ConfigMap` or a `PartialObjectMetadata`.
fn object(content: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, 1, &metadata(&content["metadata"]));
    map(&mut out, 2, content.get("data"));
    out
}

/// The time of all deletions, 2026-01-01T00:00:00Z, in seconds.
const DELETED_AT: u64 = 1_767_225_600;

fn metadata(metadata: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, name) in
        [(1, "name"), (2, "generateName"), (3, "namespace"), (5, "uid"), (6, "resourceVersion")]
    {
        value(&mut out, number, metadata.get(name));
    }
    if metadata.get("deletionTimestamp").is_some() {
        let mut time = Vec::new();
        value(&mut time, 1, Some(&DELETED_AT.into()));
        bytes(&mut out, 9, &time);
    }
    map(&mut out, 11, metadata.get("labels"));
    map(&mut out, 12, metadata.get("annotations"));
    for finalizer in metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten() {
        value(&mut out, 14, Some(finalizer));
    }
    out
}

fn list_metadata(metadata: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, name) in [(2, "resourceVersion"), (3, "continue"), (4, "remainingItemCount")] {
        value(&mut out, number, metadata.get(name));
    }
    out
}

fn status(status: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, name) in [(2, "status"), (3, "message"), (4, "reason")] {
        value(&mut out, number, status.get(name));
    }
    let mut details = Vec::new();
    for cause in field(status, ["details", "causes"]).and_then(Value::as_array).into_iter().flatten() {
        let mut message = Vec::new();
        bytes(&mut message, 1, text_of(cause, ["reason"]).unwrap_or_default().as_bytes());
        bytes(&mut message, 2, text_of(cause, ["message"]).unwrap_or_default().as_bytes());
        bytes(&mut details, 4, &message);
    }
    value(&mut details, 5, field(status, ["details", "retryAfterSeconds"]));
    bytes(&mut out, 5, &details);
    value(&mut out, 6, status.get("code"));
    out
}

/// Appends a map of texts. Anything else has the wrong type of a field.
fn map(out: &mut Vec<u8>, number: u64, content: Option<&Value>) {
    let Some(entries) = content.and_then(Value::as_object) else { return value(out, number, content) };
    let entry = |(key, content): (&String, &Value)| {
        let mut entry = Vec::new();
        bytes(&mut entry, 1, key.as_bytes());
        value(&mut entry, 2, Some(content));
        entry
    };
    Map::iter(entries).map(entry).for_each(|entry| bytes(out, number, &entry));
}

/// Appends a text or a number.
fn value(out: &mut Vec<u8>, number: u64, content: Option<&Value>) {
    match content {
        Some(Value::String(text)) => bytes(out, number, text.as_bytes()),
        Some(Value::Number(content)) => {
            varint(out, number << 3);
            varint(out, content.as_u64().unwrap_or_default());
        }
        _ => {}
    }
}

fn bytes(out: &mut Vec<u8>, number: u64, content: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
