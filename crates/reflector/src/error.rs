//! The errors of sources and of the reflector, and their classification.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use kinformer_core::internal::with_causes;
use kinformer_core::{BoxError, ObjectKey, ResourceVersion};

use crate::DecodeError;

/// The error of a list or watch, or of one object in it.
///
/// A [`ListerWatcher`](crate::ListerWatcher) returns it. The reflector adds the variants that only it can detect and
/// passes all of them to the error hook.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server answered with a status, as an HTTP response or as an event of the watch.
    #[error(transparent)]
    Status(Box<ApiStatus>),
    /// The source does not serve the resource (404): its CustomResourceDefinition was deleted or is not installed, or the
    /// version is not served. The reflector continues to request it: see
    /// [`not_served`](crate::ReflectorHandle::not_served).
    #[error("the resource is not served (for {lasted:?} so far): {status}")]
    NotServed {
        /// The status of the last answer.
        status: Box<ApiStatus>,
        /// The time since the first such answer.
        lasted: Duration,
    },
    /// The resource has another scope than the requests: its CustomResourceDefinition has returned with another one. The
    /// requests are restricted to a namespace, and the resource is cluster-scoped now; or they are for a cluster-scoped
    /// resource, and it is in namespaces now, to which they are not restricted. No object is delivered, so that a
    /// restriction to namespaces is never wider than it was. The reflector treats the resource as one that is
    /// [not served](Self::NotServed), and continues when it has its scope again.
    #[error("{}", other_scope(resource, namespace.as_deref()))]
    OtherScope {
        /// The resource, such as `widgets.example.com`.
        resource: String,
        /// The namespace of the requests; `None` if the resource was cluster-scoped.
        namespace: Option<String>,
    },
    /// The address refused the connection: no server has received the request.
    #[error("connection refused: {}", with_causes(&**source))]
    ConnectionRefused {
        /// The error of the connection.
        source: BoxError,
    },
    /// The connection could not be established, or it broke.
    #[error("transport: {}", with_causes(&**source))]
    Transport {
        /// The error of the connection.
        source: BoxError,
    },
    /// The source did not answer in time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// The timeout.
        after: Duration,
    },
    /// The answer as a whole could not be decoded. A single bad object is [`SourceError::Undecodable`] instead.
    #[error("the answer could not be decoded: {}", with_causes(&**source))]
    Decode {
        /// The error of the decoder.
        source: BoxError,
    },
    /// An error of the source that fits no other variant. The request is repeated later.
    #[error("source: {}", with_causes(&**source))]
    Other {
        /// The error of the source.
        source: BoxError,
    },
    /// The source answered a watch with a list, so it cannot be watched: see
    /// [`not_watchable`](crate::ReflectorHandle::not_watchable).
    #[error("the answer to a watch is a list: {kind}")]
    ListInsteadOfWatch {
        /// The kind of the list.
        kind: String,
    },
    /// One object with a known key could not be decoded. It was left out, and the list or watch continued.
    #[error(transparent)]
    Undecodable(DecodeError),
    /// The source sent an event of an unknown type or an object of another kind. It was skipped.
    #[error("unexpected answer of the source: {what}")]
    Unexpected {
        /// A description of the answer.
        what: String,
    },
    /// The watch delivered an unidentified event: data that is no event, or an event without a known type or key. It may
    /// concern any object, so nothing after it was applied. The reflector watches again from the version before it;
    /// after the second such event at one version it relists.
    #[error("the watch delivered an unidentified event: {}", with_causes(&**source))]
    UnidentifiedEvent {
        /// The error of the decoder or of the key.
        source: BoxError,
    },
    /// A list is incomplete: it contains unidentified objects, whose keys are unknown. Its other objects were applied, and
    /// nothing was deleted, because each missing object may be one of the unidentified ones. The reflector reports the
    /// list ([`incomplete_list`](crate::ReflectorHandle::incomplete_list)) and relists until a list is complete.
    /// Until then the version of an informer's store does not rise.
    #[error(
        "{unidentified} objects of the list have no readable key; the list deletes nothing: {}",
        listed(first)
    )]
    IncompleteList {
        /// The number of unidentified objects.
        unidentified: usize,
        /// The first of them, at most ten: their positions in the list and the errors of the decoder.
        first: Vec<DecodeError>,
    },
    /// The answer to a list is a list of another kind, or no list. It was not applied.
    #[error("a list of {resource} must be a {expected}, but the server sent {received}")]
    WrongList {
        /// The resource that was listed.
        resource: String,
        /// The expected kind of list.
        expected: String,
        /// The kind named by the answer or by its items.
        received: String,
    },
    /// A list or watch-list has no version, although the one before had. It was not applied. The next one, which is
    /// requested at once and without a version, is applied if it has no version either: the source has none.
    #[error("the list has no resource version; the last version was {last}")]
    MissingVersion {
        /// The last version.
        last: ResourceVersion,
    },
    /// A successful answer is neither JSON nor protobuf, so it does not come from a Kubernetes API.
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
    /// The continue token of a list has expired after earlier pages were delivered by a [`Pager`](crate::Pager). Only a
    /// new list helps, which may contain the objects of these pages again, and other ones.
    #[error("the list expired before its page {page}: {source}")]
    PageExpired {
        /// The number of the page that was requested, from 1.
        page: u32,
        /// The error of the request.
        source: Box<SourceError>,
    },
    /// The pages of one list have different versions, also when it was requested in one piece.
    #[error("page {page} of the list is at version {version}, but the first page is at {first}")]
    PagesDiffer {
        /// The number of the page, from 1.
        page: u32,
        /// The version of the page.
        version: ResourceVersion,
        /// The version of the first page.
        first: ResourceVersion,
    },
    /// A list does not end: a page repeats, there are more than 10,000 pages, or they took more than an hour.
    #[error("the list does not end: {problem}, after {pages} pages and {after:?}")]
    EndlessList {
        /// The reason for reading no further.
        problem: &'static str,
        /// The number of pages read.
        pages: u32,
        /// The time they took.
        after: Duration,
    },
    /// A list has more than 10,000 unidentified objects, whose keys are unknown. It was read no further and not applied.
    #[error("the list has more than {limit} objects without a readable key; reading no further")]
    TooManyUnidentified {
        /// The greatest number of such objects in one list.
        limit: usize,
    },
    /// A watch ended in less than a second and delivered nothing new, or was at least the fifth in a row that ended
    /// within a second.
    #[doc(alias = "VeryShortWatchError")]
    #[error("very short watch: it ended after {lasted:?} and {events} events")]
    VeryShortWatch {
        /// The duration of the watch.
        lasted: Duration,
        /// The number of delivered events, including bookmarks.
        events: u64,
    },
    /// The source sent or reported a version below one that it had issued before: an older state was restored, or its
    /// versions have started over. The reflector lists the newest state, whatever its version.
    #[error(
        "the versions of the source went back: requested changes after {requested}, but the source is at {found}"
    )]
    VersionsWentBack {
        /// The version of the watch or list request, or the last version when the newest was requested.
        requested: ResourceVersion,
        /// The lower version.
        found: ResourceVersion,
    },
    /// A [`RetryWatcher`](crate::RetryWatcher) was to start at no version or at `0`. A watch from there starts with the
    /// current state in no particular order, so it cannot be continued.
    #[error("a watch cannot be continued from the version {version:?}: it starts with the current state")]
    NoWatchVersion {
        /// The version.
        version: ResourceVersion,
    },
    /// An event has no version, so the next watch of a [`RetryWatcher`](crate::RetryWatcher) could not continue after it.
    #[error("an event after version {last} has no resource version: the watch cannot be continued")]
    EventWithoutVersion {
        /// The last version before the event.
        last: ResourceVersion,
    },
    /// A watch was silent when its requested duration had passed, so its connection is dead.
    #[error("the watch was silent for {silent:?} and did not end in its requested duration; abandoning it")]
    WatchStalled {
        /// The duration of the silence.
        silent: Duration,
    },
    /// A watch-list stream ended before the bookmark that ends the initial events.
    #[error("the watch-list stream ended after {events} events and {after:?}, before the end of the list")]
    WatchListIncomplete {
        /// The number of received events.
        events: u64,
        /// The duration of the stream.
        after: Duration,
    },
    /// A watch-list stream did not deliver the bookmark that ends the initial events in time.
    #[error(
        "the watch-list stream delivered {events} events in {after:?}, but no bookmark that ends the list"
    )]
    WatchListStalled {
        /// The number of received events.
        events: u64,
        /// The time waited.
        after: Duration,
    },
    /// The sink reported an error. The variant of the inner error describes the effect on the object.
    #[error("the sink failed to {operation}: {source}")]
    Sink {
        /// The operation: `add`, `update`, `delete`, `replace`, `resync`, `bookmark`, or `watch`.
        operation: &'static str,
        /// The error of the sink.
        source: kinformer_core::Error,
    },
    /// User code panicked. The panic was contained.
    #[error("{operation} panicked: {source}")]
    Panic {
        /// The name of the code that panicked.
        operation: &'static str,
        /// The message of the panic.
        source: BoxError,
    },
    /// The consistency check found a second list at the same version that differs.
    #[error(
        "a second list at version {resource_version} differs: {} objects only in the second, {} only in the first, {} at another version",
        missing.len(), extra.len(), changed.len()
    )]
    Inconsistent {
        /// The version of both lists.
        resource_version: String,
        /// The keys in the second list only.
        missing: Vec<ObjectKey>,
        /// The keys in the first list only.
        extra: Vec<ObjectKey>,
        /// The keys in both lists at different versions.
        changed: Vec<ObjectKey>,
    },
    /// A wait for the first list ended before that list arrived.
    #[error("{name} is not synced{}", last_error.as_ref().map(|e| format!("; its last error: {e}")).unwrap_or_default())]
    NotSynced {
        /// The name of the reflector.
        name: String,
        /// The last error of the reflector.
        last_error: Option<std::sync::Arc<SourceError>>,
    },
}

