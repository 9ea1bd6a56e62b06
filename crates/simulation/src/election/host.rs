//! A runtime of its own for each process and for the server, with a clock that is paused while it is not run.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep_until};

use crate::clock::ProcessClock;
use crate::runtime;

/// Enough turns for all tasks that are ready to end what they do at one moment.
const TURNS: usize = 50;

/// A runtime and its clock.
pub(crate) struct Host {
    runtime: Runtime,
    began: Instant,
    /// The time of the world at which it began, and the time that its clock has not counted since.
    behind: Duration,
    /// How fast its clocks are, compared with the time of the world.
    speed: f64,
    pub(crate) clock: ProcessClock,
    stop: Option<Stop>,
}

/// How a process is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// By a signal: all clocks go on.
    Signal,
    /// By a suspend of its computer: its timers stand still.
    Suspend,
}

impl Host {
    /// Creates a runtime at a time of the world.
    ///
    /// # Panics
    /// If the runtime cannot be created.
    pub(crate) fn new(now: Duration) -> Self {
        let runtime = runtime::paused();
        let (began, clock) = runtime.block_on(async { (Instant::now(), ProcessClock::new()) });
        Self { runtime, began, behind: now, speed: 1.0, clock, stop: None }
    }

    /// Makes its clocks faster or slower.
    pub(crate) fn with_speed(self, speed: f64) -> Self {
        Self { speed, ..self }
    }

    /// A time of the world by the clock of the runtime, since it began.
    fn local(&self, now: Duration) -> Duration {
        now.saturating_sub(self.behind).mul_f64(self.speed)
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Calls a function in the runtime.
    pub(crate) fn enter<R>(&self, function: impl FnOnce() -> R) -> R {
        let _entered = self.runtime.enter();
        function()
    }

    /// Runs until a time of the world, unless it is stopped.
    pub(crate) fn run_until(&self, now: Duration) {
        if self.stop.is_none() {
            let end = self.began + self.local(now);
            self.runtime.block_on(async { sleep_until(end).await });
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }

    /// Stops the process between two moments.
    pub(crate) fn stop(&mut self, stop: Stop) {
        self.runtime.block_on(async {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        });
        self.stop = Some(stop);
    }

    /// Continues the process at a time of the world.
    pub(crate) fn go_on(&mut self, now: Duration) {
        let Some(stop) = self.stop.take() else { return };
        let missed = self.local(now).saturating_sub(self.enter(|| self.began.elapsed()));
        match stop {
            Stop::Signal => self.runtime.block_on(tokio::time::advance(missed)),
            Stop::Suspend => {
                self.behind += missed.div_f64(self.speed);
                self.clock.suspended(missed);
            }
        }
    }
}
