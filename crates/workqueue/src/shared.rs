//! The parts that a queue shares with its items and waits: the lock, the waiters and the rate limiter.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::metrics::QueueMetrics;
use crate::options::{Add, Fairness};
use crate::rate_limiter::RateLimiter;
use crate::state::{Admission, Phase, Request, State, Taken};
use crate::sync::{Instant, Mutex, MutexGuard, now};
use crate::waiting::{Check, Waiters};

/// A later time than this is as good as never.
const LONGEST_DELAY: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
/// The number of keys that are read under one lock when a predicate is applied to all keys.
const BATCH: usize = 1024;

pub(crate) struct Shared<K, C> {
    state: Mutex<State<K, C>>,
    /// Notified when a key is ready, the alarm must be set, or the queue was shut down.
    ready: Waiters,
    /// Notified when a run has finished, or the queue was shut down or became empty.
    finished: Waiters,
    pub(crate) limiter: Arc<dyn RateLimiter<K>>,
    hasher: foldhash::fast::RandomState,
    /// Numbers the waiters.
    last_waiter: AtomicU64,
}

/// What a waiter gets.
pub(crate) enum Next<K, C> {
    Key(Taken<K, C>),
    ShutDown,
    Empty,
}

impl<K, C> Shared<K, C> {
    pub(crate) fn new(limiter: Arc<dyn RateLimiter<K>>, fairness: Fairness, records_durations: bool) -> Self {
        Self {
            state: Mutex::new(State::new(fairness.oldest_every(), records_durations)),
            ready: Waiters::new(),
            finished: Waiters::new(),
            limiter,
            hasher: foldhash::fast::RandomState::default(),
            last_waiter: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, C>> {
        self.state.lock()
    }

    /// Queues the keys whose delays are over, then runs `read`.
    fn read<R>(&self, read: impl FnOnce(&mut State<K, C>) -> R) -> R {
        let mut state = self.lock();
        let wakes = state.queue_due();
        let result = read(&mut state);
        drop(state);
        self.ready.notify(wakes);
        result
    }

    /// Returns whether the key was accepted.
    pub(crate) fn add(&self, key: K, options: Add, cause: Option<C>) -> bool
    where
        K: Eq + Hash,
    {
        let hash = self.hasher.hash_one(&key);
        let Some((mut state, request)) = self.accept(&key, options) else { return false };
        let (wakes, replaced) = state.add(key, hash, request, cause);
        drop(state);
        self.ready.notify(wakes);
        drop(replaced);
        true
    }

    /// Asks the rate limiter, if the options say so.
    fn request(&self, key: &K, options: Add) -> Request {
        let mut after = options.after.filter(|after| !after.is_zero());
        if options.is_rate_limited {
            let limited = self.limiter.when(key);
            after = Some(after.map_or(limited, |after| after.min(limited)));
        }
        let due = after.filter(|after| !after.is_zero()).map(|after| now() + after.min(LONGEST_DELAY));
        Request { priority: options.priority, due, marks: options.marks }
    }

    /// Returns the lock and the request if the queue accepts the key. The rate limiter is asked only then, since it counts
    /// a failure. It and the predicate run without the lock, the predicate again if it was replaced meanwhile.
    fn accept(&self, key: &K, options: Add) -> Option<(MutexGuard<'_, State<K, C>>, Request)> {
        let mut request = (!options.is_rate_limited).then(|| self.request(key, options));
        let mut admitted_by: Option<Arc<Admission<K>>> = None;
        loop {
            let mut state = self.lock();
            if state.phase != Phase::Open {
                state.rejected += 1;
                return None;
            }
            match (&state.admission, &admitted_by) {
                (None, None) => {}
                (Some(admission), Some(by)) if Arc::ptr_eq(by, admission) => {}
                (Some(admission), _) => {
                    let admission = admission.clone();
                    drop(state);
                    if !admission(key) {
                        self.lock().rejected += 1;
                        return None;
                    }
                    admitted_by = Some(admission);
                    continue;
                }
                (None, Some(_)) => {
                    drop(state);
                    admitted_by = None; // user code, if this is the last reference
                    continue;
                }
            }
            if let Some(request) = request {
                return Some((state, request));
            }
            drop(state);
            request = Some(self.request(key, options));
        }
    }

    pub(crate) fn try_next(&self) -> Next<K, C> {
        self.attempt(None).0
    }

    /// Tries to take a key. If there is none, sets the alarm of the waiter, and returns its time.
    fn attempt(&self, waiter: Option<u64>) -> (Next<K, C>, Option<Instant>) {
        let mut state = self.lock();
        let due = state.queue_due();
        let next = match state.take() {
            Some(taken) => Next::Key(taken),
            None if state.phase != Phase::Open => Next::ShutDown,
            None => Next::Empty,
        };
        let alarm = match (&next, waiter) {
            (Next::Empty, Some(waiter)) => state.set_alarm(waiter),
            _ => None,
        };
        // A waiter that was woken to set the alarm may have found a key.
        let sets_alarm = matches!(next, Next::Key(_)) && state.needs_alarm();
        drop(state);
        self.ready.notify(due.saturating_sub(1) + usize::from(sets_alarm));
        (next, alarm)
    }

    fn check(&self, waiter: &Waiting<'_, K, C>) -> Check<Option<Taken<K, C>>> {
        match self.attempt(Some(waiter.number)) {
            (Next::Key(taken), _) => Check::Done(Some(taken)),
            (Next::ShutDown, _) => Check::Done(None),
            (Next::Empty, alarm) => Check::Wait(alarm),
        }
    }

    pub(crate) async fn next(&self) -> Option<Taken<K, C>> {
        match self.try_next() {
            Next::Key(taken) => return Some(taken),
            Next::ShutDown => return None,
            Next::Empty => {}
        }
        let waiter = Waiting::new(self);
        self.ready.wait(|| self.check(&waiter)).await
    }

    #[cfg(not(loom))]
    pub(crate) fn next_blocking(
        &self,
        deadline: Option<std::time::Instant>,
    ) -> Result<Option<Taken<K, C>>, crate::DeadlineExceeded> {
        let waiter = Waiting::new(self);
        self.ready.wait_blocking(deadline, || self.check(&waiter))
    }

    /// Ends the run of a key, and adds the key again if `again` is given and the queue still accepts it.
    pub(crate) fn finish(&self, taken: &Taken<K, C>, again: Option<Add>) {
        let (state, request) = match again.and_then(|again| self.accept(&taken.key, again)) {
            Some((state, request)) => (state, Some(request)),
            None => (self.lock(), None),
        };
        self.finish_locked(state, taken, request);
    }

    /// Ends the run of a key that panicked, and adds the key again. If the rate limiter or the predicate panics as well,
    /// the key is delayed by a fixed time instead, because a second panic would abort the process.
    pub(crate) fn finish_panicked(&self, taken: &Taken<K, C>, again: Add) {
        let finish = std::panic::AssertUnwindSafe(|| self.finish(taken, Some(again)));
        if let Err(panic) = std::panic::catch_unwind(finish) {
            // Dropping the payload runs user code, which may panic a third time.
            std::mem::forget(panic);
            let due = Some(now() + FALLBACK_DELAY);
            let state = self.lock();
            let request = (state.phase == Phase::Open).then_some(Request {
                priority: again.priority,
                due,
                marks: again.marks,
            });
            self.finish_locked(state, taken, request);
        }
    }

    fn finish_locked(
        &self,
        mut state: MutexGuard<'_, State<K, C>>,
        taken: &Taken<K, C>,
        request: Option<Request>,
    ) {
        let (wakes, removed) = state.finish(taken, request);
        drop(state);
        self.ready.notify(wakes);
        self.finished.notify_all();
        drop(removed);
    }

    /// Replaces the predicate by which keys are admitted.
    pub(crate) fn set_admission(&self, admission: Option<Arc<Admission<K>>>) {
        let previous = std::mem::replace(&mut self.lock().admission, admission);
        drop(previous);
    }

    /// Removes a queued or delayed key. Returns whether it was.
    pub(crate) fn remove(&self, key: &K) -> bool
    where
        K: Eq + Hash,
    {
        let hash = self.hasher.hash_one(key);
        let removed = self.lock().remove_key(key, hash);
        self.finished.notify_all();
        removed.is_some()
    }

    /// Removes the queued and delayed keys for which the predicate returns false. Returns their number.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&K) -> bool) -> usize {
        let (mut next, mut count) = (0, 0);
        loop {
            let Some((mut pending, end)) = self.lock().pending_from(next, BATCH) else { break };
            pending.retain(|(_, key)| !keep(key));
            let mut removed = Vec::with_capacity(pending.len());
            let mut state = self.lock();
            for (slot, key) in &pending {
                let Some(entry) = state.remove(*slot, key) else { continue };
                count += 1;
                removed.push(entry);
            }
            drop(state);
            next = end;
        }
        self.finished.notify_all();
        count
    }

    /// The keys in flight for which the predicate returns true, until all of these runs have finished.
    fn runs_of(&self, mut of: impl FnMut(&K) -> bool) -> impl FnMut() -> Check<()> {
        let mut runs = self.lock().runs();
        runs.retain(|(_, _, key)| of(key));
        move || {
            let state = self.lock();
            runs.retain(|(slot, run, _)| state.is_running(*slot, *run));
            if runs.is_empty() { Check::Done(()) } else { Check::Wait(None) }
        }
    }

    pub(crate) async fn in_flight(&self, of: impl FnMut(&K) -> bool) {
        let check = self.runs_of(of);
        self.finished.wait(check).await;
    }

    #[cfg(not(loom))]
    pub(crate) fn in_flight_blocking(
        &self,
        of: impl FnMut(&K) -> bool,
        deadline: Option<std::time::Instant>,
    ) -> Result<(), crate::DeadlineExceeded> {
        let check = self.runs_of(of);
        self.finished.wait_blocking(deadline, check)
    }

    /// Stops accepting keys and removes all delays.
    pub(crate) fn shut_down(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = phase;
        let removed = state.remove_delays();
        drop(state);
        self.ready.notify_all();
        self.finished.notify_all();
        drop(removed);
    }

    /// Whether everything has been processed, or the drain was ended.
    fn check_drained(&self) -> Check<bool> {
        let state = self.lock();
        match state.is_empty() {
            true => Check::Done(true),
            false if state.phase == Phase::Draining => Check::Wait(None),
            false => Check::Done(false),
        }
    }

    pub(crate) async fn drained(&self) -> bool {
        self.finished.wait(|| self.check_drained()).await
    }

    #[cfg(not(loom))]
    pub(crate) fn drained_blocking(
        &self,
        deadline: Option<std::time::Instant>,
    ) -> Result<bool, crate::DeadlineExceeded> {
        self.finished.wait_blocking(deadline, || self.check_drained())
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.lock().phase != Phase::Open
    }

    pub(crate) fn depth(&self) -> usize {
        self.read(|state| state.depth())
    }

    pub(crate) fn depths(&self) -> Vec<(i64, usize)> {
        self.read(|state| state.depths())
    }

    pub(crate) fn metrics(&self) -> QueueMetrics {
        let failing = self.limiter.failing();
        QueueMetrics { failing, ..self.read(|state| state.metrics()) }
    }
}

/// The delay of a key that panicked, if its rate limiter panics as well.
const FALLBACK_DELAY: Duration = Duration::from_secs(1);

/// A waiter for keys, which may have the alarm.
struct Waiting<'a, K, C> {
    shared: &'a Shared<K, C>,
    number: u64,
}

impl<'a, K, C> Waiting<'a, K, C> {
    fn new(shared: &'a Shared<K, C>) -> Self {
        let number = shared.last_waiter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self { shared, number }
    }
}

impl<K, C> Drop for Waiting<'_, K, C> {
    fn drop(&mut self) {
        let wakes = self.shared.lock().clear_alarm(self.number);
        self.shared.ready.notify(wakes);
    }
}
