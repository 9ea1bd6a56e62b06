//! The tasks of the current runtime, to find those that outlive their owner.

/// How often a wait yields, because paused time does not advance while a task yields.
const MAX_YIELDS: usize = 10_000_000;

/// Returns how many tasks are alive. The future of `block_on`, such as a test, is not a task.
pub fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Waits until at most `count` tasks are alive: a runtime drops aborted tasks with a delay.
///
/// # Panics
/// If more tasks are alive after ten million yields.
///
/// # Cancel safety
/// The wait only counts the tasks. Dropping it changes nothing.
pub async fn fall_to(count: usize) {
    assert!(reach(|alive| alive <= count).await, "{} tasks are alive, more than {count}", alive());
}

/// Waits until at least `count` tasks are alive: another thread may still be starting them.
///
/// # Panics
/// If fewer tasks are alive after ten million yields.
///
/// # Cancel safety
/// The wait only counts the tasks. Dropping it changes nothing.
pub async fn rise_to(count: usize) {
    assert!(reach(|alive| alive >= count).await, "{} tasks are alive, fewer than {count}", alive());
}

/// Yields until the number of tasks satisfies a condition. Returns whether it does.
async fn reach(is_reached: impl Fn(usize) -> bool) -> bool {
    for _ in 0..MAX_YIELDS {
        if is_reached(alive()) {
            return true;
        }
        tokio::task::yield_now().await;
    }
    is_reached(alive())
}
