//! The API server of a world: the model of kube-apiserver, whose requests take time and are noted in the trace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::{Request, header};
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tower::Service as _;

use crate::judge::{Change, Objects, objects_at, version_of};
use crate::random::pick;
use crate::request_rate::RequestRate;
use crate::server::{Cluster, Damage, Fault, Key, Lag, Options, Server, Stop, Verb, WatchErrors};
use crate::trace::Recorder;

/// The API server of a world. Clones are handles.
#[derive(Clone)]
pub(crate) struct ApiServer {
    cluster: Cluster,
    server: Server,
    /// A server whose watch cache has stopped. It answers the lists for a version.
    stale: Option<Server>,
    /// Whether responses are damaged.
    is_damaged: bool,
    /// The history of each resource, in the form of the judge.
    history: Arc<Mutex<BTreeMap<String, Vec<Change>>>>,
    latency: Arc<Mutex<Rng>>,
    rate: Arc<Mutex<RequestRate>>,
    recorder: Recorder,
    calm: Arc<AtomicBool>,
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
        };
        let server = Server::new(&cluster, rng.u64(..), options);
        let requests = recorder.clone();
        server.observe(move |line| requests.note("server", line));
        let faults = pick(rng, [0, 0, 20, 200]);
        server.set_fault_rate(faults);
        recorder.note("world", format_args!("{options:?}, faults {faults} per mille"));
        let mut rng = rng.fork();
        let created = Self {
            stale: (rng.u8(..10) == 0).then(|| Server::new(&cluster, rng.u64(..), options)),
            is_damaged: rng.u8(..4) == 0,
            cluster,
            server,
            history: Arc::default(),
            latency: Arc::new(Mutex::new(rng.fork())),
            rate: Arc::default(),
            recorder: recorder.clone(),
            calm: Arc::default(),
        };
        if let Some(stale) = &created.stale {
            stale.set_lag(Lag::Stopped);
            created.put("configmaps", "a/p0", "newer");
            created.put("secrets", "a/p0", "newer");
            // A watch cannot continue from the version of the stale server.
            created.server.restart();
            recorder.note("world", "lists for a version are stale");
        }
        created
    }

    /// Returns a client whose requests this server answers.
    pub(crate) fn client(&self) -> Client {
        let (server, latency) = (self.server.clone(), self.latency.clone());
        let (rate, recorder) = (self.rate.clone(), self.recorder.clone());
        let stale = self.stale.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let counted = rate.lock().request(path, query, Instant::now());
            if let Err(problem) = counted {
                recorder.violation(problem);
            }
            // A refused question for the newest version delays no watch (R-20f).
            let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
            let is_question = accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata"));
            let is_list = query.contains("resourceVersion=") && !query.contains("watch=");
            let mut server = stale.clone().filter(|_| is_list).unwrap_or_else(|| server.clone());
            let (path, query, rate) = (path.to_owned(), query.to_owned(), rate.clone());
            let time = Duration::from_micros(latency.lock().u64(..20_000));
            async move {
                sleep(time).await;
                let answer = server.call(request).await?;
                let delay = answer
                    .headers()
                    .get(header::RETRY_AFTER)
                    .and_then(|delay| delay.to_str().ok()?.parse().ok());
                if let Some(seconds) = delay.filter(|_| !is_question) {
                    rate.lock().retry_after(&path, &query, seconds, Instant::now());
                }
                Ok::<_, std::io::Error>(answer)
            }
        });
        Client::new(service, "default")
    }

    /// Reads the history of a resource.
    pub(crate) fn history<R>(&self, plural: &str, read: impl FnOnce(&[Change]) -> R) -> R {
        read(self.history.lock().get(plural).map_or(&[], Vec::as_slice))
    }

    /// Returns the objects of a resource.
    pub(crate) fn objects(&self, plural: &str) -> Objects {
        self.history(plural, |history| objects_at(history, u64::MAX))
    }

    /// Creates or replaces an object. Returns its version.
    pub(crate) fn put(&self, plural: &str, key: &str, value: &str) -> u64 {
        let version = self.cluster.put(model_key(plural, key), json!({"data": {"value": value}}));
        self.record(plural, key, version);
        version
    }

    /// Creates or replaces an object by one that does not decode. Returns its version.
    pub(crate) fn put_undecodable(&self, plural: &str, key: &str) -> u64 {
        let version = self.cluster.put(model_key(plural, key), json!({"metadata": {"labels": 7}}));
        self.record(plural, key, version);
        version
    }

    /// Changes the content of all objects without changing their versions, and ends all watches, so that all objects are
    /// listed.
    pub(crate) fn convert(&self) {
        let content = json!({"data": {"value": "converted 0"}});
        self.cluster.convert(&content);
        for history in self.history.lock().values_mut() {
            let converted = objects_at(history, u64::MAX).into_iter().map(|(key, mut state)| {
                if let Some((state, content)) = state.as_object_mut().zip(content.as_object()) {
                    state.extend(content.clone());
                }
                Change { version: version_of(&state), key, state: Some(state), last: None }
            });
            let converted: Vec<_> = converted.collect();
            history.extend(converted);
            history.sort_by_key(|change| change.version);
        }
        self.cluster.skip(1);
        self.server.restart();
    }

    /// The newest version of a list that was sent for an object.
    pub(crate) fn listed(&self, plural: &str, key: &str) -> u64 {
        let namespace = key.split_once('/').map(|(namespace, _)| namespace);
        let servers = [Some(&self.server), self.stale.as_ref()].into_iter().flatten();
        let listed = servers.flat_map(|server| [None, namespace].map(|scope| server.listed(plural, scope)));
        listed.max().unwrap_or_default()
    }

    /// Whether a list of a resource had an item without a name. Such a list deletes no objects.
    pub(crate) fn was_incomplete(&self, plural: &str) -> bool {
        self.server.was_incomplete(plural)
    }

    /// Deletes an object whose final state has another content. Returns the version of the deletion.
    pub(crate) fn delete_with(&self, plural: &str, key: &str, value: &str) -> Option<u64> {
        let version = self.cluster.delete_with(model_key(plural, key), json!({"data": {"value": value}}))?;
        self.record(plural, key, version);
        Some(version)
    }

    /// Deletes an object. Returns the version of the deletion, or `None` if there is no such object.
    pub(crate) fn delete(&self, plural: &str, key: &str) -> Option<u64> {
        let version = self.cluster.delete(model_key(plural, key))?;
        self.record(plural, key, version);
        Some(version)
    }

    fn record(&self, plural: &str, key: &str, version: u64) {
        let state = self.cluster.read(|history| history.object(&model_key(plural, key)).cloned());
        let last = self.cluster.read(|history| {
            let deletion = history.changes().last().filter(|change| change.after.is_none())?;
            deletion.before.clone()
        });
        let change = Change { version, key: key.into(), state, last };
        self.history.lock().entry(plural.into()).or_default().push(change);
    }

    /// Injects a random fault. Returns its description.
    pub(crate) fn inject(&self, rng: &mut Rng) -> String {
        if self.is_damaged && rng.bool() {
            return self.inject_damage(rng);
        }
        match rng.u8(..10) {
            8 | 9 => {
                self.expire();
                "expires all versions, and breaks all watches".into()
            }
            0 => {
                self.server.break_watches();
                "breaks all watches".into()
            }
            1 | 2 => {
                let version = rng.u64(..=self.server.position());
                self.cluster.compact(version);
                self.server.drop_events(version);
                format!("compacts at {version}")
            }
            3 => {
                self.server.restart();
                "restarts the server".into()
            }
            4 => {
                let lags = [Lag::None, Lag::After(Duration::from_millis(rng.u64(..20_000))), Lag::Stopped];
                let lag = pick(rng, lags);
                self.server.set_lag(lag);
                format!("the watch cache: {lag:?}")
            }
            5 => {
                self.cluster.skip(rng.u64(1..5));
                "writes of other resources".into()
            }
            _ => {
                let stop = pick(rng, [Stop::Broken, Stop::Ended, Stop::Silent]);
                let faults = [
                    Fault::Status { code: pick(rng, [404, 410, 429, 500, 503, 504]), retry_after: None },
                    Fault::Busy { code: pick(rng, [429, 503]), seconds: rng.u32(1..60) },
                    Fault::Stop { bytes: rng.usize(..2_000), stop },
                    Fault::Delay(Duration::from_millis(rng.u64(..10_000))),
                    Fault::Refused,
                    Fault::NoAnswer,
                    Fault::NoBookmarks,
                ];
                let fault = pick(rng, faults);
                self.server.plan(None, fault);
                format!("the next request: {fault:?}")
            }
        }
    }

    /// Damages the next event, or the next list, which is then needed. Returns its description.
    fn inject_damage(&self, rng: &mut Rng) -> String {
        let damage = pick(rng, [Damage::Event, Damage::Name, Damage::Kind, Damage::Version]);
        let is_list = match damage {
            Damage::Event => false,
            Damage::Name => rng.bool(),
            Damage::Kind | Damage::Version => true,
        };
        if is_list {
            self.expire();
        }
        let verb = if is_list { Verb::List } else { Verb::Watch };
        self.server.plan(verb, Fault::Damaged(damage));
        format!("the next {verb:?}: {damage:?}")
    }

    /// Expires all versions, and breaks all watches.
    fn expire(&self) {
        let version = self.server.position();
        self.cluster.compact(version);
        self.server.drop_events(version);
        self.server.break_watches();
    }

    /// Returns whether all faults have ended.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// The number of responses whose bodies are open.
    pub(crate) fn open_bodies(&self) -> usize {
        self.server.open_bodies()
    }

    /// Ends all faults. In some seeds, silent connections stay.
    pub(crate) fn heal(&self, rng: &mut Rng) {
        self.calm.store(true, Ordering::Relaxed);
        if rng.bool() { self.server.calm() } else { self.server.heal() }
    }
}

fn model_key(plural: &str, key: &str) -> Key {
    let (namespace, name) = key.split_once('/').unwrap_or_default();
    Key::new(plural, namespace, name)
}
