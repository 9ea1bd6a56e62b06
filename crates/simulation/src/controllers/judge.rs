//! What a controller may do: each reconciliation has a reason, at its time, and each reason leads to one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kinformer_controller::kinformer_workqueue::RateLimiter;
use kinformer_controller::{ControllerMetrics, Key, Request};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::exclusion::{Exclusion, Running};
use crate::trace::Recorder;

/// The time after which a key is reconciled that was enqueued without faults. Longer than `Fairness` delays a key that is
/// queued behind all others, which take some seconds each.
const LATE: Duration = Duration::from_secs(180);

/// The precision of timers, twice.
const PRECISION: Duration = Duration::from_millis(2);

/// The judge of one controller. Clones share it.
#[derive(Clone)]
pub(crate) struct Judge {
    state: Arc<Mutex<State>>,
    exclusion: Exclusion,
    pub(crate) recorder: Recorder,
    pub(crate) name: Arc<str>,
    workers: usize,
    timeout: Option<Duration>,
    /// Whether the process may lose its leadership at any time.
    is_elected: bool,
}

#[derive(Default)]
struct State {
    phase: Phase,
    keys: BTreeMap<String, KeyState>,
    running: usize,
    counts: Counts,
    /// When all workers were busy last.
    busy: Option<Instant>,
    /// The faults of the server, and of the reconciliations, have ended then.
    calm: Option<Instant>,
    /// When the first reconciliation began.
    working: Option<Instant>,
    /// When the first key was enqueued without a delay.
    enqueued: Option<Instant>,
    /// The version of each object in the last event, by resource and key.
    seen: BTreeMap<(&'static str, String), u64>,
    /// The objects that had an event.
    ever_seen: BTreeSet<(&'static str, String)>,
    /// The objects whose events must come before the first reconciliation.
    initial: Vec<Initial>,
}

/// An object of a first list.
pub(crate) struct Initial {
    pub(crate) plural: &'static str,
    pub(crate) key: String,
    /// Whether the store still has it in that state. Triggers start later than informers, after an election for example.
    pub(crate) is_stored: Box<dyn Fn() -> bool + Send + Sync>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Starting,
    Running,
    /// Its run is dropped: the workers end when they are next polled.
    Dropped,
    /// Since this time. A worker whose key is due at the same time may take it before the run has seen the end.
    ShuttingDown(Instant),
    Ended,
}

#[derive(Default)]
struct KeyState {
    is_running: bool,
    /// When the last reconciliation ended.
    ended: Option<Instant>,
    /// The priority of the last reconciliation.
    priority: i64,
    /// Why the key is reconciled next.
    reason: Option<Reason>,
    failures: u32,
    last: Option<Outcome>,
    /// Whether the failure was counted by the rate limiter, and how many of them were. A queue that was shut down retries
    /// no key.
    is_counted: bool,
    counted: u32,
}

/// All requests for a key since its last reconciliation began.
#[derive(Clone, Copy)]
struct Reason {
    /// No reconciliation begins before this time.
    from: Instant,
    priority: i64,
}

/// How a reconciliation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Requeued(Duration),
    Failed,
    Permanent,
    Panicked,
    TimedOut,
    /// Its future was dropped with the controller.
    Dropped,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    succeeded: u64,
    requeued: u64,
    failed: u64,
    permanent: u64,
    panicked: u64,
    timed_out: u64,
    active: usize,
    failing: usize,
}

impl KeyState {
    fn request(&mut self, from: Instant, priority: i64) {
        let reason = self.reason.get_or_insert(Reason { from, priority });
        reason.from = reason.from.min(from);
        reason.priority = reason.priority.max(priority);
    }
}

impl Judge {
    pub(crate) fn new(
        name: Arc<str>,
        workers: usize,
        timeout: Option<Duration>,
        (exclusion, is_elected): (Exclusion, bool),
        recorder: &Recorder,
    ) -> Self {
        let (state, recorder) = (Arc::default(), recorder.clone());
        Self { state, exclusion, recorder, name, workers, timeout, is_elected }
    }

