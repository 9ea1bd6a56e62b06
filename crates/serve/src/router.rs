//! From a request to its handler.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use kinformer::ObjectKey;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use crate::app::{App, Surface};
use crate::assets;
use crate::checks::is_health;
use crate::connections::Holding;
use crate::controller_answers::{self, CONTROLLERS, RING};
use crate::guard::check_size;
use crate::metrics::{self, Figures};
use crate::openapi;
use crate::query::{Query, segments};
use crate::reply::{Failure, body_of, json_of};
use crate::state::InformerState;
use crate::watched::Watched;
use crate::{ask, events, explain, health, objects};

/// The prefix of the paths of informers.
pub(crate) const INFORMERS: &str = "/api/v1/informers";

const EVENTS: &str = "/api/v1/events";
const METRICS: &str = "/metrics";

/// Responses of at least this many bytes are compressed.
const COMPRESSED: u64 = 1024;

type Shared = State<Arc<App>>;

/// Builds the router.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = health::router().route(METRICS, get(metrics_text));
    if app.settings.surface == Surface::All {
        router = router
            .route(INFORMERS, get(informers))
            // The segments of deeper paths depend on the scope of the resource, so they are split in one place.
            .route(&format!("{INFORMERS}/{{*path}}"), get(below_informers).post(below_informers))
            .route(CONTROLLERS, get(controller_answers::all))
            .route(&format!("{CONTROLLERS}/{{*path}}"), get(controller_answers::below))
            .route(RING, get(controller_answers::ring))
            .route(EVENTS, get(stream))
            .route("/openapi.json", get(document));
        for asset in assets::ASSETS {
            let file: MethodRouter<Arc<App>> =
                get(move |headers: HeaderMap| async move { asset.response(&headers) });
            router = router.route(asset.path, file);
        }
    }
    let compressed = SizeAbove::new(COMPRESSED).and(NotForContentType::const_new("text/event-stream"));
    router
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(CompressionLayer::new().compress_when(compressed))
        .layer(from_fn_with_state(app.clone(), around))
        .with_state(app)
}

/// Builds the router of the listener for probes.
pub(crate) fn probes(app: Arc<App>) -> Router {
    health::router()
        .fallback(|| async { Failure::not_found("this address has /healthz and /readyz only") })
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(app.clone(), around_probes))
        .with_state(app)
}

async fn around_probes(State(app): Shared, request: Request, next: Next) -> Response {
    let response = match check_size(&request) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    };
    finished(&app, response, true)
}

/// Checks a request, limits its time, and adds the headers that all responses have.
async fn around(State(app): Shared, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_api = path.starts_with("/api/") || path == METRICS || path == "/openapi.json";
    let response = match app.settings.guard.check(&request) {
        Ok(()) => limited(&app, request, next).await,
        Err(failure) => failure.into_response(),
    };
    finished(&app, response, is_api)
}

/// Counts a response, and adds the headers that all have.
fn finished(app: &App, mut response: Response, is_api: bool) -> Response {
    app.metrics.answered(response.status().as_u16());
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if is_api || !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

async fn limited(app: &App, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    // Streams have a limit of their own, and the health is answered under any load. Their reviews are limited as requests.
    let is_limited = path != EVENTS && !is_health(path);
    let is_reviewed = app.settings.access.is_some() && !app.settings.guard.is_public(path);
    if !is_limited && !is_reviewed {
        return next.run(request).await;
    }
    let Ok(permit) = app.requests.clone().try_acquire_owned() else {
        let message =
            format!("{} requests are being answered, and there can be no more", app.settings.limits.requests);
        return Failure::new(StatusCode::SERVICE_UNAVAILABLE, "TooManyRequests", message)
            .retry_after(1)
            .into_response();
    };
    if !is_limited {
        let checked = check_access(app, request.method(), request.uri(), request.headers()).await;
        drop(permit);
        return match checked {
            Ok(()) => next.run(request).await,
            Err(failure) => failure.into_response(),
        };
    }
    let allowed = async {
        check_access(app, request.method(), request.uri(), request.headers()).await?;
        Ok::<_, Failure>(next.run(request).await)
    };
    match tokio::time::timeout(app.settings.limits.request_timeout, allowed).await {
        // A response that the client does not read is limited by the time for writes.
        Ok(Ok(response)) => response.map(|body| Holding::body(body, permit)),
        Ok(Err(failure)) => failure.into_response(),
        Err(_) => {
            let after = app.settings.limits.request_timeout.as_secs();
            Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("no answer within {after} s"))
                .into_response()
        }
    }
}

/// Lets the API server decide about a request, if it is asked.
///
/// # Errors
/// As [`Access::check`](crate::access::Access::check).
async fn check_access(app: &App, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
    match &app.settings.access {
        Some(access) if !app.settings.guard.is_public(uri.path()) => {
            access.check(method, uri.path(), headers).await
        }
        _ => Ok(()),
    }
}

