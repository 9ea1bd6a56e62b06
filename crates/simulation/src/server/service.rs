//! A server as a `tower::Service`.

use std::fmt;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use fastrand::Rng;
use futures::future::BoxFuture;
use http::{Request, Response, header};
use kube_client::client::Body;
use parking_lot::RwLock;
use serde_json::Value;
use tower::Service;

use super::body::{AnswerBody, Sender};
use super::cache::Lag;
use super::cluster::Cluster;
use super::encoding::Encoding;
use super::faults::{Fault, Verb};
use super::list::{Source, list};
use super::request::{DISCOVERY, Query, is_of_object, resources};
use super::state::{Connection, Options, Shared, WatchErrors};
use super::status::Status;
use super::watch::{Refusal, Watch};

type Observer = dyn Fn(&str) + Send + Sync;

/// An extension of a request: receives the server that it reaches, and the fault that it meets.
#[derive(Clone)]
pub(crate) struct Seen(Arc<SeenFn>);

type SeenFn = dyn Fn(&Server, Verb, Option<Fault>) + Send + Sync;

impl Seen {
    pub(crate) fn new(seen: impl Fn(&Server, Verb, Option<Fault>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(seen))
    }
}

/// One kube-apiserver of a cluster, with its own watch cache and faults. Clones are handles.
///
/// It is a `tower::Service` for `kube_client::Client::new(server, "default")`. It serves lists and watches of
/// `configmaps`, `secrets` and `pods`, and of `widgets` in the group `simulation.example/v1`.
#[derive(Clone)]
pub struct Server {
    pub(super) shared: Arc<Shared>,
    observer: Arc<RwLock<Option<Arc<Observer>>>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server whose cache has the newest state. The seed determines the chunks of bodies and random faults.
    pub fn new(cluster: &Cluster, seed: u64, options: Options) -> Self {
        Self { shared: Arc::new(Shared::new(cluster.clone(), seed, options)), observer: Arc::default() }
    }

    /// Creates a server of the same cluster with the same settings, without faults.
    pub(crate) fn copy(&self, seed: u64) -> Self {
        Self::new(&self.shared.cluster, seed, self.shared.options)
    }

    /// Whether `sendInitialEvents` is accepted.
    pub(crate) fn has_watch_lists(&self) -> bool {
        self.shared.options.watch_lists
    }

    /// Whether two handles are of one server.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Sets a function that receives a line for each request and each response. It is called without a lock.
    pub fn observe(&self, observer: impl Fn(&str) + Send + Sync + 'static) {
        *self.observer.write() = Some(Arc::new(observer));
    }

    /// Returns the version that the watch cache has reached.
    pub fn position(&self) -> u64 {
        self.shared.with(|state, _| state.cache.position())
    }

    /// Sets how far the watch cache is behind the history. It never goes back to an older state.
    pub fn set_lag(&self, lag: Lag) {
        self.shared.with(|state, _| state.cache.set_lag(lag));
        self.shared.cluster.notify();
    }

    /// Drops the events up to a version from the watch cache: a watch from an older version is expired. Open watches
    /// continue.
    pub fn drop_events(&self, version: u64) {
        self.shared.with(|state, _| state.cache.drop_events(version));
    }

    /// Breaks all connections. Responses that have not begun are not affected.
    pub fn break_watches(&self) {
        self.shared.break_connections(false);
    }

    /// Restarts the server: breaks all connections, and the cache begins with the newest state, without events.
    pub fn restart(&self) {
        self.shared.break_connections(true);
    }

    /// Plans a fault for the next request, or for the next request of a kind. Planned faults are used in order.
    pub fn plan(&self, verb: impl Into<Option<Verb>>, fault: Fault) {
        self.shared.with(|state, _| state.faults.plan(verb.into(), fault));
    }

    /// Sets how many of 1000 requests meet a random fault, in addition to the planned ones.
    pub fn set_fault_rate(&self, per_mille: u32) {
        self.shared.with(|state, _| state.faults.set_rate(per_mille));
    }

