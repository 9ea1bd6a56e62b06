//! From answers to the events and objects of a reflector.

use std::sync::Arc;

use kinformer_core::BoxError;
use kinformer_reflector::{ApiError, DecodeError, EventType, WatchEvent};
use kinformer_wire::{FromWire, ItemError, ObjectDecoder, RawEvent, Undecodable, WireEvent};

use crate::answer::status_of;

/// What the objects of a watch or list call themselves.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) is_built_in: bool,
}

/// What can be said of an object that does not decode.
fn undecodable(Undecodable { identity, error, .. }: Undecodable) -> DecodeError {
    let error = DecodeError::new(error).resource_version(identity.resource_version);
    match identity.key {
        Some(key) => error.key(key),
        None => error,
    }
}

/// One item of a list, or why it is none; or the kind that it is of, if that is another.
pub(crate) fn item<K: FromWire>(
    bytes: &[u8],
    decoder: &ObjectDecoder,
    position: usize,
) -> Result<Result<Arc<K>, DecodeError>, String> {
    match decoder.decode_item(bytes, position) {
        Ok(object) => Ok(Ok(Arc::new(object))),
        Err(ItemError::OtherKind(kind)) => Err(kind),
        Err(ItemError::Undecodable(error)) => Ok(Err(undecodable(error).position(position))),
    }
}

/// One event of a watch.
///
/// # Errors
/// The status of an `ERROR` event; [`ApiError::BrokenEvent`] of what may be about any object. Nothing after it counts.
pub(crate) fn event<K: FromWire>(
    event: Result<RawEvent<'_>, kinformer_wire::Error>,
    decoder: &ObjectDecoder,
) -> Result<WatchEvent<K>, ApiError> {
    let decoded = event.and_then(|raw| decoder.decode_event(&raw)).map_err(broken)?;
    let event = |object: Result<K, Undecodable>, event_type, made: fn(Arc<K>) -> WatchEvent<K>| match object {
        Ok(object) => made(Arc::new(object)),
        Err(error) => WatchEvent::Undecodable(undecodable(error).event_type(event_type)),
    };
    match decoded {
        WireEvent::Added(object) => Ok(event(object, EventType::Added, WatchEvent::Added)),
        WireEvent::Modified(object) => Ok(event(object, EventType::Modified, WatchEvent::Modified)),
        WireEvent::Deleted(object) => Ok(event(object, EventType::Deleted, WatchEvent::Deleted)),
        WireEvent::Bookmark { resource_version, ends_initial_events: true } => {
            Ok(WatchEvent::initial_events_end(resource_version))
        }
        WireEvent::Bookmark { resource_version, .. } => Ok(WatchEvent::bookmark(resource_version)),
        WireEvent::Error(status) => Err(status_of(status, None)),
        WireEvent::Unexpected { what, resource_version } => {
            Ok(WatchEvent::unexpected(what, resource_version))
        }
    }
}

fn broken(source: impl Into<BoxError>) -> ApiError {
    ApiError::BrokenEvent { source: source.into() }
}
