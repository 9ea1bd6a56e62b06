//! Runs blocking handlers without threads, for simulations (feature `test-util`).
//!
//! A simulation that replays a run from a seed needs everything on one thread of a current-thread runtime with a paused
//! clock. This is the only switch for that in the pipeline; everything else is deterministic, or follows from
//! fastrand's generator of the thread, which is also the source of all jitter:
//!
//! * **threads**: while a thread has a [`Stepping`], a turn of a blocking handler runs on that thread, when and for as
//!   many events as the generator chooses.
//! * **jitter**: backoff, watch timeouts and probes draw from the generator of the thread, which [`Stepping`] seeds.
//! * **`select!`**: always `biased`.
//! * **hash seeds**: stay random. No order of a hash table is visible, so there is nothing to replace.
//! * **clocks**: tokio's, except for the measurement of turns on threads.

use std::cell::Cell;
#[cfg(feature = "test-util")]
use std::marker::PhantomData;
use std::time::Duration;

/// The longest time that a turn waits for its start, in microseconds.
const START: u64 = 5_000;

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    /// The run time of the current turn so far.
    static RUN_TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// While it exists, blocking handlers that are awaited on this thread run on it. Not `Send`.
#[cfg(feature = "test-util")]
#[must_use = "stepping ends when it is dropped"]
pub struct Stepping(PhantomData<*const ()>);

#[cfg(feature = "test-util")]
impl Stepping {
    /// Seeds the generator of this thread, and runs the turns of blocking handlers on it from now on. At most one at a
    /// time on a thread.
    pub fn from_seed(seed: u64) -> Self {
        fastrand::seed(seed);
        ON.set(true);
        RUN_TIME.set(Duration::ZERO);
        Self(PhantomData)
    }
}

#[cfg(feature = "test-util")]
impl Drop for Stepping {
    fn drop(&mut self) {
        ON.set(false);
    }
}

/// Adds to the run time of the current callback. That time passes after the turn, and neither a stop nor a removal
/// shortens it, as they do not interrupt a callback on a thread. Without [`Stepping`], it has no effect.
#[cfg(feature = "test-util")]
pub fn pass_time(time: Duration) {
    RUN_TIME.set(RUN_TIME.get().saturating_add(time));
}

pub(crate) fn is_on() -> bool {
    cfg!(feature = "test-util") && ON.get()
}

/// Returns whether a turn without a thread may make another step. A callback that takes time ends the turn, because a
/// stop takes effect after it.
pub(crate) fn may_continue() -> bool {
    is_on() && RUN_TIME.get().is_zero() && fastrand::u8(..4) > 0
}

/// The time that a turn waits for its start: often none.
pub(crate) async fn start_delay() {
    let delay = if fastrand::bool() { 0 } else { fastrand::u64(..START) };
    pause(Duration::from_micros(delay)).await;
}

/// The run time of the turn that has just ended.
pub(crate) async fn run_time() {
    pause(RUN_TIME.take()).await;
}

async fn pause(time: Duration) {
    match time {
        Duration::ZERO => tokio::task::yield_now().await,
        time => tokio::time::sleep(time).await,
    }
}
