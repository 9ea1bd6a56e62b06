//! Faults: what fails, for which requests, and how often.

use std::time::Duration;

use super::requested::Requested;
use super::verb::Verb;

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Refuse,
    Delay(Duration),
    Truncate,
    Expired,
    Forbidden,
    Conflict,
    ExpiredEvent,
    TooManyRequests(u32),
    InternalError,
    Stall,
    Malformed,
    MissingBookmark,
    DuplicateEvent,
    FutureVersion,
}

/// A fault: what fails, for which requests, and how often.
///
/// A new fault applies to every request and fires once.
///
/// ```
/// use kinformer_apiserver::{Fault, Verb};
///
/// let fault = Fault::too_many_requests(1).on(Verb::Watch).resource("pods").times(3);
/// # let _ = fault;
/// ```
#[derive(Clone, Debug)]
#[must_use = "a fault does nothing until it is injected"]
pub struct Fault {
    pub(super) kind: Kind,
    verb: Option<Verb>,
    resource: Option<String>,
    subresource: Option<String>,
    pub(super) times: Option<u64>,
    pub(super) after_events: u64,
}

impl Fault {
    fn new(kind: Kind) -> Self {
        Self { kind, verb: None, resource: None, subresource: None, times: Some(1), after_events: 0 }
    }

    /// Closes the connection without a response. To refuse connections altogether, see
    /// [`Faults::refuse_connections`](super::Faults::refuse_connections).
    pub fn refuse() -> Self {
        Self::new(Kind::Refuse)
    }

    /// Delays the response. Other requests are not affected.
    pub fn delay(by: Duration) -> Self {
        Self::new(Kind::Delay(by))
    }

    /// Breaks the response off in the middle and closes the connection: a list after half of its first chunk, a watch
    /// within an event. Also applies to open watches.
    pub fn truncate() -> Self {
        Self::new(Kind::Truncate)
    }

    /// Responds with 410 `Expired`.
    pub fn expired() -> Self {
        Self::new(Kind::Expired)
    }

    /// Responds with 403 `Forbidden`, as for a user without permissions.
    pub fn forbidden() -> Self {
        Self::new(Kind::Forbidden)
    }

    /// Responds to an update or a patch with 409 `Conflict`, as if another client had changed the object meanwhile.
    pub fn conflict() -> Self {
        Self::new(Kind::Conflict)
    }

    /// Sends an `ERROR` event with 410 `Expired` and ends the watch. Also applies to open watches.
    pub fn expired_event() -> Self {
        Self::new(Kind::ExpiredEvent).on(Verb::Watch)
    }

    /// Responds with 429 and `Retry-After`.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self::new(Kind::TooManyRequests(retry_after_seconds))
    }

    /// Responds with 500 `InternalError`.
    pub fn internal_error() -> Self {
        Self::new(Kind::InternalError)
    }

    /// Simulates a half-open connection: sends nothing more and closes nothing. Also applies to open watches.
    pub fn stall() -> Self {
        Self::new(Kind::Stall)
    }

    /// Sends one object of a list, or the next event of a watch, with fields of wrong types. Its metadata is valid,
    /// so its key can be read.
    pub fn malformed() -> Self {
        Self::new(Kind::Malformed)
    }

    /// Skips the next bookmark of a watch, including the one that ends the initial events.
    pub fn missing_bookmark() -> Self {
        Self::new(Kind::MissingBookmark).on(Verb::Watch)
    }

    /// Sends the next event of a watch twice.
    pub fn duplicate_event() -> Self {
        Self::new(Kind::DuplicateEvent).on(Verb::Watch)
    }

    /// Accepts a watch from a version that the server has never issued, and sends no event and no bookmark at or
    /// below that version, as kube-apiserver does. Without this fault, such a watch fails with 410.
    pub fn future_versions() -> Self {
        Self::new(Kind::FutureVersion).on(Verb::Watch)
    }

    /// Restricts the fault to requests with this verb.
    pub fn on(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Restricts the fault to requests for this resource, by its plural: `pods`.
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Restricts the fault to requests for this subresource, such as `status`. An empty name restricts it to requests for
    /// the objects themselves. By default, a fault applies to both.
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.subresource = Some(name.into());
        self
    }

    /// Sets how often the fault fires; 0 for never.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Makes the fault fire until it is removed.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// For watches, delays the fault until this many events have been sent on the watch.
    pub fn after_events(mut self, events: u64) -> Self {
        self.after_events = events;
        self
    }

    pub(super) fn applies_to(&self, requested: &Requested) -> bool {
        self.verb.is_none_or(|wanted| wanted == requested.verb)
            && self.resource.as_deref().is_none_or(|wanted| wanted == requested.resource)
            && self.subresource.as_deref().is_none_or(|wanted| wanted == requested.subresource)
    }

    /// Parses the header form: `truncate`, `delay=50` (milliseconds), `too-many-requests=3` (seconds).
    pub(crate) fn from_header(text: &str) -> Option<Self> {
        let (name, value) = text.trim().split_once('=').unwrap_or((text.trim(), ""));
        Some(match name {
            "refuse" => Self::refuse(),
            "delay" => Self::delay(Duration::from_millis(value.parse().ok()?)),
            "truncate" => Self::truncate(),
            "expired" => Self::expired(),
            "forbidden" => Self::forbidden(),
            "conflict" => Self::conflict(),
            "expired-event" => Self::expired_event(),
            "too-many-requests" => Self::too_many_requests(value.parse().unwrap_or(1)),
            "internal-error" => Self::internal_error(),
            "stall" => Self::stall(),
            "malformed" => Self::malformed(),
            "missing-bookmark" => Self::missing_bookmark(),
            "duplicate-event" => Self::duplicate_event(),
            "future-versions" => Self::future_versions(),
            _ => return None,
        })
    }
}
