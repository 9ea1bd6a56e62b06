//! From bytes to objects and events.

use std::sync::Arc;

use kinformer_reflector::{ApiError, DecodeError, EventType, WatchEvent};
use kinformer_wire::{Encoding, EventType as WireType, FromWire, ObjectDecoder, RawEvent};
use serde::Deserialize;

use crate::answer::status_of;

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One object, or what can be said of one that does not decode.
fn object<K: FromWire>(bytes: &[u8], decoder: &ObjectDecoder) -> Result<Arc<K>, DecodeError> {
    K::from_wire(bytes, decoder).map(Arc::new).map_err(|error| undecodable(bytes, decoder, error))
}

fn undecodable(bytes: &[u8], decoder: &ObjectDecoder, error: kinformer_wire::Error) -> DecodeError {
    let identity = decoder.identify(bytes);
    let told = DecodeError::new(error).resource_version(identity.resource_version);
    match identity.key {
        Some(key) => told.key(key),
        None => told,
    }
}

/// What the objects of a watch or list call themselves.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// The objects are of a type that takes any kind, so that decoding does not check it.
    pub(crate) any_kind: bool,
}

/// One item of a list. Items of a list leave their kind out, which is the list's; an object of a type that takes
/// any kind gets it back.
pub(crate) fn item<K: FromWire>(
    bytes: &[u8],
    decoder: &ObjectDecoder,
    named: &Named,
) -> Result<Arc<K>, DecodeError> {
    // In protobuf no object says its kind itself: whoever asks is told by the decoder.
    if !named.any_kind || decoder.encoding() != Encoding::Json || kind_of(bytes).is_some() {
        return object(bytes, decoder);
    }
    let inside = bytes.trim_ascii().strip_prefix(b"{").unwrap_or_default();
    let more = if inside.trim_ascii_start().starts_with(b"}") { "" } else { "," };
    let types = serde_json::json!({"apiVersion": named.api_version, "kind": named.kind}).to_string();
    let mut whole = types.trim_end_matches('}').as_bytes().to_vec();
    whole.extend_from_slice(more.as_bytes());
    whole.extend_from_slice(inside);
    object(&whole, decoder)
}

/// One event of a watch.
pub(crate) fn event<K: FromWire>(
    event: Result<RawEvent<'_>, kinformer_wire::Error>,
    decoder: &ObjectDecoder,
    named: &Named,
) -> Result<WatchEvent<K>, ApiError> {
    let raw = match event {
        Ok(raw) => raw,
        Err(error) => return Ok(WatchEvent::Undecodable(DecodeError::new(error))),
    };
    let event_type = match &raw.event_type {
        WireType::Added => EventType::Added,
        WireType::Modified => EventType::Modified,
        WireType::Deleted => EventType::Deleted,
        WireType::Bookmark => return Ok(bookmark(&raw, decoder)),
        WireType::Error => {
            let kind = kind(&raw);
            return match raw.decode() {
                Ok(status) if kind.as_deref() == Some("Status") => Err(status_of(status, None)),
                Ok(_) | Err(_) => {
                    Err(ApiError::Unexpected { what: "an ERROR event without a Status".into() })
                }
            };
        }
        WireType::Other(other) => return Ok(WatchEvent::Unexpected(format!("event type {other}"))),
        other => return Ok(WatchEvent::Unexpected(format!("event type {other:?}"))),
    };
    let unexpected = |other| WatchEvent::Unexpected(format!("a {other} in a watch of {}", named.kind));
    // In protobuf the kind is beside the object, and what is not the kind that is watched makes no sense.
    if raw.types.is_some_and(|types| types.kind != named.kind) {
        return Ok(unexpected(kind(&raw).unwrap_or_default()));
    }
    // Objects of a watch name their kind; one of another kind is not ours to decode. A type that knows its own
    // kind checks it while decoding, so that it is looked at here only when that failed.
    let decoded = object(raw.object, decoder);
    if raw.types.is_none()
        && (named.any_kind || decoded.is_err())
        && let Some(other) = kind_of(raw.object).filter(|other| *other != named.kind)
    {
        return Ok(unexpected(other));
    }
    Ok(match (decoded, event_type) {
        (Ok(object), EventType::Added) => WatchEvent::Added(object),
        (Ok(object), EventType::Modified) => WatchEvent::Modified(object),
        (Ok(object), _) => WatchEvent::Deleted(object),
        (Err(error), event_type) => WatchEvent::Undecodable(error.event_type(event_type)),
    })
}

fn kind(raw: &RawEvent<'_>) -> Option<String> {
    raw.types.map_or_else(|| kind_of(raw.object), |types| Some(types.kind.to_owned()))
}

fn kind_of(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Kind {
        kind: Option<String>,
    }
    serde_json::from_slice::<Kind>(json).ok()?.kind.filter(|kind| !kind.is_empty())
}

fn bookmark<K>(raw: &RawEvent<'_>, decoder: &ObjectDecoder) -> WatchEvent<K> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        resource_version: String,
        #[serde(default)]
        annotations: Option<std::collections::BTreeMap<String, String>>,
    }
    let metadata = match decoder.decode::<Bookmark>(raw.object) {
        Ok(bookmark) => bookmark.metadata,
        Err(error) => return WatchEvent::Undecodable(undecodable(raw.object, decoder, error)),
    };
    let annotations = metadata.annotations.unwrap_or_default();
    match annotations.get(INITIAL_EVENTS_END).is_some_and(|end| end == "true") {
        true => WatchEvent::initial_events_end(metadata.resource_version),
        false => WatchEvent::bookmark(metadata.resource_version),
    }
}
