//! What a source can answer instead of objects, and what the reflector makes of it.

use std::fmt;
use std::time::Duration;

use kinformer_core::internal::with_causes;
use kinformer_core::{BoxError, ObjectKey, ResourceVersion};

use crate::DecodeError;

/// What ended a list or a watch, or what was wrong with one object of it.
///
/// A [`ListerWatcher`](crate::ListerWatcher) returns it; the reflector adds the variants that only it can
/// see and hands all of them to the error hook.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server answered with a status, as an HTTP response or as an event of the watch.
    #[error(transparent)]
    Status(Box<ApiStatus>),
    /// Nobody listens there: the request has certainly not been seen by a server.
    #[error("connection refused: {}", with_causes(&**source))]
    ConnectionRefused {
        /// The error of the connection.
        source: BoxError,
    },
    /// The connection could not be made or broke.
    #[error("transport: {}", with_causes(&**source))]
    Transport {
        /// The error of the connection.
        source: BoxError,
    },
    /// The source did not answer in time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// The answer as a whole could not be read. One bad object is [`SourceError::Undecodable`] instead.
    #[error("the answer could not be decoded: {}", with_causes(&**source))]
    Decode {
        /// What the decoder says.
        source: BoxError,
    },
    /// An error of the source's own, of no kind that is known here. The request is repeated later.
    #[error("source: {}", with_causes(&**source))]
    Other {
        /// What the source says.
        source: BoxError,
    },
    /// One object could not be decoded; it was left out, and the list or watch went on.
    #[error(transparent)]
    Undecodable(DecodeError),
    /// The source sent something that has no place there: an event of an unknown type, an object of another
    /// kind.
    #[error("unexpected answer of the source: {what}")]
    Unexpected {
        /// What it was.
        what: String,
    },
    /// The watch brought something that is no event, or an event without a readable type or key: it may be about any
    /// object, so that nothing after it was applied. The reflector watches again from the version before it; the second
    /// time at one version it lists.
    #[error("the watch brought an event that cannot be read: {}", with_causes(&**source))]
    BrokenEvent {
        /// What is wrong with it.
        source: BoxError,
    },
    /// A list holds objects whose keys cannot be read. Its other objects were applied, and nothing was deleted: each
    /// object that is missing may be one of them. The reflector is [degraded](crate::ReflectorHandle::degraded) until a
    /// list is complete.
    #[error(
        "{unreadable} objects of the list have no readable key, so that it deletes nothing: {}",
        listed(first)
    )]
    IncompleteList {
        /// How many objects have no readable key.
        unreadable: usize,
        /// The first of them, at most ten: where they are in the list, and what the decoder says.
        first: Vec<DecodeError>,
    },
    /// The answer to a list is a list of something else, or no list. Nothing of it was applied.
    #[error("a list of {resource} is to be a {expected}, and the server sent {received}")]
    WrongList {
        /// The resource that was listed.
        resource: String,
        /// The kind of list that was expected.
        expected: String,
        /// What the answer calls itself, or what its items do.
        received: String,
    },
    /// A list or watch-list has no version, although the source had one before. Nothing of it was applied.
    #[error("the list has no resource version; the last version was {last}")]
    MissingVersion {
        /// The last version that was seen.
        last: ResourceVersion,
    },
    /// A successful answer is neither JSON nor protobuf: it does not come from a Kubernetes API.
    #[error(
        "the answer to a request for {resource} has the content type {content_type:?}; it starts with {start:?}"
    )]
    ContentType {
        /// The resource that was requested.
        resource: String,
        /// The content type of the answer.
        content_type: String,
        /// The beginning of the body.
        start: String,
    },
    /// The pages of one list are of different versions. When it was listed in one piece instead, the same happened.
    #[error("page {page} of the list is at version {version}, and the first page at {first}")]
    PagesDiffer {
        /// Which page, from 1.
        page: u32,
        /// Its version.
        version: ResourceVersion,
        /// The version of the first page.
        first: ResourceVersion,
    },
    /// A list that does not end: a page that was there before, more than 10,000 pages, or more than an hour.
    #[error("the list does not end: {problem}, after {pages} pages and {after:?}")]
    EndlessList {
        /// Why it is not read any further.
        problem: &'static str,
        /// How many pages there were.
        pages: u32,
        /// How long they took.
        after: Duration,
    },
    /// A watch ended in less than a second and had brought nothing new, or was at least the fifth in a row that
    /// ended that soon.
    #[error("very short watch: it ended after {lasted:?} and {events} events")]
    VeryShortWatch {
        /// How long it lasted.
        lasted: Duration,
        /// How many events it brought, bookmarks among them.
        events: u64,
    },
    /// The source sent or named a version below one that it had issued before: an older state was restored, or
    /// its versions have begun again. Its newest state is listed, whatever the version of that is.
    #[error("the versions of the source went back: asked for what is newer than {asked}, it is at {found}")]
    VersionsWentBack {
        /// The version that a watch or list was asked from, or that the reflector knew when it asked for the newest.
        asked: ResourceVersion,
        /// The lower version.
        found: ResourceVersion,
    },
    /// A watch was silent for longer than the server had been asked to keep it: the connection is dead.
    #[error("the watch has been silent for {silent:?}, longer than it was to last; it is given up")]
    WatchStalled {
        /// For how long nothing came.
        silent: Duration,
    },
    /// A watch-list stream ended before the bookmark that ends the initial events.
    #[error("the watch-list stream ended after {events} events and {after:?}, before the end of the list")]
    WatchListIncomplete {
        /// How many events there were.
        events: u64,
        /// How long the stream lasted.
        after: Duration,
    },
    /// A watch-list stream did not bring the bookmark that ends the initial events in time.
    #[error("the watch-list stream brought {events} events in {after:?}, but no bookmark that ends the list")]
    WatchListStalled {
        /// How many events there were.
        events: u64,
        /// How long it was waited for.
        after: Duration,
    },
    /// The sink reported a problem. See the variant of the inner error for what became of the object.
    #[error("the sink could not {operation}: {source}")]
    Sink {
        /// What was asked of it: `add`, `update`, `delete`, `replace`, `resync`, `bookmark`.
        operation: &'static str,
        /// What it answered.
        source: kinformer_core::Error,
    },
    /// User code panicked; the panic was contained.
    #[error("{operation} panicked: {source}")]
    Panic {
        /// Which code.
        operation: &'static str,
        /// Its message.
        source: BoxError,
    },
    /// The consistency check found that a second list of the same version differs.
    #[error(
        "a second list at version {resource_version} differs: {} objects are missing, {} are not in it, {} have another version",
        missing.len(), extra.len(), changed.len()
    )]
    Inconsistent {
        /// The version of both lists.
        resource_version: String,
        /// In the second list only.
        missing: Vec<ObjectKey>,
        /// In the first list only.
        extra: Vec<ObjectKey>,
        /// In both, at different versions.
        changed: Vec<ObjectKey>,
    },
    /// A wait for the first list was over before that list was there.
    #[error("{name} is not synced{}", last_error.as_ref().map(|e| format!("; its last error: {e}")).unwrap_or_default())]
    NotSynced {
        /// The name of the reflector.
        name: String,
        /// The last error it met.
        last_error: Option<std::sync::Arc<SourceError>>,
    },
}