    /// Begins an outage, in which every request meets a fault, and breaks all connections; `None` ends it.
    pub fn set_outage(&self, fault: Option<Fault>) {
        self.shared.with(|state, _| state.faults.set_outage(fault));
        match fault {
            Some(_) => self.break_watches(),
            None => self.shared.cluster.notify(),
        }
    }

    /// The newest version of a list that was sent for a resource and a namespace, or for all namespaces.
    pub fn listed(&self, plural: &str, namespace: Option<&str>) -> u64 {
        let scope = (plural.to_owned(), namespace.map(str::to_owned));
        self.shared.with(|state, _| state.listed.get(&scope).copied().unwrap_or_default())
    }

    /// Whether a list of a resource had an item without a name.
    pub fn was_incomplete(&self, plural: &str) -> bool {
        self.shared.with(|state, _| state.incomplete.contains(plural))
    }

    /// Ends all faults, and keeps all connections, also those that are silent.
    pub fn calm(&self) {
        self.shared.with(|state, _| {
            state.faults.clear();
            state.cache.set_lag(Lag::None);
        });
        self.shared.cluster.notify();
    }

    /// Ends all faults: planned, random and the lag. Connections that are silent break.
    pub fn heal(&self) {
        self.calm();
        self.break_watches();
    }

    /// The number of responses whose bodies are open.
    pub fn open_bodies(&self) -> usize {
        Arc::strong_count(&self.shared.body) - 1
    }

