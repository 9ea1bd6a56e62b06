//! The limit of requests to the API server.

use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::reply::Failure;

/// How many requests may follow each other at once.
const BURST: f64 = 5.0;
/// How many requests are sent in a second on average.
const RATE: f64 = 1.0;
/// The limit of requests to the API server.
#[derive(Debug)]
pub(crate) struct AskLimit(Mutex<Option<(Instant, f64)>>);

impl Default for AskLimit {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl AskLimit {
    /// Takes one request.
    ///
    /// # Errors
    /// 429 with the time to wait.
    pub(crate) fn take(&self) -> Result<(), Failure> {
        let now = Instant::now();
        let mut state = self.0.lock();
        let (at, left) = state.unwrap_or((now, BURST));
        let left = (left + now.duration_since(at).as_secs_f64() * RATE).min(BURST);
        if left < 1.0 {
            *state = Some((now, left));
            return Err(Failure::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                "the API server was asked often in the last seconds; wait a moment",
            )
            .retry_after(1));
        }
        *state = Some((now, left - 1.0));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // contract: H-14b
    #[tokio::test(start_paused = true)]
    async fn requests_are_limited() {
        let limit = AskLimit::default();
        for _ in 0..5 {
            limit.take().unwrap();
        }
        let refused = limit.take().unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (StatusCode::TOO_MANY_REQUESTS, Some(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        limit.take().unwrap();
        limit.take().unwrap_err();
    }
}
