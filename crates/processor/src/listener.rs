//! One handler, whatever the type of its objects.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::contained::drop_handler;
use crate::undelivered::Undelivered;

/// What runs a handler, until it ends.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One handler, whatever the type of its objects: what its task, its registrations and its processor share.
///
/// One side writes each of the counters, so they are plain stores.
pub(crate) struct Listener {
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    pub(crate) resync_period: Option<Duration>,
    /// It is to stop: a flag to check, and a token to wait for.
    stopped: AtomicBool,
    pub(crate) stop: CancellationToken,
    /// It delivers nothing any more.
    pub(crate) done: CancellationToken,
    /// It has processed the whole initial list.
    pub(crate) synced: CancellationToken,
    /// What runs it, until its processor runs. It holds the listener in turn, until it is taken out.
    task: Mutex<Option<Task>>,
    abort: OnceLock<AbortHandle>,
    abandoned: AtomicBool,
    undelivered: Arc<dyn Undelivered>,
    pub(crate) delivered: AtomicU64,
    pub(crate) panics: AtomicU64,
    /// How many events its filter has held back.
    filtered: AtomicU64,
    /// Whether a callback is running, or may be.
    pub(crate) busy: AtomicBool,
    /// Whether it has events and waits for a thread.
    pub(crate) waits_for_thread: AtomicBool,
    /// When the event that is being delivered was published: a [`Moment`], or 0 for none.
    since: AtomicU64,
    epoch: Instant,
    /// How many events were undelivered when it was removed.
    left: AtomicUsize,
    /// Progress at the last check of the watchdog.
    seen: AtomicU64,
    reported: AtomicBool,
}

/// What a listener is made of.
pub(crate) struct NewListener {
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    pub(crate) resync_period: Option<Duration>,
    pub(crate) stop: CancellationToken,
    pub(crate) undelivered: Arc<dyn Undelivered>,
    pub(crate) epoch: Instant,
}

impl Listener {
    pub(crate) fn new(new: NewListener) -> Self {
        let NewListener { id, name, resync_period, stop, undelivered, epoch } = new;
        Self {
            id,
            name,
            resync_period,
            stopped: AtomicBool::new(false),
            stop,
            done: CancellationToken::new(),
            synced: CancellationToken::new(),
            task: Mutex::new(None),
            abort: OnceLock::new(),
            abandoned: AtomicBool::new(false),
            undelivered,
            delivered: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            waits_for_thread: AtomicBool::new(false),
            since: AtomicU64::new(0),
            epoch,
            left: AtomicUsize::new(0),
            seen: AtomicU64::new(0),
            reported: AtomicBool::new(false),
        }
    }

    /// Sets what runs it.
    pub(crate) fn will_run(&self, task: Option<Task>) {
        *self.task.lock() = task;
    }

    /// What runs it, to be run now.
    pub(crate) fn take_task(&self) -> Option<Task> {
        self.task.lock().take()
    }

    /// Whether its task runs, or is about to.
    pub(crate) fn is_running(&self) -> bool {
        self.task.lock().is_none() && !self.done.is_cancelled()
    }

    /// Ends it, if it has not run.
    pub(crate) fn discard(&self) {
        self.remove();
        drop_handler(&self.name, self.take_task());
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// An event is being delivered, which was published then.
    pub(crate) fn delivers(&self, published: Moment) {
        self.since.store(published.nanos(), Ordering::Relaxed);
    }

    /// No event waits.
    pub(crate) fn is_idle(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// One more event was delivered. Only the listener's own task calls this.
    pub(crate) fn has_delivered(&self) {
        self.delivered.store(self.delivered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// One more event was held back by the filter. Only the listener's own task calls this.
    pub(crate) fn has_filtered(&self) {
        self.filtered.store(self.filtered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How many events are undelivered: 0 once it was removed.
    pub(crate) fn depth(&self) -> usize {
        if self.is_stopped() { 0 } else { self.undelivered.depth() }
    }

    /// How many events were undelivered when it was removed.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// How many more events may be published before it makes the publisher wait; `None` if it does not.
    pub(crate) fn room(&self) -> Option<usize> {
        if self.is_stopped() { None } else { self.undelivered.room() }
    }

    /// The handle of its task, for [`Self::abandon`].
    pub(crate) fn runs_as(&self, task: AbortHandle) {
        let task = self.abort.get_or_init(|| task);
        if self.abandoned.load(Ordering::SeqCst) {
            task.abort();
        }
    }

    /// Drops its task at its await point.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        if let Some(task) = self.abort.get() {
            task.abort();
        }
    }

    pub(crate) fn metrics(&self) -> HandlerMetrics {
        let depth = self.depth();
        let lag = match self.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_nanos(Moment::now(self.epoch).nanos().saturating_sub(since)),
        };
        HandlerMetrics {
            name: self.name.clone(),
            depth,
            lag,
            delivered: self.delivered.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            synced: self.synced.is_cancelled(),
            stuck: self.reported.load(Ordering::Relaxed),
            removed: self.is_stopped(),
            waiting_for_thread: self.waits_for_thread.load(Ordering::Relaxed),
        }
    }

    /// Whether a callback has not returned since the last check; true once for each such callback.
    pub(crate) fn check_stuck(&self) -> bool {
        let progress = [&self.delivered, &self.panics, &self.filtered];
        let progress = progress.into_iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
        // One more than the count, so that 0 stands for a check between callbacks.
        let now = if self.busy.load(Ordering::Relaxed) { progress + 1 } else { 0 };
        let stuck = self.seen.swap(now, Ordering::Relaxed) == now && now > 0;
        !self.reported.swap(stuck, Ordering::Relaxed) && stuck
    }

    /// Whether it may be in a callback, now or soon.
    pub(crate) fn has_work(&self) -> bool {
        self.depth() > 0 || self.busy.load(Ordering::Relaxed)
    }

    /// Stops it: nothing more is delivered, and what is undelivered is dropped, whatever the handler does. Returns whether
    /// it had not been removed before.
    pub(crate) fn remove(&self) -> bool {
        if !self.is_stopped() {
            self.left.store(self.undelivered.depth(), Ordering::Relaxed);
        }
        let first = !self.stopped.swap(true, Ordering::AcqRel);
        if first {
            self.undelivered.release();
            self.stop.cancel();
        }
        first
    }
}

/// The statistics of one handler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerMetrics {
    /// The name it was registered with.
    pub name: Arc<str>,
    /// How many events are undelivered. Resyncs for other handlers are counted until this one has skipped them. Of a
    /// handler that coalesces: the keys that wait, and the events that have not been coalesced yet. 0 once it was removed,
    /// since its backlog was dropped.
    pub depth: usize,
    /// How long ago the event that is being delivered, or was delivered last before a pause, was published. Zero when
    /// the handler is idle.
    pub lag: Duration,
    /// How many events were delivered.
    pub delivered: u64,
    /// How many times it has panicked.
    pub panics: u64,
    /// Whether it has processed the whole initial list.
    pub synced: bool,
    /// Whether it has been in one callback for longer than 30 seconds.
    pub stuck: bool,
    /// Whether it was removed, or its processor has stopped. Such a handler is listed until its callback has returned.
    pub removed: bool,
    /// Whether it blocks, has undelivered events, and waits for a [thread](crate::ThreadMetrics).
    pub waiting_for_thread: bool,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
