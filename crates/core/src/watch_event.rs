//! The events of a watch.

use std::fmt;
use std::sync::Arc;

use crate::{BoxError, ObjectKey, ResourceVersion};

/// One event of a watch. Consumers have to handle every variant, so this enum is exhaustive.
#[derive(Debug)]
pub enum WatchEvent<T> {
    /// The object was added, or is part of the initial events.
    Added(Arc<T>),
    /// The object was changed.
    Modified(Arc<T>),
    /// The object was deleted; this is its final state.
    Deleted(Arc<T>),
    /// The source has reached this version without a change.
    Bookmark {
        /// The version reached.
        version: ResourceVersion,
        /// Whether this bookmark ends the initial events of a watch-list: on the wire, the annotation
        /// `k8s.io/initial-events-end` with the value `true`.
        initial_events_end: bool,
    },
    /// An event with an object that could not be decoded. If its key and the type of the event are known, it is
    /// reported and skipped (a deletion is applied). Without one of them it may concern any object, and ends the watch.
    Undecodable(DecodeError),
    /// An event that does not belong in this watch: of an unknown type, or with an object of another kind. It is
    /// reported and skipped.
    Unexpected {
        /// A description of the event.
        what: String,
        /// The version of the event, if it has one: the next watch does not deliver the event again.
        resource_version: ResourceVersion,
    },
}

impl<T> WatchEvent<T> {
    /// Creates a bookmark that does not end the initial events.
    pub fn bookmark(version: impl Into<ResourceVersion>) -> Self {
        Self::Bookmark { version: version.into(), initial_events_end: false }
    }

    /// Creates an event that does not belong in this watch, at its version.
    pub fn unexpected(what: impl Into<String>, resource_version: impl Into<ResourceVersion>) -> Self {
        Self::Unexpected { what: what.into(), resource_version: resource_version.into() }
    }

    /// Creates the bookmark that ends the initial events of a watch-list.
    pub fn initial_events_end(version: impl Into<ResourceVersion>) -> Self {
        Self::Bookmark { version: version.into(), initial_events_end: true }
    }
}

impl<T> Clone for WatchEvent<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Modified(object) => Self::Modified(object.clone()),
            Self::Deleted(object) => Self::Deleted(object.clone()),
            Self::Bookmark { version, initial_events_end } => {
                Self::Bookmark { version: version.clone(), initial_events_end: *initial_events_end }
            }
            Self::Undecodable(error) => Self::Undecodable(error.clone()),
            Self::Unexpected { what, resource_version } => {
                Self::Unexpected { what: what.clone(), resource_version: resource_version.clone() }
            }
        }
    }
}

/// The type of an event about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// See [`WatchEvent::Added`].
    Added,
    /// See [`WatchEvent::Modified`].
    Modified,
    /// See [`WatchEvent::Deleted`].
    Deleted,
}

/// An object that exists but could not be decoded, with its readable properties.
///
/// In a list, the known state of an object with a key stays; with an object without a key the list is incomplete and
/// deletes nothing. In a watch, a deletion with a key is applied, and any other event with a key leaves the known state
/// unchanged. An event without a key or a type ends the watch, and the next watch starts before that event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DecodeError {
    /// The key of the object, if it could be read.
    pub key: Option<ObjectKey>,
    /// The version of the object, if it could be read.
    pub resource_version: ResourceVersion,
    /// The type of the event; `None` in a list or if it could not be read.
    pub event_type: Option<EventType>,
    /// The index of the item in the list, or in its page, as the source returned it; `None` in a watch or if the source
    /// does not report it.
    pub index: Option<usize>,
    /// The error of the decoder.
    pub source: Arc<dyn std::error::Error + Send + Sync>,
}

impl DecodeError {
    /// Creates the error of an object without any readable property.
    pub fn new(source: impl Into<BoxError>) -> Self {
        Self {
            key: None,
            resource_version: ResourceVersion::UNSET,
            event_type: None,
            index: None,
            source: source.into().into(),
        }
    }

    /// Sets the key of the object.
    #[must_use]
    pub fn key(mut self, key: ObjectKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the version of the object.
    #[must_use]
    pub fn resource_version(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.resource_version = version.into();
        self
    }

    /// Sets the type of the event.
    #[must_use]
    pub fn event_type(mut self, event_type: EventType) -> Self {
        self.event_type = Some(event_type);
        self
    }

    /// Sets the index in the list or page, from 0.
    #[must_use]
    pub fn index(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.key, self.index) {
            (Some(key), _) => write!(f, "{key} could not be decoded: {}", self.source),
            (None, Some(item)) => {
                write!(f, "item {item}, with an unknown key, could not be decoded: {}", self.source)
            }
            (None, None) => write!(f, "an object with an unknown key could not be decoded: {}", self.source),
        }
    }
}

impl std::error::Error for DecodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}
