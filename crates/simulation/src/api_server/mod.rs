//! The API servers of a world: the model of kube-apiserver, whose requests take time and are noted in the trace.

mod beside;
mod inject;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures::future::Either;
use http::{Request, header};
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::Service as _;

use crate::random::pick;
use crate::record::{Objects, Record};
use crate::request_rate::{Kind, Projection, RequestRate, Sender};
use crate::server::{
    Balancer, Cluster, DISCOVERY, History, Key, Lag, Options, Route, Server, WatchErrors, is_of_object,
};
use crate::state::PANICS;
use crate::trace::Recorder;
pub(crate) use beside::Beside;

/// One in so many worlds is crowded, which takes a hundred times as long as another one.
const CROWDED: u8 = 200;

/// The API server of a world: one or several servers of a cluster behind a balancer. Clones are handles.
#[derive(Clone)]
pub(crate) struct ApiServer {
    cluster: Cluster,
    servers: Arc<[Server]>,
    balancer: Balancer,
    /// A server whose watch cache has stopped, besides a single other one. It answers the lists for a version.
    stale: Option<Server>,
    /// Whether responses are damaged.
    is_damaged: bool,
    /// Whether there are more than 1,024 objects for some time.
    is_crowded: bool,
    /// Whether objects are written so often that no slow handler keeps up.
    is_busy: Arc<AtomicBool>,
    /// Whether informers have a transform that panics for some states.
    has_panicking_transform: bool,
    latency: Arc<Mutex<Rng>>,
    recorder: Recorder,
    calm: Arc<AtomicBool>,
    /// Whether a restored backup has set the versions back.
    went_back: Arc<AtomicBool>,
    removals: Arc<Mutex<Removals>>,
    /// The servers of a reference, which follows the requests of the clients of this handle.
    beside: Option<Beside>,
}

/// Removals of informers.
#[derive(Clone, Copy, Default, PartialEq)]
struct Removals {
    running: usize,
    ended: u64,
}

impl ApiServer {
    /// Creates a server without objects.
    pub(crate) fn new(rng: &mut Rng, recorder: &Recorder) -> Self {
        let cluster = Cluster::new();
        let options = Options {
            bookmark_interval: Duration::from_secs(rng.u64(1..60)),
            watch_lists: rng.u8(..4) > 0,
            watch_errors: pick(rng, [WatchErrors::Events, WatchErrors::Statuses]),
            page_limit: pick(rng, [None, None, None, Some(3)]),
            protobuf: rng.bool(),
            shards: false,
        };
        let faults = pick(rng, [0, 0, 20, 200]);
        let count = pick(rng, [1, 1, 2, 3]);
        let server = |number| {
            let server = Server::new(&cluster, rng.u64(..), options);
            let (requests, name) = (recorder.clone(), format!("server {number}"));
            server.observe(move |line| requests.note(&name, line));
            server.set_fault_rate(faults);
            server
        };
        let servers: Arc<[Server]> = (0..count).map(server).collect();
        recorder.note("world", format_args!("{count} servers, {options:?}, faults {faults} per mille"));
        let mut rng = rng.fork();
        let created = Self {
            balancer: Balancer::new(servers.iter().cloned(), rng.u64(..)),
            stale: (rng.u8(..5) == 0 && count == 1).then(|| Server::new(&cluster, rng.u64(..), options)),
            is_damaged: rng.u8(..4) == 0,
            is_crowded: rng.u8(..CROWDED) == 0,
            is_busy: Arc::default(),
            has_panicking_transform: rng.clone().u8(..3) == 0,
            cluster,
            servers,
            latency: Arc::new(Mutex::new(rng.fork())),
            recorder: recorder.clone(),
            calm: Arc::default(),
            went_back: Arc::default(),
            removals: Arc::default(),
            beside: None,
        };
        if let Some(stale) = &created.stale {
            stale.set_lag(Lag::Stopped);
            created.put("configmaps", "a/p0", "newer");
            created.put("secrets", "a/p0", "newer");
            // A watch cannot continue from the version of the stale server.
            created.restart();
            recorder.note("world", "lists for a version are stale");
        }
        created
    }

