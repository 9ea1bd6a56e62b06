//! The threads on which callbacks that may block run: one pool for the process, none of tokio's.
//!
//! A thread that runs a turn holds a place. There are as many places as the pool has base threads, or as threads are
//! stuck, if that is more. A callback that runs for longer than [`LONG`] loses the place of its thread, so that another
//! thread can run what waits; when it returns, its thread takes a free place or ends. A monitor thread, which runs no
//! callbacks, looks for such callbacks.

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

use crate::contained::drop_handler;
use crate::listener::Listener;
use crate::{clock, own_code};

/// How long a callback may run before its thread loses its place.
const LONG: Duration = Duration::from_secs(1);

/// How often callbacks that run for that long are looked for.
const CHECK: Duration = Duration::from_millis(100);

/// How long a turn may go on while others wait for a thread.
const TURN: Duration = Duration::from_millis(5);

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// How long to wait after the system has refused a thread.
const RETRY: Duration = Duration::from_secs(1);

/// The number of base threads, unless the machine has more than a quarter as many processors.
const BASE: usize = 64;

/// The number of threads in all, stuck ones included.
const MAXIMUM: usize = 4096;

/// The state of the threads that run callbacks which may block, read at one moment.
///
/// There is one pool of them for the process; see [`HandlerBuilder::add`](crate::HandlerBuilder::add).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadMetrics {
    /// How many turns may run at once while no thread is stuck: 64, or four for each processor if that is more, unless
    /// it was [set](set_base_threads).
    pub base: usize,
    /// How many threads there may be in all: 4,096. When that many are stuck, blocking handlers wait until one
    /// returns, and a warning is logged.
    pub maximum: usize,
    /// How many threads there are, stuck and idle ones included. The monitor, one more thread, is not counted.
    pub threads: usize,
    /// How many of them run a turn of a handler, stuck ones included.
    pub running: usize,
    /// How many of them have been in one callback for longer than 1 second. They do not count against `base`.
    pub stuck: usize,
    /// How many turns wait for a thread: at most one for each handler.
    pub waiting: usize,
}

/// The state of the threads that run callbacks which may block.
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

/// Sets how many turns of blocking handlers may run at once, for the whole process. No more than the
/// [maximum](ThreadMetrics::maximum) take effect. Threads that are already there end when they have nothing to do.
pub fn set_base_threads(threads: NonZero<usize>) {
    Pool::get().base.store(threads.get().min(MAXIMUM), Ordering::Relaxed);
}

type Job = Box<dyn FnOnce(&mut Turn<'_>) + Send>;

struct Pool {
    base: AtomicUsize,
    /// How many turns wait, as in the state, for those who run one.
    waiting: AtomicUsize,
    state: Mutex<State>,
    work: Condvar,
    /// Wakes the monitor, which otherwise looks now and then.
    check: Condvar,
}

#[derive(Default)]
struct State {
    /// By ticket, so in the order in which they came.
    waiting: BTreeMap<u64, Job>,
    /// By thread.
    running: BTreeMap<u64, Running>,
    next_id: u64,
    threads: usize,
    /// How many of the threads are about to begin.
    starting: usize,
    /// How many of the threads wait for work.
    idle: usize,
    /// How many of the threads have lost their place.
    stuck: usize,
    monitored: bool,
    /// Whether it was reported that there can be no more threads.
    full: bool,
}

struct Running {
    thread: Arc<Thread>,
    /// The number of steps at the last check, and since when it is the same.
    seen: Option<(u64, Instant)>,
}

/// What a running turn and the monitor share.
#[derive(Default)]
struct Thread {
    /// How many steps its turns have made. Only the thread writes it.
    steps: AtomicU64,
    stuck: AtomicBool,
}

/// Why there are no more threads.
enum Full {
    Maximum,
    Refused(std::io::Error),
}

/// A turn on a thread of the pool: some steps, each of which runs at most one callback.
pub(crate) struct Turn<'p> {
    on: Option<(&'p Pool, &'p Thread)>,
    /// Since when others wait for a thread.
    wanted: Option<Instant>,
}

