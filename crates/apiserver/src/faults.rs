//! Failures on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

/// What a request wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// One object.
    Get,
    /// All objects of a kind.
    List,
    /// Changes of a kind.
    Watch,
    /// A new object.
    Create,
    /// An object anew.
    Update,
    /// A part of an object.
    Patch,
    /// An object less.
    Delete,
    /// Many objects less.
    DeleteCollection,
    /// Discovery, versions, health: what is about no object.
    Other,
}

impl Verb {
    /// As Kubernetes writes it: `deletecollection`; `other` for what has no verb.
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
    Cut,
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

/// One failure: what goes wrong, on which requests, how often.
///
/// A new fault concerns every request and happens once.
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

    /// The connection is closed without an answer. For connections that are not even accepted see
    /// [`Faults::refuse_connections`].
    pub fn refuse() -> Self {
        Self::new(Kind::Refuse)
    }

    /// The answer comes later. Everything else goes on meanwhile.
    pub fn delay(by: Duration) -> Self {
        Self::new(Kind::Delay(by))
    }

    /// The answer breaks off in the middle and the connection is closed: a list after half of its first
    /// piece, a watch within an event. Also ends a watch that is open.
    pub fn cut() -> Self {
        Self::new(Kind::Cut)
    }

    /// The answer is 410 `Expired`.
    pub fn expired() -> Self {
        Self::new(Kind::Expired)
    }

    /// The answer is 403 `Forbidden`, as for a user without the rights.
    pub fn forbidden() -> Self {
        Self::new(Kind::Forbidden)
    }

    /// A watch gets an `ERROR` event with 410 `Expired` and ends, also one that is open.
    pub fn expired_event() -> Self {
        Self::new(Kind::ExpiredEvent).on(Verb::Watch)
    }

