//! The processor: who publishes, who listens, who runs it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kinformer_core::{Change, Object};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::back_pressure::BackPressure;
use crate::builder::{HandlerBuilder, Task};
use crate::event::Notification;
use crate::inbox::{Batch, Inbox};
use crate::listener::{HandlerStats, Listener, Moment, NewListener};
use crate::log::Log;
use crate::members::{Members, Phase};
use crate::registration::{Owner, Registration};
use crate::resync::Schedule;
use crate::run::discard;
use crate::{DueHandlers, Error, EventHandler, EventStream};

/// How often handlers that do not return are looked for.
const WATCHDOG: Duration = Duration::from_secs(30);

/// How long tasks that were abandoned may take to end: only those that block a thread do not end at once.
const ABANDONED: Duration = Duration::from_secs(1);

/// How many events are sent at once while handlers may hold the sender up.
const SENT_AT_ONCE: usize = 64;

/// What a handler that joins is to be told first: everything there is.
#[must_use]
pub struct State<T> {
    pub(crate) revision: u64,
    pub(crate) objects: Box<dyn ExactSizeIterator<Item = Arc<T>> + Send>,
}

impl<T> State<T> {
    /// A state by its revision: it has in it whatever was [published at](SharedProcessor::publish_at) this
    /// revision or one before. The objects are taken one by one while the handler is told of them.
    pub fn new(revision: u64, objects: impl ExactSizeIterator<Item = Arc<T>> + Send + 'static) -> Self {
        Self { revision, objects: Box::new(objects) }
    }
}

impl<T> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("revision", &self.revision)
            .field("objects", &self.objects.len())
            .finish()
    }
}

/// Publishes events to any number of handlers, each of which goes at its own pace.
///
/// Cheap to clone; all clones are the same processor. See the crate's documentation.
///
/// Follows client-go 1.37 (`sharedProcessor`).
pub struct SharedProcessor<T> {
    pub(crate) inner: Arc<Inner<T>>,
}

/// Puts a [`SharedProcessor`] together.
#[must_use = "nothing is built yet"]
pub struct SharedProcessorBuilder<T> {
    name: Arc<str>,
    state: Option<Box<Look<T>>>,
    resync: Duration,
    grace: Duration,
}

type Look<T> = dyn Fn() -> State<T> + Send + Sync;

pub(crate) struct Inner<T> {
    name: Arc<str>,
    log: Arc<Log<Batch<T>>>,
    /// How many notifications have been published. Written under the log's lock.
    published: Arc<AtomicU64>,
    /// Whether the end of the initial list has been published. Written under the log's lock.
    synced: AtomicBool,
    members: Members<Member>,
    state: Option<Box<Look<T>>>,
    schedule: Mutex<Schedule>,
    /// Whether the schedule has handlers that are due. Written under its lock.
    due: AtomicBool,
    space: Arc<Notify>,
    back_pressure: BackPressure,
    next_id: AtomicU64,
    grace: Duration,
    epoch: Instant,
    /// Where to run handlers. There from the start on.
    running: Mutex<Option<Running>>,
}

#[derive(Clone)]
struct Running {
    runtime: Handle,
    tasks: TaskTracker,
}

/// A listener, and what is to be run for it until that runs.
struct Member {
    listener: Arc<Listener>,
    task: Option<Task>,
}

impl Running {
    /// Not under the lock of the members: a runtime that ends drops the task here, and the handler with it.
    fn spawn(&self, listener: &Listener, task: Task) {
        listener.runs_as(self.tasks.spawn_on(task, &self.runtime).abort_handle());
    }
}

impl Member {
    /// Whether something runs for it, or is about to.
    fn is_running(&self) -> bool {
        self.task.is_none() && !self.listener.done.is_cancelled()
    }

    /// Ends it without having run.
    fn discard(self) {
        let Self { listener, task } = self;
        listener.remove();
        discard(&listener.name, task);
    }
}

