//! Fault injection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads all objects of a kind.
    List,
    /// Watches the changes of a kind.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces one object.
    Update,
    /// Changes part of an object.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes several objects.
    DeleteCollection,
    /// Any request without a resource: discovery, versions, health.
    Other,
}

impl Verb {
    /// Returns the name that Kubernetes uses, such as `deletecollection`; `other` for [`Verb::Other`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Refuse,
    Delay(Duration),
    Truncate,
    Expired,
    Forbidden,
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
    kind: Kind,
    verb: Option<Verb>,
    resource: Option<String>,
    times: Option<u64>,
    after_events: u64,
}

impl Fault {
    fn new(kind: Kind) -> Self {
        Self { kind, verb: None, resource: None, times: Some(1), after_events: 0 }
    }

    /// Closes the connection without a response. To refuse connections altogether, see
    /// [`Faults::refuse_connections`].
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

    fn applies_to(&self, verb: Verb, resource: &str) -> bool {
        self.verb.is_none_or(|wanted| wanted == verb)
            && self.resource.as_deref().is_none_or(|wanted| wanted == resource)
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

/// Identifies an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultId(u64);

/// Whether the server listens for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerState {
    Open,
    Closed,
}

#[derive(Debug)]
struct Inner {
    rules: Mutex<Vec<(FaultId, Fault)>>,
    /// The number of rules, which watches read without taking the lock.
    armed: AtomicUsize,
    next: AtomicU64,
    fired: AtomicU64,
    listener: watch::Sender<ListenerState>,
    listener_actual: watch::Sender<ListenerState>,
    changed: watch::Sender<u64>,
}

/// A handle for injecting faults into a server. Clones share one state.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

impl Faults {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            rules: Mutex::new(Vec::new()),
            armed: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            fired: AtomicU64::new(0),
            listener: watch::Sender::new(ListenerState::Open),
            listener_actual: watch::Sender::new(ListenerState::Open),
            changed: watch::Sender::new(0),
        }))
    }

    /// Injects a fault. It also applies to open watches, immediately.
    pub fn inject(&self, fault: Fault) -> FaultId {
        let id = FaultId(self.0.next.fetch_add(1, Ordering::Relaxed));
        if fault.times != Some(0) {
            let mut rules = self.0.rules.lock();
            rules.push((id, fault));
            self.0.armed.store(rules.len(), Ordering::Release);
        }
        self.0.changed.send_modify(|count| *count = count.wrapping_add(1));
        id
    }

    /// Removes a fault. Does nothing if it has been removed already or has fired for the last time.
    pub fn remove(&self, id: FaultId) {
        let mut rules = self.0.rules.lock();
        rules.retain(|(other, _)| *other != id);
        self.0.armed.store(rules.len(), Ordering::Release);
    }

    /// Removes all faults and accepts connections again.
    pub fn clear(&self) {
        let mut rules = self.0.rules.lock();
        rules.clear();
        self.0.armed.store(0, Ordering::Release);
        drop(rules);
        self.0.listener.send_replace(ListenerState::Open);
    }

    /// Returns how often faults have fired.
    pub fn fired(&self) -> u64 {
        self.0.fired.load(Ordering::Acquire)
    }

    /// Closes the listening socket, so that the operating system refuses new connections. Open connections are not
    /// affected. Completes when the socket is closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the socket is closed nevertheless.
    pub async fn refuse_connections(&self) {
        self.set_listener(ListenerState::Closed).await;
    }

    /// Listens again on the same port. Completes when the socket is open.
    ///
    /// # Cancel safety
    /// If the future is dropped, the socket is opened nevertheless.
    pub async fn accept_connections(&self) {
        self.set_listener(ListenerState::Open).await;
    }

    async fn set_listener(&self, listener: ListenerState) {
        self.0.listener.send_replace(listener);
        let mut seen = self.0.listener_actual.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = seen.wait_for(|seen| *seen == listener).await;
    }

    pub(crate) fn listener(&self) -> watch::Receiver<ListenerState> {
        self.0.listener.subscribe()
    }

    pub(crate) fn set_actual_listener(&self, listener: ListenerState) {
        self.0.listener_actual.send_replace(listener);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Fires a fault that matches the filter, if there is one.
    fn take(&self, verb: Verb, resource: &str, events: u64, wanted: impl Fn(Kind) -> bool) -> Option<Kind> {
        if self.0.armed.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut rules = self.0.rules.lock();
        let index = rules.iter().position(|(_, fault)| {
            wanted(fault.kind) && fault.after_events <= events && fault.applies_to(verb, resource)
        })?;
        let (_, fault) = rules.get_mut(index)?;
        let kind = fault.kind;
        if let Some(times) = &mut fault.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                drop(rules.remove(index));
                self.0.armed.store(rules.len(), Ordering::Release);
            }
        }
        self.0.fired.fetch_add(1, Ordering::AcqRel);
        Some(kind)
    }

    fn count(&self) {
        self.0.fired.fetch_add(1, Ordering::AcqRel);
    }
}

