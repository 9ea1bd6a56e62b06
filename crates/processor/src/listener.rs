//! The state of one handler, independent of the type of its objects.

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

/// The future that runs a handler until it ends.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The state of one handler, shared by its task, its registrations and its processor. Independent of the type of
/// objects.
///
/// Each counter has one writer, so it is updated with plain stores.
pub(crate) struct Listener {
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    pub(crate) resync_period: Option<Duration>,
    /// Whether the handler must stop: a flag to check, and a token to wait for.
    stopped: AtomicBool,
    pub(crate) stop: CancellationToken,
    /// Cancelled when nothing more is delivered.
    pub(crate) done: CancellationToken,
    /// Cancelled when the whole initial list has been processed.
    pub(crate) synced: CancellationToken,
    /// The task, until the processor starts it. It holds this listener in turn, until it is taken.
    task: Mutex<Option<Task>>,
    abort: OnceLock<AbortHandle>,
    abandoned: AtomicBool,
    undelivered: Arc<dyn Undelivered>,
    pub(crate) delivered: AtomicU64,
    pub(crate) panics: AtomicU64,
    /// The number of events that its filter rejected.
    filtered: AtomicU64,
    /// Whether a callback may be running.
    pub(crate) busy: AtomicBool,
    /// Whether it has events and waits for a thread.
    pub(crate) waits_for_thread: AtomicBool,
    /// The time of publication of the current event: a [`Moment`], or 0 for none.
    since: AtomicU64,
    epoch: Instant,
    /// The number of undelivered events at its removal.
    depth_at_removal: AtomicUsize,
    /// Its progress at the last check of the watchdog.
    seen: AtomicU64,
    reported: AtomicBool,
}

/// The parts of a new listener.
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
            depth_at_removal: AtomicUsize::new(0),
            seen: AtomicU64::new(0),
            reported: AtomicBool::new(false),
        }
    }

    /// Sets the task of the handler.
    pub(crate) fn set_task(&self, task: Option<Task>) {
        *self.task.lock() = task;
    }

    /// Takes the task of the handler, in order to start or drop it.
    pub(crate) fn take_task(&self) -> Option<Task> {
        self.task.lock().take()
    }

    /// Returns whether its task was started and has not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.task.lock().is_none() && !self.done.is_cancelled()
    }

    /// Removes the handler, and drops its task if that was not started.
    pub(crate) fn discard(&self) {
        self.remove();
        drop_handler(&self.name, self.take_task());
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Records the time of publication of the current event.
    pub(crate) fn begin_event(&self, published: Moment) {
        self.since.store(published.nanos(), Ordering::Relaxed);
    }

    /// Records that there is no undelivered event.
    pub(crate) fn set_idle(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// Counts a delivered event. Only the listener's own task calls this.
    pub(crate) fn count_delivered(&self) {
        self.delivered.store(self.delivered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts an event that the filter rejected. Only the listener's own task calls this.
    pub(crate) fn count_filtered(&self) {
        self.filtered.store(self.filtered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns the number of undelivered events; 0 after its removal.
    pub(crate) fn depth(&self) -> usize {
        if self.is_stopped() { 0 } else { self.undelivered.depth() }
    }

    /// Returns the number of undelivered events at its removal.
    pub(crate) fn depth_at_removal(&self) -> usize {
        self.depth_at_removal.load(Ordering::Relaxed)
    }

    /// Returns the number of events that may be published before it makes the publisher wait; `None` if it never does.
    pub(crate) fn room(&self) -> Option<usize> {
        if self.is_stopped() { None } else { self.undelivered.room() }
    }

    /// Sets the handle of its task, for [`Self::abandon`].
    pub(crate) fn set_abort_handle(&self, task: AbortHandle) {
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

    /// Returns `true`, once for each callback, if a callback has not returned since the last check.
    pub(crate) fn check_stuck(&self) -> bool {
        let progress = [&self.delivered, &self.panics, &self.filtered];
        let progress = progress.into_iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
        // One more than the count, so that 0 represents a check between callbacks.
        let now = if self.busy.load(Ordering::Relaxed) { progress + 1 } else { 0 };
        let stuck = self.seen.swap(now, Ordering::Relaxed) == now && now > 0;
        !self.reported.swap(stuck, Ordering::Relaxed) && stuck
    }

    /// Returns whether a callback may be running now or soon.
    pub(crate) fn has_work(&self) -> bool {
        self.depth() > 0 || self.busy.load(Ordering::Relaxed)
    }

    /// Stops the handler: nothing more is delivered, and undelivered events are dropped at once, even while a callback
    /// runs. Returns `false` if it was stopped before.
    pub(crate) fn remove(&self) -> bool {
        if !self.is_stopped() {
            self.depth_at_removal.store(self.undelivered.depth(), Ordering::Relaxed);
        }
        let first = !self.stopped.swap(true, Ordering::AcqRel);
        if first {
            self.undelivered.release();
            self.stop.cancel();
        }
        first
    }
}

/// The metrics of one handler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerMetrics {
    /// The name of the handler.
    pub name: Arc<str>,
    /// The number of undelivered events. With [`Buffer::Coalesced`](crate::Buffer::Coalesced): the number of undelivered
    /// keys, plus the events that are not coalesced yet; a key of the initial list that has changed before the end of
    /// that list may count twice. 0 after the removal of the handler, which drops its backlog.
    pub depth: usize,
    /// The time since the publication of the current event, or of the last event before a pause. Zero if the handler is
    /// idle.
    pub lag: Duration,
    /// The number of delivered events.
    pub delivered: u64,
    /// The number of panics.
    pub panics: u64,
    /// Whether the handler has processed the whole initial list.
    pub synced: bool,
    /// Whether the handler has been in one callback for longer than 30 seconds.
    pub stuck: bool,
    /// Whether the handler was removed or its processor has stopped. Such a handler is listed until its callback has
    /// returned.
    pub removed: bool,
    /// Whether the handler has undelivered events and waits for a [thread](crate::ThreadMetrics).
    pub waiting_for_thread: bool,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