/// A `Status` of the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct ApiStatus {
    /// The HTTP status code; 0 if there is none.
    pub code: u16,
    /// The machine-readable reason, such as `Expired`; empty if there is none.
    pub reason: String,
    /// The human-readable message.
    pub message: String,
    /// The server's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The causes sent by the server.
    pub causes: Vec<StatusCause>,
}

/// One cause of an [`ApiStatus`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusCause {
    /// The machine-readable reason, such as `ResourceVersionTooLarge`.
    pub reason: String,
    /// The human-readable message.
    pub message: String,
    /// The affected field of the request; usually empty.
    pub field: String,
}

impl ApiStatus {
    /// Creates a status with a code, a reason and a message.
    pub fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), message: message.into(), ..Self::default() }
    }

    /// Sets the `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn cause(mut self, cause: StatusCause) -> Self {
        self.causes.push(cause);
        self
    }

    /// Returns whether the resource is not found (404).
    pub(crate) fn is_not_found(&self) -> bool {
        self.has(404, &["NotFound"])
    }

    /// Returns whether this has the code, or one of the reasons: servers and proxies may send an unknown reason.
    fn has(&self, code: u16, reasons: &[&str]) -> bool {
        self.code == code || reasons.contains(&self.reason.as_str())
    }
}

impl StatusCause {
    /// Creates a cause with a reason and a message.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), field: String::new() }
    }

    /// Sets the affected field of the request.
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
    /// Checks the number of unidentified objects of one list. Each takes more memory than its bytes in the answer, so a
    /// source that reads an answer in parts should check each part.
    ///
    /// # Errors
    /// [`SourceError::TooManyUnidentified`] for more than 10,000.
    pub fn check_unidentified(objects: usize) -> Result<(), Self> {
        const LIMIT: usize = 10_000;
        if objects > LIMIT { Err(Self::TooManyUnidentified { limit: LIMIT }) } else { Ok(()) }
    }

    /// Creates the error of an expired version (410), after which the reflector relists. A source without a history
    /// returns it from its watch whenever a change may have been missed.
    pub fn expired(message: impl Into<String>) -> Self {
        ApiStatus::new(410, "Expired", message).into()
    }

    /// Creates an error of the source that fits no other variant.
    pub fn other(source: impl Into<BoxError>) -> Self {
        Self::Other { source: source.into() }
    }

    /// Returns the status of [`Self::Status`] and [`Self::NotServed`], else `None`.
    pub fn status(&self) -> Option<&ApiStatus> {
        match self {
            Self::Status(status) | Self::NotServed { status, .. } => Some(status),
            Self::PageExpired { source, .. } => source.status(),
            _ => None,
        }
    }

    /// Returns a name of the error for spans and metrics: the status code, such as `403`, or the variant, such as
    /// `connection_refused`. There are few different names, as OpenTelemetry requires of `error.type`.
    pub fn error_type(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Status(status) | Self::NotServed { status, .. } if status.code > 0 => {
                return Cow::Owned(status.code.to_string());
            }
            Self::Status(_) => "status",
            Self::NotServed { .. } => "not_served",
            Self::OtherScope { .. } => "other_scope",
            Self::ConnectionRefused { .. } => "connection_refused",
            Self::Transport { .. } => "transport",
            Self::Timeout { .. } => "timeout",
            Self::Decode { .. } => "decode",
            Self::Other { .. } => "other",
            Self::ListInsteadOfWatch { .. } => "list_instead_of_watch",
            Self::Undecodable(_) => "undecodable",
            Self::Unexpected { .. } => "unexpected",
            Self::UnidentifiedEvent { .. } => "unidentified_event",
            Self::IncompleteList { .. } => "incomplete_list",
            Self::WrongList { .. } => "wrong_list",
            Self::MissingVersion { .. } => "missing_version",
            Self::ContentType { .. } => "content_type",
            Self::PageExpired { .. } => "page_expired",
            Self::PagesDiffer { .. } => "pages_differ",
            Self::EndlessList { .. } => "endless_list",
            Self::TooManyUnidentified { .. } => "too_many_unidentified",
            Self::VeryShortWatch { .. } => "very_short_watch",
            Self::VersionsWentBack { .. } => "versions_went_back",
            Self::NoWatchVersion { .. } => "no_watch_version",
            Self::EventWithoutVersion { .. } => "event_without_version",
            Self::WatchStalled { .. } => "watch_stalled",
            Self::WatchListIncomplete { .. } => "watch_list_incomplete",
            Self::WatchListStalled { .. } => "watch_list_stalled",
            Self::Sink { .. } => "sink",
            Self::Panic { .. } => "panic",
            Self::Inconsistent { .. } => "inconsistent",
            Self::NotSynced { .. } => "not_synced",
        })
    }

    /// Returns the server's `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status()?.retry_after
    }

    /// Returns whether the requested version or page has expired (410), which only a list repairs.
    ///
    /// Follows client-go 0.37 (`isExpiredError`).
    pub fn is_expired(&self) -> bool {
        self.has(410, &["Expired", "Gone"])
    }

    /// Returns whether the pages of a list were not those of one list, so that it is requested in one piece.
    pub(crate) fn needs_one_piece(&self) -> bool {
        matches!(self, Self::PageExpired { .. } | Self::PagesDiffer { .. })
    }

    /// Returns whether the server has not reached the requested version yet. It may never reach it.
    ///
    /// Follows client-go 0.37 (`isTooLargeResourceVersionError`), which recognizes three forms: the reason of a cause
    /// (current servers), the message of a cause (1.17.0 to 1.18.5), and the message of the status (older servers).
    pub fn is_too_large_resource_version(&self) -> bool {
        let Some(status) = self.status() else { return false };
        if status.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge") {
            return true;
        }
        status.reason == "Timeout"
            && (status.causes.iter().any(|cause| cause.message == TOO_LARGE)
                || status.message.contains(TOO_LARGE))
    }

    /// Returns whether the next list must be requested without a version: the requested version has expired, is not
    /// reached yet, or the versions of the source have started over, or the list had no version.
    pub(crate) fn is_version_unavailable(&self) -> bool {
        self.is_expired()
            || self.is_too_large_resource_version()
            || matches!(self, Self::VersionsWentBack { .. } | Self::MissingVersion { .. })
    }

    /// Returns whether the resource is not found (404), also in the requested scope only.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::OtherScope { .. }) || self.status().is_some_and(ApiStatus::is_not_found)
    }

    /// Returns whether the server limits requests (429).
    pub fn is_too_many_requests(&self) -> bool {
        self.has(429, &["TooManyRequests"])
    }

    /// Returns whether this is an internal error of the server: the reason `InternalError`, or 500 without a reason.
    pub fn is_internal(&self) -> bool {
        self.status().is_some_and(|s| s.reason == "InternalError" || (s.code == 500 && s.reason.is_empty()))
    }

    /// Returns whether the source has answered a watch, and not by asking to repeat it.
    pub(crate) fn is_final_answer(&self) -> bool {
        !self.is_unanswered() && !matches!(self, Self::WatchStalled { .. }) && self.retry_after().is_none()
    }

    /// Returns whether a request failed without an answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, Self::Transport { .. } | Self::Timeout { .. })
    }

    /// Returns whether the connection was refused.
    pub fn is_connection_refused(&self) -> bool {
        matches!(self, Self::ConnectionRefused { .. })
    }

    /// Returns whether a corrupt object was removed from the server's storage. No watch reports that removal, so only a
    /// list repairs it.
    pub fn is_store_read_error(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "StoreReadError")
    }

    /// Returns whether the server does not support this kind of request, as old servers do not support the watch-list:
    /// 400, 405, 406, 415, 422 or 501, or one of their reasons.
    pub fn is_watch_list_unsupported(&self) -> bool {
        self.status().is_some_and(|status| {
            matches!(status.code, 400 | 405 | 406 | 415 | 422 | 501)
                || matches!(
                    status.reason.as_str(),
                    "BadRequest" | "Invalid" | "MethodNotAllowed" | "NotAcceptable" | "UnsupportedMediaType"
                )
        })
    }

    /// Returns whether a watch was refused for a reason that another watch does not change: missing credentials or rights,
    /// or a resource that can only be listed.
    pub(crate) fn is_watch_refused(&self) -> bool {
        let is_refused = |code| matches!(code, 400..500) && !matches!(code, 404 | 408 | 410 | 429);
        self.is_denied()
            || self.is_watch_list_unsupported()
            || self.status().is_some_and(|status| is_refused(status.code))
            // The latter answer does not come from the API.
            || matches!(self, Self::ListInsteadOfWatch { .. } | Self::ContentType { .. })
    }

    /// Returns whether the credentials or rights are not enough (401, 403).
    pub(crate) fn is_denied(&self) -> bool {
        self.has(401, &["Unauthorized"]) || self.has(403, &["Forbidden"])
    }

    /// Returns whether the same request may succeed a little later: connection refused, a broken connection, a timeout,
    /// 429, 503 and 504, but no version that the server has not reached yet.
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

    /// Returns whether a page is requested again: like [`Self::is_retryable`], with faults of the server, but without
    /// timeouts, since the time for a page is long.
    pub(crate) fn is_transient(&self) -> bool {
        let is_fault = self.status().is_some_and(|status| matches!(status.code, 500 | 502));
        let is_permanent = self.is_store_read_error()
            || self.is_too_large_resource_version()
            || matches!(self, Self::Timeout { .. });
        !is_permanent && (self.is_retryable() || is_fault)
    }

    fn has(&self, code: u16, reasons: &[&str]) -> bool {
        self.status().is_some_and(|status| status.has(code, reasons))
    }
}

fn other_scope(resource: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!(
            "{resource} are cluster-scoped, and cannot be requested in the namespace {namespace:?} only; remove the \
             restriction to namespaces"
        ),
        None => format!(
            "{resource} are in namespaces, and were requested as cluster-scoped, so that no namespaces restrict the requests; \
             request them with their scope"
        ),
    }
}

fn listed(errors: &[DecodeError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

const TOO_LARGE: &str = "Too large resource version";

kinformer_core::debug_as_message!(SourceError);