impl<T: Object> SharedProcessorBuilder<T> {
    /// Where a handler that joins gets its initial list from. Called once for each of them, without a lock.
    ///
    /// It has to have in it all that was published before it is called, and its revision has to say what else.
    /// Without it there are no initial lists.
    pub fn state(mut self, look: impl Fn() -> State<T> + Send + Sync + 'static) -> Self {
        self.state = Some(Box::new(look));
        self
    }

    /// The period of resyncs for handlers that do not name one. Zero, the default, means never, and so does
    /// [`Duration::MAX`].
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// How long handlers may take to return from their last event at the end, 10 seconds by default; any time with
    /// [`Duration::MAX`].
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Builds the processor.
    pub fn build(self) -> SharedProcessor<T> {
        let Self { name, state, resync, grace } = self;
        let inner = Inner {
            name,
            log: Arc::new(Log::new()),
            published: Arc::default(),
            synced: AtomicBool::new(false),
            members: Members::new(),
            state,
            schedule: Mutex::new(Schedule::new(resync)),
            due: AtomicBool::new(false),
            space: Arc::default(),
            back_pressure: BackPressure::new(),
            next_id: AtomicU64::new(0),
            grace,
            epoch: Instant::now(),
            running: Mutex::new(None),
        };
        SharedProcessor { inner: Arc::new(inner) }
    }
}

