//! Faults: what fails, for which requests, and how often.

use std::fmt;
use std::time::Duration;

use crate::requests::is_client;

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
#[doc(alias = "PrependReactor")]
#[derive(Clone, Debug)]
#[must_use = "a fault does nothing until it is injected"]
pub struct Fault {
    pub(super) kind: Kind,
    verb: Option<Verb>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    client: Option<String>,
    pub(super) times: Option<u64>,
    pub(super) after_events: u64,
}

impl Fault {
    fn new(kind: Kind) -> Self {
        let (verb, resource, subresource) = (None, None, None);
        let (namespace, name, client) = (None, None, None);
        let (times, after_events) = (Some(1), 0);
        Self { kind, verb, resource, subresource, namespace, name, client, times, after_events }
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

    /// Restricts the fault to requests in this namespace. Requests for all namespaces, and for cluster-scoped kinds, have
    /// none.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = Some(name.into());
        self
    }

    /// Restricts the fault to requests for the object of this name. Lists, watches and creates name no object.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Restricts the fault to requests of a client, by its field manager or the program in its `User-Agent`, the text
    /// before `/`.
    pub fn by(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
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
            && self.namespace.as_deref().is_none_or(|wanted| wanted == requested.namespace)
            && self.name.as_deref().is_none_or(|wanted| wanted == requested.name)
            && self
                .client
                .as_deref()
                .is_none_or(|wanted| is_client(wanted, &requested.field_manager, &requested.user_agent))
    }

    #[cfg(feature = "test-cluster")]
    pub(crate) fn plural(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    /// Returns why no request can meet the fault, as far as it is known without the served resources.
    pub(super) fn obstacle(&self) -> Option<&'static str> {
        use Verb::{Create, DeleteCollection, Get, List, Patch, Update, Watch};
        let verb = self.verb?;
        if self.name.is_some() && matches!(verb, List | Watch | Create | DeleteCollection) {
            return Some("a request with this verb names no object");
        }
        match self.kind {
            Kind::Conflict if !matches!(verb, Update | Patch) => {
                Some("a conflict answers updates and patches only")
            }
            Kind::ExpiredEvent | Kind::MissingBookmark | Kind::DuplicateEvent | Kind::FutureVersion
                if verb != Watch =>
            {
                Some("it applies to watches only")
            }
            Kind::Malformed if !matches!(verb, Get | List | Watch) => Some("it applies to reads only"),
            _ => None,
        }
    }

    /// Returns the name in the header form.
    fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Refuse => "refuse",
            Kind::Delay(_) => "delay",
            Kind::Truncate => "truncate",
            Kind::Expired => "expired",
            Kind::Forbidden => "forbidden",
            Kind::Conflict => "conflict",
            Kind::ExpiredEvent => "expired-event",
            Kind::TooManyRequests(_) => "too-many-requests",
            Kind::InternalError => "internal-error",
            Kind::Stall => "stall",
            Kind::Malformed => "malformed",
            Kind::MissingBookmark => "missing-bookmark",
            Kind::DuplicateEvent => "duplicate-event",
            Kind::FutureVersion => "future-versions",
        }
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

/// One line: `conflict on update of pods/status in namespace a, named b, by c`, and why it cannot fire, if that is known.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind_name())?;
        if let Some(verb) = self.verb {
            write!(f, " on {}", verb.as_str())?;
        }
        match (self.resource.as_deref(), self.subresource.as_deref()) {
            (None, None) => {}
            (resource, None | Some("")) => write!(f, " of {}", resource.unwrap_or("objects"))?,
            (resource, Some(subresource)) => write!(f, " of {}/{subresource}", resource.unwrap_or("*"))?,
        }
        for (words, text) in
            [(" in namespace ", &self.namespace), (", named ", &self.name), (", by ", &self.client)]
        {
            if let Some(text) = text {
                write!(f, "{words}{text}")?;
            }
        }
        match self.obstacle() {
            Some(why) => write!(f, "; it cannot fire: {why}"),
            None => Ok(()),
        }
    }
}
