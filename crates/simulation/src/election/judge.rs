//! What an election may do: the history of the Lease, and the order in which the writes of leaders take effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use serde_json::Value;

use crate::random::pick;
use crate::server::{Change, History};
use crate::state::{field, text_of};
use crate::trace::Recorder;

/// The Lease of the election.
pub(crate) const LEASE: &str = "leader";

/// The object that all leaders write.
pub(crate) const SHARED: &str = "shared";

/// The time after which a request that was sent before a restored backup has no effect.
const LATEST_REQUEST: Duration = Duration::from_secs(12);

/// The periods of an election.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
}

impl Timing {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let (lease, renew, retry) =
            pick(rng, [(15_000, 10_000, 2_000), (8_000, 5_000, 1_000), (3_000, 2_000, 500)]);
        let [lease_duration, renew_deadline, retry_period] = [lease, renew, retry].map(Duration::from_millis);
        Self { lease_duration, renew_deadline, retry_period }
    }

    /// The longest time between two attempts of a candidate.
    pub(crate) fn longest_retry(self) -> Duration {
        self.retry_period.mul_f64(2.2)
    }
}

/// The number and the transitions of a leadership.
pub(crate) type Term = (u64, i32);

/// A process, and the term in which it writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Writer {
    identity: Arc<str>,
    term: Term,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, term: (number, transitions) } = self;
        write!(f, "{identity}/{number}/{transitions}")
    }
}

/// The judge of an election. Clones share it.
#[derive(Clone)]
pub(crate) struct Judge {
    pub(crate) recorder: Recorder,
    time: Arc<Mutex<Duration>>,
    timing: Timing,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The number of changes that were read.
    read: usize,
    /// The last state of the Lease, and its time.
    lease: Option<(LeaseState, Duration)>,
    /// The versions that are not written by processes.
    foreign: BTreeSet<u64>,
    /// Until then two processes may be leaders, because others have changed the Lease.
    disturbed_until: Option<Duration>,
    /// Until then a write may replace another state than it has read: a restored backup repeats versions.
    repeated_until: Option<Duration>,
    /// The last term of each process.
    terms: BTreeMap<Arc<str>, Term>,
    /// The terms that have written, the last one apart.
    former: BTreeSet<Writer>,
    last: Option<Writer>,
    /// When a leader has released the Lease, until another one acquires it.
    released: Option<Duration>,
    /// The time of the last write of a leader.
    written: Option<Duration>,
    calm: Option<Duration>,
}

/// The parts of a Lease that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LeaseState {
    holder: String,
    duration: i64,
    transitions: i64,
    acquired: Value,
    renewed: Value,
}

impl LeaseState {
    fn of(lease: &Value) -> Self {
        let number = |name| field(lease, ["spec", name]).and_then(Value::as_i64).unwrap_or_default();
        let value = |name| field(lease, ["spec", name]).cloned().unwrap_or_default();
        Self {
            holder: text_of(lease, ["spec", "holderIdentity"]).unwrap_or_default().to_owned(),
            duration: number("leaseDurationSeconds"),
            transitions: number("leaseTransitions"),
            acquired: value("acquireTime"),
            renewed: value("renewTime"),
        }
    }
}

impl Judge {
    pub(crate) fn new(recorder: &Recorder, time: Arc<Mutex<Duration>>, timing: Timing) -> Self {
        Self { recorder: recorder.clone(), time, timing, state: Arc::default() }
    }

    /// The time of the world.
    pub(crate) fn now(&self) -> Duration {
        *self.time.lock()
    }

    fn violation(&self, what: impl std::fmt::Display) {
        self.recorder.violation(what);
    }

    /// Others have changed the Lease, at this version.
    pub(crate) fn disturbed(&self, version: Option<u64>) {
        let mut state = self.state.lock();
        state.foreign.extend(version);
        state.disturbed_until = Some(self.now() + self.timing.lease_duration + LATEST_REQUEST);
    }

    /// A backup was restored, and the next changes have versions that earlier ones had. An update that was sent with such a
    /// version is accepted by the server, as by a real one.
    pub(crate) fn versions_repeat(&self) {
        let mut state = self.state.lock();
        state.repeated_until = Some(self.now() + self.timing.renew_deadline + LATEST_REQUEST);
    }

    /// Others have changed only the metadata of the Lease, at this version.
    pub(crate) fn decorated(&self, version: u64) {
        self.state.lock().foreign.insert(version);
    }

    pub(crate) fn set_calm(&self) {
        self.state.lock().calm = Some(self.now());
    }

    /// When the last write of a leader took effect.
    pub(crate) fn written(&self) -> Option<Duration> {
        self.state.lock().written
    }

    /// Reads the changes since the last call.
    pub(crate) fn read(&self, history: &History) {
        let read = std::mem::replace(&mut self.state.lock().read, history.changes().len());
        for change in history.changes().get(read..).unwrap_or_default() {
            match change.key.name.as_str() {
                SHARED => self.read_write(change),
                LEASE => self.read_lease(change),
                _ => {}
            }
        }
        self.check_released();
    }

