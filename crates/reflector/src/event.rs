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
    /// An event about an object that could not be decoded.
    Undecodable(DecodeError),
    /// An event that has no place in this watch: an unknown type, an object of another kind. It is reported
    /// and skipped.
    Unexpected(String),
}

impl<T> WatchEvent<T> {
    /// A bookmark that ends nothing.
    pub fn bookmark(version: impl Into<ResourceVersion>) -> Self {
        Self::Bookmark { version: version.into(), initial_events_end: false }
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
            Self::Unexpected(what) => Self::Unexpected(what.clone()),
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
/// In a list, what is known of it under its key stays; without a key nothing of it can be kept. In a watch,
/// a deletion with a key deletes; anything else leaves what is known as it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DecodeError {
    /// Which object, if that could be read.
    pub key: Option<ObjectKey>,
    /// Its version, if that could be read.
    pub resource_version: ResourceVersion,
    /// What the event said about it; `None` in a list or where it could not be read.
    pub event_type: Option<EventType>,
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
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key} could not be decoded: {}", self.source),
            None => write!(f, "an object of unknown key could not be decoded: {}", self.source),
        }
    }
}

impl std::error::Error for DecodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}
