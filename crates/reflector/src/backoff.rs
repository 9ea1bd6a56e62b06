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
/// The default starts with 0.8 s and doubles up to 30 s. Each delay is lengthened by a random share of up to its own
/// length, so that a thousand clients do not return at the same moment. After 2 minutes without a delay the sequence
/// restarts. Follows client-go 0.37 (`defaultBackoffInit` and its siblings).
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
#[derive(Clone)]
pub struct Backoff {
    delays: Arc<dyn Fn() -> Delays + Send + Sync>,
    reset_after: Duration,
}

impl Backoff {
    /// Creates delays that double from `first` to `longest`, each lengthened at random to at most twice its length.
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        let builder = ExponentialBuilder::new()
            .with_min_delay(first)
            .with_max_delay(longest)
            .with_factor(2.0)
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

    /// Sets the time without a delay after which the delays start over: 2 minutes by default.
    #[must_use]
    pub fn reset_after(mut self, time: Duration) -> Self {
        self.reset_after = time;
        self
    }

    pub(crate) fn start(&self) -> RunningBackoff {
        RunningBackoff {
            config: self.clone(),
            delays: Mutex::new((self.delays)()),
            last: FALLBACK,
            free_since: None,
        }
    }
}

/// From this many failures in a row, every failure is logged as a warning.
pub(crate) const WARN_FROM: u32 = 3;

/// Longer than any wait, and short enough to be added to any instant.
pub(crate) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

const RESET_AFTER: Duration = Duration::from_secs(120);
const FALLBACK: Duration = Duration::from_secs(1);

impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_millis(800), Duration::from_secs(30))
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
    /// The end of the last delay; the time without a delay counts from there.
    free_since: Option<Instant>,
}

impl RunningBackoff {
    /// Returns the next delay, or a second if the iterator panics, which may be a user's.
    pub(crate) fn next_delay(&mut self) -> Duration {
        contain(|| self.advance(Instant::now())).unwrap_or(FALLBACK)
    }

    fn advance(&mut self, now: Instant) -> Duration {
        if self.free_since.is_some_and(|end| now.saturating_duration_since(end) >= self.config.reset_after) {
            *self.delays.get_mut() = (self.config.delays)();
        }
        self.last = self.delays.get_mut().next().unwrap_or(self.last);
        self.free_since = now.checked_add(self.last);
        self.last
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
