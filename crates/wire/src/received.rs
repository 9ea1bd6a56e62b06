//! Decoded list items and watch events.

use kinformer_core::ResourceVersion;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::answer::null_as_default;
use crate::{Error, EventType, FromWire, Identity, ObjectDecoder, RawEvent, TypeMeta};

/// The annotation of the bookmark that ends the initial events of a watch.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An object that cannot be decoded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Undecodable {
    /// The key and the version, as far as they can be read.
    pub identity: Identity,
    /// The error.
    pub error: Error,
    /// The kind of the object, if it differs from the decoder's.
    pub other_kind: Option<String>,
}

/// One event of a watch, with its object decoded as a `K` or its status as an `S`. Consumers have to handle every
/// variant, so this enum is exhaustive.
#[derive(Debug)]
pub enum WireEvent<K, S> {
    /// `ADDED`
    Added(Result<K, Undecodable>),
    /// `MODIFIED`
    Modified(Result<K, Undecodable>),
    /// `DELETED`
    Deleted(Result<K, Undecodable>),
    /// `BOOKMARK`
    Bookmark {
        /// The version up to which all events were delivered.
        resource_version: String,
        /// Whether the bookmark ends the initial events.
        ends_initial_events: bool,
    },
    /// `ERROR`, with its status.
    Error(S),
    /// An event of an unknown type, or with an object of another kind.
    Unexpected {
        /// A description of the event.
        what: String,
        /// The resource version of the object; unset if it could not be read.
        resource_version: ResourceVersion,
    },
}

impl ObjectDecoder {
    /// Decodes an item of a list; `position` is its position in the list.
    ///
    /// Items may omit their kind, which follows from the list's. With [`Self::check_kind`] it is added before the item
    /// is decoded.
    ///
    /// # Errors
    /// The item cannot be decoded, or is of another kind than the decoder.
    pub fn decode_item<K: FromWire>(&self, item: &[u8], position: usize) -> Result<K, Box<Undecodable>> {
        let mut with_types = None;
        // Without `check_kind` the first item is enough, since all items of a list are of one kind.
        if let Some(types) = self.types()
            && (self.checks_kind() || position == 0)
        {
            match self.encoding().kind(item) {
                Some(kind) if kind != types.kind => {
                    let error = Error::malformed("an item", format!("its kind is {kind}"), item);
                    return Err(Box::new(self.undecodable(item, error)));
                }
                None if self.checks_kind() => with_types = self.encoding().with_types(item, types),
                _ => {}
            }
        }
        K::from_wire(with_types.as_deref().unwrap_or(item), self)
            .map_err(|error| Box::new(self.undecodable(item, error)))
    }

    /// Decodes an event of a watch.
    ///
    /// # Errors
    /// The event cannot be attributed to an object: the event is broken, its object cannot be decoded and has no
    /// readable key, or the object of an `ERROR` event is not a status.
    pub fn decode_event<K: FromWire, S: DeserializeOwned>(
        &self,
        event: &RawEvent<'_>,
    ) -> Result<WireEvent<K, S>, Error> {
        let variant = match &event.event_type {
            EventType::Added => WireEvent::Added,
            EventType::Modified => WireEvent::Modified,
            EventType::Deleted => WireEvent::Deleted,
            EventType::Bookmark => return self.bookmark(event),
            EventType::Error => return self.status(event).map(WireEvent::Error),
            EventType::Other(name) if is_readable(name) => {
                return Ok(self.unexpected(event, format!("event type {name}")));
            }
            other => return Err(broken(event, format!("its type is {other:?}"))),
        };
        // In protobuf the kind is beside the object, so another kind is found without decoding.
        if let (Some(types), Some(beside)) = (self.types(), event.types)
            && types.kind != beside.kind
        {
            return match beside.kind {
                "" => Err(broken(event, "its object has no kind")),
                other => Ok(self.unexpected(event, in_a_watch(other, types))),
            };
        }
        // Objects of a watch have their kind. Types of one kind check it while they are decoded, so it is checked here
        // only if decoding failed.
        let decoded = K::from_wire(event.object, self);
        if let Some(types) = self.types()
            && (self.checks_kind() || decoded.is_err())
            && let Some(other) = self.other_kind(event.object)
        {
            return Ok(self.unexpected(event, in_a_watch(&other, types)));
        }
        match decoded {
            Ok(object) => Ok(variant(Ok(object))),
            Err(error) => {
                let undecodable = self.undecodable(event.object, error);
                if undecodable.identity.key.is_none() {
                    return Err(undecodable.error);
                }
                Ok(variant(Err(undecodable)))
            }
        }
    }

    /// Returns the kind of an object, if it differs from the decoder's.
    fn other_kind(&self, object: &[u8]) -> Option<String> {
        let types = self.types()?;
        self.encoding().kind(object).filter(|kind| *kind != types.kind)
    }

    fn undecodable(&self, object: &[u8], error: Error) -> Undecodable {
        Undecodable { identity: self.identify(object), error, other_kind: self.other_kind(object) }
    }

    fn unexpected<K, S>(&self, event: &RawEvent<'_>, what: String) -> WireEvent<K, S> {
        WireEvent::Unexpected { what, resource_version: self.identify(event.object).resource_version }
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

    fn bookmark<K, S>(&self, event: &RawEvent<'_>) -> Result<WireEvent<K, S>, Error> {
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
        let resource_version = metadata.resource_version;
        let annotations = metadata.annotations.unwrap_or_default();
        let ends_initial_events =
            annotations.get(INITIAL_EVENTS_END).and_then(Option::as_deref).is_some_and(|end| end == "true");
        if ends_initial_events && resource_version.is_empty() {
            return Err(broken(event, "the bookmark that ends the initial events has no version"));
        }
        Ok(WireEvent::Bookmark { resource_version, ends_initial_events })
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
