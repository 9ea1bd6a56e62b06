//! The handlers of one processor, independent of the type of their objects: starts, monitors and ends them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{Instrument as _, Span};

use crate::bell::{Bell, Sleeper};
use crate::error::Error;
use crate::limits::Limits;
use crate::listener::{HandlerMetrics, Listener, Task};
use crate::members::{Members, Phase};
use crate::resync::{DueHandlers, Period, Schedule};

/// The interval at which the processor checks for callbacks that have not returned.
const WATCHDOG: Duration = Duration::from_secs(30);

/// The time that aborted tasks may take to end: all end at once except those that block a thread.
const ABANDONED: Duration = Duration::from_secs(1);

pub(crate) struct Listeners {
    pub(crate) name: Arc<str>,
    members: Members<Arc<Listener>>,
    schedule: Mutex<Schedule>,
    /// Whether the schedule has due handlers. Written under its lock.
    due: AtomicBool,
    pub(crate) limits: Limits,
    /// Notified when a handler was added.
    joined: Notify,
    /// The bell of the log.
    bell: Arc<Bell>,
    grace: Duration,
    pub(crate) epoch: Instant,
    /// The runtime and the trackers of the tasks; set at the start.
    running: Mutex<Option<Running>>,
    /// Whether the pump runs. Written under the lock of the members.
    pumped: AtomicBool,
}

#[derive(Clone)]
struct Running {
    runtime: Handle,
    handlers: TaskTracker,
    pump: TaskTracker,
    /// The span in which the processor runs. Shared, because the clone of a span calls the subscriber.
    span: Arc<Span>,
}

/// The tasks to start, and the tokens that make a concurrent end wait for them.
struct PendingStart {
    running: Running,
    task: Option<(Task, TaskTrackerToken)>,
    pump: Option<TaskTrackerToken>,
}

impl Running {
    /// Starts the task of a handler in a span of its own. Must not be called under the lock of the members: a runtime
    /// that is shutting down drops the task here, and the handler with it.
    fn spawn(&self, listener: &Listener, task: Task) {
        let span =
            tracing::info_span!(parent: &*self.span, "handler", kinformer.handler.name = &*listener.name);
        listener
            .set_abort_handle(self.handlers.spawn_on(task.instrument(span), &self.runtime).abort_handle());
    }

    /// Starts the pump as a task, so that handlers are woken even if the future of the processor is rarely polled.
    fn spawn_pump(&self, bell: Arc<Bell>) {
        self.pump.spawn_on(async move { bell.pump().await }, &self.runtime);
    }
}

impl Listeners {
    pub(crate) fn new(name: Arc<str>, resync: Duration, grace: Duration, bell: Arc<Bell>) -> Self {
        Self {
            name,
            members: Members::new(),
            schedule: Mutex::new(Schedule::new(resync)),
            due: AtomicBool::new(false),
            limits: Limits::new(),
            joined: Notify::new(),
            bell,
            grace,
            epoch: Instant::now(),
            running: Mutex::new(None),
            pumped: AtomicBool::new(false),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.members.phase()
    }

    pub(crate) fn stopped_error(&self) -> Error {
        Error::Stopped { processor: self.name.clone() }
    }

    pub(crate) fn metrics(&self) -> Vec<HandlerMetrics> {
        self.members.read(|members| members.values().map(|listener| listener.metrics()).collect())
    }

    /// Returns the resync period of a new handler.
    pub(crate) fn enter(&self, id: u64, resync: Option<Duration>) -> Period {
        self.schedule.lock().add(id, resync)
    }

    /// Adds a listener, and starts it if the processor runs.
    pub(crate) fn join(&self, listener: &Arc<Listener>) -> Result<(), Error> {
        self.limits.add(listener);
        let mut pending = None;
        let joined = self.members.join(listener.id, listener.clone(), |listener, phase| {
            if phase == Phase::Running
                && let Some(running) = &*self.running.lock()
            {
                pending = Some(PendingStart {
                    task: listener.take_task().map(|task| (task, running.handlers.token())),
                    pump: (!self.pumped.swap(true, Ordering::Relaxed)).then(|| running.pump.token()),
                    running: running.clone(),
                });
            }
        });
        if let Err(refused) = joined {
            self.schedule.lock().remove(refused.id);
            self.limits.remove(refused.id);
            refused.discard();
            return Err(self.stopped_error());
        }
        if let Some(PendingStart { running, task, pump }) = pending {
            if let Some(_token) = pump {
                running.spawn_pump(self.bell.clone());
            }
            if let Some((task, _token)) = task {
                running.spawn(listener, task);
            }
        }
        self.joined.notify_one();
        Ok(())
    }

    /// Removes a listener from the members if its task has ended. Otherwise it stays visible, and the end of the
    /// processor waits for it.
    pub(crate) fn forget(&self, id: u64) {
        self.schedule.lock().remove(id);
        self.limits.remove(id);
        let removed = self.members.leave(id, |listener| !listener.is_running());
        removed.into_iter().for_each(|listener| listener.discard());
    }

    pub(crate) fn mark_due(&self) -> bool {
        let mut schedule = self.schedule.lock();
        let any = schedule.mark_due();
        self.due.store(any, Ordering::Release);
        any
    }

    pub(crate) fn take_due(&self) -> Option<DueHandlers> {
        // The usual case, without the lock.
        if !self.due.load(Ordering::Acquire) {
            return None;
        }
        let mut schedule = self.schedule.lock();
        self.due.store(false, Ordering::Release);
        schedule.take_due()
    }

    /// Restarts the periods of those handlers that may have made the publisher of their resync wait.
    pub(crate) fn resynced(&self, due: &DueHandlers) {
        for id in due.ids.iter().filter(|id| self.limits.has(**id)) {
            self.schedule.lock().restart(*id);
        }
    }

    pub(crate) fn resync_check_period(&self) -> Option<Duration> {
        self.schedule.lock().check_period()
    }

    /// Runs the handlers until the token is cancelled.
    pub(crate) async fn run(&self, cancel: CancellationToken) -> Result<(), Error> {
        let running = Running {
            runtime: Handle::current(),
            handlers: TaskTracker::new(),
            pump: TaskTracker::new(),
            span: Arc::new(Span::current()),
        };
        let (tasks, pump) = self
            .members
            .start(|members| {
                self.schedule.lock().start();
                *self.running.lock() = Some(running.clone());
                let tasks =
                    members.values().filter_map(|listener| Some((listener.clone(), listener.take_task()?)));
                let tasks: Vec<_> = tasks.collect();
                let pump = !members.is_empty();
                self.pumped.store(pump, Ordering::Relaxed);
                (tasks, pump)
            })
            .map_err(|phase| match phase {
                Phase::Stopped => self.stopped_error(),
                Phase::NotStarted | Phase::Running => Error::Running { processor: self.name.clone() },
            })?;
        let ending = EndOnDrop { listeners: self, members: Vec::new() };
        if pump {
            running.spawn_pump(self.bell.clone());
        }
        tasks.into_iter().for_each(|(listener, task)| running.spawn(&listener, task));

        // The watchdog never ends, and the token is ready once.
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.watch() => {}
        }
        let ended = ending.end(&running).await;
        tracing::debug!(processor = %self.name, ?ended, "processor stopped");
        ended
    }

