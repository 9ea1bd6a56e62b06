//! From bytes to objects and events.

use std::sync::Arc;

use kinformer_core::BoxError;
use kinformer_reflector::{ApiError, DecodeError, EventType, WatchEvent};
use kinformer_wire::{Encoding, EventType as WireType, FromWire, ObjectDecoder, RawEvent};
use serde::Deserialize;

use crate::answer::status_of;

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What can be said of an object that does not decode.
fn undecodable(bytes: &[u8], decoder: &ObjectDecoder, error: kinformer_wire::Error) -> DecodeError {
    let identity = decoder.identify(bytes);
    let error = DecodeError::new(error).resource_version(identity.resource_version);
    match identity.key {
        Some(key) => error.key(key),
        None => error,
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

/// Why an item of a list is not an object.
pub(crate) enum ItemError {
    Undecodable(DecodeError),
    /// It says that it is of this kind.
    OtherKind(String),
}

/// One item of a list. Items of a list may leave their kind out, which is the list's; an object of a type that takes
/// any kind gets it back.
///
/// All items of a list are of one kind, and so it is enough to look at the first one where looking costs something.
pub(crate) fn item<K: FromWire>(
    bytes: &[u8],
    decoder: &ObjectDecoder,
    named: &Named,
    is_first: bool,
) -> Result<Arc<K>, ItemError> {
    let mut with_kind = None;
    // In protobuf no object says its kind itself: the decoder does when it is asked.
    let is_json = decoder.encoding() == Encoding::Json;
    if is_json && (named.any_kind || is_first) {
        match kind_of(bytes) {
            Some(kind) if kind != named.kind => return Err(ItemError::OtherKind(kind)),
            None if named.any_kind => with_kind = Some(given_kind(bytes, named)),
            _ => {}
        }
    }
    K::from_wire(with_kind.as_deref().unwrap_or(bytes), decoder).map(Arc::new).map_err(|error| match kind_of(
        bytes,
    )
    .filter(|kind| is_json && *kind != named.kind)
    {
        Some(kind) => ItemError::OtherKind(kind),
        None => ItemError::Undecodable(undecodable(bytes, decoder, error)),
    })
}

/// The JSON of an object with its version and kind.
fn given_kind(bytes: &[u8], named: &Named) -> Vec<u8> {
    let inside = bytes.trim_ascii().strip_prefix(b"{").unwrap_or_default();
    let more = if inside.trim_ascii_start().starts_with(b"}") { "" } else { "," };
    let types = serde_json::json!({"apiVersion": named.api_version, "kind": named.kind}).to_string();
    let mut whole = types.trim_end_matches('}').as_bytes().to_vec();
    whole.extend_from_slice(more.as_bytes());
    whole.extend_from_slice(inside);
    whole
}

/// One event of a watch.
///
/// # Errors
/// The status of an `ERROR` event; [`ApiError::BrokenEvent`] of what may be about any object. Nothing after it counts.
pub(crate) fn event<K: FromWire>(
    event: Result<RawEvent<'_>, kinformer_wire::Error>,
    decoder: &ObjectDecoder,
    named: &Named,
) -> Result<WatchEvent<K>, ApiError> {
    let raw = event.map_err(broken)?;
    let event_type = match &raw.event_type {
        WireType::Added => EventType::Added,
        WireType::Modified => EventType::Modified,
        WireType::Deleted => EventType::Deleted,
        WireType::Bookmark => return bookmark(&raw, decoder),
        WireType::Error => {
            let kind = kind(&raw);
            return match raw.decode() {
                Ok(status) if kind.as_deref() == Some("Status") => Err(status_of(status, None)),
                Ok(_) => {
                    Err(broken(format!("an ERROR event with a {} and no Status", kind.unwrap_or_default())))
                }
                Err(error) => Err(broken(error)),
            };
        }
        WireType::Other(name) if is_readable(name) => {
            return Ok(unexpected(&raw, decoder, format!("event type {name}")));
        }
        other => return Err(broken(format!("the type of the event is {other:?}"))),
    };
    // In protobuf the kind is beside the object, and what is not the kind that is watched makes no sense.
    if let Some(types) = raw.types.filter(|types| types.kind != named.kind) {
        return match types.kind {
            "" => Err(broken("its object has no kind")),
            other => Ok(unexpected(&raw, decoder, format!("a {other} in a watch of {}", named.kind))),
        };
    }
    // Objects of a watch name their kind; one of another kind is not ours to decode. A type that knows its own
    // kind checks it while decoding, so that it is looked at here only when that failed.
    let decoded = K::from_wire(raw.object, decoder).map(Arc::new);
    if raw.types.is_none()
        && (named.any_kind || decoded.is_err())
        && let Some(other) = kind_of(raw.object).filter(|other| *other != named.kind)
    {
        return Ok(unexpected(&raw, decoder, format!("a {other} in a watch of {}", named.kind)));
    }
    match (decoded, event_type) {
        (Ok(object), EventType::Added) => Ok(WatchEvent::Added(object)),
        (Ok(object), EventType::Modified) => Ok(WatchEvent::Modified(object)),
        (Ok(object), _) => Ok(WatchEvent::Deleted(object)),
        (Err(error), event_type) => {
            let error = undecodable(raw.object, decoder, error).event_type(event_type);
            if error.key.is_none() { Err(broken(error)) } else { Ok(WatchEvent::Undecodable(error)) }
        }
    }
}

fn broken(source: impl Into<BoxError>) -> ApiError {
    ApiError::BrokenEvent { source: source.into() }
}

fn unexpected<K>(raw: &RawEvent<'_>, decoder: &ObjectDecoder, what: String) -> WatchEvent<K> {
    WatchEvent::unexpected(what, decoder.identify(raw.object).resource_version)
}

/// Whether it can be the name of an event type that is not known here, and not one that was damaged on its way.
fn is_readable(event_type: &str) -> bool {
    !event_type.is_empty()
        && event_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
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

fn bookmark<K>(raw: &RawEvent<'_>, decoder: &ObjectDecoder) -> Result<WatchEvent<K>, ApiError> {
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
    let Bookmark { metadata } = decoder.decode(raw.object).map_err(broken)?;
    let annotations = metadata.annotations.unwrap_or_default();
    let version = metadata.resource_version;
    match annotations.get(INITIAL_EVENTS_END).is_some_and(|end| end == "true") {
        true if version.is_empty() => Err(broken("the bookmark that ends the initial events has no version")),
        true => Ok(WatchEvent::initial_events_end(version)),
        false => Ok(WatchEvent::bookmark(version)),
    }
}
