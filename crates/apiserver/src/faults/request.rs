//! The faults of one request.

use super::fault::{Fault, Kind};
use super::injection::Faults;
use super::requested::Requested;
use super::verb::Verb;

/// The faults of one request: those injected into the server, and those that the header of the request names.
#[derive(Debug)]
pub(crate) struct RequestFaults {
    faults: Faults,
    /// Those of the header.
    own: Vec<Fault>,
    requested: Requested,
    /// Whether a fault of the server has delayed the request: a permanent fault delays each request once.
    delayed: bool,
}

impl RequestFaults {
    pub(crate) fn new(faults: Faults, own: Vec<Fault>, requested: Requested) -> Self {
        Self { faults, own, requested, delayed: false }
    }

    fn take(&mut self, events: u64, wanted: impl Fn(Kind) -> bool) -> Option<Kind> {
        let own = self.own.iter().position(|fault| wanted(fault.kind) && fault.after_events <= events);
        if let Some(index) = own {
            self.faults.count();
            return Some(self.own.remove(index).kind);
        }
        self.faults.take(&self.requested, events, wanted)
    }

    /// Returns the next fault to apply before the request is handled.
    pub(crate) fn before_response(&mut self) -> Option<Kind> {
        let (watch, delayed) = (self.requested.verb == Verb::Watch, self.delayed);
        let changes = matches!(self.requested.verb, Verb::Update | Verb::Patch);
        let is_requested = self.own.iter().any(|fault| matches!(fault.kind, Kind::Delay(_)));
        let taken = self.take(0, |kind| match kind {
            Kind::Delay(_) => !delayed,
            Kind::Refuse
            | Kind::Expired
            | Kind::Forbidden
            | Kind::TooManyRequests(_)
            | Kind::InternalError => true,
            Kind::Conflict => changes,
            // These apply to the stream of a watch.
            Kind::Stall => !watch,
            _ => false,
        });
        self.delayed |= !is_requested && matches!(taken, Some(Kind::Delay(_)));
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
        !self.own.is_empty() || self.faults.are_armed()
    }
}
