//! A process with a factory and a manager of controllers, which begins and ends at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures::channel::mpsc;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kinformer::kube_core::Resource;
use kinformer::{CancellationToken, ObjectKey, SharedInformerFactory, Snapshot};
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::kinformer_workqueue::{
    ItemExponential, ItemFastSlow, MaxWait, RateLimiter, default_rate_limiter,
};
use kinformer_controller::{Controller, ControllerBuilder, ControllerMetrics, Error, Key, Manager, Trigger};
use kube_client::Client;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::exclusion::Exclusion;
use super::judge::{Initial, Judge, JudgedLimiter};
use super::reconciler::Reconciler;
use super::triggers::{Keys, map_panics, plural_of, trigger};
use crate::api_server::ApiServer;
use crate::clock::ProcessClock;
use crate::factory::factory;
use crate::random::pick;
use crate::state::{State, text_of};
use crate::trace::Recorder;

/// The longest delay of a retry.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// What the processes of a world share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) server: ApiServer,
    pub(crate) recorder: Recorder,
    pub(crate) is_calm: Arc<AtomicBool>,
    pub(crate) exclusion: Exclusion,
    /// Whether the processes elect a leader.
    pub(crate) is_elected: bool,
    /// Keys with this end fail always.
    pub(crate) broken: Option<&'static str>,
}

impl Shared {
    fn elector(&self, name: &str) -> Option<LeaderElector> {
        let elector = LeaderElector::builder(self.server.client(), "default", "controllers");
        let elector = elector.identity(name).clock(ProcessClock::new()).build();
        elector.map_err(|error| self.recorder.violation(error)).ok()
    }
}

async fn run(
    manager: Manager,
    elector: Option<LeaderElector>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    match elector {
        Some(elector) => manager.leader_election(&elector).run(shutdown).await,
        None => manager.run(shutdown).await,
    }
}

/// A process.
pub(crate) struct Process {
    pub(crate) number: usize,
    name: String,
    shared: Shared,
    factory: SharedInformerFactory,
    began: Instant,
    shutdown: CancellationToken,
    run: JoinHandle<Result<(), Error>>,
    pub(crate) controllers: Vec<Controlled>,
    /// Sends keys to a stream of keys.
    keys: mpsc::Sender<String>,
    sync_timeout: Duration,
    grace: Duration,
    /// Whether an informer was removed under the controllers.
    is_deaf: bool,
}

/// A controller of a process.
pub(crate) struct Controlled {
    pub(crate) judge: Judge,
    metrics: Box<dyn Fn() -> ControllerMetrics + Send + Sync>,
    /// The resources whose events it receives.
    pub(crate) plurals: Vec<&'static str>,
}

impl Controlled {
    pub(crate) fn check_metrics(&self) {
        self.judge.check_metrics(&(self.metrics)());
    }
}

type Objects = BoxFuture<'static, Vec<Initial>>;

/// The options that the controllers of a process share.
#[derive(Clone, Copy)]
struct Options {
    sync_timeout: Duration,
    grace: Duration,
}

/// Builds the controllers of a process.
struct Building<'a> {
    rng: &'a mut Rng,
    number: usize,
    name: &'a str,
    shared: &'a Shared,
    factory: SharedInformerFactory,
    client: Client,
    options: Options,
    manager: Manager,
    controllers: Vec<Controlled>,
}

impl Process {
    /// Starts a process.
    pub(crate) fn start(rng: &mut Rng, number: usize, shared: &Shared) -> Self {
        let name = format!("process {number}");
        let recorder = &shared.recorder;
        let (factory, _) = factory(rng, &shared.server, recorder);
        let sync_timeout = Duration::from_secs(pick(rng, [120, 120, 120, 10]));
        let grace = Duration::from_millis(pick(rng, [0, 500, 30_000]));
        let client = shared.server.client();
        let elector = if shared.is_elected { shared.elector(&name) } else { None };
        let client = elector.as_ref().map_or(client.clone(), |elector| elector.client(&client));
        let (keys, stream) = mpsc::channel(100);
        let mut building = Building {
            rng,
            number,
            name: &name,
            shared,
            factory: factory.clone(),
            client,
            options: Options { sync_timeout, grace },
            manager: Manager::new(),
            controllers: Vec::new(),
        };
        building.owners();
        if building.rng.bool() {
            building.secrets();
        }
        if building.rng.bool() {
            building.names(stream);
        }
        let Building { manager, controllers, .. } = building;
        note_initial(&factory, &controllers);
        let shutdown = CancellationToken::new();
        recorder.note(&name, format_args!("starts, sync timeout {sync_timeout:?}, grace {grace:?}"));
        let run = tokio::spawn(run(manager, elector, shutdown.clone()));
        let began = Instant::now();
        let shared = shared.clone();
        let is_deaf = false;
        Self {
            number,
            name,
            shared,
            factory,
            began,
            shutdown,
            run,
            controllers,
            keys,
            sync_timeout,
            grace,
            is_deaf,
        }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.shared.recorder.note(&self.name, what);
    }