impl<T: Object> SharedProcessor<T> {
    /// A processor with the defaults. The name is for messages.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self::builder(name).build()
    }

    /// For a processor with an initial list, or other settings.
    pub fn builder(name: impl Into<Arc<str>>) -> SharedProcessorBuilder<T> {
        SharedProcessorBuilder {
            name: name.into(),
            state: None,
            resync: Duration::ZERO,
            grace: Duration::from_secs(10),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// A handler to be added, with what is particular about it.
    pub fn handler(&self) -> HandlerBuilder<'_, T> {
        HandlerBuilder::new(self)
    }

    /// Adds a handler as it is: see [`HandlerBuilder::add`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> Result<Registration, Error> {
        self.handler().add(handler)
    }

    /// The events as a stream: see [`HandlerBuilder::stream`].
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn stream(&self) -> Result<EventStream<T>, Error> {
        self.handler().stream()
    }

    /// Removes a handler of this processor: see [`Registration::remove`]. Says whether it was one of its own and
    /// not removed before; of any other nothing happens.
    pub async fn remove_handler(&self, registration: &Registration) -> bool {
        if !Weak::ptr_eq(&self.inner.as_owner(), &registration.listener.owner) {
            return false;
        }
        let was_there = registration.listener.remove();
        registration.remove().await;
        was_there
    }

    /// Publishes changes, in their order, without waiting for anyone.
    ///
    /// O(1) in the number of handlers. Only for processors without a [state](SharedProcessorBuilder::state):
    /// with one, handlers that join need to know what is in it.
    pub fn publish(&self, changes: impl IntoIterator<Item = Change<T>>) {
        self.inner.publish(None, None, false, changes);
    }

    /// As [`Self::publish`], for changes that the state has in it from this revision on. The state has to have them
    /// already; revisions may only rise.
    pub fn publish_at(&self, revision: u64, changes: impl IntoIterator<Item = Change<T>>) {
        self.inner.publish(Some(revision), None, false, changes);
    }

    /// As [`Self::publish_at`], and waits between events for handlers that hold it up
    /// ([`Buffer::BackPressure`](crate::Buffer::BackPressure)). Without such handlers it does not wait.
    ///
    /// Dropped while it waits, it has published the first part of them and the rest is lost. It ends when the
    /// processor stops.
    pub async fn send(&self, revision: u64, changes: impl IntoIterator<Item = Change<T>>) {
        self.send_to(None, revision, changes).await;
    }

    async fn send_to(
        &self,
        due: Option<DueHandlers>,
        revision: u64,
        changes: impl IntoIterator<Item = Change<T>>,
    ) {
        let inner = &self.inner;
        if self.room().is_none() {
            return inner.publish(Some(revision), due, false, changes);
        }
        let mut rest = changes.into_iter().collect::<Vec<_>>().into_iter();
        while rest.len() > 0 {
            let due = due.as_ref().map(DueHandlers::share);
            match self.room() {
                None => return inner.publish(Some(revision), due, false, rest),
                Some(0) => self.ready().await,
                Some(room) => {
                    let first = rest.by_ref().take(room.min(SENT_AT_ONCE));
                    inner.publish(Some(revision), due, false, first);
                }
            }
        }
    }

    /// Waits until no handler holds the publisher up. Cancel-safe; any number may wait.
    pub async fn ready(&self) {
        loop {
            let changed = self.inner.space.notified();
            if self.is_ready() {
                return;
            }
            changed.await;
        }
    }

    /// Whether no handler holds the publisher up.
    pub fn is_ready(&self) -> bool {
        self.room() != Some(0)
    }

    /// How much may be published before some handler holds the publisher up, if any ever does.
    fn room(&self) -> Option<usize> {
        self.inner.back_pressure.room()
    }

    /// The initial list ends here: a handler that has been told everything up to here has synced. Idempotent.
    pub fn publish_synced(&self) {
        if !self.has_synced() {
            self.inner.publish(None, None, true, []);
        }
    }

    /// Whether the end of the initial list was published.
    pub fn has_synced(&self) -> bool {
        self.inner.synced.load(Ordering::Acquire)
    }

    /// Checks which handlers are due for a resync, and says whether any is. A handler that was found due stays so, however
    /// often it is checked, until [`Self::take_due`] gives it out; one that was found due several times by then
    /// receives one resync.
    ///
    /// Follows client-go 1.37 (`shouldResync`), where the next check changes which handlers receive a resync that is
    /// still being delivered.
    pub fn should_resync(&self) -> bool {
        let mut schedule = self.inner.schedule.lock();
        let any = schedule.check();
        self.inner.due.store(any, Ordering::Release);
        any
    }

    /// The handlers that are due for a resync, if any is: they have to be given a resync
    /// ([`Self::send_resync`], [`Self::publish_resync`]). Its objects have to be looked up after this call.
    pub fn take_due(&self) -> Option<DueHandlers> {
        // The usual answer, without the lock.
        if !self.inner.due.load(Ordering::Acquire) {
            return None;
        }
        let mut schedule = self.inner.schedule.lock();
        self.inner.due.store(false, Ordering::Release);
        schedule.take_due()
    }

    /// Publishes a resync: each of these objects, as an update to the same state, to the handlers that are due and to no
    /// other. Each of them receives each object once, at its own pace. Does not wait.
    ///
    /// Only for processors without a [state](SharedProcessorBuilder::state), as [`Self::publish`].
    pub fn publish_resync(&self, due: DueHandlers, objects: impl IntoIterator<Item = Arc<T>>) {
        let unchanged = objects.into_iter().map(Change::unchanged);
        self.inner.publish(None, Some(due), false, unchanged);
    }

    /// As [`Self::publish_resync`], for the objects of the state at this revision, and waits as [`Self::send`] does.
    pub async fn send_resync(
        &self,
        due: DueHandlers,
        revision: u64,
        objects: impl IntoIterator<Item = Arc<T>>,
    ) {
        let unchanged = objects.into_iter().map(Change::unchanged);
        self.send_to(Some(due), revision, unchanged).await;
    }

    /// How often [`Self::should_resync`] is to be asked: the smallest period of any handler, or the default.
    /// It stays as it is from the start on.
    pub fn resync_check_period(&self) -> Option<Duration> {
        self.inner.schedule.lock().check_period()
    }

    /// How each handler is doing.
    pub fn stats(&self) -> Vec<HandlerStats> {
        self.inner.members.look(|members| members.values().map(|member| member.listener.stats()).collect())
    }

    /// Tells handlers what is published until the token is cancelled.
    ///
    /// Handlers run as tasks of their own on the runtime that this runs on; this future owns them. When it is
    /// cancelled every handler returns from the event it is in, and what was not told is dropped. Callbacks that
    /// take longer than the grace period are dropped where they wait. None of the tasks is left when this
    /// returns; only a thread that does not come back from a callback that blocks it cannot be ended. Dropping the
    /// future ends the tasks at once.
    ///
    /// # Errors
    /// [`Error::Running`] or [`Error::Stopped`] at once: a processor runs once. [`Error::Stuck`] at the end: these
    /// handlers did not return in time.
    pub async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        let inner = &*self.inner;
        let running = Running { runtime: Handle::current(), tasks: TaskTracker::new() };
        let begun = inner
            .members
            .start(|members| {
                inner.schedule.lock().start();
                *inner.running.lock() = Some(running.clone());
                let begin = |member: &mut Member| Some((member.listener.clone(), member.task.take()?));
                members.values_mut().filter_map(begin).collect::<Vec<_>>()
            })
            .map_err(|phase| match phase {
                Phase::Stopped => Error::Stopped { processor: inner.name.clone() },
                Phase::NotStarted | Phase::Running => Error::Running { processor: inner.name.clone() },
            })?;
        let ending = EndOnDrop { inner, listeners: Vec::new() };
        begun.into_iter().for_each(|(listener, task)| running.spawn(&listener, task));

        tokio::select! {
            () = cancel.cancelled() => {}
            () = inner.log.pump() => {}
            () = inner.watch() => {}
        }
        let ended = ending.end(&running.tasks).await;
        tracing::debug!(processor = %inner.name, ?ended, "processor stopped");
        ended
    }

    /// Ends a processor that nobody will run: handlers are dropped, streams end, and who waits for any of them is
    /// told. Says whether it was so; one that runs is left alone, and so is one that has stopped.
    pub fn discard(&self) -> bool {
        let Some(members) = self.inner.members.stop_unstarted() else { return false };
        members.into_iter().for_each(Member::discard);
        self.inner.log.close();
        true
    }

    /// Takes a handler in, or says why not.
    pub(crate) fn join(
        &self,
        name: Arc<str>,
        resync: Option<Duration>,
        bound: Option<usize>,
        task: impl FnOnce(Arc<Listener>, Inbox<T>) -> Option<Task>,
    ) -> Result<Registration, Error> {
        let inner = &self.inner;
        let stopped = || Error::Stopped { processor: inner.name.clone() };
        if inner.members.phase() == Phase::Stopped {
            discard(&name, task);
            return Err(stopped());
        }
        // The cursor first, and the state after it: what is published between the two is in both, and is told once
        // since its revision says so.
        let (cursor, (read, synced)) = inner
            .log
            .cursor(|| (inner.published.load(Ordering::Acquire), inner.synced.load(Ordering::Acquire)));
        let initial = inner.state.as_ref().map(|look| look());
        let id = inner.next_id.fetch_add(1, Ordering::Relaxed);
        let resync_period = inner.schedule.lock().add(id, resync);
        resync_period.log(&name);
        let listener = Arc::new(Listener::new(NewListener {
            id,
            name,
            bound,
            resync_period: resync_period.get(),
            read,
            published: inner.published.clone(),
            epoch: inner.epoch,
            space: inner.space.clone(),
            owner: inner.as_owner(),
        }));
        inner.back_pressure.add(&listener);
        let inbox = Inbox::new(listener.clone(), cursor, initial, synced);
        let task = task(listener.clone(), inbox);
        let mut begun = None;
        let joined = inner.members.join(id, Member { listener: listener.clone(), task }, |member, phase| {
            if phase == Phase::Running
                && let Some(running) = &*inner.running.lock()
                && let Some(task) = member.task.take()
            {
                // The token: should the end come before the task, it waits for it.
                begun = Some((running.clone(), running.tasks.token(), task));
            }
        });
        if let Err(late) = joined {
            inner.schedule.lock().remove(id);
            inner.back_pressure.remove(id);
            late.discard();
            return Err(stopped());
        }
        if let Some((running, _token, task)) = begun {
            running.spawn(&listener, task);
        }
        Ok(Registration { listener })
    }
}

