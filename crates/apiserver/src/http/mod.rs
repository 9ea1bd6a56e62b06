//! The API over HTTP: from request to response.

mod admission;
mod admitted;
mod answer;
mod binary;
mod collection;
mod connection;
mod context;
mod conversion;
mod deadline;
mod deletions;
mod differences;
mod discovery;
mod field_manager;
mod fields;
mod list;
mod negotiate;
mod objects;
mod openapi;
mod params;
mod request;
mod reviews;
mod rights;
mod serialized;
mod sha256;
mod warnings;
mod watch;
mod web_pages;

use std::sync::Arc;

use ::http::{Method, Request, header};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use crate::access::{Attributes, User, bearer};
use crate::faults::{Fault, Kind as FaultKind, RequestFaults, Requested, Verb};
use crate::registry::Resource;
use crate::requests::LoggedRequest;
use crate::status::{Status, Subject};

pub(crate) use answer::Answer;
#[cfg(feature = "test-cluster")]
pub(crate) use connection::connect;
pub(crate) use connection::{Listening, TlsAcceptor, serve};
pub(crate) use context::{Context, Options};
pub use context::{FaultHeader, ShardSelectors};
pub use negotiate::ProtobufAnswers;
pub(crate) use web_pages::Hosts;

use answer::Refusal;
use context::FAULT_HEADER;
use request::{Query, Target};
use reviews::Review;
use warnings::Warnings;
use web_pages::{Credentials, LocalEnd};

/// The request gets no response, and its connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("connection closed without a response")]
pub(crate) struct Refused;

/// What a request asks for.
struct Asked {
    query: Query,
    target: Option<Target>,
    resource: Option<Arc<Resource>>,
    review: Option<&'static Review>,
    verb: Verb,
}

impl Asked {
    fn of(context: &Context, request: &Request<Incoming>) -> Self {
        let query = Query::parse(request.uri().query().unwrap_or(""));
        let target = Target::parse(request.uri().path());
        let resource = target.as_ref().and_then(|target| target.resource(&context.api.registry()));
        let review = target.as_ref().and_then(Review::of);
        let verb = verb_of(request.method(), target.as_ref(), &query);
        Self { query, target, resource, review, verb }
    }

    /// Returns the plural; empty for a request without a resource that is served.
    fn plural(&self) -> &str {
        let of_review = self.review.map_or("", |review| review.plural);
        self.resource.as_ref().map_or(of_review, |resource| resource.kind.plural.as_str())
    }

    fn subject(&self) -> Subject<'_> {
        let group = self.resource.as_ref().map_or("", |resource| resource.kind.group.as_str());
        Subject { group, resource: self.plural() }
    }

    fn name(&self) -> &str {
        self.target.as_ref().and_then(|target| target.name.as_deref()).unwrap_or("")
    }

    fn requested(&self, request: &Request<Incoming>) -> Requested {
        let subresource = self.target.as_ref().and_then(|target| target.subresource.clone());
        let agent = request.headers().get(header::USER_AGENT).map(|agent| agent.as_bytes());
        Requested {
            verb: self.verb,
            resource: self.plural().to_owned(),
            subresource: subresource.unwrap_or_default(),
            namespace: self.target.as_ref().map_or("", Target::namespace).to_owned(),
            name: self.name().to_owned(),
            field_manager: self.query.text("fieldManager").to_owned(),
            user_agent: String::from_utf8_lossy(agent.unwrap_or_default()).into_owned(),
        }
    }

    fn logged(&self, request: &Request<Incoming>, user: &str) -> LoggedRequest {
        let Requested { verb, resource, subresource, namespace, name, field_manager, user_agent } =
            self.requested(request);
        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
        LoggedRequest {
            verb,
            resource,
            subresource,
            namespace,
            name,
            field_manager,
            user_agent,
            user: user.to_owned(),
            ..LoggedRequest::of(request.method().as_str(), path)
        }
    }
}

/// Handles one request.
///
/// # Errors
/// [`Refused`] if a fault demands it.
pub(crate) async fn handle(
    context: Arc<Context>,
    request: Request<Incoming>,
    local_end: LocalEnd,
) -> Result<Answer, Refused> {
    let asked = Asked::of(&context, &request);
    let user = user_of(&context, &request, local_end);
    let logged = context.log.begin(|| asked.logged(&request, user.as_ref().map_or("", |user| &user.name)));
    let answer = respond(&context, request, asked, user).await;
    if let Some(logged) = logged {
        let answered = answer.as_ref().ok();
        let refusal = answered.and_then(|answer| answer.extensions().get::<Refusal>());
        let message = refusal.map_or("", |Refusal(message)| &**message);
        context.log.end(logged, answered.map(|answer| answer.status().as_u16()), message);
    }
    answer
}

/// Returns the user of a request.
///
/// # Errors
/// 400 for a malformed host or malformed impersonation, 401 for an unknown token, 403 for web pages, and for impersonation
/// without the right to it.
fn user_of(context: &Context, request: &Request<Incoming>, local_end: LocalEnd) -> Result<User, Status> {
    let host = web_pages::host(request)?;
    let (access, headers, uri) = (&context.access, request.headers(), request.uri());
    let registry = context.api.registry();
    let user = access.authenticate(&registry, &context.api.clock, headers, uri.path())?;
    let is_checked = !access.is_open() && (!access.has_roles() || bearer(headers).is_some());
    let credentials = if is_checked { Credentials::Checked } else { Credentials::None };
    context.hosts.check(host.as_ref(), local_end, credentials)?;
    web_pages::check_page(request, host.as_ref(), local_end)?;
    access.impersonate(&registry, user, headers, || attributes(request))
}

