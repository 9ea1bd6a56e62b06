//! What is known of one handler, whatever the type of its objects.

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a handler and the one who registered it share. One side writes each of the counters, so they are
/// plain stores.
pub(crate) struct Listener {
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    /// With how many events behind it holds the publisher up.
    pub(crate) bound: Option<usize>,
    pub(crate) resync_period: Option<Duration>,
    /// It is to stop: for those who look, and for those who wait.
    stopped: AtomicBool,
    pub(crate) stop: CancellationToken,
    /// It delivers nothing any more.
    pub(crate) done: CancellationToken,
    /// It has finished the initial list.
    pub(crate) synced: CancellationToken,
    pub(crate) abort: OnceLock<AbortHandle>,
    /// Up to where the log has been read.
    pub(crate) read: AtomicU64,
    /// The end of the log.
    pub(crate) published: Arc<AtomicU64>,
    /// How much of the initial list is still to be told.
    pub(crate) initial: AtomicUsize,
    /// How many keys wait, where events are coalesced.
    pub(crate) pending: AtomicUsize,
    pub(crate) delivered: AtomicU64,
    pub(crate) panics: AtomicU64,
    /// Whether a callback is running, or may be.
    pub(crate) busy: AtomicBool,
    /// When what is being told was published, in nanoseconds since `epoch`; 0 when nothing is.
    since: AtomicU64,
    epoch: Instant,
    /// Told when a publisher that is being held up may look again.
    space: Arc<Notify>,
    /// Progress at the last look of the watchdog.
    seen: AtomicU64,
    reported: AtomicBool,
}

/// What there is to know when a listener is made.
pub(crate) struct NewListener {
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    pub(crate) bound: Option<usize>,
    pub(crate) resync_period: Option<Duration>,
    pub(crate) published: Arc<AtomicU64>,
    pub(crate) epoch: Instant,
    pub(crate) space: Arc<Notify>,
}

impl Listener {
    pub(crate) fn new(new: NewListener) -> Self {
        let NewListener { id, name, bound, resync_period, published, epoch, space } = new;
        Self {
            id,
            name,
            bound,
            resync_period,
            stopped: AtomicBool::new(false),
            stop: CancellationToken::new(),
            done: CancellationToken::new(),
            synced: CancellationToken::new(),
            abort: OnceLock::new(),
            read: AtomicU64::new(published.load(Ordering::Acquire)),
            published,
            initial: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            delivered: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            since: AtomicU64::new(0),
            epoch,
            space,
            seen: AtomicU64::new(0),
            reported: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// The log has been read up to this position.
    pub(crate) fn has_read(&self, position: u64) {
        self.read.store(position, Ordering::Release);
        if self.bound.is_some() {
            self.space.notify_one();
        }
    }

    /// What is being told now was published then; `None` when there is nothing to tell.
    pub(crate) fn telling(&self, published: Option<Instant>) {
        let since = published.map_or(0, |at| at.saturating_duration_since(self.epoch).as_nanos() as u64 + 1);
        self.since.store(since, Ordering::Relaxed);
    }

    /// One more event was told. Only the listener's own task says so.
    pub(crate) fn has_told(&self) {
        self.delivered.store(self.delivered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn depth(&self) -> usize {
        let read = self.read.load(Ordering::Acquire);
        let behind = self.published.load(Ordering::Acquire).saturating_sub(read);
        behind as usize + self.initial.load(Ordering::Relaxed) + self.pending.load(Ordering::Relaxed)
    }

    /// Whether a publisher need not wait for it.
    pub(crate) fn has_room(&self) -> bool {
        self.bound.is_none_or(|bound| self.is_stopped() || self.depth() < bound)
    }

    pub(crate) fn stats(&self) -> HandlerStats {
        let depth = self.depth();
        let lag = match self.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.epoch.elapsed().saturating_sub(Duration::from_nanos(since - 1)),
        };
        HandlerStats {
            name: self.name.clone(),
            depth,
            lag,
            delivered: self.delivered.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            synced: self.synced.is_cancelled(),
            stuck: self.reported.load(Ordering::Relaxed),
        }
    }

    /// To be asked now and then: says once for each callback that takes longer than the time between two looks.
    pub(crate) fn watch(&self, every: Duration) {
        let progress = self.delivered.load(Ordering::Relaxed) + self.panics.load(Ordering::Relaxed);
        // One more than the count, so that nothing was seen before the first look.
        let stands = self.seen.swap(progress + 1, Ordering::Relaxed) == progress + 1
            && self.busy.load(Ordering::Relaxed);
        if !stands {
            self.reported.store(false, Ordering::Relaxed);
        } else if !self.reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                handler = %self.name, depth = self.depth(), at_least = ?every,
                "a handler has not returned from an event; its events are waiting",
            );
        }
    }

    /// Nothing more is to be told.
    pub(crate) fn remove(&self) {
        self.stopped.store(true, Ordering::Release);
        self.stop.cancel();
        self.space.notify_one();
    }
}

/// Marks the end of a listener, whichever way it comes.
pub(crate) struct DoneGuard(pub(crate) Arc<Listener>);

impl Drop for DoneGuard {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Relaxed);
        self.0.done.cancel();
        self.0.remove();
    }
}

/// How one handler is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerStats {
    /// The name it was registered with.
    pub name: Arc<str>,
    /// How many events it has not been told yet. Those that are of no concern to it (resyncs for which it is
    /// not due) are counted until it gets there. Of a handler that coalesces: how many keys are waiting.
    pub depth: usize,
    /// How long ago the event that it is being told, or is told next, was published. Zero when it is idle.
    pub lag: Duration,
    /// How many events it has been told.
    pub delivered: u64,
    /// How many times it has panicked.
    pub panics: u64,
    /// Whether it has finished the initial list.
    pub synced: bool,
    /// Whether it has been in one callback for longer than 30 seconds.
    pub stuck: bool,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
