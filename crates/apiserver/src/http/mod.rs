//! The API over HTTP: from a request to an answer.

mod access;
mod answer;
mod binary;
mod connection;
mod discovery;
mod list;
mod negotiate;
mod objects;
mod openapi;
mod params;
mod request;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use ::http::{Method, Request};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::faults::{Fault, Faults, Kind as FaultKind, RequestFaults, Verb};
use crate::registry::Resource;
use crate::stats::Counters;
use crate::status::{Status, Subject};

pub(crate) use access::{Access, Token};
pub(crate) use answer::Answer;
pub(crate) use connection::{Listening, TlsAcceptor, serve};
pub use negotiate::ProtobufAnswers;

use access::Entrance;
use request::{Query, Target};

/// The name of the header by which a request asks for a fault.
pub(crate) const FAULT_HEADER: &str = "x-kinformer-fault";

/// Whether requests may ask for faults by a header, `X-Kinformer-Fault`.
///
/// Its values, several of them separated by commas: `refuse`, `delay=MILLISECONDS`, `cut`, `expired`,
/// `forbidden`, `expired-event`, `too-many-requests=SECONDS`, `internal-error`, `stall`, `malformed`, `missing-bookmark`,
/// `duplicate-event`, `future-versions`. Each does what the [`Fault`] of that name does, once, to this request. What is none of
/// them is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultHeader {
    /// The header means nothing.
    #[default]
    Ignored,
    /// `X-Kinformer-Fault: cut` makes the answer to this one request break off.
    Honoured,
}

/// What every request needs.
pub(crate) struct Context {
    pub(crate) api: Api,
    pub(crate) faults: Faults,
    pub(crate) counters: Arc<Counters>,
    pub(crate) access: Access,
    pub(crate) fault_header: FaultHeader,
    pub(crate) bookmark_interval: Duration,
    protobuf: ProtobufAnswers,
    /// Cancelled when the server ends.
    pub(crate) shutdown: CancellationToken,
    /// Cancelled, and replaced, when all watches are dropped.
    watches: Mutex<CancellationToken>,
    /// Cancelled, and replaced, when all connections are dropped.
    connections: Mutex<CancellationToken>,
}

impl Context {
    pub(crate) fn new(
        api: Api,
        access: Access,
        fault_header: FaultHeader,
        bookmark_interval: Duration,
        protobuf: ProtobufAnswers,
    ) -> Self {
        let shutdown = CancellationToken::new();
        Self {
            api,
            faults: Faults::new(),
            counters: Arc::default(),
            access,
            fault_header,
            bookmark_interval,
            protobuf,
            watches: Mutex::new(shutdown.child_token()),
            connections: Mutex::new(CancellationToken::new()),
            shutdown,
        }
    }

    /// Ends all open watches, as a server does that is restarted.
    pub(crate) fn drop_watches(&self) {
        let fresh = self.shutdown.child_token();
        let old = std::mem::replace(&mut *self.watches.lock(), fresh);
        old.cancel();
    }

    /// Breaks all open connections off, whatever they are doing.
    pub(crate) fn drop_connections(&self) {
        let old = std::mem::take(&mut *self.connections.lock());
        old.cancel();
    }

    fn connection_token(&self) -> CancellationToken {
        self.connections.lock().clone()
    }

    /// Whether objects of this resource may be answered in protobuf.
    fn protobuf_for(&self, resource: &Resource) -> ProtobufAnswers {
        if crate::protobuf::knows(&resource.kind.api_version(), &resource.kind.kind) {
            self.protobuf
        } else {
            ProtobufAnswers::Refused
        }
    }

    fn watch_token(&self) -> CancellationToken {
        self.watches.lock().clone()
    }
}

/// The request gets no answer and its connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed without an answer")]
pub(crate) struct Refused;

/// Answers one request.
///
/// # Errors
/// [`Refused`] when a fault says so.
pub(crate) async fn handle(
    context: Arc<Context>,
    request: Request<Incoming>,
    entrance: Entrance,
) -> Result<Answer, Refused> {
    let query = Query::parse(request.uri().query().unwrap_or(""));
    let target = Target::parse(request.uri().path());
    let resource = target.as_ref().and_then(|target| target.resource(&context.api.registry()));
    let verb = verb_of(request.method(), target.as_ref(), &query);
    let plural = resource.as_ref().map_or("", |resource| resource.kind.plural.as_str());
    context.counters.request(verb, plural);
    if let Err(status) = context.access.check(&request, entrance) {
        return Ok(answer::failure(&status));
    }

    let own = match context.fault_header {
        FaultHeader::Ignored => Vec::new(),
        FaultHeader::Honoured => {
            let values = request.headers().get_all(FAULT_HEADER);
            let parts = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
            parts.filter_map(Fault::from_header).collect()
        }
    };
    let mut faults = RequestFaults::new(context.faults.clone(), own, verb, plural);
    while let Some(fault) = faults.at_start() {
        match fault {
            FaultKind::Refuse => return Err(Refused),
            FaultKind::Delay(by) => {
                tokio::select! {
                    () = tokio::time::sleep(by) => {}
                    () = context.shutdown.cancelled() => return Err(Refused),
                }
            }
            FaultKind::Expired => {
                return Ok(answer::failure(&Status::expired(
                    "The resourceVersion for the provided list is too old.",
                )));
            }
            FaultKind::Forbidden => {
                let group = resource.as_ref().map_or("", |resource| resource.kind.group.as_str());
                let subject = Subject { group, resource: plural };
                return Ok(answer::failure(&Status::no_rights(subject, verb.as_str())));
            }
            FaultKind::TooManyRequests(seconds) => {
                return Ok(answer::failure(&Status::too_many_requests(seconds)));
            }
            FaultKind::InternalError => {
                return Ok(answer::failure(&Status::internal("a fault was injected")));
            }
            _ => {
                context.shutdown.cancelled().await;
                return Err(Refused);
            }
        }
    }
    let cuts = verb != Verb::Watch && faults.cuts();
    let answer = match route(&context, request, &query, target, resource, verb, faults).await {
        Ok(answer) => answer,
        Err(status) => answer::failure(&status),
    };
    Ok(if cuts { answer::cut(answer).await } else { answer })
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
    query: &Query,
    target: Option<Target>,
    resource: Option<Arc<Resource>>,
    verb: Verb,
    faults: RequestFaults,
) -> Result<Answer, Status> {
    let Some(target) = target else {
        return discovery::answer(context, &request);
    };
    let resource = resource.ok_or_else(Status::no_such_path)?;
    if target.namespace.is_some() && !resource.kind.namespaced {
        return Err(Status::no_such_path());
    }
    match verb {
        Verb::Watch => watch::answer(context, &request, query, &target, resource, faults),
        Verb::List => list::answer(context, &request, query, &target, &resource, faults),
        _ => objects::answer(context, request, query, &target, &resource, verb, faults).await,
    }
}