    /// Returns a client whose requests these servers answer. Its requests are counted apart from those of other clients.
    #[expect(clippy::too_many_lines, reason = "one client service, whose parts share what they capture")]
    pub(crate) fn client(&self) -> Client {
        let (balancer, latency) = (self.balancer.clone(), self.latency.clone());
        let (rate, recorder) = (Arc::new(Mutex::new((0, RequestRate::default()))), self.recorder.clone());
        let removals = self.removals.clone();
        let stale = self.stale.clone();
        let (beside, servers) = (self.beside.clone(), self.servers.clone());
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let time = Duration::from_micros(latency.lock().u64(..20_000));
            let mut balancer = balancer.clone();
            // Lists of kube-client, whose queries begin with `&`, are those of a user, and have no rate.
            let is_of_user = request.uri().query().is_some_and(|query| query.starts_with('&'));
            if is_of_object(&request) || is_of_user || request.uri().path() == DISCOVERY {
                return Either::Left(async move {
                    sleep(time).await;
                    balancer.call(request).await
                });
            }
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
            let is_metadata = accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata"));
            let is_of_one = query
                .split('&')
                .all(|parameter| parameter == "limit=1" || parameter.starts_with("labelSelector="));
            let kind = match query.contains("watch=") {
                true => Kind::Watch,
                false if is_metadata && is_of_one => Kind::Question,
                false => Kind::List,
            };
            let projection = match kind {
                Kind::Question => None,
                _ if is_metadata => Some(Projection::Metadata),
                _ => Some(Projection::Whole),
            };
            let removed = *removals.lock();
            if removed.running == 0 {
                let mut rate = rate.lock();
                if rate.0 != removed.ended {
                    rate.0 = removed.ended;
                    rate.1.forget_requests();
                }
                let sender = Sender { path, projection };
                if let Err(problem) = rate.1.request(kind, sender, query, Instant::now()) {
                    recorder.violation(problem);
                }
            }
            let is_list = query.contains("resourceVersion=") && !query.contains("watch=");
            let stale = stale.clone().filter(|_| is_list);
            let beside = beside.as_ref().filter(|_| kind != Kind::Question);
            let seen = beside.and_then(|beside| beside.mark(request.uri().path(), &servers));
            let (path, rate, removals) = (path.to_owned(), rate.clone(), removals.clone());
            if let Some(seen) = seen {
                request.extensions_mut().insert(seen);
            }
            Either::Right(async move {
                sleep(time).await;
                let answer = match stale {
                    Some(mut stale) => stale.call(request).await?,
                    None => balancer.call(request).await?,
                };
                let delay = answer
                    .headers()
                    .get(header::RETRY_AFTER)
                    .and_then(|delay| delay.to_str().ok()?.parse().ok());
                if let Some(seconds) = delay
                    && *removals.lock() == removed
                {
                    let sender = Sender { path: &path, projection };
                    rate.lock().1.retry_after(kind, sender, seconds, Instant::now());
                }
                Ok::<_, std::io::Error>(answer)
            })
        });
        Client::new(service, "default")
    }

    /// An informer is about to be removed. The one after it does not know its requests, so none are counted meanwhile, and
    /// the count begins at zero afterwards.
    pub(crate) fn removal_begins(&self) {
        self.removals.lock().running += 1;
    }

    /// The informer is removed.
    pub(crate) fn removal_ended(&self) {
        let mut removals = self.removals.lock();
        removals.running = removals.running.saturating_sub(1);
        removals.ended += 1;
    }

    /// Reads the whole history. `read` must not call this server.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&History) -> R) -> R {
        self.cluster.read(read)
    }

    /// Reads the history of a resource. `read` must not call this server.
    pub(crate) fn history<R>(&self, plural: &str, read: impl FnOnce(Record<'_>) -> R) -> R {
        self.cluster.read(|history| read(Record::new(history, plural)))
    }

    /// Returns the objects of a resource.
    pub(crate) fn objects(&self, plural: &str) -> Objects {
        self.history(plural, |history| history.newest())
    }

    /// Creates or replaces an object. Returns its version.
    pub(crate) fn put(&self, plural: &str, key: &str, value: &str) -> u64 {
        self.cluster.put(model_key(plural, key), json!({"data": {"value": value}}))
    }

    /// Creates or replaces an object with this content. Returns its version.
    pub(crate) fn put_content(&self, plural: &str, key: &str, content: Value) -> u64 {
        self.cluster.put(model_key(plural, key), content)
    }

    /// Creates or replaces an object by one that does not decode, or whose transform panics. Returns its version.
    pub(crate) fn put_undecodable(&self, plural: &str, key: &str) -> u64 {
        let content = match self.has_panicking_transform && self.newest().is_multiple_of(2) {
            true => json!({"data": {"value": PANICS}}),
            false => json!({"metadata": {"labels": 7}}),
        };
        self.cluster.put(model_key(plural, key), content)
    }

    /// Changes the content of all objects without changing their versions, and ends all watches, so that all objects are
    /// listed.
    pub(crate) fn convert(&self) {
        self.cluster.convert(&json!({"data": {"value": "converted 0"}}));
        self.restart();
    }

    /// Returns a handle whose clients are followed by a reference, and the servers of the reference. Faults are
    /// injected by this handle.
    pub(crate) fn with_reference(&self, rng: &mut Rng) -> (Self, Beside) {
        let beside = Beside::new(&self.servers, self.stale.clone(), &self.recorder, rng);
        (Self { beside: Some(beside.clone()), ..self.clone() }, beside)
    }

    /// Breaks all connections, also those that are silent.
    pub(crate) fn break_watches(&self) {
        self.all().for_each(Server::break_watches);
    }

    /// Restarts all servers.
    fn restart(&self) {
        self.all().for_each(Server::restart);
    }

    /// All servers, and those of a reference.
    fn all(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().chain(self.beside.iter().flat_map(Beside::servers))
    }

    /// A server, and its copy for a reference.
    fn both(&self, number: usize) -> impl Iterator<Item = &Server> {
        let copy = self.beside.as_ref().and_then(|beside| beside.servers().get(number));
        self.servers.get(number).into_iter().chain(copy)
    }

    /// The newest version of a list that was sent for an object.
    pub(crate) fn listed(&self, plural: &str, key: &str) -> u64 {
        let namespace = key.split_once('/').map(|(namespace, _)| namespace);
        let servers = self.servers.iter().chain(&self.stale);
        let listed = servers.flat_map(|server| [None, namespace].map(|scope| server.listed(plural, scope)));
        listed.max().unwrap_or_default()
    }

    /// Whether a list of a resource had an item without a name. Such a list deletes no objects.
    pub(crate) fn was_incomplete(&self, plural: &str) -> bool {
        self.servers.iter().chain(&self.stale).any(|server| server.was_incomplete(plural))
    }

    /// Deletes an object whose final state has another content. Returns the version of the deletion.
    pub(crate) fn delete_with(&self, plural: &str, key: &str, value: &str) -> Option<u64> {
        self.cluster.delete_with(model_key(plural, key), json!({"data": {"value": value}}))
    }

    /// Deletes an object. Returns the version of the deletion, or `None` if there is no such object.
    pub(crate) fn delete(&self, plural: &str, key: &str) -> Option<u64> {
        self.cluster.delete(model_key(plural, key))
    }

    /// Whether a backup was restored.
    pub(crate) fn is_restored(&self) -> bool {
        self.cluster.read(History::restores) > 0
    }

    /// Whether a restored backup has set the versions back.
    pub(crate) fn has_gone_back(&self) -> bool {
        self.went_back.load(Ordering::Relaxed)
    }

    /// Whether the watch cache of a server has not reached a version.
    pub(crate) fn lags_behind(&self, version: u64) -> bool {
        self.servers.iter().any(|server| server.position() < version)
    }

    /// The newest version.
    pub(crate) fn newest(&self) -> u64 {
        self.cluster.read(History::newest)
    }

    /// Moves the version on, as writes of other resources do.
    pub(crate) fn skip(&self, versions: u64) {
        self.cluster.skip(versions);
    }

    /// Restores the state at a version, and uses the versions after it again.
    pub(crate) fn restore(&self, version: u64) {
        self.went_back.store(true, Ordering::Relaxed);
        self.cluster.restore(version);
    }

    /// Restores the state at a version, and continues ahead of the newest version.
    pub(crate) fn restore_ahead(&self, version: u64, versions: u64) {
        self.cluster.restore_ahead(version, versions);
    }

    /// Whether there are more than 1,024 objects for some time.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// Objects are going to be written very often.
    pub(crate) fn set_busy(&self) {
        self.is_busy.store(true, Ordering::Relaxed);
    }

    /// Whether there are so many objects or writes that slow handlers do not keep up.
    pub(crate) fn has_quick_handlers(&self) -> bool {
        self.is_crowded || self.is_busy.load(Ordering::Relaxed)
    }

    /// Whether informers have a transform that panics for the value [`PANICS`].
    pub(crate) fn has_panicking_transform(&self) -> bool {
        self.has_panicking_transform
    }

    /// Returns whether all faults have ended.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// The number of responses whose bodies are open.
    pub(crate) fn open_bodies(&self) -> usize {
        self.servers.iter().map(Server::open_bodies).sum()
    }

    /// Ends all faults. In some seeds, silent connections stay.
    pub(crate) fn heal(&self, rng: &mut Rng) {
        self.calm.store(true, Ordering::Relaxed);
        self.balancer.route(Route::Random);
        let end: fn(&Server) = if rng.bool() { Server::calm } else { Server::heal };
        self.all().for_each(end);
        if let Some(beside) = &self.beside {
            beside.drop_faults();
        }
    }
}

fn model_key(plural: &str, key: &str) -> Key {
    let (namespace, name) = key.split_once('/').unwrap_or_default();
    Key::new(plural, namespace, name)
}
