//! A handler that is slow at times, so that the page has something to find.
//!
//! It delays nothing else: the store, the other handlers and the printed events continue at their own pace.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{CancellationToken, Error, Event, Informer, Packed, Registration};
use tokio::time::Instant;

/// The name of the handler.
const NAME: &str = "slow-report";
/// The handler is slow for a part of each such period.
const PERIOD: Duration = Duration::from_secs(60);
/// How long the handler is as fast as the others at the beginning of each period.
const FAST: Duration = Duration::from_secs(5);
/// How long it is slow after that; it catches up in the rest of the period.
const SLOW: Duration = Duration::from_secs(35);
/// How long it takes for an event while it is slow.
const REPORT: Duration = Duration::from_secs(2);

/// Adds the handler. Its callback returns at once when `stopping` is cancelled.
///
/// # Errors
/// The informer has stopped.
pub(super) fn add_to(pods: &Informer<Pod>, stopping: &CancellationToken) -> Result<Registration, Error> {
    let (began, stopping) = (Instant::now(), stopping.clone());
    pods.handler().name(NAME).for_each_async(move |_: Event<Packed<Pod>>| {
        let (report, stopping) = (takes(began.elapsed()), stopping.clone());
        async move {
            // An event that takes no time has no timer.
            if !report.is_zero() {
                tokio::select! {
                    () = stopping.cancelled() => {}
                    () = tokio::time::sleep(report) => {}
                }
            }
        }
    })
}

/// How long an event takes, by the time since the start.
fn takes(since_start: Duration) -> Duration {
    let seconds = since_start.as_secs() % PERIOD.as_secs();
    let slow = FAST.as_secs()..FAST.as_secs() + SLOW.as_secs();
    if slow.contains(&seconds) { REPORT } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_slow_for_a_part_of_each_minute() {
        let takes = |seconds| takes(Duration::from_secs(seconds));
        assert_eq!(
            [0, 4, 5, 39, 40, 59, 60, 65].map(takes),
            [
                Duration::ZERO,
                Duration::ZERO,
                REPORT,
                REPORT,
                Duration::ZERO,
                Duration::ZERO,
                Duration::ZERO,
                REPORT,
            ]
        );
    }
}