/// The faults of one request: those of the server, and those of the request's own header.
#[derive(Debug)]
pub(crate) struct RequestFaults {
    faults: Faults,
    own: Vec<Fault>,
    verb: Verb,
    resource: String,
    /// Whether a fault of the server has delayed the request: a permanent fault delays each request once.
    delayed: bool,
}

impl RequestFaults {
    pub(crate) fn new(faults: Faults, own: Vec<Fault>, verb: Verb, resource: &str) -> Self {
        Self { faults, own, verb, resource: resource.into(), delayed: false }
    }

    fn take(&mut self, events: u64, wanted: impl Fn(Kind) -> bool) -> Option<Kind> {
        let own = self.own.iter().position(|fault| wanted(fault.kind) && fault.after_events <= events);
        if let Some(index) = own {
            self.faults.count();
            return Some(self.own.remove(index).kind);
        }
        self.faults.take(self.verb, &self.resource, events, wanted)
    }

    /// Returns the next fault to apply before the request is handled.
    pub(crate) fn before_response(&mut self) -> Option<Kind> {
        let (watch, delayed) = (self.verb == Verb::Watch, self.delayed);
        let is_own = self.own.iter().any(|fault| matches!(fault.kind, Kind::Delay(_)));
        let taken = self.take(0, |kind| match kind {
            Kind::Delay(_) => !delayed,
            Kind::Refuse
            | Kind::Expired
            | Kind::Forbidden
            | Kind::TooManyRequests(_)
            | Kind::InternalError => true,
            // These apply to the stream of a watch.
            Kind::Stall => !watch,
            _ => false,
        });
        self.delayed |= !is_own && matches!(taken, Some(Kind::Delay(_)));
        taken
    }

    /// Whether to break off the response of a request other than a watch.
    pub(crate) fn truncates(&mut self) -> bool {
        self.take(0, |kind| kind == Kind::Truncate).is_some()
    }

    /// Whether to send the next object malformed.
    pub(crate) fn corrupts_object(&mut self, events: u64) -> bool {
        self.take(events, |kind| kind == Kind::Malformed).is_some()
    }

    /// Whether to send the next event twice.
    pub(crate) fn duplicates_event(&mut self, events: u64) -> bool {
        self.take(events, |kind| kind == Kind::DuplicateEvent).is_some()
    }

    /// Whether to skip the next bookmark.
    pub(crate) fn drops_bookmark(&mut self, events: u64) -> bool {
        self.take(events, |kind| kind == Kind::MissingBookmark).is_some()
    }

    /// Whether to accept a watch from a version that was never issued.
    pub(crate) fn accepts_future_version(&mut self) -> bool {
        self.take(0, |kind| kind == Kind::FutureVersion).is_some()
    }

    /// Returns the fault that ends or stalls a watch that has sent this many events.
    pub(crate) fn stream_fault(&mut self, events: u64) -> Option<Kind> {
        self.take(events, |kind| matches!(kind, Kind::Truncate | Kind::Stall | Kind::ExpiredEvent))
    }

    /// Whether any fault may apply to this request, so that its events must be checked one by one.
    pub(crate) fn are_armed(&self) -> bool {
        !self.own.is_empty() || self.faults.0.armed.load(Ordering::Acquire) > 0
    }
}
