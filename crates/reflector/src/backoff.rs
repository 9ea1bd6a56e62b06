//! How long to wait before the next try.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::SourceError;

type Delays = Box<dyn Iterator<Item = Duration> + Send>;

/// The delays between the tries of a reflector.
///
/// By default 0.8 s, doubling to 30 s, each lengthened by a random share of up to its own length, so that a
/// thousand clients do not come back at the same moment; from the start again after 2 minutes without any
/// delay. Follows client-go 1.37 (`defaultBackoffInit` and the others of that name).
#[derive(Clone)]
pub struct Backoff {
    delays: Arc<dyn Fn() -> Delays + Send + Sync>,
    reset_after: Duration,
}

impl Backoff {
    /// From `first` doubling to `longest`, each lengthened at random to at most twice its length.
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        let builder = ExponentialBuilder::new()
            .with_min_delay(first)
            .with_max_delay(longest)
            .with_factor(2.0)
            .without_max_times()
            .with_jitter();
        Self::from_delays(move || builder.build())
    }

    /// Any delays. The function is called at the start and again after each reset; when its delays are
    /// exhausted, the last one is repeated (one second, if there was none).
    pub fn from_delays<I>(delays: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: Iterator<Item = Duration> + Send + 'static,
    {
        Self { delays: Arc::new(move || Box::new(delays())), reset_after: RESET_AFTER }
    }

    /// After how long without any delay the delays start from the beginning. Default 2 minutes.
    #[must_use]
    pub fn reset_after(mut self, quiet: Duration) -> Self {
        self.reset_after = quiet;
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
    /// Never locked: it makes the iterator shareable, which a random generator is not.
    delays: Mutex<Delays>,
    last: Duration,
    /// When the last delay is over; the quiet time counts from there.
    free_since: Option<Instant>,
}

impl RunningBackoff {
    pub(crate) fn next_delay(&mut self, now: Instant) -> Duration {
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
/// By at most so long a delay that the server asked for is lengthened.
const MAX_JITTER: Duration = Duration::from_secs(30);

/// The delay that an error asks for; zero if it asks for none.
pub(crate) fn retry_after(error: &SourceError) -> Duration {
    error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER)
}

/// A delay after an error, which may ask for a longer one.
pub(crate) fn after(error: &SourceError, delay: Duration) -> Duration {
    let asked = retry_after(error);
    // On top of what was asked for, or all clients of the server would come back together.
    delay.max(lengthened(asked, (asked / 2).min(MAX_JITTER)))
}

/// A delay with jitter: longer by a random time below `most`.
pub(crate) fn lengthened(delay: Duration, most: Duration) -> Duration {
    delay.saturating_add(most.mul_f64(fastrand::f64()))
}
