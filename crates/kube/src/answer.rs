//! Responses of the server and errors of requests.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::BodyExt;
use kinformer_core::BoxError;
use kinformer_reflector::{ApiStatus, SourceError, StatusCause};
use kinformer_wire::{Encoding, decode_response};
use kube_client::client::Body;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::Error;
use crate::client::{is_refused, redirect};

/// The maximum number of bytes read from the body of an error response.
const ERROR_BODY: usize = 64 * 1024;
/// The maximum number of characters shown of a body that is not a `Status`.
const SHOWN_CHARS: usize = 200;

/// Converts an error of kube-client.
pub(crate) fn failure(error: kube_client::Error) -> SourceError {
    match error {
        kube_client::Error::Api(status) => status_of(*status, None),
        kube_client::Error::Service(source) if source.is::<Error>() => SourceError::Other { source },
        other => transport(Box::new(other)),
    }
}

/// Converts a transport error. Distinguishes a refused connection from a broken one.
pub(crate) fn transport(source: BoxError) -> SourceError {
    match is_refused(&*source) {
        true => SourceError::ConnectionRefused { source },
        false => SourceError::Transport { source },
    }
}

/// Returns the encoding of a response. A response without a content type is treated as JSON.
///
/// # Errors
/// The content type, if it is neither JSON nor protobuf.
fn encoding(headers: &HeaderMap) -> Result<Encoding, String> {
    let Some(content_type) = headers.get(header::CONTENT_TYPE) else { return Ok(Encoding::default()) };
    let content_type = String::from_utf8_lossy(content_type.as_bytes());
    match content_type.trim().is_empty() {
        true => Ok(Encoding::default()),
        false => Encoding::of_content_type(&content_type).ok_or_else(|| content_type.into_owned()),
    }
}

/// Returns the encoding and the body of a successful response, or the error of any other.
pub(crate) async fn body(
    answer: Response<Body>,
    resource: &str,
    idle: Duration,
) -> Result<(Encoding, impl Stream<Item = Result<Bytes, SourceError>> + Send + Unpin + 'static), SourceError>
{
    let (parts, body) = answer.into_parts();
    if let Some(target) = redirect::location(parts.status, &parts.headers) {
        let reason = "the client does not follow redirects";
        return Err(SourceError::other(Error::Redirect { status: parts.status.as_u16(), target, reason }));
    }
    let mut stream =
        body.into_data_stream().map(|frame| frame.map_err(|error| transport(Box::new(error)))).boxed();
    if parts.status.is_success() {
        let compressed = parts.headers.get(header::CONTENT_ENCODING).filter(|value| *value != "identity");
        if let Some(encoding) = compressed {
            let encoding = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
            return Err(SourceError::other(Error::ContentEncoding { encoding }));
        }
        return match encoding(&parts.headers) {
            Ok(encoding) => Ok((encoding, stream)),
            Err(content_type) => {
                let resource = resource.to_owned();
                let start = start(&beginning(&mut stream, SHOWN_CHARS, idle).await);
                Err(SourceError::ContentType { resource, content_type, start })
            }
        };
    }
    let text = beginning(&mut stream, ERROR_BODY, idle).await;
    Err(refusal(parts.status, &parts.headers, &text))
}

/// Reads the beginning of a body: about `size` bytes, within `time`. Errors are ignored, since the status code alone is
/// enough.
async fn beginning(
    body: &mut (impl Stream<Item = Result<Bytes, SourceError>> + Unpin),
    size: usize,
    time: Duration,
) -> Vec<u8> {
    let mut text = Vec::new();
    let read = async {
        while text.len() < size
            && let Some(Ok(chunk)) = body.next().await
        {
            text.extend_from_slice(&chunk);
        }
    };
    let _ = tokio::time::timeout(time, read).await;
    text
}

/// Returns the first characters of an unexpected body.
fn start(body: &[u8]) -> String {
    String::from_utf8_lossy(body).trim().chars().take(SHOWN_CHARS).collect()
}

/// Returns the delay after which a server expects the same request.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns the error of an unsuccessful response: its `Status`, or one with the beginning of the text that a proxy
/// wrote.
fn refusal(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> SourceError {
    let retry_after = retry_after(headers);
    if let Some(mut status) = status(encoding(headers).unwrap_or_default(), body) {
        if status.code == 0 {
            status.code = code.as_u16();
        }
        return status_of(status, retry_after);
    }
    let message = format!("not a response of a Kubernetes API: {:?}", start(body));
    let mut status = ApiStatus::new(code.as_u16(), code.canonical_reason().unwrap_or_default(), message);
    status.retry_after = retry_after;
    status.into()
}

/// Decodes a `Status`, which without a kind has a code and a reason. Returns `None` if the body is not one.
fn status(encoding: Encoding, body: &[u8]) -> Option<kube_core::Status> {
    #[derive(Deserialize)]
    struct Kind {
        kind: Option<String>,
    }
    let kind: Kind = decode_response(encoding, body).ok()?;
    let Status(status) = decode_response(encoding, body).ok()?;
    let is_status = match kind.kind.as_deref() {
        None | Some("") => status.code > 0 && !status.reason.is_empty(),
        Some(kind) => kind == "Status",
    };
    is_status.then_some(status)
}

/// A `Status` in which null is an absent field, as in Go.
pub(crate) struct Status(pub(crate) kube_core::Status);

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut status = Value::deserialize(deserializer)?;
        drop_nulls(&mut status);
        kube_core::Status::deserialize(status).map(Self).map_err(D::Error::custom)
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(elements) => {
            elements.retain(|element| !element.is_null());
            elements.iter_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

/// Converts a `Status` into the reflector's error.
pub(crate) fn status_of(status: kube_core::Status, retry_after: Option<Duration>) -> SourceError {
    let mut ours = ApiStatus::new(status.code, status.reason, status.message);
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