    /// A process leads from now on.
    pub(crate) fn begins(&self, identity: &Arc<str>, term: Term) {
        self.state.lock().terms.insert(identity.clone(), term);
    }

    /// The writer of the shared object. A process that did not know yet that it leads writes in the term that began in
    /// this instant.
    fn writer(&self, object: &Value) -> Option<Writer> {
        let (identity, term) = text_of(object, ["data", "writer"])?.split_once('/')?;
        let state = self.state.lock();
        let (identity, last) = state.terms.get_key_value(identity)?;
        let term = match term.split_once('/') {
            Some((number, transitions)) => (number.parse().ok()?, transitions.parse().ok()?),
            None => *last,
        };
        Some(Writer { identity: identity.clone(), term })
    }

    /// A write of a leader: none comes after one of a later leader (N-07b).
    fn read_write(&self, change: &Change) {
        let Some(writer) = change.after.as_ref().and_then(|object| self.writer(object)) else { return };
        let now = self.now();
        let mut state = self.state.lock();
        state.written = Some(now);
        let is_disturbed = state.disturbed_until.is_some_and(|until| now <= until);
        if is_disturbed || state.disturbed_until.take().is_some() {
            state.former.clear();
            state.last = Some(writer);
            return;
        }
        let last = state.last.replace(writer.clone());
        let Some(last) = last.filter(|last| *last != writer) else { return };
        state.former.insert(last.clone());
        let is_former = state.former.contains(&writer);
        drop(state);
        self.recorder.note("server", format_args!("first write of {writer}, after {last}"));
        if is_former || writer.term.1 <= last.term.1 {
            self.violation(format_args!("a write of {writer} takes effect after one of {last}"));
        }
    }

    /// A change of the Lease: who acquires it when (N-01), and what is written (N-01d).
    fn read_lease(&self, change: &Change) {
        let now = self.now();
        let after = change.after.as_ref().map(|lease| LeaseState::of(lease));
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.lease, after.clone().map(|after| (after, now)));
        let is_foreign = state.foreign.contains(&change.version);
        let is_disturbed = is_foreign || state.disturbed_until.is_some_and(|until| now <= until);
        let is_comparable = state.repeated_until.is_none_or(|until| now > until);
        let released = state.released.take();
        let Some(after) = after else { return };
        if is_foreign {
            // The candidates have not seen a change of the specification.
            if let (Some((before, since)), Some((lease, time))) = (&before, &mut state.lease)
                && before == lease
            {
                (*time, state.released) = (*since, released);
            }
            return;
        }
        if after.holder.is_empty() {
            state.released = Some(now);
        }
        drop(state);
        if is_comparable && let Some(problem) = self.problem(before.as_ref(), &after, now, is_disturbed) {
            self.violation(format_args!("the Lease {after:?} follows {before:?}: {problem}"));
        }
    }

    fn problem(
        &self,
        before: Option<&(LeaseState, Duration)>,
        after: &LeaseState,
        now: Duration,
        is_disturbed: bool,
    ) -> Option<&'static str> {
        let Some((before, since)) = before else {
            return (after.transitions != 0).then_some("a new Lease has transitions");
        };
        if after.holder.is_empty() {
            return (after.transitions != before.transitions).then_some("a release changes the transitions");
        }
        // The wall clock of a process that was started again may show the time of its earlier acquisition.
        let is_acquired_again =
            after.acquired == after.renewed && after.transitions == before.transitions + 1;
        let is_renewal =
            after.holder == before.holder && after.acquired == before.acquired && !is_acquired_again;
        if is_renewal {
            let is_wrong = after.transitions != before.transitions || after.renewed == before.renewed;
            return is_wrong.then_some("a renewal changes the renew time, and not the transitions");
        }
        if after.transitions != before.transitions + 1 {
            return Some("an acquisition increments the transitions");
        }
        if after.acquired != after.renewed {
            return Some("an acquisition sets both times");
        }
        let held = Duration::from_secs(u64::try_from(before.duration).unwrap_or_default());
        let is_early = !before.holder.is_empty() && now < *since + held;
        (is_early && !is_disturbed).then_some("it was acquired before it had expired")
    }

    /// A released Lease is acquired at the next attempt of a candidate (N-05a).
    fn check_released(&self) {
        let now = self.now();
        let mut state = self.state.lock();
        let latest = self.timing.longest_retry() + self.timing.renew_deadline + Duration::from_secs(3);
        let is_calm = state.calm.is_some_and(|calm| now > calm + Duration::from_secs(60));
        let is_late = state.released.is_some_and(|released| now > released + latest);
        if is_calm && is_late {
            state.released = None;
            drop(state);
            self.violation("a released Lease is not acquired");
        }
    }
}
