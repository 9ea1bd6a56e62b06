//! Decodes the events of a watch, and errors in their place.

use kinformer_core::{BoxError, Object};
use kinformer_reflector::{SourceError, WatchEvent};
use kinformer_wire::{FromWire, ObjectDecoder, RawEvent};

use crate::answer::{Status, status_of};

/// The API version and kind of the objects of a list or watch.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) is_built_in: bool,
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
    decoded.map_err(|Status(status)| status_of(status, None))
}

fn unidentified(source: impl Into<BoxError>) -> SourceError {
    SourceError::UnidentifiedEvent { source: source.into() }
}