async fn informers(State(app): Shared) -> Result<Response, Failure> {
    let json = app.state_json().await?;
    Ok(body_of("application/json", json.to_string()))
}

async fn stream(State(app): Shared, uri: Uri, headers: HeaderMap) -> Result<Response, Failure> {
    events::events(app, &Query::of(&uri), &headers)
}

async fn metrics_text(State(app): Shared) -> Result<Response, Failure> {
    let figures =
        Figures { streams: app.streams.len(), views: app.views.figures(), changes: app.memory.figures() };
    let text = app.metrics.text(&figures).map_err(Failure::internal)?;
    Ok(body_of(metrics::CONTENT_TYPE, text))
}

async fn document() -> Response {
    json_of(&openapi::document())
}

async fn unknown(State(app): Shared, uri: Uri) -> Failure {
    no_path(&app, &uri)
}

fn no_path(app: &App, uri: &Uri) -> Failure {
    let is_served = |path: &str| app.settings.surface == Surface::All || path == METRICS || is_health(path);
    let paths: Vec<&str> =
        openapi::ROUTES.iter().map(|route| route.path).filter(|path| is_served(path)).collect();
    Failure::not_found(format!("there is no path {:?}; the paths are: {}", uri.path(), paths.join(", ")))
}

async fn not_allowed(method: Method, uri: Uri) -> Failure {
    method_not_allowed(&method, uri.path())
}

fn method_not_allowed(method: &Method, path: &str) -> Failure {
    let message = format!("{method} is not supported by {path}; objects are only read here");
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
}

/// What is requested of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Object,
    History,
    Explain,
    Ask,
}

impl Of {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "history" => Self::History,
            "explain" => Self::Explain,
            "ask" => Self::Ask,
            _ => return None,
        })
    }

    fn is_allowed(self, method: &Method) -> bool {
        match self {
            Self::Ask => *method == Method::POST,
            _ => matches!(*method, Method::GET | Method::HEAD),
        }
    }
}

/// `/api/v1/informers/…`.
async fn below_informers(
    State(app): Shared,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let query = Query::of(&uri);
    let path = uri.path().strip_prefix(INFORMERS).and_then(|path| path.strip_prefix('/')).unwrap_or_default();
    let all = segments(path)?;
    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    let [informer, below @ ..] = names.as_slice() else { return Err(no_path(&app, &uri)) };
    let watched = app.find(informer, &query)?;
    let is_read = matches!(method, Method::GET | Method::HEAD);
    if !is_read && !matches!(below, ["objects", _, ..]) {
        return Err(method_not_allowed(&method, uri.path()));
    }
    match below {
        [] => {
            let state = tokio::task::spawn_blocking(move || {
                json_of(&InformerState::of(&watched, &app.trends, app.failures_of(&watched)))
            });
            state.await.map_err(|error| Failure::internal(error.to_string()))
        }
        ["indexes"] => Ok(objects::indexes(&app, &watched)),
        ["indexes", index] => objects::index(app, watched, (*index).to_owned(), query).await,
        ["objects"] => objects::list(app, watched, query, headers).await,
        ["objects", rest @ ..] => {
            let (key, of) = object(&watched, rest)?;
            if !of.is_allowed(&method) {
                return Err(method_not_allowed(&method, uri.path()));
            }
            match of {
                Of::Object => {
                    app.clone().read(move || objects::object(&app, &watched, &key, &query, &headers)).await?
                }
                Of::History => objects::history(app, watched, key).await,
                Of::Explain => app.clone().read(move || explain::explain(&app, &watched, &key)).await?,
                Of::Ask => ask::ask(app, watched, key).await,
            }
        }
        _ => Err(no_path(&app, &uri)),
    }
}

/// Returns the key in the segments after `objects`, and what is requested of it.
fn object(watched: &Watched, segments: &[&str]) -> Result<(ObjectKey, Of), Failure> {
    let invalid = |error: kinformer::KeyError| Failure::bad_request(error.to_string());
    let (key, rest) = match (watched.informer.selection().is_namespaced(), segments) {
        (true, [namespace, name, rest @ ..]) => (ObjectKey::new(namespace, name).map_err(invalid)?, rest),
        (false, [name, rest @ ..]) => (ObjectKey::named(name).map_err(invalid)?, rest),
        (true, _) => {
            return Err(Failure::not_found(format!(
                "{} are in namespaces: …/objects/NAMESPACE/NAME",
                watched.name()
            )));
        }
        (false, []) => return Err(Failure::not_found("…/objects/NAME")),
    };
    let of = match rest {
        [] => Some(Of::Object),
        [what] => Of::named(what),
        _ => None,
    };
    let of = of.ok_or_else(|| {
        let place = if watched.informer.selection().is_namespaced() { "NAMESPACE/NAME" } else { "NAME" };
        Failure::not_found(format!(
            "{} have …/objects/{place}, and below it history, explain and ask (POST)",
            watched.name()
        ))
    })?;
    Ok((key, of))
}