impl<T: Object> Inner<T> {
    fn publish(
        &self,
        revision: Option<u64>,
        due: Option<DueHandlers>,
        synced: bool,
        changes: impl IntoIterator<Item = Change<T>>,
    ) {
        let at = |change: Change<T>| match revision {
            Some(revision) => Notification::of(change.at_revision(revision)),
            None => Notification::of(change),
        };
        let notifications: smallvec::SmallVec<[_; 1]> = changes.into_iter().filter_map(at).collect();
        if notifications.is_empty() && !synced {
            return;
        }
        let published = Moment::now(self.epoch);
        self.log.publish(|| {
            let first = self.published.load(Ordering::Relaxed);
            self.published.store(first + notifications.len() as u64, Ordering::Release);
            if synced {
                self.synced.store(true, Ordering::Release);
            }
            Batch { first, revision, notifications, due, synced, published }
        });
    }

    fn as_owner(self: &Arc<Self>) -> Weak<dyn Owner> {
        let owner: Weak<Self> = Arc::downgrade(self);
        owner
    }

    async fn watch(&self) {
        loop {
            tokio::time::sleep(WATCHDOG).await;
            let silent: Vec<_> = self.members.look(|members| {
                let silent = members.values().filter(|member| member.listener.watch());
                silent.map(|member| member.listener.clone()).collect()
            });
            // Not under the lock: a subscriber may ask for anything.
            for listener in silent {
                tracing::warn!(
                    handler = %listener.name, depth = listener.depth(), at_least = ?WATCHDOG,
                    "a handler has not returned from an event; its events are waiting",
                );
            }
        }
    }
}

