//! Bounded waits: a test whose condition is never met fails instead of hanging.

use std::future::Future;
use std::time::Duration;

/// The time limit for every wait, longer than any test needs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a future.
///
/// # Panics
/// If it takes longer than [`PATIENCE`]. `what` names the awaited event in the message.
///
/// # Cancel safety
/// Dropping it drops `future`, whose own cancel safety applies.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    assert!(waited.is_ok(), "timed out waiting for {what}");
    let Ok(output) = waited else { unreachable!("checked above") };
    output
}
