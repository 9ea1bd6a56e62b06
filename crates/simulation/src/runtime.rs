//! The runtime of a simulation.

use tokio::runtime::{Builder, Runtime};

/// Creates a runtime with one thread and a paused clock.
///
/// # Panics
/// Panics if the runtime cannot be created.
#[expect(clippy::expect_used, reason = "a simulation without a runtime cannot go on")]
pub(crate) fn paused() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}