impl<T: Object> Owner for Inner<T> {
    fn forget(&self, id: u64) {
        self.schedule.lock().remove(id);
        self.back_pressure.remove(id);
        // Whoever has not returned from a callback yet stays on the list: what waits because of it is to be seen, and
        // the end has to wait for it.
        let gone = self.members.leave(id, |member| !member.is_running());
        gone.into_iter().for_each(Member::discard);
    }
}

impl<T> Drop for Inner<T> {
    /// Nobody can publish or run it any more: whoever waits for something of it is told.
    fn drop(&mut self) {
        self.members.stop().into_iter().for_each(Member::discard);
        self.log.close();
    }
}

/// Ends the processor whichever way its future ends.
struct EndOnDrop<'a, T: Object> {
    inner: &'a Inner<T>,
    listeners: Vec<Arc<Listener>>,
}

impl<T: Object> EndOnDrop<'_, T> {
    fn stop(&mut self) {
        let members = self.inner.members.stop();
        for member in &members {
            member.listener.remove();
        }
        self.inner.log.close();
        self.inner.space.notify_waiters();
        self.listeners.extend(members.into_iter().map(|member| member.listener));
    }

    /// Waits for the handlers, for the grace period.
    async fn end(mut self, tasks: &TaskTracker) -> Result<(), Error> {
        self.stop();
        tasks.close();
        if tokio::time::timeout(self.inner.grace, tasks.wait()).await.is_ok() {
            return Ok(());
        }
        let handlers: Vec<_> = self.unfinished().map(|listener| listener.name.clone()).collect();
        tracing::error!(
            processor = %self.inner.name, ?handlers, grace = ?self.inner.grace,
            "handlers did not return within the grace period; they are dropped where they wait",
        );
        self.abort();
        let _ = tokio::time::timeout(ABANDONED, tasks.wait()).await;
        Err(Error::Stuck { handlers })
    }

    fn unfinished(&self) -> impl Iterator<Item = &Arc<Listener>> {
        self.listeners.iter().filter(|listener| !listener.done.is_cancelled())
    }

    fn abort(&self) {
        self.unfinished().for_each(|listener| listener.abandon());
    }
}

impl<T: Object> Drop for EndOnDrop<'_, T> {
    fn drop(&mut self) {
        self.stop();
        self.abort();
    }
}

impl<T> Clone for SharedProcessor<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T> fmt::Debug for SharedProcessor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedProcessor")
            .field("name", &self.inner.name)
            .field("phase", &self.inner.members.phase())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SharedProcessorBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedProcessorBuilder")
            .field("name", &self.name)
            .field("resync", &self.resync)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