    /// The answer is 429 with `Retry-After`.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self::new(Kind::TooManyRequests(retry_after_seconds))
    }

    /// The answer is 500 `InternalError`.
    pub fn internal_error() -> Self {
        Self::new(Kind::InternalError)
    }

    /// A half-open connection: nothing more comes, and nothing is closed. Also stalls a watch that is open.
    pub fn stall() -> Self {
        Self::new(Kind::Stall)
    }

    /// One object of a list, or the next event of a watch, has members of the wrong type. Its metadata is
    /// good, so that its key can be told.
    pub fn malformed() -> Self {
        Self::new(Kind::Malformed)
    }

    /// The next bookmark of a watch is not sent, also not the one that ends the initial events.
    pub fn missing_bookmark() -> Self {
        Self::new(Kind::MissingBookmark).on(Verb::Watch)
    }

    /// The next event of a watch is sent twice.
    pub fn duplicate_event() -> Self {
        Self::new(Kind::DuplicateEvent).on(Verb::Watch)
    }

    /// A watch from a version that the server has not issued is taken, and nothing at or below that version is sent on
    /// it, bookmarks included: what kube-apiserver does. Without this fault such a watch is answered with 410.
    pub fn future_versions() -> Self {
        Self::new(Kind::FutureVersion).on(Verb::Watch)
    }

    /// Only requests with this verb.
    pub fn on(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only requests for this resource, by its plural: `pods`.
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// How often it happens; 0 is never.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// It happens until it is removed.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// On a watch: not before this many events have been sent on it.
    pub fn after_events(mut self, events: u64) -> Self {
        self.after_events = events;
        self
    }

    fn concerns(&self, verb: Verb, resource: &str) -> bool {
        self.verb.is_none_or(|wanted| wanted == verb)
            && self.resource.as_deref().is_none_or(|wanted| wanted == resource)
    }

    /// Reads the header form: `cut`, `delay=50` (milliseconds), `too-many-requests=3` (seconds).
    pub(crate) fn from_header(text: &str) -> Option<Self> {
        let (name, value) = text.trim().split_once('=').unwrap_or((text.trim(), ""));
        Some(match name {
            "refuse" => Self::refuse(),
            "delay" => Self::delay(Duration::from_millis(value.parse().ok()?)),
            "cut" => Self::cut(),
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

/// Names an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultId(u64);

/// Whether new connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    Shut,
}

#[derive(Debug)]
struct Inner {
    rules: Mutex<Vec<(FaultId, Fault)>>,
    /// How many rules there are: what a watch asks before it takes the lock.
    armed: AtomicUsize,
    next: AtomicU64,
    fired: AtomicU64,
    door: watch::Sender<Door>,
    door_seen: watch::Sender<Door>,
    nudge: watch::Sender<u64>,
}

/// The failures that the server is to produce. A handle: clones are the same.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

impl Faults {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            rules: Mutex::new(Vec::new()),
            armed: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            fired: AtomicU64::new(0),
            door: watch::Sender::new(Door::Open),
            door_seen: watch::Sender::new(Door::Open),
            nudge: watch::Sender::new(0),
        }))
    }

    /// Arms a fault. Open watches that it concerns are hit at once.
    pub fn inject(&self, fault: Fault) -> FaultId {
        let id = FaultId(self.0.next.fetch_add(1, Ordering::Relaxed));
        if fault.times != Some(0) {
            let mut rules = self.0.rules.lock();
            rules.push((id, fault));
            self.0.armed.store(rules.len(), Ordering::Release);
        }
        self.0.nudge.send_modify(|count| *count = count.wrapping_add(1));
        id
    }

    /// Disarms a fault; one that is gone already is no error.
    pub fn remove(&self, id: FaultId) {
        let mut rules = self.0.rules.lock();
        rules.retain(|(other, _)| *other != id);
        self.0.armed.store(rules.len(), Ordering::Release);
    }

    /// Disarms all faults and takes connections again.
    pub fn clear(&self) {
        let mut rules = self.0.rules.lock();
        rules.clear();
        self.0.armed.store(0, Ordering::Release);
        drop(rules);
        self.0.door.send_replace(Door::Open);
    }

    /// How often a fault has happened so far.
    pub fn fired(&self) -> u64 {
        self.0.fired.load(Ordering::Acquire)
    }

    /// Closes the listening socket: new connections are refused by the operating system. Open ones go on.
    ///
    /// Returns when the socket is closed. Cancel safe: it is closed anyway.
    pub async fn refuse_connections(&self) {
        self.set_door(Door::Shut).await;
    }

    /// Listens again, on the same port. Returns when it does.
    pub async fn accept_connections(&self) {
        self.set_door(Door::Open).await;
    }

    async fn set_door(&self, door: Door) {
        self.0.door.send_replace(door);
        let mut seen = self.0.door_seen.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = seen.wait_for(|seen| *seen == door).await;
    }

    pub(crate) fn door(&self) -> watch::Receiver<Door> {
        self.0.door.subscribe()
    }

    pub(crate) fn door_is(&self, door: Door) {
        self.0.door_seen.send_replace(door);
    }

    pub(crate) fn nudges(&self) -> watch::Receiver<u64> {
        self.0.nudge.subscribe()
    }

    /// Takes one occurrence of a fault that the filter wants.
    fn take(&self, verb: Verb, resource: &str, events: u64, wanted: impl Fn(Kind) -> bool) -> Option<Kind> {
        if self.0.armed.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut rules = self.0.rules.lock();
        let at = rules.iter().position(|(_, fault)| {
            wanted(fault.kind) && fault.after_events <= events && fault.concerns(verb, resource)
        })?;
        let (_, fault) = rules.get_mut(at)?;
        let kind = fault.kind;
        if let Some(times) = &mut fault.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                drop(rules.remove(at));
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

/// The faults of one request: those of the server, and those that the request asked for itself.
#[derive(Debug)]
pub(crate) struct RequestFaults {
    faults: Faults,
    own: Vec<Fault>,
    verb: Verb,
    resource: String,
    /// One of the server's has delayed it: a fault that always happens delays each request once.
    delayed: bool,
}

impl RequestFaults {
    pub(crate) fn new(faults: Faults, own: Vec<Fault>, verb: Verb, resource: &str) -> Self {
        Self { faults, own, verb, resource: resource.into(), delayed: false }
    }

    fn take(&mut self, events: u64, wanted: impl Fn(Kind) -> bool) -> Option<Kind> {
        let own = self.own.iter().position(|fault| wanted(fault.kind) && fault.after_events <= events);
        if let Some(at) = own {
            self.faults.count();
            return Some(self.own.remove(at).kind);
        }
        self.faults.take(self.verb, &self.resource, events, wanted)
    }

    /// What happens to the request before anything else does.
    pub(crate) fn at_start(&mut self) -> Option<Kind> {
        let (watch, delayed) = (self.verb == Verb::Watch, self.delayed);
        let is_own = self.own.iter().any(|fault| matches!(fault.kind, Kind::Delay(_)));
        let taken = self.take(0, |kind| match kind {
            Kind::Delay(_) => !delayed,
            Kind::Refuse
            | Kind::Expired
            | Kind::Forbidden
            | Kind::TooManyRequests(_)
            | Kind::InternalError => true,
            // These happen within the answer of a watch.
            Kind::Stall => !watch,
            _ => false,
        });
        self.delayed |= !is_own && matches!(taken, Some(Kind::Delay(_)));
        taken
    }

    /// Whether the answer, which is no watch, is cut.
    pub(crate) fn cuts(&mut self) -> bool {
        self.take(0, |kind| kind == Kind::Cut).is_some()
    }

    /// Whether the next object that is sent is malformed.
    pub(crate) fn malforms(&mut self, events: u64) -> bool {
        self.take(events, |kind| kind == Kind::Malformed).is_some()
    }

    /// Whether the next event is sent twice.
    pub(crate) fn duplicates(&mut self, events: u64) -> bool {
        self.take(events, |kind| kind == Kind::DuplicateEvent).is_some()
    }

    /// Whether the next bookmark is not sent.
    pub(crate) fn swallows_bookmark(&mut self, events: u64) -> bool {
        self.take(events, |kind| kind == Kind::MissingBookmark).is_some()
    }

    /// Whether a watch from a version that was never issued is taken.
    pub(crate) fn takes_future_version(&mut self) -> bool {
        self.take(0, |kind| kind == Kind::FutureVersion).is_some()
    }

    /// What ends or stalls a watch that has sent this many events.
    pub(crate) fn in_stream(&mut self, events: u64) -> Option<Kind> {
        self.take(events, |kind| matches!(kind, Kind::Cut | Kind::Stall | Kind::ExpiredEvent))
    }

    /// Whether any fault may happen to this request, so that it has to be asked for event by event.
    pub(crate) fn are_armed(&self) -> bool {
        !self.own.is_empty() || self.faults.0.armed.load(Ordering::Acquire) > 0
    }
}