    fn violation(&self, what: impl std::fmt::Display) {
        self.recorder.violation(format_args!("{}: {what}", self.name));
    }

    /// An event reached a trigger of the controller: the object has this version now, or was deleted.
    pub(crate) fn seen(&self, plural: &'static str, key: String, version: Option<u64>) {
        let mut state = self.state.lock();
        state.ever_seen.insert((plural, key.clone()));
        match version {
            Some(version) => _ = state.seen.insert((plural, key), version),
            None => _ = state.seen.remove(&(plural, key)),
        }
    }

    /// A trigger enqueues a key.
    pub(crate) fn enqueued(&self, key: &str, priority: i64, delay: Duration) {
        self.recorder.note(&self.name, format_args!("{key} is enqueued, priority {priority}, {delay:?}"));
        let mut state = self.state.lock();
        if delay.is_zero() {
            state.enqueued.get_or_insert_with(Instant::now);
        }
        state.keys.entry(key.to_owned()).or_default().request(Instant::now() + delay, priority);
    }

    /// The first lists have arrived: these objects must be enqueued before the first reconciliation.
    pub(crate) fn synced(&self, initial: impl IntoIterator<Item = Initial>) {
        self.state.lock().initial.extend(initial);
    }

    /// A reconciliation begins. The returned guard ends it.
    #[expect(clippy::too_many_lines, reason = "one check after the other of one state")]
    pub(crate) fn begin<K: Key + ToString>(&self, request: &Request<K>, has_synced: bool) -> Run {
        let key = request.key.to_string();
        let now = Instant::now();
        let mut problems = Vec::new();
        let mut state = self.state.lock();
        match state.phase {
            Phase::Starting => {
                if !has_synced {
                    problems.push("before all informers have synced".to_owned());
                }
                let missing = state.initial.iter().find(|Initial { plural, key, is_stored }| {
                    !state.ever_seen.contains(&(*plural, key.clone())) && is_stored()
                });
                if let Some(Initial { plural, key, .. }) = missing {
                    problems.push(format!("before {plural} {key} of the first list is enqueued"));
                }
                state.phase = Phase::Running;
            }
            Phase::Running | Phase::Dropped => {}
            Phase::ShuttingDown(since) if since == now => {}
            Phase::ShuttingDown(_) => problems.push("after the shutdown".to_owned()),
            Phase::Ended => problems.push("after the end".to_owned()),
        }
        state.running += 1;
        if state.running > self.workers {
            problems.push(format!("by {} of {} workers", state.running, self.workers));
        }
        let working = *state.working.get_or_insert(now);
        let calm = state.calm.map(|calm| calm.max(working));
        let idle = state.busy.map_or(working, |busy| busy.max(working));
        let of_key = state.keys.entry(key.clone()).or_default();
        if of_key.is_running {
            problems.push("while it is reconciled".to_owned());
        }
        match of_key.reason.take() {
            None => problems.push("without a reason".to_owned()),
            Some(reason) => {
                if now < reason.from {
                    problems.push(format!("{:?} too early", reason.from - now));
                }
                if calm.is_some_and(|calm| now > reason.from.max(calm) + LATE) {
                    problems.push(format!("{:?} late", now - reason.from));
                }
                let since = of_key.ended.into_iter().fold(idle.max(reason.from), Instant::max);
                if now > since + PRECISION {
                    problems.push(format!("{:?} late beside idle workers", now - since));
                }
                if request.priority != reason.priority {
                    problems.push(format!("with priority {}, not {}", request.priority, reason.priority));
                }
            }
        }
        if request.failures != of_key.failures {
            problems.push(format!("with {} failures, not {}", request.failures, of_key.failures));
        }
        (of_key.is_running, of_key.priority) = (true, request.priority);
        drop(state);
        self.recorder.note(&self.name, format_args!("{key} begins"));
        for problem in problems {
            self.violation(format_args!("{key} is reconciled {problem}"));
        }
        let exclusive = self.exclusion.begin(&self.recorder);
        Run { judge: self.clone(), key, began: now, outcome: Outcome::Dropped, _exclusive: exclusive }
    }

