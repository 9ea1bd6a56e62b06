//! A process with a manager and a sharded controller.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use http::{Method, Request};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::{CancellationToken, Informer, ObjectKey, ShardField, SharedInformerFactory, WatchListMode};
use kinformer_controller::kinformer_ring::{Ring, Slots};
use kinformer_controller::{Action, Controller, Error, Manager, ReconcileError, Request as Key, Sharding};
use kube_client::api::{Patch, PatchParams};
use kube_client::client::Body;
use kube_client::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::gaps::Present;
use super::judge::{Judge, NAMESPACE, RING};
use super::network::{Line, Link, Network};
use crate::election::host::{Host, Stop};
use crate::random::pick;

/// What the processes of a world have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) judge: Judge,
    pub(crate) network: Network,
    pub(crate) time: Arc<Mutex<Duration>>,
    pub(crate) renew: Duration,
    pub(crate) retry: Duration,
    /// Whether reconciliations give up writes.
    pub(crate) gives_up: bool,
}

impl Shared {
    fn now(&self) -> Duration {
        *self.time.lock()
    }

    /// Returns a client of a process, which requests only its own objects.
    fn client(&self, line: &Arc<Line>, run: &Arc<str>) -> Client {
        let (shared, line, run) = (self.clone(), line.clone(), run.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_sharded = has_part(shared.judge.params.field, request.uri().path());
            let query = request.uri().query().unwrap_or_default();
            if request.method() == Method::GET && is_sharded && !query.contains("shardSelector=") {
                let uri = request.uri();
                shared.judge.violation(format_args!("{run} requests objects that are not its own: {uri}"));
            }
            shared.network.send(&line, request, shared.now())
        });
        Client::new(service, NAMESPACE)
    }
}

/// Runs a manager until it is stopped.
async fn run_until(manager: Manager, factory: SharedInformerFactory, stop: CancellationToken, ended: Ended) {
    let result = manager.run(stop).await;
    _ = factory.shutdown().await;
    *ended.lock() = Some(result);
}

type Ended = Arc<Mutex<Option<Result<(), Error>>>>;

/// A process.
pub(crate) struct Process {
    pub(crate) identity: &'static str,
    /// The identity with the number of the start.
    pub(crate) run: Arc<str>,
    shared: Shared,
    host: Host,
    line: Arc<Line>,
    sharding: Sharding,
    maps: Informer<ConfigMap>,
    secrets: Informer<Secret>,
    stop: CancellationToken,
    ended: Ended,
    pub(crate) is_leaving: bool,
    /// From when on it can take slots over, as far as it is not stopped or isolated.
    pub(crate) healthy: Duration,
}

impl Process {
    pub(crate) fn start(
        rng: &mut Rng,
        identity: &'static str,
        number: usize,
        speed: f64,
        shared: &Shared,
    ) -> Option<Self> {
        let host = Host::new(shared.now()).with_speed(speed);
        let run: Arc<str> = format!("{identity}{number}").into();
        let (line, ended, stop) = (Arc::<Line>::default(), Ended::default(), CancellationToken::new());
        let (sharding, maps, secrets) = host.enter(|| {
            let client = shared.client(&line, &run);
            let ring = Ring::leases(client.clone(), NAMESPACE, RING)
                .identity(identity)
                .params(shared.judge.params.clone())
                .renew_period(shared.renew)
                .retry_period(shared.retry)
                .clock(host.clock.clone());
            let sharding =
                ring.build().map(Sharding::new).map_err(|error| shared.judge.violation(error)).ok()?;
            let watch_list = if rng.bool() { WatchListMode::Auto } else { WatchListMode::Off };
            let factory = SharedInformerFactory::builder(client.clone())
                .reflector(move |options| options.watch_list(watch_list))
                .build();
            let maps = factory.informer::<ConfigMap>();
            let reconciler = Reconciler {
                shared: shared.clone(),
                run: run.clone(),
                maps: maps.clone(),
                client: sharding.client(&client),
                sharding: sharding.clone(),
                rng: Mutex::new(rng.fork()),
            };
            let manager = reconciler.manager(&factory).map_err(|error| shared.judge.violation(error)).ok()?;
            let secrets = factory.informer::<Secret>();
            host.spawn(run_until(manager, factory, stop.clone(), ended.clone()));
            Some((sharding, maps, secrets))
        })?;
        let (shared, healthy, is_leaving) = (shared.clone(), shared.now(), false);
        Some(Self {
            identity,
            run,
            shared,
            host,
            line,
            sharding,
            maps,
            secrets,
            stop,
            ended,
            is_leaving,
            healthy,
        })
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.shared.judge.recorder.note(&self.run, what);
    }

    /// Runs until a time of the world, unless it is stopped.
    pub(crate) fn run_until(&self, now: Duration) {
        self.host.run_until(now);
    }

    /// Ends it: it hands its slots over.
    pub(crate) fn leave(&mut self) {
        self.note("leaves");
        self.is_leaving = true;
        self.stop.cancel();
    }

    /// Stops it for some time: nothing of it runs.
    pub(crate) fn pause(&mut self, how: Stop) {
        self.note(format_args!("is stopped: {how:?}"));
        self.host.stop(how);
        self.shared.judge.set_stopped(&self.run, true);
    }