/// A status as Kubernetes writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct ApiStatus {
    /// The HTTP code; 0 where there is none.
    pub code: u16,
    /// The reason, such as `Expired`; empty where there is none.
    pub reason: String,
    /// For people.
    pub message: String,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Details, as far as the server gave them.
    pub causes: Vec<StatusCause>,
}

/// One detail of an [`ApiStatus`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusCause {
    /// The machine's word, such as `ResourceVersionTooLarge`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Which field of the request it is about; usually empty.
    pub field: String,
}

impl ApiStatus {
    /// A status of a code, a reason and a message.
    pub fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), message: message.into(), ..Self::default() }
    }

    /// How long the server wants to be left alone.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// Adds a detail.
    #[must_use]
    pub fn cause(mut self, cause: StatusCause) -> Self {
        self.causes.push(cause);
        self
    }
}

impl StatusCause {
    /// A detail of a reason and a message.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), field: String::new() }
    }

    /// Which field of the request it is about.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }
}

impl fmt::Display for ApiStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = if self.reason.is_empty() { "no reason" } else { &self.reason };
        write!(f, "status {} ({reason}): {}", self.code, self.message)
    }
}

impl From<ApiStatus> for SourceError {
    fn from(status: ApiStatus) -> Self {
        Self::Status(Box::new(status))
    }
}

