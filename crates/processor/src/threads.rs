//! The threads that run callbacks which may block: one pool for the process, separate from tokio's threads.
//!
//! A thread that runs a turn occupies a slot. The number of slots is the number of base threads or, if that is
//! larger, the number of stuck threads. A thread whose callback runs for longer than [`LONG`] loses its slot, so that
//! another thread can run the waiting turns. When the callback returns, its thread takes a free slot or ends. A
//! monitor thread, which runs no callbacks, detects such callbacks.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use kinformer_core::internal::contain;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::Span;

use crate::contained::drop_handler;
use crate::listener::Listener;
use crate::{clock, own_code, stepping};

/// The time after which a running callback loses the slot of its thread.
const LONG: Duration = Duration::from_secs(1);

/// The interval at which the monitor checks for such callbacks.
const CHECK: Duration = Duration::from_millis(100);

/// The longest duration of a turn while others wait for a thread.
const TURN: Duration = Duration::from_millis(5);

/// The time for which a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// The delay after the system has refused a thread.
const RETRY: Duration = Duration::from_secs(1);

/// The number of base threads on a machine with at most a quarter as many processors.
const BASE: usize = 64;

/// The maximum number of threads, including stuck ones.
const MAXIMUM: usize = 4096;

/// The metrics of the threads that run callbacks which may block, read at one moment.
///
/// The process has one pool of such threads: see [`ListenerBuilder::add`](crate::ListenerBuilder::add).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadMetrics {
    /// The number of turns that may run at once while no thread is stuck: 64, or four for each processor if that is
    /// more, unless [`set_base_threads`] changed it.
    pub base: usize,
    /// The maximum number of threads: 4,096. While that many are stuck, blocking handlers wait until a callback
    /// returns, and a warning is logged.
    pub maximum: usize,
    /// The number of threads, including stuck and idle ones, but not the monitor thread.
    pub threads: usize,
    /// The number of threads that run a turn of a handler, including stuck ones.
    pub running: usize,
    /// The number of threads that have been in one callback for longer than 1 second. They do not count against `base`.
    pub stuck: usize,
    /// The number of turns that wait for a thread: at most one for each handler.
    pub waiting: usize,
}

/// Returns the metrics of the threads that run callbacks which may block.
pub fn thread_metrics() -> ThreadMetrics {
    let pool = Pool::get();
    let state = pool.state.lock();
    ThreadMetrics {
        base: pool.base.load(Ordering::Relaxed),
        maximum: MAXIMUM,
        threads: state.threads,
        running: state.running.len(),
        stuck: state.stuck,
        waiting: state.waiting.len(),
    }
}

/// Sets the number of turns of blocking handlers that may run at once, for the whole process. Values above the
/// [maximum](ThreadMetrics::maximum) count as the maximum. Surplus threads end when they have nothing to do.
pub fn set_base_threads(threads: NonZero<usize>) {
    Pool::get().base.store(threads.get().min(MAXIMUM), Ordering::Relaxed);
}

type Job = Box<dyn FnOnce(&mut Turn<'_>) + Send>;

struct Pool {
    base: AtomicUsize,
    /// Whether it has no threads, and the waits for its turns run them: see [`stepping`].
    stepped: bool,
    /// The number of waiting turns, as in the state, readable without the lock by running turns.
    waiting: AtomicUsize,
    state: Mutex<State>,
    work: Condvar,
    /// The timer of the monitor. Nothing notifies it.
    check: Condvar,
}

#[derive(Default)]
struct State {
    /// The waiting turns by ticket, which is the order of their submission.
    waiting: BTreeMap<u64, Job>,
    /// The running turns by thread.
    running: BTreeMap<u64, Running>,
    next_id: u64,
    threads: usize,
    /// The number of threads that have not started yet.
    starting: usize,
    /// The number of threads that wait for work.
    idle: usize,
    /// The number of threads that have lost their slot.
    stuck: usize,
    monitored: bool,
    /// Whether the lack of threads was reported.
    full: bool,
}

struct Running {
    thread: Arc<Thread>,
    /// The number of steps at the last check, and the time at which that number was first seen.
    seen: Option<(u64, Instant)>,
}

/// The state shared by a running turn and the monitor.
#[derive(Default)]
struct Thread {
    /// The number of steps made by its turns. Only the thread writes it.
    steps: AtomicU64,
    stuck: AtomicBool,
}

/// The reason for which no more threads start.
enum Full {
    Maximum,
    Refused(std::io::Error),
}

/// A turn on a thread of the pool: a series of steps that run at most one callback each.
pub(crate) struct Turn<'p> {
    on: Option<(&'p Pool, &'p Thread)>,
    /// The time since which others wait for a thread.
    wanted: Option<Instant>,
}

