//! The delays between attempts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use kinformer_core::internal::contain;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::SourceError;

type Delays = Box<dyn Iterator<Item = Duration> + Send>;

/// The delays between the attempts of a reflector.
///
/// The default starts with 0.8 s, and each delay is half as long again as the one before, up to 15 s. Each is lengthened by
/// a random share of up to its own length, so that a thousand clients do not return at the same moment. The delays start
/// over 2 minutes after they began, and after a watch that was open for 30 seconds.
///
/// client-go 0.37 (`defaultBackoffInit` and its siblings) doubles up to 30 s, and sends two requests after each delay, a
/// watch-list and a list.
///
/// ```
/// use std::time::Duration;
///
/// use kinformer_reflector::Backoff;
///
/// let doubling = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));
/// let steady = Backoff::from_delays(|| std::iter::repeat(Duration::from_secs(5)));
/// # _ = (doubling, steady);
/// ```
#[doc(alias("default_backoff", "DefaultBackoff"))]
#[derive(Clone)]
pub struct Backoff {
    delays: Arc<dyn Fn() -> Delays + Send + Sync>,
    reset_after: Duration,
}

impl Backoff {
    /// Creates delays that double from `first` to `longest`, each lengthened at random to at most twice its length.
    #[doc(alias = "ExponentialBackoff")]
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        Self::growing(first, longest, 2.0)
    }

    pub(crate) fn growing(first: Duration, longest: Duration, factor: f32) -> Self {
        let builder = ExponentialBuilder::new()
            .with_min_delay(first)
            .with_max_delay(longest)
            .with_factor(factor)
            .without_max_times()
            .with_jitter();
        Self::from_delays(move || builder.build())
    }

    /// Creates custom delays. The function is called at the start and after each reset. When its delays are exhausted,
    /// the last one repeats (one second, if there was none).
    pub fn from_delays<I>(delays: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: Iterator<Item = Duration> + Send + 'static,
    {
        Self { delays: Arc::new(move || Box::new(delays())), reset_after: RESET_AFTER }
    }

    /// Sets the time after which the delays start over, measured from the first of them: 2 minutes by default.
    ///
    /// Follows client-go 0.37 (`defaultBackoffReset`).
    #[doc(alias = "ResetTimerBackoff")]
    #[must_use]
    pub fn reset_after(mut self, time: Duration) -> Self {
        self.reset_after = time;
        self
    }

    pub(crate) fn start(&self) -> RunningBackoff {
        RunningBackoff {
            config: self.clone(),
            delays: Mutex::new(Box::new(std::iter::empty())),
            last: FALLBACK,
            started: None,
            unanswered: Duration::ZERO,
        }
    }
}

/// From this many failures in a row, every failure is logged as a warning.
pub(crate) const WARN_FROM: u32 = 3;

/// Longer than any wait, and short enough to be added to any instant.
pub(crate) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

const RESET_AFTER: Duration = Duration::from_secs(120);
const FALLBACK: Duration = Duration::from_secs(1);
/// The shortest delay by default, and the shortest after a request that took longer than its delay.
const SHORTEST: Duration = Duration::from_millis(800);
/// A source whose watch was open for this long has recovered.
const RECOVERED: Duration = Duration::from_secs(30);

impl Default for Backoff {
    fn default() -> Self {
        Self::growing(SHORTEST, Duration::from_secs(15), 1.5)
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff").field("reset_after", &self.reset_after).finish_non_exhaustive()
    }
}

pub(crate) struct RunningBackoff {
    config: Backoff,
    /// Never locked: the mutex only makes the iterator `Sync`, which a random generator may not be.
    delays: Mutex<Delays>,
    last: Duration,
    /// The time of the first delay since the delays started over.
    started: Option<Instant>,
    /// For how long the last request got no answer.
    unanswered: Duration,
}

impl RunningBackoff {
    /// Returns the next delay, or a second if the iterator panics, which may be a user's.
    ///
    /// The time for which the last request got no answer is a part of the delay.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let unanswered = std::mem::take(&mut self.unanswered);
        let delay = contain(|| self.advance(Instant::now())).unwrap_or(FALLBACK);
        delay.saturating_sub(unanswered).max(lengthened(SHORTEST, SHORTEST).min(delay))
    }

    fn advance(&mut self, now: Instant) -> Duration {
        if self.started.is_none_or(|started| now.duration_since(started) >= self.config.reset_after) {
            *self.delays.get_mut() = (self.config.delays)();
            self.started = Some(now);
        }
        self.last = self.delays.get_mut().next().unwrap_or(self.last);
        self.last
    }

    /// Records for how long the last request got no answer.
    pub(crate) fn set_unanswered(&mut self, time: Duration) {
        self.unanswered = time;
    }

    /// Starts the delays over after a watch that was open for long enough: the source has recovered.
    pub(crate) fn watched(&mut self, time: Duration) {
        if time >= RECOVERED {
            self.start_over();
        }
    }

    pub(crate) fn start_over(&mut self) {
        self.started = None;
    }
}

/// Upper bound on a server's `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);
/// Upper bound on the random time added to a server's `Retry-After`.
pub(crate) const MAX_JITTER: Duration = Duration::from_secs(30);

/// Returns the `Retry-After` of an error, bounded; zero without one.
pub(crate) fn retry_after(error: &SourceError) -> Duration {
    error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER)
}

/// Returns the delay after an error: this delay, or the `Retry-After` of the error if that is longer.
pub(crate) fn after(error: &SourceError, delay: Duration) -> Duration {
    let requested = retry_after(error);
    // The jitter is added to the `Retry-After`: otherwise all clients of the server would return together.
    delay.max(lengthened(requested, (requested / 2).min(MAX_JITTER)))
}

/// Adds jitter to a delay: a random time below `most`.
pub(crate) fn lengthened(delay: Duration, most: Duration) -> Duration {
    delay.saturating_add(most.mul_f64(fastrand::f64()))
}