    fn end(&self, key: &str, began: Instant, outcome: Outcome) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.running >= self.workers {
            state.busy = Some(now);
        }
        state.running -= 1;
        let may_drop = self.is_elected || state.phase != Phase::Running;
        let is_over = self.timeout.is_some_and(|timeout| now >= began + timeout);
        let outcome = match outcome {
            Outcome::Dropped if is_over && state.phase != Phase::Ended => Outcome::TimedOut,
            outcome => outcome,
        };
        let of_key = state.keys.entry(key.to_owned()).or_default();
        (of_key.is_running, of_key.last, of_key.is_counted) = (false, Some(outcome), false);
        of_key.ended = Some(now);
        match outcome {
            Outcome::Succeeded => (of_key.failures, of_key.counted) = (0, 0),
            Outcome::Requeued(delay) => {
                (of_key.failures, of_key.counted) = (0, 0);
                of_key.request(now + delay, of_key.priority);
            }
            Outcome::Permanent | Outcome::Dropped => {}
            Outcome::Failed | Outcome::Panicked | Outcome::TimedOut => of_key.failures += 1,
        }
        let counts = &mut state.counts;
        match outcome {
            Outcome::Succeeded => counts.succeeded += 1,
            Outcome::Requeued(_) => counts.requeued += 1,
            Outcome::Failed => counts.failed += 1,
            Outcome::Permanent => counts.permanent += 1,
            Outcome::Panicked => counts.panicked += 1,
            Outcome::TimedOut => counts.timed_out += 1,
            Outcome::Dropped => {}
        }
        drop(state);
        self.recorder.note(&self.name, format_args!("{key} ends: {outcome:?}"));
        if outcome == Outcome::Dropped && !may_drop {
            self.violation(format_args!("the reconciliation of {key} is dropped"));
        }
    }

    /// The rate limiter has counted a failure of a key.
    fn counted(&self, key: &str, delay: Duration) {
        let mut state = self.state.lock();
        let of_key = state.keys.entry(key.to_owned()).or_default();
        let has_failed = matches!(of_key.last, Some(Outcome::Failed | Outcome::Panicked | Outcome::TimedOut));
        let is_expected = has_failed && !of_key.is_counted && !of_key.is_running;
        of_key.is_counted = true;
        of_key.counted += 1;
        of_key.request(Instant::now() + delay, of_key.priority);
        let last = of_key.last;
        drop(state);
        self.recorder.note(&self.name, format_args!("{key} is retried after {delay:?}"));
        if !is_expected {
            self.violation(format_args!("{key} is retried after {last:?}"));
        }
    }

    /// Compares the metrics with what was counted.
    pub(crate) fn check_metrics(&self, metrics: &ControllerMetrics) {
        let state = self.state.lock();
        let Counts { failed, permanent, panicked, timed_out, .. } = state.counts;
        let failing = state.keys.values().filter(|key| key.counted > 0).count();
        let expected = Counts {
            failed: failed + permanent + panicked + timed_out,
            active: state.running,
            failing,
            ..state.counts
        };
        let waits =
            state.phase == Phase::Starting && state.enqueued.is_some_and(|at| at.elapsed() > PRECISION);
        drop(state);
        if waits && metrics.queue.depth > 0 {
            self.violation(format_args!("{} keys are queued before it may reconcile", metrics.queue.depth));
        }
        let counted = Counts {
            succeeded: metrics.succeeded,
            requeued: metrics.requeued,
            failed: metrics.failed,
            permanent: metrics.permanent,
            panicked: metrics.panicked,
            timed_out: metrics.timed_out,
            active: metrics.active,
            failing: metrics.queue.failing,
        };
        if counted != expected || metrics.workers != self.workers {
            self.violation(format_args!("metrics {counted:?} instead of {expected:?}"));
        }
        if metrics.queue.in_flight != metrics.active {
            self.violation(format_args!(
                "{} keys in flight, {} active",
                metrics.queue.in_flight, metrics.active
            ));
        }
    }