fn attributes(request: &Request<Incoming>) -> Attributes {
    let uri = request.uri();
    Attributes::of_request(request.method(), uri.path(), uri.query().unwrap_or(""))
}

async fn respond(
    context: &Arc<Context>,
    request: Request<Incoming>,
    asked: Asked,
    user: Result<User, Status>,
) -> Result<Answer, Refused> {
    let verb = asked.verb;
    context.counters.request(verb, asked.plural());
    let end = deadline::of(&asked.query, verb);
    let allowed = end.and_then(|end| user.map(|user| (user, end))).and_then(|(user, end)| {
        if context.access.has_roles() {
            context.access.check(&context.api.registry(), &user, &attributes(&request))?;
        }
        Ok((user, end))
    });
    let (user, end) = match allowed {
        Ok(allowed) => allowed,
        Err(status) => return Ok(answer::failure(&status)),
    };

    let requested = match context.fault_header {
        FaultHeader::Ignored => Vec::new(),
        FaultHeader::Honoured => {
            let values = request.headers().get_all(FAULT_HEADER);
            let parts = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
            parts.filter_map(Fault::from_header).collect()
        }
    };
    let forbidden = || attributes(&request).forbidden(&user.name, "");
    let mut faults = RequestFaults::new(context.faults.clone(), requested, asked.requested(&request));
    if let Some(status) = before_response(context, &mut faults, &asked, forbidden).await? {
        return Ok(answer::failure(&status));
    }
    let truncated = verb != Verb::Watch && faults.truncates();
    let answer = route(context, request, asked, faults, (user, end));
    let answer = match end {
        Some(end) => timeout_at(end, answer).await.unwrap_or_else(|_| Err(deadline::exceeded())),
        None => answer.await,
    };
    let answer = answer.unwrap_or_else(|status| answer::failure(&status));
    Ok(if truncated { answer::truncate(answer).await } else { answer })
}

/// Injects the faults of a request before its response. Returns the error that replaces the response.
///
/// # Errors
/// [`Refused`] if a fault demands it.
async fn before_response(
    context: &Context,
    faults: &mut RequestFaults,
    asked: &Asked,
    forbidden: impl Fn() -> Status,
) -> Result<Option<Status>, Refused> {
    while let Some(fault) = faults.before_response() {
        let status = match fault {
            FaultKind::Refuse => return Err(Refused),
            FaultKind::Delay(by) => {
                tokio::select! {
                    () = tokio::time::sleep(by) => continue,
                    () = context.shutdown.cancelled() => return Err(Refused),
                }
            }
            FaultKind::Expired => Status::expired("The resourceVersion for the provided list is too old."),
            FaultKind::Forbidden => forbidden(),
            FaultKind::TooManyRequests(seconds) => Status::too_many_requests(seconds),
            FaultKind::Conflict => Status::modified(asked.subject(), asked.name()),
            FaultKind::InternalError => Status::internal("injected fault"),
            // A stalled request gets no response until the server ends.
            _ => {
                context.shutdown.cancelled().await;
                return Err(Refused);
            }
        };
        return Ok(Some(status));
    }
    Ok(None)
}

fn verb_of(method: &Method, target: Option<&Target>, query: &Query) -> Verb {
    let Some(target) = target else { return Verb::Other };
    if target.plural.is_empty() {
        return Verb::Other;
    }
    let named = target.name.is_some();
    match method.as_str() {
        "GET" if target.watch || query.flag("watch") && target.subresource.is_none() => Verb::Watch,
        "GET" if named => Verb::Get,
        "GET" => Verb::List,
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "PATCH" => Verb::Patch,
        "DELETE" if named => Verb::Delete,
        "DELETE" => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

async fn route(
    context: &Arc<Context>,
    request: Request<Incoming>,
    asked: Asked,
    faults: RequestFaults,
    (user, end): (User, Option<Instant>),
) -> Result<Answer, Status> {
    let Asked { query, target, resource, review, verb } = asked;
    let query = &query;
    let Some(target) = target else {
        return discovery::answer(context, &request);
    };
    if let Some(review) = review {
        return review.answer(context, request, query, &target, &user).await;
    }
    let resource = resource
        .ok_or_else(|| differences::refusal(&target.group, &target.plural, target.subresource.as_deref()))?;
    if target.namespace.is_some() && !resource.kind.namespaced {
        return Err(Status::no_such_path());
    }
    let warnings = Warnings::about(&resource.kind);
    let answer = match verb {
        Verb::Watch => watch::answer(context, &request, query, &target, resource, faults).await,
        Verb::List => list::answer(context, &request, query, &target, &resource, faults).await,
        _ => {
            let by = objects::By { verb, user, end };
            return objects::answer(context, request, query, &target, resource, by, faults).await;
        }
    };
    Ok(warnings.on(answer.unwrap_or_else(|status| answer::failure(&status))))
}