    fn violation(&self, what: impl std::fmt::Display) {
        self.shared.recorder.violation(format_args!("{}: {what}", self.name));
    }

    /// Sends a key to a controller.
    pub(crate) fn send(&mut self, key: &str) {
        _ = self.keys.try_send(key.to_owned());
    }

    /// Removes an informer, which ends the run.
    pub(crate) async fn remove_informer(&mut self) {
        self.note("an informer is removed");
        self.is_deaf = true;
        self.controllers.iter().for_each(|controller| controller.judge.is_dropped());
        self.factory.informer::<ConfigMap>().remove().await;
    }

    /// Returns what is left to do; `None` if all keys are reconciled.
    pub(crate) fn unsettled(&self) -> Option<String> {
        let broken = self.shared.broken;
        let except = |key: &str| broken.is_some_and(|end| key.ends_with(end));
        self.controllers.iter().find_map(|controller| {
            let objects = controller.plurals.iter().flat_map(|plural| {
                let objects = self.shared.server.objects(plural).into_iter();
                objects.filter_map(|(key, state)| Some(((*plural, key), version(&state)?)))
            });
            let left = controller.judge.unsettled(&objects.collect(), &except)?;
            Some(format!("{}: {left}", controller.judge.name))
        })
    }

    /// Whether the run has ended by itself.
    pub(crate) fn is_over(&self) -> bool {
        self.run.is_finished()
    }

    /// Ends the process after its run has ended by itself.
    pub(crate) async fn has_ended(mut self) {
        let result = (&mut self.run).await;
        match result {
            Ok(Err(Error::NotSynced { .. })) if self.began.elapsed() >= self.sync_timeout => {}
            Ok(Err(Error::NotLeader(_))) if self.shared.is_elected => {}
            Ok(Err(ref error)) if self.is_deaf && is_deaf(error) => {}
            ref result => self.violation(format_args!("ended by itself: {result:?}")),
        }
        self.note(format_args!("ended by itself: {}", describe(&result)));
        self.clean_up().await;
    }

    /// Ends the process by a shutdown, or by dropping its run, or by both.
    pub(crate) async fn end(mut self, rng: &mut Rng) {
        if self.is_over() {
            return self.has_ended().await;
        }
        let before_drop = match rng.u8(..4) {
            0 => Duration::ZERO,
            1 => Duration::from_millis(rng.u64(..5_000)),
            _ => Duration::MAX,
        };
        if before_drop.is_zero() {
            self.controllers.iter().for_each(|controller| controller.judge.is_dropped());
        } else {
            self.controllers.iter().for_each(|controller| controller.judge.shut_down());
            self.note("is shut down");
            self.shutdown.cancel();
            let began = Instant::now();
            let running =
                (self.controllers.iter()).map(|controller| controller.judge.running()).collect::<Vec<_>>();
            let limit = before_drop.min(self.grace + Duration::from_secs(30));
            if let Ok(result) = timeout(limit, &mut self.run).await {
                self.check_end(&result, began.elapsed(), &running);
                self.note(format_args!("has shut down: {}", describe(&result)));
                return self.clean_up().await;
            }
            if before_drop == Duration::MAX {
                self.violation("the shutdown takes longer than the grace period");
            }
        }
        self.note("is dropped");
        self.run.abort();
        _ = (&mut self.run).await;
        // The workers end when they are next polled. Until then one of them may begin another reconciliation.
        sleep(Duration::from_millis(1)).await;
        self.controllers.iter().for_each(|controller| controller.judge.shut_down());
        self.clean_up().await;
    }