    pub(super) fn note(&self, number: u64, text: &str) {
        let observer = self.observer.read().clone();
        if let Some(observer) = observer {
            observer(&format!("request {number}: {text}"));
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each fault of a request")]
    async fn respond(self, request: Request<Body>) -> io::Result<Response<AnswerBody>> {
        let query = Query::of(&request);
        let query = if self.shared.options.shards { query } else { query.map(Query::without_shard) };
        let verb = query.as_ref().map_or(Verb::List, Query::verb);
        let (number, fault, rng) = self.shared.with(|state, _| {
            state.requests += 1;
            let fault = state.faults.take(verb, &mut state.rng);
            (state.requests, fault, state.rng.fork())
        });
        if let Some(Seen(seen)) = request.extensions().get() {
            seen(&self, verb, fault);
        }
        self.note(number, &request.uri().to_string());
        if let Some(fault) = fault {
            self.note(number, &format!("{fault:?}"));
        }
        if fault == Some(Fault::Unreachable) {
            self.shared.connected().await?;
        }
        let connection = self.shared.connection();
        let mut sender = self.sender(connection, rng);
        let mut retry_after = None;
        let faulty = match fault {
            Some(Fault::Refused) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Fault::NoAnswer) => return pending().await,
            Some(Fault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                None
            }
            Some(Fault::Stop { bytes, stop }) => {
                sender.stop = Some((bytes, stop));
                None
            }
            Some(Fault::Status { code, retry_after: seconds }) => {
                retry_after = seconds;
                let status = Status::of_code(code);
                Some(seconds.map_or(status.clone(), |seconds| status.retry_after(seconds)))
            }
            Some(Fault::Busy { code, seconds }) => {
                retry_after = Some(seconds);
                Some(Status::of_code(code))
            }
            Some(Fault::NoBookmarks | Fault::Damaged(_) | Fault::Unreachable) | None => None,
        };
        let filled = match (faulty, query) {
            (Some(status), _) | (None, Err(status)) => Err(status),
            (None, Ok(query)) => match verb {
                Verb::List | Verb::Object => self.list(&query, fault, &mut sender).await,
                Verb::Watch => self.watch(query, connection, fault, &mut sender).await,
            },
        };
        let (code, encoding) = match filled {
            Ok(encoding) => (200, encoding),
            Err(status) => {
                sender.ready = BytesMut::from(status.to_json().to_string().as_bytes());
                (status.code, Encoding::Json)
            }
        };
        self.note(number, &format!("status {code}, {encoding:?}"));
        respond(code, encoding.media_type(verb == Verb::Watch), retry_after, sender)
    }

    /// Answers a request for one object.
    pub(super) fn answer(
        &self,
        number: u64,
        result: Result<Value, Status>,
        retry_after: Option<u32>,
        mut sender: Sender,
    ) -> io::Result<Response<AnswerBody>> {
        let (code, body) = match result {
            Ok(body) => (200, body),
            Err(status) => (status.code, status.to_json()),
        };
        self.note(number, &format!("status {code}"));
        sender.ready = BytesMut::from(body.to_string().as_bytes());
        respond(code, Encoding::Json.media_type(false), retry_after, sender)
    }

    pub(super) fn sender(&self, connection: Connection, rng: Rng) -> Sender {
        let (shared, body) = (self.shared.clone(), self.shared.body.clone());
        Sender { shared, connection, rng, ready: BytesMut::new(), watch: None, stop: None, _body: body }
    }

    async fn list(
        &self,
        query: &Query,
        fault: Option<Fault>,
        sender: &mut Sender,
    ) -> Result<Encoding, Status> {
        let source = Source::of(query)?;
        if let Source::Cache { at_least } = source {
            self.shared.fresh(at_least).await?;
        }
        let page_limit = self.shared.options.page_limit;
        let body = self.shared.with(|state, history| {
            let mut list = list(query, &source, history, state.cache.position(), page_limit)?;
            let version =
                list.pointer("/metadata/resourceVersion").and_then(|version| version.as_str()?.parse().ok());
            state.list_sent(query.scope(), version.unwrap_or_default());
            if let Some(Fault::Damaged(damage)) = fault
                && damage.of_list(query, &mut list)
            {
                state.incomplete.insert(query.scope().0);
            }
            Ok(list)
        })?;
        let encoding = query.encoding(self.shared.options.protobuf);
        let encoded = encoding.list(&body);
        // Between two items a list in protobuf looks complete, unlike one in JSON.
        if let (Some((stop, _)), Some(last)) = (&mut sender.stop, encoding.last_item(&body))
            && stop.is_multiple_of(2)
        {
            *stop = encoded.len() - last;
        }
        sender.ready.extend_from_slice(&encoded);
        Ok(encoding)
    }

    async fn watch(
        &self,
        query: Query,
        connection: Connection,
        fault: Option<Fault>,
        sender: &mut Sender,
    ) -> Result<Encoding, Status> {
        let encoding = query.encoding(self.shared.options.protobuf);
        match Watch::start(&self.shared, connection, query).await {
            Ok((watch, lines)) => {
                let bookmarks = fault != Some(Fault::NoBookmarks);
                let watch = if bookmarks { watch } else { watch.without_bookmarks() };
                sender.watch = Some(match fault {
                    Some(Fault::Damaged(damage)) => watch.damaged(damage),
                    _ => watch,
                });
                sender.ready.extend_from_slice(&lines);
                Ok(encoding)
            }
            Err(Refusal::Event(status)) if self.shared.options.watch_errors == WatchErrors::Events => {
                let mut lines = Vec::new();
                encoding.event(&mut lines, "ERROR", &status.to_json());
                sender.ready.extend_from_slice(&lines);
                Ok(encoding)
            }
            Err(Refusal::Event(status) | Refusal::Status(status)) => Err(status),
        }
    }
}

impl Service<Request<Body>> for Server {
    type Response = Response<AnswerBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() == DISCOVERY {
            let sender = self.sender(self.shared.connection(), Rng::with_seed(0));
            let answer = self.answer(0, Ok(resources()), None, sender);
            return Box::pin(async move { answer });
        }
        match is_of_object(&request) {
            true => Box::pin(self.clone().respond_to_object(request)),
            false => Box::pin(self.clone().respond(request)),
        }
    }
}

fn respond(
    code: u16,
    media_type: &str,
    retry_after: Option<u32>,
    sender: Sender,
) -> io::Result<Response<AnswerBody>> {
    let mut response = Response::builder().status(code).header(header::CONTENT_TYPE, media_type);
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response.body(sender.into_body()).map_err(io::Error::other)
}