impl SourceError {
    /// The version that was asked for is gone: the reflector lists again. A source that keeps no history
    /// answers its watch with this whenever something may have been missed.
    pub fn expired(message: impl Into<String>) -> Self {
        ApiStatus::new(410, "Expired", message).into()
    }

    /// An error of the source's own.
    pub fn other(source: impl Into<BoxError>) -> Self {
        Self::Other { source: source.into() }
    }

    /// The status, where this is one.
    pub fn status(&self) -> Option<&ApiStatus> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status()?.retry_after
    }

    /// 410: the version that was asked for is gone. Only a list helps.
    ///
    /// Follows client-go 1.37 (`isExpiredError`).
    pub fn is_expired(&self) -> bool {
        self.has(410, &["Expired", "Gone"])
    }

    /// The version that was asked for has not been reached by the server yet (or never will be).
    ///
    /// Follows client-go 1.37 (`isTooLargeResourceVersionError`), which knows three forms: the cause of
    /// today's servers, the message of a cause of 1.17.0 to 1.18.5, and the message of older ones.
    pub fn is_too_large_resource_version(&self) -> bool {
        let Some(status) = self.status() else { return false };
        if status.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge") {
            return true;
        }
        status.reason == "Timeout"
            && (status.causes.iter().any(|cause| cause.message == TOO_LARGE)
                || status.message.contains(TOO_LARGE))
    }

    /// The version that was asked for is gone, not there yet, or of versions that have begun again: a list has to be
    /// asked for without a version.
    pub(crate) fn is_version_unavailable(&self) -> bool {
        self.is_expired()
            || self.is_too_large_resource_version()
            || matches!(self, Self::VersionsWentBack { .. })
    }

    /// 429: the server asks to be left alone for a while.
    pub fn is_too_many_requests(&self) -> bool {
        self.has(429, &["TooManyRequests"])
    }

    /// 500 without a more telling reason.
    pub fn is_internal(&self) -> bool {
        self.status().is_some_and(|s| s.reason == "InternalError" || (s.code == 500 && s.reason.is_empty()))
    }

    /// Nobody listens there.
    pub fn is_connection_refused(&self) -> bool {
        matches!(self, Self::ConnectionRefused { .. })
    }

    /// A corrupt object has been removed from the server's storage and no watch can tell: only a list helps.
    pub fn is_store_read_error(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "StoreReadError")
    }

    /// The server does not know this kind of request, as old ones do not know the watch-list. It may also be
    /// told by 405, 406, 415 and 501.
    pub fn is_watch_list_unsupported(&self) -> bool {
        self.status().is_some_and(|status| {
            matches!(status.code, 400 | 405 | 406 | 415 | 422 | 501)
                || matches!(
                    status.reason.as_str(),
                    "BadRequest" | "Invalid" | "MethodNotAllowed" | "NotAcceptable" | "UnsupportedMediaType"
                )
        })
    }

    /// The same request may well succeed a little later: connection refused, a broken connection, no answer
    /// in time, 429, 503 and 504.
    pub fn is_retryable(&self) -> bool {
        if self.is_too_large_resource_version() {
            return false;
        }
        match self {
            Self::ConnectionRefused { .. } | Self::Transport { .. } | Self::Timeout { .. } => true,
            Self::Status(status) => {
                self.is_too_many_requests()
                    || matches!(status.code, 503 | 504)
                    || matches!(status.reason.as_str(), "ServiceUnavailable" | "ServerTimeout" | "Timeout")
            }
            _ => false,
        }
    }

    /// A reason decides; the code counts for servers and proxies that give no reason we know.
    fn has(&self, code: u16, reasons: &[&str]) -> bool {
        self.status().is_some_and(|s| s.code == code || reasons.contains(&s.reason.as_str()))
    }
}

fn listed(errors: &[DecodeError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

const TOO_LARGE: &str = "Too large resource version";
