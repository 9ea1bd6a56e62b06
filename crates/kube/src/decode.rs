//! Decodes responses into the objects and events of a reflector.

use std::sync::Arc;

use kinformer_core::internal::try_accessors;
use kinformer_core::{BoxError, KeyError, KeyProblem, KeyRef, Object};
use kinformer_reflector::{DecodeError, EventType, SourceError, WatchEvent};
use kinformer_wire::{FromWire, ObjectDecoder, RawEvent, Undecodable, WireEvent};

use crate::answer::{Status, status_of};

/// The API version and kind of the objects of a list or watch.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) is_built_in: bool,
}

/// Returns the error for an object that cannot be decoded.
fn undecodable(Undecodable { identity, error, .. }: Undecodable) -> DecodeError {
    let error = DecodeError::new(error).resource_version(identity.resource_version);
    match identity.key {
        Some(key) if check_name(key.as_key()).is_ok() => error.key(key),
        _ => error,
    }
}

/// Refuses keys without a name, and names and namespaces with a `/`. In Kubernetes they are path segments, so such an
/// object is damaged and its key cannot be trusted. Keys of other sources may contain a `/`.
fn check_name(key: KeyRef<'_>) -> Result<(), KeyError> {
    key.check()?;
    let has_slash = |part: &str| part.as_bytes().contains(&b'/');
    match has_slash(key.name()) || key.namespace().is_some_and(has_slash) {
        true => Err(KeyError::new(key.to_string(), KeyProblem::TooManySlashes)),
        false => Ok(()),
    }
}

/// Treats an object without a valid Kubernetes key as undecodable. An object whose key panics is left to the reflector.
fn checked<K: Object>(object: K) -> Result<Arc<K>, DecodeError> {
    match try_accessors(|| check_name(object.key())) {
        Ok(Err(error)) => Err(DecodeError::new(error)),
        _ => Ok(Arc::new(object)),
    }
}

/// Decodes one item of a list. The outer error is the kind of the item, if it is of another kind.
pub(crate) fn item<K: Object + FromWire>(
    bytes: &[u8],
    decoder: &ObjectDecoder,
    position: usize,
) -> Result<Result<Arc<K>, DecodeError>, String> {
    match decoder.decode_item(bytes, position) {
        Ok(object) => Ok(checked(object).map_err(|error| error.position(position))),
        Err(error) => match *error {
            Undecodable { other_kind: Some(kind), .. } => Err(kind),
            error => Ok(Err(undecodable(error).position(position))),
        },
    }
}

/// Decodes one event of a watch.
///
/// # Errors
/// The status of an `ERROR` event; [`SourceError::UnidentifiedEvent`] for an event whose object cannot be identified.
/// The caller must discard the events that follow an error.
pub(crate) fn event<K: Object + FromWire>(
    event: Result<RawEvent<'_>, kinformer_wire::Error>,
    decoder: &ObjectDecoder,
) -> Result<WatchEvent<K>, SourceError> {
    let decoded = event.and_then(|raw| decoder.decode_event(&raw)).map_err(unidentified)?;
    let event = |object: Result<K, Undecodable>, event_type, made: fn(Arc<K>) -> WatchEvent<K>| match object
        .map_err(undecodable)
        .and_then(checked)
    {
        Ok(object) => made(object),
        Err(error) => WatchEvent::Undecodable(error.event_type(event_type)),
    };
    match decoded {
        WireEvent::Added(object) => Ok(event(object, EventType::Added, WatchEvent::Added)),
        WireEvent::Modified(object) => Ok(event(object, EventType::Modified, WatchEvent::Modified)),
        WireEvent::Deleted(object) => Ok(event(object, EventType::Deleted, WatchEvent::Deleted)),
        WireEvent::Bookmark { resource_version, ends_initial_events: true } => {
            Ok(WatchEvent::initial_events_end(resource_version))
        }
        WireEvent::Bookmark { resource_version, .. } => Ok(WatchEvent::bookmark(resource_version)),
        WireEvent::Error(Status(status)) => Err(status_of(status, None)),
        WireEvent::Unexpected { what, resource_version } => {
            Ok(WatchEvent::unexpected(what, resource_version))
        }
    }
}

fn unidentified(source: impl Into<BoxError>) -> SourceError {
    SourceError::UnidentifiedEvent { source: source.into() }
}
