//! What is known of one handler, whatever the type of its objects.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::registration::Owner;

/// A moment in the life of a processor.
#[derive(Clone, Copy)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Nanoseconds and one more, so that 0 is no moment.
    pub(crate) fn now(epoch: Instant) -> Self {
        Self(epoch.elapsed().as_nanos() as u64 + 1)
    }
}

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
    abort: OnceLock<AbortHandle>,
    abandoned: AtomicBool,
    pub(crate) owner: Weak<dyn Owner>,
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
    /// How many events its filter has held back.
    held_back: AtomicU64,
    /// Whether a callback is running, or may be.
    pub(crate) busy: AtomicBool,
    /// Whether it has something to do and no thread to do it on.
    pub(crate) waits_for_thread: AtomicBool,
    /// When what is being told was published: a [`Moment`], or 0 when nothing is.
    since: AtomicU64,
    epoch: Instant,
    /// Told when a publisher that is being held up may look again.
    space: Arc<Notify>,
    /// What waits for it, to be dropped when it is removed.
    undelivered: Mutex<SmallVec<[Weak<dyn Undelivered>; 2]>>,
    /// How much waited when it was removed.
    left: AtomicUsize,
    /// Progress at the last look of the watchdog.
    seen: AtomicU64,
    reported: AtomicBool,
}

/// What waits for a listener.
pub(crate) trait Undelivered: Send + Sync {
    /// Drops it, and keeps nothing from now on. The listener has been stopped.
    fn release(&self);
}

/// What there is to know when a listener is made.
pub(crate) struct NewListener {
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    pub(crate) bound: Option<usize>,
    pub(crate) resync_period: Option<Duration>,
    pub(crate) read: u64,
    pub(crate) published: Arc<AtomicU64>,
    pub(crate) epoch: Instant,
    pub(crate) space: Arc<Notify>,
    pub(crate) owner: Weak<dyn Owner>,
}

impl Listener {
    pub(crate) fn new(new: NewListener) -> Self {
        let NewListener { id, name, bound, resync_period, read, published, epoch, space, owner } = new;
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
            abandoned: AtomicBool::new(false),
            owner,
            read: AtomicU64::new(read),
            published,
            initial: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            delivered: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            held_back: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            waits_for_thread: AtomicBool::new(false),
            since: AtomicU64::new(0),
            epoch,
            space,
            undelivered: Mutex::default(),
            left: AtomicUsize::new(0),
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
            self.space.notify_waiters();
        }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::now(self.epoch)
    }

    /// What is being told now was published then.
    pub(crate) fn telling(&self, published: Moment) {
        self.since.store(published.0, Ordering::Relaxed);
    }

    /// There is nothing to tell.
    pub(crate) fn is_idle(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// One more event was told. Only the listener's own task says so.
    pub(crate) fn has_told(&self) {
        self.delivered.store(self.delivered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// One more event was held back by the filter. Only the listener's own task says so.
    pub(crate) fn has_held_back(&self) {
        self.held_back.store(self.held_back.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How much of the log it has not read.
    fn behind(&self) -> usize {
        let read = self.read.load(Ordering::Acquire);
        self.published.load(Ordering::Acquire).saturating_sub(read) as usize
    }

    /// How much waits for it: nothing once it was removed.
    pub(crate) fn depth(&self) -> usize {
        if self.is_stopped() { 0 } else { self.waiting() }
    }

    /// How much was left when it was removed.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> usize {
        self.behind() + self.initial.load(Ordering::Relaxed) + self.pending.load(Ordering::Relaxed)
    }

    /// How much may be published before it holds the publisher up, if it does at all. The initial list does not
    /// count: it is no news.
    pub(crate) fn room(&self) -> Option<usize> {
        let bound = self.bound.filter(|_| !self.is_stopped())?;
        Some(bound.saturating_sub(self.behind()))
    }

    /// Its task can be abandoned by this from now on.
    pub(crate) fn runs_as(&self, task: AbortHandle) {
        let task = self.abort.get_or_init(|| task);
        if self.abandoned.load(Ordering::SeqCst) {
            task.abort();
        }
    }

    /// Drops its task where that waits.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        if let Some(task) = self.abort.get() {
            task.abort();
        }
    }

    pub(crate) fn stats(&self) -> HandlerStats {
        let depth = self.depth();
        let lag = match self.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_nanos(self.now().0.saturating_sub(since)),
        };
        HandlerStats {
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

    /// To be asked now and then: true once for each callback that takes longer than the time between two looks.
    pub(crate) fn watch(&self) -> bool {
        let progress = [&self.delivered, &self.panics, &self.held_back];
        let progress = progress.into_iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
        // One more than the count, so that 0 stands for a look at a pause.
        let now = if self.busy.load(Ordering::Relaxed) { progress + 1 } else { 0 };
        let stands = self.seen.swap(now, Ordering::Relaxed) == now && now > 0;
        !self.reported.swap(stands, Ordering::Relaxed) && stands
    }

    /// This is to be dropped when it is removed.
    pub(crate) fn holds<U: Undelivered + 'static>(&self, undelivered: &Arc<U>) {
        let undelivered: Weak<U> = Arc::downgrade(undelivered);
        self.undelivered.lock().push(undelivered);
    }

    /// Nothing more is to be told, and nothing waits any more, whatever the handler is at. Says whether that is new.
    pub(crate) fn remove(&self) -> bool {
        if !self.is_stopped() {
            self.left.store(self.waiting(), Ordering::Relaxed);
        }
        let first = !self.stopped.swap(true, Ordering::AcqRel);
        if first {
            let undelivered = std::mem::take(&mut *self.undelivered.lock());
            undelivered.iter().filter_map(Weak::upgrade).for_each(|undelivered| undelivered.release());
            self.stop.cancel();
            self.space.notify_waiters();
        }
        first
    }

    /// Takes it off the list of its processor, once nothing of it runs.
    pub(crate) fn forget(&self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.forget(self.id);
        }
    }
}

/// Marks the end of a listener, whichever way it comes.
pub(crate) struct DoneGuard(pub(crate) Arc<Listener>);

impl Drop for DoneGuard {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Relaxed);
        self.0.done.cancel();
        self.0.remove();
        self.0.forget();
    }
}

/// How one handler is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerStats {
    /// The name it was registered with.
    pub name: Arc<str>,
    /// How many events it has not been told yet. Those that are of no concern to it (resyncs for which it is
    /// not due) are counted until it gets there. Of a handler that coalesces: how many keys are waiting. 0 once it was
    /// removed: what waited was dropped.
    pub depth: usize,
    /// How long ago the event that it is being told, or was told last before a pause, was published. Zero when it
    /// is idle.
    pub lag: Duration,
    /// How many events it has been told.
    pub delivered: u64,
    /// How many times it has panicked.
    pub panics: u64,
    /// Whether it has finished the initial list.
    pub synced: bool,
    /// Whether it has been in one callback for longer than 30 seconds.
    pub stuck: bool,
    /// Whether it was removed, or its processor has stopped. Such a handler is listed until its callback has
    /// returned; nothing waits for it any more.
    pub removed: bool,
    /// Whether it blocks, has events to receive, and waits for a [thread](crate::ThreadMetrics).
    pub waiting_for_thread: bool,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
