//! The API server of a world: the model of kube-apiserver, whose requests take time and are noted in the trace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::Request;
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tower::Service as _;

use crate::judge::{Change, Objects, objects_at};
use crate::random::pick;
use crate::request_rate::RequestRate;
use crate::server::{Cluster, Fault, Key, Lag, Options, Server, Stop, WatchErrors};
use crate::trace::Recorder;

/// The API server of a world. Clones are handles.
#[derive(Clone)]
pub(crate) struct ApiServer {
    cluster: Cluster,
    server: Server,
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
        };
        let server = Server::new(&cluster, rng.u64(..), options);
        let requests = recorder.clone();
        server.observe(move |line| requests.note("server", line));
        let faults = pick(rng, [0, 0, 20, 200]);
        server.set_fault_rate(faults);
        recorder.note("world", format_args!("{options:?}, faults {faults} per mille"));
        Self {
            cluster,
            server,
            history: Arc::default(),
            latency: Arc::new(Mutex::new(rng.fork())),
            rate: Arc::default(),
            recorder: recorder.clone(),
            calm: Arc::default(),
        }
    }

    /// Returns a client whose requests this server answers.
    pub(crate) fn client(&self) -> Client {
        let (server, latency) = (self.server.clone(), self.latency.clone());
        let (rate, recorder) = (self.rate.clone(), self.recorder.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let counted = rate.lock().request(path, query, Instant::now());
            if let Err(problem) = counted {
                recorder.violation(problem);
            }
            let mut server = server.clone();
            let time = Duration::from_micros(latency.lock().u64(..20_000));
            async move {
                sleep(time).await;
                server.call(request).await
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

    /// Deletes an object. Returns the version of the deletion, or `None` if there is no such object.
    pub(crate) fn delete(&self, plural: &str, key: &str) -> Option<u64> {
        let version = self.cluster.delete(model_key(plural, key))?;
        self.record(plural, key, version);
        Some(version)
    }

    fn record(&self, plural: &str, key: &str, version: u64) {
        let state = self.cluster.read(|history| history.object(&model_key(plural, key)).cloned());
        let change = Change { version, key: key.into(), state };
        self.history.lock().entry(plural.into()).or_default().push(change);
    }

    /// Injects a random fault. Returns its description.
    pub(crate) fn inject(&self, rng: &mut Rng) -> String {
        match rng.u8(..10) {
            8 | 9 => {
                let version = self.server.position();
                self.cluster.compact(version);
                self.server.drop_events(version);
                self.server.break_watches();
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

    /// Returns whether all faults have ended.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// The number of responses whose bodies are open.
    pub(crate) fn open_bodies(&self) -> usize {
        self.server.open_bodies()
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.server.heal();
    }
}

fn model_key(plural: &str, key: &str) -> Key {
    let (namespace, name) = key.split_once('/').unwrap_or_default();
    Key::new(plural, namespace, name)
}