    /// It goes on, if it was stopped.
    pub(crate) fn go_on(&mut self) {
        if self.host.is_stopped() {
            self.note("goes on");
            self.shared.judge.set_stopped(&self.run, false);
            self.host.go_on(self.shared.now());
            self.healthy = self.healthy.max(self.shared.now() + self.shared.renew * 2);
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.host.is_stopped()
    }

    /// Changes its connection with the server.
    pub(crate) fn set_link(&mut self, link: Link) {
        self.note(format_args!("connection: {link:?}"));
        self.line.set(link);
        self.healthy = self.healthy.max(self.shared.now() + self.shared.renew * 4);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.line.is_up()
    }

    /// Returns how the run has ended, if it has.
    pub(crate) fn ended(&self) -> Option<Result<(), String>> {
        self.ended.lock().as_ref().map(|ended| ended.as_ref().map(|_| ()).map_err(ToString::to_string))
    }

    pub(crate) fn owns(&self, value: &str) -> bool {
        self.host.enter(|| self.sharding.ring().owns(value))
    }

    /// Returns what it owns now.
    pub(crate) fn present(&self) -> Present {
        let ring = self.sharding.ring();
        let is_valid = self.host.enter(|| ring.check().is_ok());
        let runs = !self.is_stopped() && self.ended.lock().is_none();
        let is_healthy = runs && self.is_connected() && !self.is_leaving && self.healthy <= self.shared.now();
        Present {
            member: ring.status().id,
            runs,
            is_connected: self.is_connected(),
            owned: if is_valid { ring.status().owned } else { Slots::default() },
            healthy: is_healthy.then_some(self.healthy),
        }
    }

    /// Returns what prevents it from owning its share.
    pub(crate) fn problem(&self) -> Option<String> {
        self.sharding.ring().status().problem.map(|problem| format!("{}: {problem}", self.run))
    }

    /// Returns the UIDs of the config maps and the secrets that its informers hold.
    pub(crate) fn held(&self) -> Option<[BTreeSet<String>; 2]> {
        let maps = self
            .maps
            .snapshot()
            .ok()?
            .iter()
            .map(|map| map.object().uid().map(str::to_owned))
            .collect::<Option<_>>()?;
        let secrets = self
            .secrets
            .snapshot()
            .ok()?
            .iter()
            .map(|map| map.object().uid().map(str::to_owned))
            .collect::<Option<_>>()?;
        Some([maps, secrets])
    }
}

/// Whether the informer of these objects holds only those of the process.
fn has_part(field: ShardField, path: &str) -> bool {
    path.ends_with("/configmaps") || (field == ShardField::Namespace && path.ends_with("/secrets"))
}

/// The reconcile function of a process.
struct Reconciler {
    shared: Shared,
    run: Arc<str>,
    maps: Informer<ConfigMap>,
    client: Client,
    sharding: Sharding,
    rng: Mutex<Rng>,
}

impl Reconciler {
    /// Returns a manager with a controller that reconciles with this function.
    fn manager(self, factory: &SharedInformerFactory) -> Result<Manager, Error> {
        let (sharding, this) = (self.sharding.clone(), Arc::new(self));
        let controller = Controller::of(factory)
            .reconciles::<ConfigMap>()
            .owns::<Secret>()
            .workers(4)
            .sharded(&sharding)
            .timeout(Duration::from_secs(30)) // a write may have no answer
            .build(move |request| this.clone().reconcile(request));
        Manager::new().add(controller)?.sharding(&sharding)
    }

    async fn reconcile(self: Arc<Self>, request: Key<ObjectKey>) -> Result<Action, ReconcileError> {
        let judge = &self.shared.judge;
        let (namespace, name) = (request.key.namespace().unwrap_or_default(), request.key.name());
        let ring = self.sharding.ring();
        let Some(map) = self.maps.lister().get_opt(&request.key)? else {
            judge.missing(&self.run, (namespace, name), |value| ring.owns(value));
            return Ok(Action::none());
        };
        let (uid, version) = (map.object().uid().unwrap_or_default(), map.object().resource_version());
        let version = version.to_string().parse().unwrap_or_default();
        let active = judge.begin(&self.run, uid, version, ring.owns(judge.hashed(namespace, uid)));
        let map = map.decode()?;
        let value = map.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
        let mut rng = self.rng.lock().fork();
        let longest = pick(&mut rng, [50, 50, 50, 50, 1_000, 20_000]);
        sleep(Duration::from_millis(rng.u64(..longest))).await;
        active.goes_on();
        let limit = match self.shared.gives_up && rng.bool() {
            true => Duration::from_millis(rng.u64(..2_000)),
            false => Duration::from_secs(60),
        };
        let written = timeout(limit, self.write(namespace, name, uid, &value)).await;
        active.goes_on();
        match written {
            Ok(Err(kube_client::Error::Api(status))) if matches!(status.code, 404 | 409) => {}
            Ok(written) => written?,
            Err(_) => return Err("the write has no answer".into()),
        }
        active.succeeded(value);
        Ok(match rng.u8(..20) {
            0 => Action::requeue_after(Duration::from_millis(rng.u64(..5_000))),
            _ => Action::none(),
        })
    }

    /// Writes who has reconciled the object. A second write of a process changes nothing.
    async fn write(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        value: &str,
    ) -> Result<(), kube_client::Error> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let member = self.sharding.ring().status().id.map(|id| id.to_string());
        let annotations = json!({"value": value, "by": &*self.run, "member": member});
        let patch = json!({"metadata": {"uid": uid, "annotations": annotations}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    }
}
