//! Answers of the server that are no objects, and failures to get one.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::BodyExt;
use kinformer_core::BoxError;
use kinformer_reflector::{ApiError, Status, StatusCause};
use kinformer_wire::{Encoding, decode_answer};
use kube_client::client::Body;

/// How much of an error's body is read.
const ERROR_BODY: usize = 64 * 1024;
/// How much of a body that is no Status is shown.
const SHOWN: usize = 200;

/// What kube-client could not do.
pub(crate) fn failure(error: kube_client::Error) -> ApiError {
    match error {
        kube_client::Error::Api(status) => status_of(*status, None),
        other => transport(Box::new(other)),
    }
}

/// A connection that was refused is told from one that broke.
pub(crate) fn transport(source: BoxError) -> ApiError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*source);
    let mut refused = false;
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        refused |= io.is_some_and(|io| io.kind() == ErrorKind::ConnectionRefused);
        cause = error.source();
    }
    if refused { ApiError::ConnectionRefused { source } } else { ApiError::Transport { source } }
}

/// How an answer is written. A proxy that says nothing or something else is taken at its word when it is read.
fn encoding(headers: &HeaderMap) -> Encoding {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.and_then(Encoding::of_content_type).unwrap_or_default()
}

/// How an answer that says success is written, and its body; else the error that it is.
pub(crate) async fn body(
    answer: Response<Body>,
    idle: Duration,
) -> Result<(Encoding, impl Stream<Item = Result<Bytes, ApiError>> + Send + Unpin + 'static), ApiError> {
    let (parts, body) = answer.into_parts();
    let mut stream =
        body.into_data_stream().map(|frame| frame.map_err(|error| transport(Box::new(error)))).boxed();
    if parts.status.is_success() {
        return Ok((encoding(&parts.headers), stream));
    }
    let mut text = Vec::new();
    while text.len() < ERROR_BODY {
        match tokio::time::timeout(idle, stream.next()).await {
            Ok(Some(Ok(chunk))) => text.extend_from_slice(&chunk),
            // Whatever has come says enough; the code alone does.
            Ok(None | Some(Err(_))) | Err(_) => break,
        }
    }
    Err(refusal(parts.status, &parts.headers, &text))
}

/// What an answer that does not say success is: a Status, or the text that a proxy wrote.
fn refusal(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiError {
    let retry_after = headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
    if let Some(mut status) = status(encoding(headers), body) {
        if status.code == 0 {
            status.code = code.as_u16();
        }
        return status_of(status, retry_after);
    }
    let text = String::from_utf8_lossy(body);
    let start: String = text.trim().chars().take(SHOWN).collect();
    let message = format!("not an answer of a Kubernetes API: {start:?}");
    let mut status = Status::new(code.as_u16(), code.canonical_reason().unwrap_or_default(), message);
    status.retry_after = retry_after;
    status.into()
}

/// Reads a Status, if it is one.
fn status(encoding: Encoding, body: &[u8]) -> Option<kube_core::Status> {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    let kind: Kind = decode_answer(encoding, body).ok()?;
    (kind.kind == "Status").then(|| decode_answer(encoding, body).ok()).flatten()
}

/// A Status in the reflector's words.
pub(crate) fn status_of(status: kube_core::Status, retry_after: Option<Duration>) -> ApiError {
    let mut ours = Status::new(status.code, status.reason, status.message);
    ours.retry_after = retry_after;
    if let Some(details) = status.details {
        let seconds = u64::from(details.retry_after_seconds);
        ours.retry_after = retry_after.or((seconds > 0).then(|| Duration::from_secs(seconds)));
        let cause = |cause: kube_core::response::StatusCause| {
            StatusCause::new(cause.reason, cause.message).field(cause.field)
        };
        ours.causes = details.causes.into_iter().map(cause).collect();
    }
    ours.into()
}