    fn check_end(
        &self,
        result: &Result<Result<(), Error>, tokio::task::JoinError>,
        after: Duration,
        running: &[Vec<String>],
    ) {
        // In the time of the shutdown, a controller may also fail to start, or lose the leadership.
        match result {
            Ok(Ok(())) if !self.shared.is_elected && after > self.grace + Duration::from_millis(1) => {
                self.violation(format_args!("ended {after:?} after the shutdown"));
            }
            Ok(Ok(()) | Err(Error::NotSynced { .. })) => {}
            Ok(Err(Error::NotLeader(_))) if self.shared.is_elected => {}
            Ok(Err(error)) if self.is_deaf && is_deaf(error) => {}
            Ok(Err(Error::Stuck { .. } | Error::Several(_))) if after < self.grace => {
                self.violation(format_args!("stuck after {after:?}, before the end of the grace period"));
            }
            Ok(Err(Error::Stuck { keys, .. })) => {
                let is_running =
                    |key: &String| running.iter().flatten().any(|running| key.contains(name_of(running)));
                if keys.is_empty() || !keys.iter().all(is_running) {
                    self.violation(format_args!("stuck in {keys:?}, of {running:?}"));
                }
            }
            Ok(Err(Error::Several(errors)))
                if errors.iter().all(|error| matches!(error, Error::Stuck { .. })) => {}
            result => self.violation(format_args!("ended with {result:?}")),
        }
    }

    /// Checks that nothing runs, and ends the factory.
    async fn clean_up(self) {
        for controller in &self.controllers {
            controller.judge.has_ended();
            controller.check_metrics();
        }
        sleep(Duration::from_secs(1)).await;
        let handlers = |metrics: kinformer::InformerMetrics| metrics.handlers.len();
        let left = handlers(self.factory.informer::<ConfigMap>().status().metrics())
            + handlers(self.factory.informer::<Secret>().status().metrics())
            + handlers(self.factory.informer::<Pod>().status().metrics());
        if left > 0 {
            self.violation(format_args!("{left} handlers are left"));
        }
        if let Err(error) = self.factory.shutdown().await {
            self.violation(error);
        }
    }
}

/// Has the judges know which objects have arrived with the first lists.
fn note_initial(factory: &SharedInformerFactory, controllers: &[Controlled]) {
    fn objects<K: Resource<DynamicType = ()> + 'static>(factory: &SharedInformerFactory) -> Objects {
        let (informer, plural) = (factory.informer::<K>(), plural_of::<K>());
        async move {
            _ = informer.wait_for_sync().await;
            let snapshot = informer.snapshot();
            let objects = snapshot.iter().flat_map(Snapshot::iter).map(|object| {
                let (lister, read) = (informer.lister(), object.object().clone());
                let key = read.key().to_string();
                let is_stored = move || {
                    let stored = lister.get(read.key());
                    stored.is_ok_and(|stored| stored.resource_version() == read.resource_version())
                };
                Initial { plural, key, is_stored: Box::new(is_stored) }
            });
            objects.collect()
        }
        .boxed()
    }
    for controller in controllers {
        for plural in controller.plurals.iter().copied() {
            let objects = match plural {
                "configmaps" => objects::<ConfigMap>(factory),
                "secrets" => objects::<Secret>(factory),
                _ => objects::<Pod>(factory),
            };
            let judge = controller.judge.clone();
            tokio::spawn(async move { judge.synced(objects.await) });
        }
    }
}

/// Whether an error is that of a controller whose informer has stopped.
fn is_deaf(error: &Error) -> bool {
    match error {
        Error::InformerStopped { .. } => true,
        Error::Several(errors) => errors.iter().any(is_deaf),
        _ => false,
    }
}

fn describe(result: &Result<Result<(), Error>, tokio::task::JoinError>) -> String {
    match result {
        Ok(Ok(())) => "without an error".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    }
}

fn version(state: &State) -> Option<u64> {
    text_of(state, ["metadata", "resourceVersion"])?.parse().ok()
}

