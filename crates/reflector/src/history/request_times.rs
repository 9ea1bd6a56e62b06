//! When the next list or watch may be requested.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::{MAX_JITTER, RunningBackoff, lengthened, retry_after};
use crate::request_limit::RequestWindow;
use crate::{NextRequest, ReflectorOptions, SourceError};

/// The times of the last requests, and the delays before the next ones.
pub(crate) struct RequestTimes {
    window: RequestWindow,
    backoff: RunningBackoff,
    /// The time before which the source has asked for no list (`Retry-After`), whatever happens to a watch meanwhile.
    lists_not_before: Option<Instant>,
}

impl RequestTimes {
    pub(crate) fn new(options: &ReflectorOptions) -> Self {
        let window = RequestWindow::new(options.request_limit);
        Self { window, backoff: options.backoff.start(), lists_not_before: None }
    }

    /// Returns the delay that the source has asked for with its last answer to a list.
    pub(crate) fn requested_delay(&self, next: NextRequest) -> Option<Duration> {
        let until = self.lists_not_before.filter(|_| next == NextRequest::List)?;
        let delay = until.checked_duration_since(Instant::now()).filter(|delay| !delay.is_zero())?;
        Some(lengthened(delay, (delay / 2).min(MAX_JITTER)))
    }

    /// Returns the delay of the limit on requests.
    pub(crate) fn limit_delay(&self) -> Option<Duration> {
        self.window.delay()
    }

    /// Returns the time from which the limit admits another request; `None` for now.
    pub(crate) fn free_at(&self) -> Option<Instant> {
        self.window.free_at()
    }

    /// Counts a list or watch that starts now.
    pub(crate) fn start(&mut self) {
        self.window.start(Instant::now());
        self.backoff.set_unanswered(Duration::ZERO);
    }

    /// Counts a request for the newest version, if the limit admits it now. Returns whether it does.
    pub(crate) fn start_probe(&mut self, now: Instant) -> bool {
        let is_free = self.window.free_at().is_none_or(|free| free <= now);
        if is_free {
            self.window.start(now);
        }
        is_free
    }

    /// Delays the next list by the `Retry-After` of the last one.
    pub(crate) fn delay_lists(&mut self, error: Option<&SourceError>) {
        self.lists_not_before = error.map(|error| Instant::now() + retry_after(error));
    }

    /// Returns the next delay after a failure.
    pub(crate) fn next_delay(&mut self) -> Duration {
        self.backoff.next_delay()
    }

    /// Records for how long the last request got no answer.
    pub(crate) fn unanswered(&mut self, time: Duration) {
        self.backoff.set_unanswered(time);
    }

    /// Records for how long a watch was open.
    pub(crate) fn watched(&mut self, time: Duration) {
        self.backoff.watched(time);
    }
}