    /// From now on reconciliations may be dropped.
    pub(crate) fn is_dropped(&self) {
        self.state.lock().phase = Phase::Dropped;
    }

    /// From now on no reconciliation begins.
    pub(crate) fn shut_down(&self) {
        self.state.lock().phase = Phase::ShuttingDown(Instant::now());
    }

    /// From now on none runs.
    pub(crate) fn has_ended(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Ended;
        let running = state.running;
        drop(state);
        if running > 0 {
            self.violation(format_args!("{running} reconciliations after the end"));
        }
    }

    /// The running keys.
    pub(crate) fn running(&self) -> Vec<String> {
        let state = self.state.lock();
        let running = state.keys.iter().filter(|(_, key)| key.is_running);
        running.map(|(key, _)| key.clone()).collect()
    }

    /// The time that a reconciliation may take.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// All faults have ended.
    pub(crate) fn set_calm(&self) {
        self.state.lock().calm.get_or_insert_with(Instant::now);
    }

    /// Returns what is left to do: `None` if all keys are reconciled. Some keys fail always, or do not return.
    pub(crate) fn unsettled(
        &self,
        objects: &BTreeMap<(&'static str, String), u64>,
        except: &dyn Fn(&str) -> bool,
    ) -> Option<String> {
        let now = Instant::now();
        let state = self.state.lock();
        if state.phase == Phase::Starting && state.keys.values().any(|key| key.reason.is_some()) {
            return Some("it does not reconcile".to_owned());
        }
        if state.seen != *objects {
            let differs = objects.iter().find(|(object, version)| state.seen.get(object) != Some(version));
            let gone = state.seen.keys().find(|object| !objects.contains_key(object));
            return Some(format!("its triggers have not received {differs:?}, or the deletion of {gone:?}"));
        }
        for (key, of_key) in &state.keys {
            let has_failed =
                matches!(of_key.last, Some(Outcome::Failed | Outcome::Panicked | Outcome::TimedOut));
            if has_failed && of_key.reason.is_none() && !of_key.is_running {
                return Some(format!("{key} has failed and is not retried"));
            }
            if except(key) {
                continue;
            }
            // A resync may enqueue a key again before the delay of its trigger is over.
            if of_key.is_running || of_key.reason.is_some_and(|reason| reason.from <= now) {
                return Some(format!("{key} is to be reconciled"));
            }
        }
        None
    }
}

/// A reconciliation that runs, until it is dropped.
pub(crate) struct Run {
    judge: Judge,
    key: String,
    began: Instant,
    outcome: Outcome,
    _exclusive: Running,
}

impl Run {
    /// Sets how it ends.
    pub(crate) fn ends(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.judge.end(&self.key, self.began, self.outcome);
    }
}

/// A rate limiter whose decisions the judge knows.
pub(crate) struct JudgedLimiter<L> {
    pub(crate) limiter: L,
    pub(crate) judge: Judge,
}

impl<K: ToString, L: RateLimiter<K>> RateLimiter<K> for JudgedLimiter<L> {
    fn when(&self, key: &K) -> Duration {
        let delay = self.limiter.when(key);
        self.judge.counted(&key.to_string(), delay);
        delay
    }

    fn forget(&self, key: &K) {
        self.limiter.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.limiter.retries(key)
    }

    fn failing(&self) -> usize {
        self.limiter.failing()
    }
}
