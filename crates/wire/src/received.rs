//! What a list or a watch has brought, decoded.

use kinformer_core::ResourceVersion;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Error, EventType, FromWire, Identity, ObjectDecoder, RawEvent, TypeMeta};

/// The annotation of the bookmark that ends the initial events of a watch.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An object that does not decode.
#[derive(Debug)]
#[non_exhaustive]
pub struct Undecodable {
    /// What could be read of it.
    pub identity: Identity,
    /// Why.
    pub error: Error,
    /// The kind that it has, if that is not the kind that was listed.
    pub other_kind: Option<String>,
}

/// One event of a watch, its object decoded as a `K`, or its status as an `S`. A consumer has to handle each of them, so
/// this enum is exhaustive.
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
        /// Up to which version everything was delivered.
        resource_version: String,
        /// Whether it ends the initial events.
        ends_initial_events: bool,
    },
    /// `ERROR`, with its status.
    Error(S),
    /// An event of a type that is not known, or of an object of another kind.
    Unexpected {
        /// What it is.
        what: String,
        /// The version of its object; unset if it could not be read.
        resource_version: ResourceVersion,
    },
}

impl ObjectDecoder {
    /// Makes an object of an item of a list; `position` is its position in the list.
    ///
    /// Items may leave out their kind, which is the list's: a type that takes objects of [any kind](Self::check_kind)
    /// receives it all the same.
    ///
    /// # Errors
    /// The item does not decode, or is of another kind than the decoder.
    pub fn decode_item<K: FromWire>(&self, item: &[u8], position: usize) -> Result<K, Undecodable> {
        let mut with_types = None;
        // All items of a list are of one kind.
        if let Some(types) = self.types()
            && (self.checks_kind() || position == 0)
        {
            match self.encoding().kind(item) {
                Some(kind) if kind != types.kind => {
                    let error = Error::malformed("an item", format!("its kind is {kind}"), item);
                    return Err(self.undecodable(item, error));
                }
                None if self.checks_kind() => with_types = self.encoding().with_types(item, types),
                _ => {}
            }
        }
        K::from_wire(with_types.as_deref().unwrap_or(item), self)
            .map_err(|error| self.undecodable(item, error))
    }

    /// Decodes an event of a watch.
    ///
    /// # Errors
    /// What the event is about cannot be read: it is broken, or its object has no key and does not decode, or the object
    /// of an `ERROR` is no status.
    pub fn decode_event<K: FromWire, S: DeserializeOwned>(
        &self,
        event: &RawEvent<'_>,
    ) -> Result<WireEvent<K, S>, Error> {
        let made = match &event.event_type {
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
        // The kind is beside the object, and what is not of the kind that is watched makes no sense.
        if let (Some(types), Some(beside)) = (self.types(), event.types)
            && types.kind != beside.kind
        {
            return match beside.kind {
                "" => Err(broken(event, "its object has no kind")),
                other => Ok(self.unexpected(event, in_a_watch(other, types))),
            };
        }
        // Objects of a watch say their kind. A type that knows its own kind checks it while it is decoded, so that it is
        // checked here only if that failed.
        let decoded = K::from_wire(event.object, self);
        if let Some(types) = self.types()
            && (self.checks_kind() || decoded.is_err())
            && let Some(other) = self.other_kind(event.object)
        {
            return Ok(self.unexpected(event, in_a_watch(&other, types)));
        }
        match decoded {
            Ok(object) => Ok(made(Ok(object))),
            Err(error) => {
                let undecodable = self.undecodable(event.object, error);
                if undecodable.identity.key.is_none() {
                    return Err(undecodable.error);
                }
                Ok(made(Err(undecodable)))
            }
        }
    }

    /// The kind that the bytes of an object say, if it is another than that of the decoder.
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
        let status = event.decode()?;
        match event.kind().as_deref() {
            Some("Status") => Ok(status),
            kind => Err(broken(
                event,
                format!("an ERROR event with a {} and no Status", kind.unwrap_or_default()),
            )),
        }
    }

    fn bookmark<K, S>(&self, event: &RawEvent<'_>) -> Result<WireEvent<K, S>, Error> {
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
        let Bookmark { metadata } = self.decode(event.object)?;
        let resource_version = metadata.resource_version;
        let annotations = metadata.annotations.unwrap_or_default();
        let ends_initial_events = annotations.get(INITIAL_EVENTS_END).is_some_and(|end| end == "true");
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

/// Whether it can be the name of an event type that is not known here, and not one that was damaged on its way.
fn is_readable(event_type: &str) -> bool {
    !event_type.is_empty()
        && event_type.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