    /// Ends a processor that has not started. Returns `false` if it has started.
    pub(crate) fn discard(&self) -> bool {
        let Some(members) = self.members.stop_unstarted() else { return false };
        self.end_members(members);
        true
    }

    /// Ends all handlers.
    pub(crate) fn stop(&self) -> Vec<Arc<Listener>> {
        let members = self.members.stop();
        // Dropped without the lock: the drop of its span calls the subscriber.
        let running = self.running.lock().take();
        drop(running);
        self.end_members(members)
    }

    fn end_members(&self, members: Vec<Arc<Listener>>) -> Vec<Arc<Listener>> {
        members.iter().for_each(|listener| listener.discard());
        self.bell.close();
        self.limits.space().notify_waiters();
        members
    }

    /// Reports callbacks that do not return. Sets no timer while no handler has work.
    async fn watch(&self) {
        let mut sleeper = Sleeper::default();
        let has_work = || self.members.read(|members| members.values().any(|listener| listener.has_work()));
        loop {
            if !has_work() {
                // The order does not matter: either arm ends the wait.
                tokio::select! {
                    biased;
                    () = self.joined.notified() => {}
                    () = self.bell.wait(&mut sleeper, has_work) => {}
                }
            }
            // The checks are at multiples of the interval, independent of the time without work.
            let rest = self.epoch.elapsed().as_nanos() % WATCHDOG.as_nanos();
            tokio::time::sleep(WATCHDOG.saturating_sub(Duration::from_nanos(rest as u64))).await;
            let stuck: Vec<_> = self.members.read(|members| {
                members.values().filter(|listener| listener.check_stuck()).cloned().collect()
            });
            // Not under the lock: a subscriber may read the metrics.
            for listener in stuck {
                tracing::warn!(
                    handler = %listener.name, depth = listener.depth(), at_least = ?WATCHDOG,
                    "handler has not returned from an event; its backlog grows",
                );
            }
        }
    }
}

/// Marks the end of a listener, also if its task is dropped or panics.
pub(crate) struct DoneGuard {
    pub(crate) listener: Arc<Listener>,
    pub(crate) listeners: Weak<Listeners>,
}

impl Drop for DoneGuard {
    fn drop(&mut self) {
        let Self { listener, listeners } = self;
        listener.busy.store(false, Ordering::Relaxed);
        listener.done.cancel();
        listener.remove();
        forget(listeners, listener);
    }
}

/// Removes a listener from the members of its processor once its task has ended.
pub(crate) fn forget(listeners: &Weak<Listeners>, listener: &Listener) {
    if let Some(listeners) = listeners.upgrade() {
        listeners.forget(listener.id);
    }
}

/// Ends the handlers when the future of the processor ends or is dropped.
struct EndOnDrop<'a> {
    listeners: &'a Listeners,
    members: Vec<Arc<Listener>>,
}

impl EndOnDrop<'_> {
    fn stop(&mut self) {
        self.members.extend(self.listeners.stop());
    }

    /// Waits for the handlers during the grace period, then aborts them.
    async fn end(mut self, running: &Running) -> Result<(), Error> {
        self.stop();
        let Running { handlers, pump, .. } = running;
        handlers.close();
        pump.close();
        let Listeners { name, grace, .. } = self.listeners;
        let ended = tokio::time::timeout(*grace, handlers.wait()).await.is_ok();
        // The pump ends at once, because the bell is closed.
        pump.wait().await;
        if ended {
            return Ok(());
        }
        let stuck: Vec<_> = self.unfinished().map(|listener| listener.name.clone()).collect();
        tracing::error!(
            processor = %name, handlers = ?stuck, ?grace,
            "handlers did not return within the grace period; dropping them at their await points",
        );
        self.abort();
        let _ = tokio::time::timeout(ABANDONED, handlers.wait()).await;
        Err(Error::Stuck { handlers: stuck })
    }

    fn unfinished(&self) -> impl Iterator<Item = &Arc<Listener>> {
        self.members.iter().filter(|listener| !listener.done.is_cancelled())
    }

    fn abort(&self) {
        self.unfinished().for_each(|listener| listener.abandon());
    }
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.stop();
        self.abort();
    }
}