impl Turn<'_> {
    /// Counts a step, and returns whether the turn may make another one.
    pub(crate) fn may_continue(&mut self) -> bool {
        let Some((pool, thread)) = self.on else { return stepping::may_continue() };
        thread.steps.store(thread.steps.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if thread.stuck.load(Ordering::Relaxed) {
            return false;
        }
        if pool.waiting.load(Ordering::Relaxed) == 0 {
            self.wanted = None;
            return true;
        }
        let now = clock::real();
        now.duration_since(*self.wanted.get_or_insert(now)) < TURN
    }
}

/// Runs a turn of a listener's handler on a thread of the pool, in the context of the runtime. If the listener stops
/// before the turn has a thread, the turn runs here at once, so that it returns what it holds: the turn must check for
/// the stop first.
///
/// # Cancel safety
/// If the future is dropped while the turn runs, the turn continues, and its result is dropped on its thread. If it is
/// dropped before the turn starts, the turn is dropped here. In both cases the listener is removed.
pub(crate) async fn run<R: Send + 'static>(
    listener: &Arc<Listener>,
    runtime: &Handle,
    turn: impl FnOnce(&mut Turn<'_>) -> R + Send + 'static,
) -> Option<R> {
    let (sender, mut returned) = oneshot::channel();
    let pool = Pool::get();
    // Without a thread, the clock passes between callbacks only.
    let clock = if pool.stepped { None } else { clock::hold_if_paused() };
    let (own, context, span) = (listener.clone(), runtime.clone(), Span::current());
    listener.waits_for_thread.store(true, Ordering::Relaxed);
    let job = move |on: &mut Turn<'_>| {
        let _context = context.enter();
        let _own = own_code::enter(&own);
        own.waits_for_thread.store(false, Ordering::Relaxed);
        let result = span.in_scope(|| turn(on));
        // The send may end the run, and with it the span must be closed.
        drop(span);
        if let Err(result) = sender.send(result) {
            drop(result);
        }
        drop(clock);
    };
    let (id, mut served) = pool.submit(Box::new(job));
    let mut ticket = Ticket { pool, id, listener, returned: false };
    let mut stopped = false;
    loop {
        tokio::select! {
            biased;
            result = &mut returned => {
                ticket.returned = true;
                return result.ok();
            }
            () = listener.stop.cancelled(), if !stopped => {
                stopped = true;
                if let Some(job) = ticket.take_back() {
                    job(&mut Turn { on: None, wanted: None });
                }
            }
            () = async { tokio::time::sleep(RETRY).await }, if !served && !pool.stepped => {
                served = pool.grow(pool.state.lock());
            }
            () = async { stepping::start_delay().await }, if !served && pool.stepped => {
                served = true;
                if let Some(job) = ticket.take_back() {
                    job(&mut Turn { on: None, wanted: None });
                    stepping::run_time().await;
                }
            }
        }
    }
}

/// A submitted turn. If it is dropped before the turn has returned, it removes the listener, whose task was dropped.
struct Ticket<'l> {
    pool: &'static Pool,
    id: u64,
    listener: &'l Listener,
    returned: bool,
}

impl Ticket<'_> {
    fn take_back(&self) -> Option<Job> {
        let mut state = self.pool.state.lock();
        let job = state.waiting.remove(&self.id);
        self.pool.waiting.store(state.waiting.len(), Ordering::Relaxed);
        job
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.returned {
            return;
        }
        self.listener.remove();
        if let Some(job) = self.take_back() {
            drop_handler(&self.listener.name, job);
        }
    }
}

impl State {
    /// Returns whether another thread is needed and allowed.
    fn wants_thread(&self, base: usize) -> Result<bool, Full> {
        let slots = base.max(self.stuck);
        let wanted = self.waiting.len() > self.idle + self.starting && self.threads - self.stuck < slots;
        if wanted && self.threads >= MAXIMUM { Err(Full::Maximum) } else { Ok(wanted) }
    }
}

