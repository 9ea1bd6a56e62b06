//! The tasks of the current runtime, to find those that outlive their owner.

use std::time::Duration;

/// The time limit for tasks that end, in real time: paused time does not advance while a task yields.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns how many tasks are alive. The future of `block_on`, such as a test, is not a task.
pub fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Waits until at most `count` tasks are alive: a runtime drops aborted tasks with a delay.
///
/// # Panics
/// If more tasks are alive after a minute.
///
/// # Cancel safety
/// Nothing is lost.
#[allow(clippy::disallowed_methods, reason = "paused time does not advance while this future yields")]
pub async fn fall_to(count: usize) {
    let began = std::time::Instant::now();
    while alive() > count {
        assert!(began.elapsed() < TIMEOUT, "{} tasks are alive, not {count}", alive());
        tokio::task::yield_now().await;
    }
}
