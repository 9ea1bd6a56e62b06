//! Redirects.

use std::borrow::Cow;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri, header};
use kinformer_core::BoxError;
use kube_client::client::Body;
use tower::Service;

use super::connecting::is_refused;
use super::copy::copy;
use super::renewal::Renewing;
use super::requests;
use super::span;
use super::transport::AnswerBody;
use super::warnings::Warnings;
use crate::Error;

/// The maximum number of redirects in a row, as in Go.
const MAX_REDIRECTS: u32 = 10;

/// Follows redirects of a GET within one scheme, host and port.
#[derive(Clone)]
pub(super) struct Redirects {
    inner: Renewing,
    warnings: Warnings,
}

impl Redirects {
    pub(super) fn new(inner: Renewing) -> Self {
        Self { inner, warnings: Warnings::default() }
    }
}

impl Service<Request<Body>> for Redirects {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let span = span::of(&mut request); // in the caller's span, in which kube-client calls this
        let answer = follow(self.inner.clone(), self.warnings.clone(), request);
        span::within(span, answer, error_type).boxed()
    }
}

/// As `SourceError::error_type` of the error that a lister-watcher makes of this one.
fn error_type(error: &BoxError) -> Cow<'static, str> {
    match error.is::<Error>() {
        true => "other".into(),
        false if is_refused(&**error) => "connection_refused".into(),
        false => "transport".into(),
    }
}

async fn follow(
    inner: Renewing,
    warnings: Warnings,
    mut request: Request<Body>,
) -> Result<Response<AnswerBody>, BoxError> {
    let mut followed = 0;
    loop {
        let (from, method) = (request.uri().clone(), request.method().clone());
        let again = copy(&request);
        let answer = inner.send(request).await;
        requests::count(&from, &method, answer.as_ref().ok().map(Response::status));
        let answer = answer?;
        warnings.log(&method, &from, answer.headers());
        let Some(location) = location(answer.status(), answer.headers()) else { return Ok(answer) };
        let refused = |reason| {
            let status = answer.status().as_u16();
            Err(Error::Redirect { status, target: location.clone(), reason }.into())
        };
        let Some(target) = target(&from, &location) else { return refused("its target is not a URL") };
        if method != Method::GET {
            return refused("only a GET is redirected");
        }
        if !same_server(&from, &target) {
            return refused("its target has another scheme, host or port");
        }
        if followed == MAX_REDIRECTS {
            return refused("it is the eleventh redirect in a row");
        }
        let Some(mut next) = again else { return refused("the body of the request cannot be sent again") };
        *next.uri_mut() = target;
        request = next;
        followed += 1;
    }
}

/// Returns the target of a redirect; `None` if the response is not one.
pub(crate) fn location(status: StatusCode, headers: &http::HeaderMap) -> Option<String> {
    let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = headers.get(header::LOCATION).filter(|_| redirects)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Resolves a location against the URL of the request: absolute, `//host/path`, `/path`, `?query` or relative.
fn target(from: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default();
    let relative = match location.find([':', '/', '?']) {
        Some(end) => !location.get(end..)?.starts_with(':'),
        None => true,
    };
    if !relative {
        return location.parse().ok();
    }
    let path = match location.chars().next() {
        Some('/') if location.starts_with("//") => {
            return format!("{}:{location}", from.scheme_str()?).parse().ok();
        }
        Some('/') => location.to_owned(),
        Some('?') => format!("{}{location}", from.path()),
        Some(_) => {
            let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{location}")
        }
        None => from.path_and_query()?.as_str().to_owned(),
    };
    let mut parts = from.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

fn same_server(one: &Uri, other: &Uri) -> bool {
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    let scheme = |uri: &Uri| uri.scheme_str().map(str::to_ascii_lowercase);
    one.host().is_some()
        && host(one) == host(other)
        && scheme(one) == scheme(other)
        && port(one) == port(other)
}

fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 })
}
