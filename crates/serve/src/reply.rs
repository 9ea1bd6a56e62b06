//! Responses: JSON, a Kubernetes-like `Status` for errors, and validators.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::json;

/// An error response.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) retry_after: Option<u64>,
}

impl Failure {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), retry_after: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(crate) fn hidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Hidden", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": self.reason, "message": self.message, "code": self.code.as_u16(),
        });
        let mut response = json_of(&status);
        *response.status_mut() = self.code;
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.code == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Returns a JSON response.
pub(crate) fn json_of(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => body_of("application/json", bytes),
        // No type of this crate fails to serialize.
        Err(error) => {
            tracing::error!(%error, "a response could not be serialized");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Returns a response of a content type.
pub(crate) fn body_of(content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns the quoted form of a tag. Characters that are not allowed in it are replaced.
fn quoted(tag: &str) -> Option<HeaderValue> {
    let safe: String = tag.chars().map(|c| if c.is_ascii_graphic() && c != '"' { c } else { '_' }).collect();
    HeaderValue::from_str(&format!("\"{safe}\"")).ok()
}

/// FNV-1a, which is the same in every build.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Adds an entity tag to a response, or answers 304 if the client has that version.
pub(crate) fn tagged(request: &HeaderMap, tag: &str, response: impl FnOnce() -> Response) -> Response {
    let Some(quoted) = quoted(tag) else { return response() };
    let mut response = if has_tag(request, &quoted) {
        let mut unchanged = Response::new(Body::empty());
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else {
        response()
    };
    response.headers_mut().insert(header::ETAG, quoted);
    response
}

/// Whether `If-None-Match` names this tag. Weak tags count, since compression makes tags weak.
fn has_tag(request: &HeaderMap, tag: &HeaderValue) -> bool {
    let Ok(tag) = tag.to_str() else { return false };
    let named = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = named.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}
