//! The span of a request. docs/observability.md lists its fields.

use std::borrow::Cow;

use http::{Request, Response};
use kube_client::client::Body;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// Marks a request that has its span.
#[derive(Clone)]
struct Marked;

/// Creates the span of a request within the current span. A request has one span, which the first caller gets: others get
/// the disabled span.
pub(crate) fn of(request: &mut Request<Body>) -> Span {
    if request.extensions().get::<Marked>().is_some() {
        return Span::none();
    }
    let span = tracing::debug_span!(
        "request",
        otel.kind = "client",
        http.request.method = request.method().as_str(),
        url.path = request.uri().path(),
        url.query = request.uri().query(),
        k8s.namespace.name = namespace(request.uri().path()),
        http.response.status_code = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    );
    if !span.is_disabled() {
        request.extensions_mut().insert(Marked);
    }
    span
}

/// The namespace in a path. A request for a namespace itself is one in it, as in kube-apiserver (`RequestInfo`).
fn namespace(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/namespaces/")?;
    rest.split('/').next()
}

/// Sends a request in its span, and records the head of the response.
pub(crate) async fn within<B, E>(
    span: Span,
    answer: impl Future<Output = Result<Response<B>, E>>,
    error_type: impl FnOnce(&E) -> Cow<'static, str>,
) -> Result<Response<B>, E> {
    let answer = answer.instrument(span.clone()).await;
    if span.is_disabled() {
        return answer;
    }
    let error = match &answer {
        Ok(answer) => {
            let status = answer.status();
            span.record("http.response.status_code", status.as_u16());
            let has_failed = status.is_client_error() || status.is_server_error();
            has_failed.then(|| Cow::Owned(status.as_str().to_owned()))
        }
        Err(error) => Some(error_type(error)),
    };
    if let Some(error) = error {
        span.record("error.type", &*error);
        span.record("otel.status_code", "ERROR");
    }
    answer
}
