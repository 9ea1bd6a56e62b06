//! What a watch brings.

use std::fmt;
use std::sync::Arc;

use kinformer_core::{BoxError, ObjectKey, ResourceVersion};

/// One event of a watch.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEvent<T> {
    /// The object was added, or it is one of the initial events.
    Added(Arc<T>),
    /// The object was changed.
    Modified(Arc<T>),
    /// The object is gone; this is its final state.
    Deleted(Arc<T>),
    /// The source has reached this version without a change.
    Bookmark {
        /// The version reached.
        version: ResourceVersion,
        /// Whether this bookmark ends the initial events of a watch-list: on the wire, the annotation
        /// `k8s.io/initial-events-end` with the value `true`.
        initial_events_end: bool,
    },
    /// An event about an object that could not be decoded. With its key and the type of the event it is reported and
    /// skipped (a deletion is applied); without one of them it may be about any object, and ends the watch as
    /// [`SourceError::BrokenEvent`](crate::SourceError::BrokenEvent) does.
    Undecodable(DecodeError),
    /// An event that has no place in this watch: an unknown type, an object of another kind. It is reported
    /// and skipped.
    Unexpected {
        /// What it was.
        what: String,
        /// Its version, if it has one: the next watch does not bring it again.
        resource_version: ResourceVersion,
    },
}

impl<T> WatchEvent<T> {
    /// A bookmark that ends nothing.
    pub fn bookmark(version: impl Into<ResourceVersion>) -> Self {
        Self::Bookmark { version: version.into(), initial_events_end: false }
    }

    /// An event that has no place in this watch, at its version.
    pub fn unexpected(what: impl Into<String>, resource_version: impl Into<ResourceVersion>) -> Self {
        Self::Unexpected { what: what.into(), resource_version: resource_version.into() }
    }

    /// The bookmark that ends the initial events of a watch-list.
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

/// What an event says about its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventType {
    /// See [`WatchEvent::Added`].
    Added,
    /// See [`WatchEvent::Modified`].
    Modified,
    /// See [`WatchEvent::Deleted`].
    Deleted,
}

/// An object that exists but could not be decoded, with what could be read of it.
///
/// In a list, what is known of it under its key stays; without a key the list is incomplete and deletes nothing. In a
/// watch, a deletion with a key deletes, and any other event with a key leaves what is known as it is; without a key or
/// without its type an event ends the watch, which is opened again before it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DecodeError {
    /// Which object, if that could be read.
    pub key: Option<ObjectKey>,
    /// Its version, if that could be read.
    pub resource_version: ResourceVersion,
    /// What the event said about it; `None` in a list or where it could not be read.
    pub event_type: Option<EventType>,
    /// Which item of the list it was, from 0; `None` in a watch or where the source does not say.
    pub position: Option<usize>,
    /// What the decoder says.
    pub source: Arc<dyn std::error::Error + Send + Sync>,
}

impl DecodeError {
    /// An object of which nothing could be read.
    pub fn new(source: impl Into<BoxError>) -> Self {
        Self {
            key: None,
            resource_version: ResourceVersion::UNSET,
            event_type: None,
            position: None,
            source: source.into().into(),
        }
    }

    /// Which object.
    #[must_use]
    pub fn key(mut self, key: ObjectKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Its version.
    #[must_use]
    pub fn resource_version(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.resource_version = version.into();
        self
    }

    /// What the event said about it.
    #[must_use]
    pub fn event_type(mut self, event_type: EventType) -> Self {
        self.event_type = Some(event_type);
        self
    }

    /// Which item of the list, from 0.
    #[must_use]
    pub fn position(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.key, self.position) {
            (Some(key), _) => write!(f, "{key} could not be decoded: {}", self.source),
            (None, Some(at)) => write!(f, "item {at}, of unknown key, could not be decoded: {}", self.source),
            (None, None) => write!(f, "an object of unknown key could not be decoded: {}", self.source),
        }
    }
}

impl std::error::Error for DecodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}
