//! The repetition of requests that a server did not process.

use std::time::Duration;

use http::Request;
use hyper_util::client::legacy;
use kinformer_core::BoxError;
use kube_client::client::Body;

use super::copy::copy;
use crate::Error;

/// The delays before the repetitions of a request, in seconds, as in Go.
const DELAYS: [u64; 7] = [0, 1, 2, 4, 8, 16, 32];

/// The number of repetitions after a GOAWAY with an error, whose cause may remain. Go, which knows the number of a stream,
/// does not repeat the first request of a connection.
const AFTER_ERROR: usize = 3;

/// The connection ended before the request was sent.
#[derive(Debug, thiserror::Error)]
#[error("the request was not sent")]
pub(super) struct Unsent {
    /// `None` if hyper did not report the end.
    pub(super) source: Option<legacy::Error>,
}

/// Sends a request until it is not certain any more that the server did not process it, or until it was repeated as often
/// as its error allows. Follows Go 1.26 (`net/http`, `http2Transport.RoundTripOpt`).
///
/// # Errors
/// The last error, or [`Error::NotRepeatable`] if the body cannot be sent twice.
///
/// # Cancel safety
/// Dropping the future drops the current attempt.
pub(super) async fn repeat<T, F: Future<Output = Result<T, BoxError>>>(
    mut request: Request<Body>,
    send: impl Fn(Request<Body>) -> F,
    repetitions: impl Fn(&BoxError) -> usize,
) -> Result<T, BoxError> {
    for (number, delay) in DELAYS.into_iter().enumerate() {
        let again = copy(&request);
        let error = match send(request).await {
            Err(error) if number < repetitions(&error) => error,
            answer => return answer,
        };
        let Some(again) = again else { return Err(Error::NotRepeatable { source: error }.into()) };
        tracing::debug!(%error, delay, "the server did not process a request; repeating it");
        tokio::time::sleep(Duration::from_secs(delay)).await;
        request = again;
    }
    send(request).await
}

/// How often a request may be repeated: not at all, unless the server certainly did not process it. Its stream was refused,
/// or is above the last one that the server processes before it closes the connection, or the request was never sent.
pub(super) fn repetitions(error: &BoxError) -> usize {
    let first: &(dyn std::error::Error + 'static) = &**error;
    let allowed = std::iter::successors(Some(first), |error| error.source()).map(|error| {
        if let Some(error) = error.downcast_ref::<h2::Error>().filter(|error| error.is_remote()) {
            // h2 reports a GOAWAY to the streams above its last one. Those below end with it, or with an I/O error.
            return match error.reason() {
                Some(h2::Reason::NO_ERROR) if error.is_go_away() => DELAYS.len(),
                Some(h2::Reason::REFUSED_STREAM) if error.is_reset() => DELAYS.len(),
                _ if error.is_go_away() => AFTER_ERROR,
                _ => 0,
            };
        }
        let is_unsent = |error: &hyper::Error| error.is_canceled() || error.is_closed();
        let is_unsent = error.is::<Unsent>() || error.downcast_ref().is_some_and(is_unsent);
        if is_unsent { DELAYS.len() } else { 0 }
    });
    allowed.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use hyper_util::rt::TokioIo;
    use tokio::time::Instant;

    use super::*;

    /// A connection that ended before hyper passed it a request.
    // contract: L-39a
    #[tokio::test]
    async fn request_without_a_connection_is_unsent() {
        let (io, _peer) = tokio::io::duplex(64);
        let connection = hyper::client::conn::http1::handshake::<_, Body>(TokioIo::new(io));
        let (mut sender, connection) = connection.await.unwrap();
        drop(connection);
        let error = sender.ready().await.unwrap_err();
        assert!(error.is_closed(), "{error}");
        assert_eq!(repetitions(&error.into()), DELAYS.len());
    }

    /// Returns when a request that is not processed was sent, in seconds.
    async fn attempts(repetitions: usize) -> Vec<u64> {
        let (start, sent) = (Instant::now(), RefCell::new(Vec::new()));
        let send = |request: Request<Body>| {
            sent.borrow_mut().push(start.elapsed().as_secs());
            async move {
                assert_eq!(request.into_body().collect_bytes().await.unwrap(), "body");
                Err::<(), BoxError>("not processed".into())
            }
        };
        let request = Request::post("/").body(b"body".to_vec().into()).unwrap();
        let error = repeat(request, send, |_| repetitions).await.unwrap_err();
        assert_eq!(error.to_string(), "not processed");
        sent.into_inner()
    }

    // contract: L-39c
    #[tokio::test(start_paused = true)]
    async fn repetitions_have_a_bound() {
        assert_eq!(attempts(DELAYS.len()).await, [0, 0, 1, 3, 7, 15, 31, 63]);
        assert_eq!(attempts(AFTER_ERROR).await, [0, 0, 1, 3]);
        assert_eq!(attempts(0).await, [0]);
    }
}