fn name_of(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

impl Building<'_> {
    /// Config maps, with their secrets and pods of their names.
    fn owners(&mut self) {
        let judge = self.judge("owners");
        let maps = self.factory.informer::<ConfigMap>();
        let maps = trigger(self.rng, &maps, Keys::Object, &judge.judge);
        let secrets = trigger(self.rng, &self.factory.informer::<Secret>(), Keys::Owner, &judge.judge);
        let pods = trigger(self.rng, &self.factory.informer::<Pod>(), Keys::Mapped, &judge.judge);
        let pods = pods.map_events(|event, keys: &mut Vec<ObjectKey>| {
            assert!(!map_panics(&event.key().to_string()), "simulated panic of a function");
            keys.extend(ObjectKey::try_from(event.key()));
            Ok(())
        });
        let builder = Controller::of(&self.factory).reconciles_on(maps).owns_on(secrets).trigger(pods);
        self.add(builder, judge, vec!["configmaps", "secrets", "pods"], true);
    }

    fn secrets(&mut self) {
        let judge = self.judge("secrets");
        let secrets = trigger(self.rng, &self.factory.informer::<Secret>(), Keys::Object, &judge.judge);
        let builder = Controller::of(&self.factory).reconciles_on(secrets);
        self.add(builder, judge, vec!["secrets"], false);
    }

    /// Names of config maps in all namespaces, and those of a stream.
    fn names(&mut self, stream: mpsc::Receiver<String>) {
        let judge = self.judge("names");
        let maps = trigger(self.rng, &self.factory.informer::<ConfigMap>(), Keys::Name, &judge.judge);
        let maps = maps.map_events(|event, keys: &mut Vec<String>| {
            keys.push(event.key().name().to_owned());
            Ok(())
        });
        let known = judge.judge.clone();
        let stream = stream.inspect(move |key| known.enqueued(key, 0, Duration::ZERO));
        let builder =
            Controller::of(&self.factory).keyed("names").trigger(maps).trigger(Trigger::stream(stream));
        self.add(builder, judge, vec!["configmaps"], false);
    }

    fn judge(&mut self, name: &str) -> New {
        let workers = pick(self.rng, [1, 1, 2, 4]);
        let timeout = (self.rng.u8(..3) > 0).then(|| Duration::from_millis(self.rng.u64(100..20_000)));
        let name = format!("{} {name}", self.name);
        let exclusion = (self.shared.exclusion.of_process(self.number), self.shared.is_elected);
        let judge = Judge::new(name.into(), workers, timeout, exclusion, &self.shared.recorder);
        if self.shared.is_calm.load(Ordering::Relaxed) {
            judge.set_calm();
        }
        judge.recorder.note(&judge.name, format_args!("{workers} workers, timeout {timeout:?}"));
        New { judge, workers, timeout }
    }

    fn add<K: Key + ToString>(
        &mut self,
        builder: ControllerBuilder<K>,
        New { judge, workers, timeout }: New,
        plurals: Vec<&'static str>,
        writes: bool,
    ) {
        // Without a timeout, one worker is left for the other keys.
        let hangs = if timeout.is_some() { usize::MAX } else { workers - 1 };
        let informers = (
            self.factory.informer::<ConfigMap>(),
            self.factory.informer::<Secret>(),
            self.factory.informer::<Pod>(),
        );
        let has_synced =
            move || informers.0.has_synced() && informers.1.has_synced() && informers.2.has_synced();
        let reconciler = Reconciler::new(
            self.rng,
            &judge,
            &self.factory,
            hangs,
            self.shared.broken,
            has_synced,
            &self.shared.is_calm,
        );
        let reconciler = if writes { reconciler.writes(self.client.clone()) } else { reconciler };
        let reconciler = Arc::new(reconciler);
        let mut builder = limited(self.rng, builder, &judge)
            .name(judge.name.clone())
            .workers(workers)
            .sync_timeout(self.options.sync_timeout)
            .grace(self.options.grace);
        if let Some(timeout) = timeout {
            builder = builder.timeout(timeout);
        }
        let controller = builder.build(move |request| reconciler.reconcile(&request));
        let monitor = controller.monitor();
        let manager = std::mem::take(&mut self.manager);
        match manager.add(controller) {
            Ok(manager) => self.manager = manager,
            Err(error) => self.shared.recorder.violation(error),
        }
        self.controllers.push(Controlled { judge, metrics: Box::new(move || monitor.metrics()), plurals });
    }
}

/// The judge of a controller that is being built.
struct New {
    judge: Judge,
    workers: usize,
    timeout: Option<Duration>,
}

/// Sets a random rate limiter.
fn limited<K: Key + ToString>(
    rng: &mut Rng,
    builder: ControllerBuilder<K>,
    judge: &Judge,
) -> ControllerBuilder<K> {
    let ms = Duration::from_millis;
    match rng.u8(..3) {
        0 => judged(builder, judge, MaxWait::new(default_rate_limiter(), LONGEST_RETRY)),
        1 => {
            let base = ms(pick(rng, [1, 100, 2_000]));
            judged(builder, judge, ItemExponential::new(base, ms(rng.u64(2_000..30_000))))
        }
        _ => {
            let (fast, slow) = (ms(rng.u64(..100)), ms(rng.u64(1_000..20_000)));
            judged(builder, judge, ItemFastSlow::new(fast, slow, rng.u32(..4)))
        }
    }
}

fn judged<K: Key + ToString>(
    builder: ControllerBuilder<K>,
    judge: &Judge,
    limiter: impl RateLimiter<K> + 'static,
) -> ControllerBuilder<K> {
    builder.rate_limiter(JudgedLimiter { limiter, judge: judge.clone() })
}