impl Pool {
    fn get() -> &'static Self {
        static POOL: OnceLock<Pool> = OnceLock::new();
        static STEPPED: OnceLock<Pool> = OnceLock::new();
        if stepping::is_on() {
            return STEPPED.get_or_init(|| Self { stepped: true, ..Self::new(0) });
        }
        POOL.get_or_init(|| {
            let processors = thread::available_parallelism().map_or(1, NonZero::get);
            Self::new(BASE.max(4 * processors).min(MAXIMUM))
        })
    }

    fn new(base: usize) -> Self {
        Self {
            base: AtomicUsize::new(base),
            stepped: false,
            waiting: AtomicUsize::new(0),
            state: Mutex::default(),
            work: Condvar::new(),
            check: Condvar::new(),
        }
    }

    /// Submits a turn, and starts the threads that are needed: see [`Self::grow`].
    fn submit(&'static self, job: Job) -> (u64, bool) {
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.waiting.insert(id, job);
        self.waiting.store(state.waiting.len(), Ordering::Relaxed);
        if self.stepped {
            return (id, false);
        }
        if state.idle > 0 {
            self.work.notify_one();
        }
        (id, self.grow(state))
    }

    /// Starts the threads that are needed. Returns `false` if there is no thread for the waiting turns, and the caller
    /// must try again.
    fn grow(&'static self, mut state: MutexGuard<'_, State>) -> bool {
        if !state.monitored {
            state.monitored = true;
            let started = MutexGuard::unlocked(&mut state, || spawn("kinformer-monitor", || self.monitor()));
            state.monitored = started.is_ok();
        }
        let full = loop {
            match state.wants_thread(self.base.load(Ordering::Relaxed)) {
                Ok(false) => break None,
                Ok(true) => {}
                Err(full) => break Some(full),
            }
            state.threads += 1;
            state.starting += 1;
            let id = state.next_id;
            state.next_id += 1;
            let started =
                MutexGuard::unlocked(&mut state, || spawn("kinformer-handler", move || self.work(id)));
            if let Err(error) = started {
                state.threads -= 1;
                state.starting -= 1;
                break Some(Full::Refused(error));
            }
        };
        let report = full.is_some() && !std::mem::replace(&mut state.full, full.is_some());
        let (threads, stuck, waiting) = (state.threads, state.stuck, state.waiting.len());
        drop(state);
        match full {
            Some(Full::Maximum) if report => tracing::warn!(
                threads,
                stuck,
                waiting,
                "all handler threads are stuck in callbacks; other blocking handlers wait",
            ),
            Some(Full::Refused(error)) if report => tracing::error!(
                %error, threads, stuck, waiting, "failed to start a handler thread; retrying",
            ),
            _ => {}
        }
        threads > 0
    }

    /// Runs waiting turns until the thread is surplus or idle for long.
    fn work(&self, id: u64) {
        let thread = Arc::new(Thread::default());
        let mut state = self.state.lock();
        state.starting -= 1;
        loop {
            if let Some((_, job)) = state.waiting.pop_first() {
                self.waiting.store(state.waiting.len(), Ordering::Relaxed);
                state.running.insert(id, Running { thread: thread.clone(), seen: None });
                MutexGuard::unlocked(&mut state, || {
                    let mut turn = Turn { on: Some((self, &thread)), wanted: None };
                    if let Err(error) = contain(|| job(&mut turn)) {
                        tracing::error!(%error, "turn of a handler panicked");
                    }
                });
                state.running.remove(&id);
                if thread.stuck.swap(false, Ordering::Relaxed) {
                    state.stuck -= 1;
                }
                let slots = self.base.load(Ordering::Relaxed).max(state.stuck);
                if state.threads - state.stuck > slots {
                    break;
                }
            } else {
                state.idle += 1;
                let timed_out = self.work.wait_for(&mut state, IDLE).timed_out();
                state.idle -= 1;
                if timed_out && state.waiting.is_empty() {
                    break;
                }
            }
        }
        state.threads -= 1;
    }

    /// Takes the slots of threads whose callbacks run for long. Ends when there have been no turns for a while.
    fn monitor(&'static self) {
        let mut state = self.state.lock();
        let mut busy = clock::real();
        loop {
            self.check.wait_for(&mut state, CHECK);
            let now = clock::real();
            let State { running, stuck, .. } = &mut *state;
            for Running { thread, seen } in running.values_mut() {
                let steps = thread.steps.load(Ordering::Relaxed);
                match seen {
                    Some((before, since)) if *before == steps => {
                        if now.duration_since(*since) >= LONG && !thread.stuck.swap(true, Ordering::Relaxed) {
                            *stuck += 1;
                        }
                    }
                    _ => *seen = Some((steps, now)),
                }
            }
            if !state.running.is_empty() || !state.waiting.is_empty() {
                busy = now;
            } else if now.duration_since(busy) >= IDLE {
                state.monitored = false;
                return;
            }
            if state.waiting.is_empty() {
                state.full = false;
            } else {
                drop(state);
                self.grow(self.state.lock());
                state = self.state.lock();
            }
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// When as many threads as allowed are stuck, a turn that waits is reported once, and no thread starts.
    // contract: P-15f
    #[test]
    fn maximum_is_reported_once() {
        let state = State { threads: MAXIMUM, stuck: MAXIMUM, monitored: true, ..State::default() };
        let pool: &'static Pool = Box::leak(Box::new(Pool { state: Mutex::new(state), ..Pool::new(1) }));
        let lines = Arc::<Mutex<Vec<u8>>>::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || Lines(writer.clone())).finish();
        let guard = kinformer_testing::logs::set_default(subscriber);
        for _ in 0..3 {
            pool.submit(Box::new(|_| {}));
        }
        drop(guard);
        let (logged, state) = (String::from_utf8(lines.lock().clone()).unwrap(), pool.state.lock());
        assert_eq!((state.threads, state.waiting.len()), (MAXIMUM, 3));
        assert_eq!(logged.lines().count(), 1, "{logged}");
        assert!(logged.contains("all handler threads are stuck") && logged.contains("4096"), "{logged}");
    }
}