impl Turn<'_> {
    /// A step was made. Says whether there may be another one.
    pub(crate) fn goes_on(&mut self) -> bool {
        let Some((pool, thread)) = self.on else { return false };
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

/// Runs a turn of a listener's handler on a thread of the pool, within the context of the runtime. If the listener
/// stops before there is a thread for it, the turn is run at once and here, in order to give back what it holds: it
/// has to look first.
///
/// Dropped while the turn runs, it leaves the turn to itself; what that returns is dropped on its thread.
pub(crate) async fn run<R: Send + 'static>(
    listener: &Arc<Listener>,
    runtime: &Handle,
    turn: impl FnOnce(&mut Turn<'_>) -> R + Send + 'static,
) -> Option<R> {
    let (sender, mut returned) = oneshot::channel();
    let clock = clock::hold_if_paused();
    let (own, context) = (listener.clone(), runtime.clone());
    listener.waits_for_thread.store(true, Ordering::Relaxed);
    let job = move |on: &mut Turn<'_>| {
        let _context = context.enter();
        let _own = own_code::enter(&own);
        own.waits_for_thread.store(false, Ordering::Relaxed);
        let result = turn(on);
        if let Err(result) = sender.send(result) {
            drop(result);
        }
        drop(clock);
    };
    let pool = Pool::get();
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
            () = async { tokio::time::sleep(RETRY).await }, if !served => served = pool.grow(pool.state.lock()),
        }
    }
}

/// A turn that was submitted. Dropped before that has returned, it ends the listener: the task that goes on with it is
/// gone.
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
    /// Whether one more thread is needed and may be had.
    fn wants_thread(&self, base: usize) -> Result<bool, Full> {
        let places = base.max(self.stuck);
        let wanted = self.waiting.len() > self.idle + self.starting && self.threads - self.stuck < places;
        if wanted && self.threads >= MAXIMUM { Err(Full::Maximum) } else { Ok(wanted) }
    }
}

impl Pool {
    fn get() -> &'static Self {
        static POOL: OnceLock<Pool> = OnceLock::new();
        POOL.get_or_init(|| {
            let processors = thread::available_parallelism().map_or(1, NonZero::get);
            Self {
                base: AtomicUsize::new(BASE.max(4 * processors).min(MAXIMUM)),
                waiting: AtomicUsize::new(0),
                state: Mutex::default(),
                work: Condvar::new(),
                check: Condvar::new(),
            }
        })
    }

    /// As [`Self::grow`] as well.
    fn submit(&'static self, job: Job) -> (u64, bool) {
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.waiting.insert(id, job);
        self.waiting.store(state.waiting.len(), Ordering::Relaxed);
        if state.idle > 0 {
            self.work.notify_one();
        }
        (id, self.grow(state))
    }

    /// Starts the threads that are needed. False if nothing would run what waits, and it has to be tried again.
    fn grow(&'static self, mut state: MutexGuard<'_, State>) -> bool {
        if !state.monitored {
            state.monitored = true;
            let begun = MutexGuard::unlocked(&mut state, || spawn("kinformer-monitor", || self.monitor()));
            state.monitored = begun.is_ok();
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
            let begun =
                MutexGuard::unlocked(&mut state, || spawn("kinformer-handler", move || self.work(id)));
            if let Err(error) = begun {
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
                "the maximum number of threads is in callbacks that have not returned; other blocking handlers wait",
            ),
            Some(Full::Refused(error)) if report => tracing::error!(
                %error, threads, stuck, waiting, "no thread for callbacks could be started; trying again",
            ),
            _ => {}
        }
        threads > 0
    }

    /// What each thread does.
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
                        tracing::error!(%error, "a turn of a handler panicked");
                    }
                });
                state.running.remove(&id);
                if thread.stuck.swap(false, Ordering::Relaxed) {
                    state.stuck -= 1;
                }
                let places = self.base.load(Ordering::Relaxed).max(state.stuck);
                if state.threads - state.stuck > places {
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

    /// Takes places away from callbacks that run for long, until there have been no turns for a while.
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
