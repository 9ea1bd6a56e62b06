//! Responses.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use ::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;

use crate::status::Status;

/// The message of a refused request, for the log.
#[derive(Clone)]
pub(super) struct Refusal(pub(super) Arc<str>);

/// A response. An error in its body breaks the connection.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;
pub(crate) type Answer = Response<Body>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) fn with_body(code: StatusCode, content_type: HeaderValue, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, content_type);
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never: Infallible| match never {}).boxed_unsync()
}

pub(super) fn json_bytes(code: StatusCode, bytes: Bytes) -> Answer {
    with_body(code, JSON, full(bytes))
}

pub(super) fn json(code: StatusCode, value: &Value) -> Answer {
    json_bytes(code, Bytes::from(value.to_string()))
}

/// JSON with another media type.
pub(super) fn bytes_as(content_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
    with_body(StatusCode::OK, HeaderValue::from_static(content_type), full(bytes.into()))
}

pub(super) fn text(code: StatusCode, text: &'static str) -> Answer {
    with_body(
        code,
        HeaderValue::from_static("text/plain; charset=utf-8"),
        full(Bytes::from_static(text.as_bytes())),
    )
}

pub(super) fn failure(status: &Status) -> Answer {
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json(code, &status.to_json());
    answer.extensions_mut().insert(Refusal(status.message().into()));
    if let Some(seconds) = status.retry_after_seconds() {
        answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    answer
}

/// A body of chunks that are produced on demand.
pub(super) fn stream_of(
    pieces: impl futures::Stream<Item = Result<Bytes, io::Error>> + Send + 'static,
) -> Body {
    use futures::StreamExt;
    StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync()
}

/// Waits until the data given to the connection has probably been sent. HTTP/2 discards queued data when a stream is
/// reset and does not report when it has been sent, so this waits a fixed time. Used only for injected faults.
pub(super) async fn written() {
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
}

pub(super) fn broken_off() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "injected fault")
}

/// Truncates a response in the middle of its first chunk.
pub(super) async fn truncate(answer: Answer) -> Answer {
    let (parts, mut body) = answer.into_parts();
    let first = match body.frame().await {
        Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    };
    let half = first.slice(..first.len() / 2);
    // The second chunk must not be polled before the first has been sent, or both would be lost.
    let pieces = stream::unfold(Some(half), |half| async {
        match half {
            Some(half) => Some((Ok(half), None)),
            None => {
                written().await;
                Some((Err(broken_off()), None))
            }
        }
    });
    Answer::from_parts(parts, stream_of(pieces))
}
