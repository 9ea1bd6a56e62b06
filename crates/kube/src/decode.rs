//! From bytes to objects and events.

use std::sync::Arc;

use kinformer_reflector::{ApiError, DecodeError, EventType, WatchEvent};
use kinformer_wire::{EventType as WireType, RawEvent, identify};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::answer::{status, status_of};

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One object, or what can be said of one that does not decode.
pub(crate) fn object<K: DeserializeOwned>(json: &[u8]) -> Result<Arc<K>, DecodeError> {
    serde_json::from_slice(json).map(Arc::new).map_err(|error| undecodable(json, error))
}

fn undecodable(json: &[u8], error: serde_json::Error) -> DecodeError {
    let identity = identify(json);
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
pub(crate) fn item<K: DeserializeOwned>(json: &[u8], named: &Named) -> Result<Arc<K>, DecodeError> {
    if !named.any_kind || kind_of(json).is_some() {
        return object(json);
    }
    let inside = json.trim_ascii().strip_prefix(b"{").unwrap_or_default();
    let more = if inside.trim_ascii_start().starts_with(b"}") { "" } else { "," };
    let types = serde_json::json!({"apiVersion": named.api_version, "kind": named.kind}).to_string();
    let mut whole = types.trim_end_matches('}').as_bytes().to_vec();
    whole.extend_from_slice(more.as_bytes());
    whole.extend_from_slice(inside);
    object(&whole)
}

/// One event of a watch.
pub(crate) fn event<K: DeserializeOwned>(
    event: Result<RawEvent<'_>, kinformer_wire::Error>,
    named: &Named,
) -> Result<WatchEvent<K>, ApiError> {
    let raw = match event {
        Ok(raw) => raw,
        Err(error) => return Ok(WatchEvent::Undecodable(DecodeError::new(error))),
    };
    let event_type = match raw.event_type {
        WireType::Added => EventType::Added,
        WireType::Modified => EventType::Modified,
        WireType::Deleted => EventType::Deleted,
        WireType::Bookmark => return Ok(bookmark(raw.object)),
        WireType::Error => {
            return match status(raw.object) {
                Some(status) => Err(status_of(status, None)),
                None => Err(ApiError::Unexpected { what: "an ERROR event without a Status".into() }),
            };
        }
        WireType::Other(other) => return Ok(WatchEvent::Unexpected(format!("event type {other}"))),
        other => return Ok(WatchEvent::Unexpected(format!("event type {other:?}"))),
    };
    // Objects of a watch name their kind; one of another kind is not ours to decode. A type that knows its own
    // kind checks it while decoding, so that it is looked at here only when that failed.
    let decoded = object(raw.object);
    if (named.any_kind || decoded.is_err())
        && let Some(other) = kind_of(raw.object).filter(|other| *other != named.kind)
    {
        return Ok(WatchEvent::Unexpected(format!("a {other} in a watch of {}", named.kind)));
    }
    Ok(match (decoded, event_type) {
        (Ok(object), EventType::Added) => WatchEvent::Added(object),
        (Ok(object), EventType::Modified) => WatchEvent::Modified(object),
        (Ok(object), _) => WatchEvent::Deleted(object),
        (Err(error), event_type) => WatchEvent::Undecodable(error.event_type(event_type)),
    })
}

fn kind_of(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Kind {
        kind: Option<String>,
    }
    serde_json::from_slice::<Kind>(json).ok()?.kind.filter(|kind| !kind.is_empty())
}

fn bookmark<K>(json: &[u8]) -> WatchEvent<K> {
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
    let metadata = match serde_json::from_slice::<Bookmark>(json) {
        Ok(bookmark) => bookmark.metadata,
        Err(error) => return WatchEvent::Undecodable(undecodable(json, error)),
    };
    let annotations = metadata.annotations.unwrap_or_default();
    match annotations.get(INITIAL_EVENTS_END).is_some_and(|end| end == "true") {
        true => WatchEvent::initial_events_end(metadata.resource_version),
        false => WatchEvent::bookmark(metadata.resource_version),
    }
}
