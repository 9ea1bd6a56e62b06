//! Decoded list items and watch events.

use std::sync::Arc;

use kinformer_core::internal::contain;
use kinformer_core::{DecodeError, EventType, KeyError, KeyProblem, KeyRef, Object, WatchEvent};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::answer::null_as_default;
use crate::{Error, FromWire, Identity, ObjectDecoder, RawEvent, RawEventType, TypeMeta};

/// The annotation of the bookmark that ends the initial events of a watch.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl ObjectDecoder {
    /// Decodes an item of a list; `index` is its index in the list. An item that cannot be decoded is the inner
    /// error.
    ///
    /// Items may omit their kind, which follows from the list's. With [`Self::check_kind`] it is added before the item
    /// is decoded.
    ///
    /// # Errors
    /// The kind of the item, if it is of another kind than the decoder.
    pub fn decode_item<K: Object + FromWire>(
        &self,
        item: &[u8],
        index: usize,
    ) -> Result<Result<Arc<K>, DecodeError>, String> {
        let mut with_types = None;
        // Without `check_kind` the first item is enough, since all items of a list are of one kind.
        if let Some(types) = self.types()
            && (self.checks_kind() || index == 0)
        {
            match self.encoding().kind(item) {
                Some(kind) if kind != types.kind => return Err(kind),
                None if self.checks_kind() => with_types = self.encoding().with_types(item, types),
                _ => {}
            }
        }
        let decoded = match K::from_wire(with_types.as_deref().unwrap_or(item), self) {
            Ok(object) => checked(object),
            Err(error) => match self.other_kind(item) {
                Some(kind) => return Err(kind),
                None => Err(undecodable(self.identify(item), error)),
            },
        };
        Ok(decoded.map_err(|error| error.index(index)))
    }

    /// Decodes an event of a watch. The inner error is the status of an `ERROR` event.
    ///
    /// # Errors
    /// The event cannot be attributed to an object: the event is broken, its object cannot be decoded and has no
    /// readable key, or the object of an `ERROR` event is not a status.
    pub fn decode_event<K: Object + FromWire, S: DeserializeOwned>(
        &self,
        event: &RawEvent<'_>,
    ) -> Result<Result<WatchEvent<K>, S>, Error> {
        let event_type = match &event.event_type {
            RawEventType::Added => EventType::Added,
            RawEventType::Modified => EventType::Modified,
            RawEventType::Deleted => EventType::Deleted,
            RawEventType::Bookmark => return self.bookmark(event).map(Ok),
            RawEventType::Error => return self.status(event).map(Err),
            RawEventType::Other(name) if is_readable(name) => {
                return Ok(Ok(self.unexpected(event, format!("event type {name}"))));
            }
            other => return Err(broken(event, format!("its type is {other:?}"))),
        };
        // In protobuf the kind is beside the object, so another kind is found without decoding.
        if let (Some(types), Some(beside)) = (self.types(), event.types)
            && types.kind != beside.kind
        {
            return match beside.kind {
                "" => Err(broken(event, "its object has no kind")),
                other => Ok(Ok(self.unexpected(event, in_a_watch(other, types)))),
            };
        }
        // Objects of a watch have their kind. Types of one kind check it while they are decoded, so it is checked here
        // only if decoding failed.
        let decoded = K::from_wire(event.object, self);
        if let Some(types) = self.types()
            && (self.checks_kind() || decoded.is_err())
            && let Some(other) = self.other_kind(event.object)
        {
            return Ok(Ok(self.unexpected(event, in_a_watch(&other, types))));
        }
        let object = match decoded {
            Ok(object) => checked(object),
            Err(error) => match self.identify(event.object) {
                Identity { key: None, .. } => return Err(error),
                identity => Err(undecodable(identity, error)),
            },
        };
        Ok(Ok(match (object, event_type) {
            (Ok(object), EventType::Added) => WatchEvent::Added(object),
            (Ok(object), EventType::Modified) => WatchEvent::Modified(object),
            (Ok(object), EventType::Deleted) => WatchEvent::Deleted(object),
            (Err(error), _) => WatchEvent::Undecodable(error.event_type(event_type)),
        }))
    }

    /// Returns the kind of an object, if it differs from the decoder's.
    fn other_kind(&self, object: &[u8]) -> Option<String> {
        let types = self.types()?;
        self.encoding().kind(object).filter(|kind| *kind != types.kind)
    }

    fn unexpected<K>(&self, event: &RawEvent<'_>, what: String) -> WatchEvent<K> {
        WatchEvent::Unexpected { what, resource_version: self.identify(event.object).resource_version }
    }

    fn status<S: DeserializeOwned>(&self, event: &RawEvent<'_>) -> Result<S, Error> {
        /// The fields that identify a `Status` without a kind.
        #[derive(Deserialize)]
        struct Known {
            code: u16,
            reason: String,
        }
        let status = event.decode()?;
        let other = match event.kind() {
            Some(kind) if kind == "Status" => return Ok(status),
            Some(kind) => format!("a {kind}"),
            None if event.decode().is_ok_and(|Known { code, reason }| code > 0 && !reason.is_empty()) => {
                return Ok(status);
            }
            None => "an object without a kind, a code and a reason".to_owned(),
        };
        Err(broken(event, format!("an ERROR event with {other} instead of a Status")))
    }

    fn bookmark<K>(&self, event: &RawEvent<'_>) -> Result<WatchEvent<K>, Error> {
        #[derive(Deserialize)]
        struct Bookmark {
            #[serde(default, deserialize_with = "null_as_default")]
            metadata: Metadata,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default, deserialize_with = "null_as_default")]
            resource_version: String,
            #[serde(default)]
            annotations: Option<std::collections::BTreeMap<String, Option<String>>>,
        }
        let Bookmark { metadata } = self.decode(event.object)?;
        let version = metadata.resource_version;
        let annotations = metadata.annotations.unwrap_or_default();
        let initial_events_end =
            annotations.get(INITIAL_EVENTS_END).and_then(Option::as_deref).is_some_and(|end| end == "true");
        if initial_events_end && version.is_empty() {
            return Err(broken(event, "the bookmark that ends the initial events has no version"));
        }
        Ok(WatchEvent::Bookmark { version: version.into(), initial_events_end })
    }
}

/// Returns the error for an object that cannot be decoded.
fn undecodable(Identity { key, resource_version, .. }: Identity, error: Error) -> DecodeError {
    let error = DecodeError::new(error).resource_version(resource_version);
    match key {
        Some(key) if check_name(key.as_key()).is_ok() => error.key(key),
        _ => error,
    }
}

/// Treats an object without a valid Kubernetes key as undecodable. An object whose key panics is left to the consumer.
fn checked<K: Object>(object: K) -> Result<Arc<K>, DecodeError> {
    match contain(|| check_name(object.key())) {
        Ok(Err(error)) => Err(DecodeError::new(error)),
        _ => Ok(Arc::new(object)),
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

fn broken(event: &RawEvent<'_>, problem: impl ToString) -> Error {
    Error::malformed("a watch event", problem, event.object)
}

fn in_a_watch(other: &str, types: TypeMeta<'_>) -> String {
    format!("a {other} in a watch of {}", types.kind)
}

/// Whether this can be the name of an event type that is unknown here, rather than a damaged name.
fn is_readable(event_type: &str) -> bool {
    !event_type.is_empty()
        && event_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
