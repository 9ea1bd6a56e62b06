//! The repetition of requests that a server did not process.

use std::time::Duration;

use http::Request;
use kinformer_core::BoxError;
use kube_client::client::Body;

use super::copy::copy;
use crate::Error;

/// The delays before the repetitions of a request, in seconds, as in Go.
const DELAYS: [u64; 7] = [0, 1, 2, 4, 8, 16, 32];

/// Sends a request until it is not certain any more that the server did not process it, at most eight times. Follows Go
/// 1.26 (`net/http`, `http2Transport.RoundTripOpt`).
///
/// # Errors
/// The last error, or [`Error::NotRepeatable`] if the body cannot be sent twice.
///
/// # Cancel safety
/// Dropping the future drops the current attempt.
pub(super) async fn repeat<T, F: Future<Output = Result<T, BoxError>>>(
    mut request: Request<Body>,
    send: impl Fn(Request<Body>) -> F,
    is_unprocessed: impl Fn(&BoxError) -> bool,
) -> Result<T, BoxError> {
    for delay in DELAYS {
        let again = copy(&request);
        let error = match send(request).await {
            Err(error) if is_unprocessed(&error) => error,
            answer => return answer,
        };
        let Some(again) = again else { return Err(Error::NotRepeatable { source: error }.into()) };
        tracing::debug!(%error, delay, "the server did not process a request; repeating it");
        tokio::time::sleep(Duration::from_secs(delay)).await;
        request = again;
    }
    send(request).await
}

/// Whether the server certainly did not process a request: its stream was refused, or is above the last one that the
/// server processes before it closes the connection, or the request was never written.
pub(super) fn is_unprocessed(error: &BoxError) -> bool {
    let first: &(dyn std::error::Error + 'static) = &**error;
    std::iter::successors(Some(first), |error| error.source()).any(|error| {
        let refused = error.downcast_ref().is_some_and(|error: &h2::Error| {
            let reason = error.reason();
            // h2 reports a GOAWAY to the streams above its last one. Those below end with it, or with an I/O error.
            error.is_remote()
                && (error.is_go_away() && reason == Some(h2::Reason::NO_ERROR)
                    || error.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM))
        });
        refused || error.downcast_ref().is_some_and(hyper::Error::is_canceled)
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::*;

    /// Returns when a request that is not processed was sent, in seconds.
    async fn attempts(certain: bool) -> Vec<u64> {
        let (start, sent) = (Instant::now(), RefCell::new(Vec::new()));
        let send = |request: Request<Body>| {
            sent.borrow_mut().push(start.elapsed().as_secs());
            async move {
                assert_eq!(request.into_body().collect_bytes().await.unwrap(), "body");
                Err::<(), BoxError>("not processed".into())
            }
        };
        let request = Request::post("/").body(b"body".to_vec().into()).unwrap();
        let error = repeat(request, send, |_| certain).await.unwrap_err();
        assert_eq!(error.to_string(), "not processed");
        sent.into_inner()
    }

    // contract: L-39c
    #[tokio::test(start_paused = true)]
    async fn repetitions_have_a_bound() {
        assert_eq!(attempts(true).await, [0, 0, 1, 3, 7, 15, 31, 63]);
        assert_eq!(attempts(false).await, [0]);
    }
}
