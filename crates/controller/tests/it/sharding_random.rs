//! Random schedules of processes of a ring, with faults, in paused time: a judge sees each reconciliation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::{Informer, ObjectKey, SharedInformerFactory};
use kinformer_apiserver::{Fault, FaultId, TestCluster, Verb};
use kinformer_controller::kinformer_leader_election::{Clock, TokioClock};
use kinformer_controller::kinformer_ring::Ring;
use kinformer_controller::{
    Action, CancellationToken, Controller, Error, Manager, ReconcileError, Request, Sharding,
};
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::common::config_map;

const NAMES: usize = 24;
const S: Duration = Duration::from_secs(1);

/// What has happened. A run of a process has a name of its own.
#[derive(Default)]
struct Judge {
    active: BTreeMap<String, String>,
    /// The UIDs that each name has had.
    uids: BTreeMap<String, Vec<String>>,
    /// Who has reconciled an object last, and the value that was read.
    last: BTreeMap<String, (String, String)>,
    missing: Vec<(String, String)>,
    violations: Vec<String>,
    reconciliations: usize,
}

type SharedJudge = Arc<Mutex<Judge>>;

struct Active(SharedJudge, String);

impl Active {
    fn begin(judge: &SharedJudge, run: &str, uid: &str, is_owned: bool) -> Self {
        let mut locked = judge.lock();
        locked.reconciliations += 1;
        if let Some(other) = locked.active.insert(uid.to_owned(), run.to_owned()) {
            locked.violations.push(format!("{uid} is reconciled by {other} and {run}"));
        }
        if !is_owned {
            locked.violations.push(format!("{run} reconciles {uid}, which it does not own"));
        }
        Self(judge.clone(), uid.to_owned())
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.lock().active.remove(&self.1);
    }
}

/// A clock of another speed than the others.
struct Skewed(TokioClock, f64);

impl Clock for Skewed {
    fn now(&self) -> Duration {
        self.0.now().mul_f64(self.1)
    }
}

struct Process {
    name: &'static str,
    run: String,
    sharding: Sharding,
    maps: Informer<ConfigMap>,
    factory: SharedInformerFactory,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

struct World {
    cluster: TestCluster,
    judge: SharedJudge,
    rng: Rng,
    processes: Vec<Process>,
    /// Those that end.
    leaving: Vec<Process>,
    faults: Vec<FaultId>,
    changes: usize,
    /// Whether Leases are deleted and edited by hand.
    edits: bool,
    log: Vec<String>,
}

async fn reconcile(
    request: Request<ObjectKey>,
    maps: Informer<ConfigMap>,
    sharding: Sharding,
    judge: SharedJudge,
    api: Api<ConfigMap>,
    (run, millis): (String, u64),
) -> Result<Action, ReconcileError> {
    let name = request.name().to_owned();
    let Some(map) = maps.lister().get_opt(&request.key)? else {
        let mut judge = judge.lock();
        let was_here =
            judge.uids.get(&name).is_some_and(|uids| uids.iter().any(|uid| sharding.ring().owns(uid)));
        if !was_here {
            judge.violations.push(format!("{run} misses {name}, which it has not had"));
        }
        judge.missing.push((run, name));
        return Ok(Action::none());
    };
    let uid = map.object().uid().unwrap_or_default().to_owned();
    let value = map.decode()?.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
    let _active = Active::begin(&judge, &run, &uid, sharding.ring().owns(&uid));
    sleep(Duration::from_millis(millis)).await;
    let patch = json!({"metadata": {"uid": uid, "annotations": {"value": value, "by": run}}});
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube_client::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        written => drop(written?),
    }
    judge.lock().last.insert(uid, (run, value));
    Ok(Action::none())
}

impl World {
    async fn new(seed: u64) -> Self {
        let cluster = TestCluster::start().await.unwrap();
        let (judge, rng) = (SharedJudge::default(), Rng::with_seed(seed));
        let (processes, leaving, faults, log) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut world = Self {
            cluster,
            judge,
            rng,
            processes,
            leaving,
            faults,
            changes: 0,
            edits: std::env::var("EDITS").is_ok(),
            log,
        };
        (0..NAMES).for_each(|name| world.create(&format!("m{name:02}")));
        world.start();
        world
    }

    fn start(&mut self) {
        let free = ["a", "b", "c", "d", "e"]
            .into_iter()
            .find(|name| self.processes.iter().chain(&self.leaving).all(|process| process.name != *name));
        let Some(name) = free else { return };
        self.changes += 1;
        let run = format!("{name}{}", self.changes);
        let client = self.cluster.client_of(name).unwrap();
        let rate = *self.rng.choice(&[0.85, 1.0, 1.2]).unwrap();
        let ring = Ring::leases(client.clone(), "default", "shop").identity(name);
        let ring = ring.clock(Skewed(TokioClock::new(), rate));
        let sharding = Sharding::new(ring.build().unwrap());
        let factory = SharedInformerFactory::new(client.clone());
        let maps = factory.informer::<ConfigMap>();
        let api = Api::<ConfigMap>::default_namespaced(sharding.client(&client));
        let controller =
            Controller::of(&factory).reconciles::<ConfigMap>().owns::<Secret>().workers(4).sharded(&sharding);
        let controller = controller.timeout(30 * S); // a write may stall
        let rng = Mutex::new(self.rng.fork());
        let controller = controller.build({
            let (maps, sharding, judge, run) =
                (maps.clone(), sharding.clone(), self.judge.clone(), run.clone());
            move |request| {
                let mut rng = rng.lock();
                let millis = if rng.u8(0..20) == 0 { rng.u64(0..20_000) } else { rng.u64(0..50) };
                let (maps, sharding, judge, api) =
                    (maps.clone(), sharding.clone(), judge.clone(), api.clone());
                reconcile(request, maps, sharding, judge, api, (run.clone(), millis))
            }
        });
        let manager = Manager::new().add(controller).unwrap().sharding(&sharding).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(manager.run(stop.clone()));
        self.processes.push(Process { name, run, sharding, maps, factory, stop, task });
    }

    fn create(&mut self, name: &str) {
        self.changes += 1;
        let map = self.cluster.server().create(config_map(name, &self.changes.to_string())).unwrap();
        let uid = map["metadata"]["uid"].as_str().unwrap().to_owned();
        let owner =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": true}]);
        let metadata = json!({"generateName": name, "namespace": "default", "ownerReferences": owner});
        self.cluster
            .server()
            .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}))
            .unwrap();
        self.judge.lock().uids.entry(name.to_owned()).or_default().push(uid);
    }

    /// Changes, deletes or creates an object, or deletes it and creates it again.
    fn change(&mut self) {
        let name = format!("m{:02}", self.rng.usize(0..NAMES));
        let key = format!("default/{name}");
        let is_there = self.cluster.get_opt::<ConfigMap>(&key).unwrap().is_some();
        let choice = self.rng.u8(0..4);
        if is_there && choice < 2 {
            self.changes += 1;
            let value = self.changes.to_string();
            self.cluster.server().update(config_map(&name, &value)).unwrap();
            return;
        }
        if is_there {
            self.cluster.delete::<ConfigMap>(&key).unwrap();
        }
        if !is_there || choice == 2 {
            self.create(&name);
        }
    }

    fn fault(&mut self) {
        let rng = &mut self.rng;
        let kinds = [
            Fault::stall(),
            Fault::refuse(),
            Fault::internal_error(),
            Fault::forbidden(),
            Fault::conflict(),
            Fault::delay(Duration::from_millis(rng.u64(0..8_000))),
            Fault::too_many_requests(rng.u32(1..5)),
            Fault::truncate(),
            Fault::expired(),
            Fault::expired_event(),
            Fault::duplicate_event(),
        ];
        let mut fault = rng.choice(kinds).unwrap();
        if rng.u8(0..4) > 0 {
            fault = fault.by(*rng.choice(&["a", "b", "c", "d", "e"]).unwrap());
        }
        if rng.bool() {
            fault = fault.resource(*rng.choice(&["leases", "configmaps"]).unwrap());
        }
        if rng.bool() {
            fault = fault.on(*rng.choice(&[Verb::Watch, Verb::List, Verb::Update, Verb::Create]).unwrap());
        }
        fault = if rng.bool() { fault.always() } else { fault.times(rng.u64(1..20)) };
        self.log.push(format!("{fault:?}"));
        self.faults.push(self.cluster.faults().inject(fault));
    }

    /// Deletes or edits a Lease of a process, or the table.
    fn edit(&mut self) {
        let leases: Vec<Lease> = self.cluster.list().unwrap();
        let Some(lease) = self.rng.choice(leases) else { return };
        let key = format!("default/{}", lease.metadata.name.unwrap());
        let choice = self.rng.u8(0..4);
        self.log.push(format!("edit {choice} of {key}"));
        match choice {
            0 => self.cluster.delete::<Lease>(&key).unwrap(),
            1 => drop(self.cluster.modify::<Lease>(&key, |lease| lease.metadata.annotations = None)),
            2 => drop(self.cluster.modify::<Lease>(&key, |lease| lease.metadata.labels = None)),
            _ => drop(self.cluster.modify::<Lease>(&key, |lease| lease.spec = None)),
        }
    }

    async fn step(&mut self) {
        let count = self.processes.len();
        match self.rng.u8(0..20) {
            0 | 1 if count < 5 => self.start(),
            2 if count > 1 => {
                let process = self.processes.swap_remove(self.rng.usize(0..count));
                self.log.push(format!("stop {}", process.run));
                process.stop.cancel();
                self.leaving.push(process);
            }
            3 if count > 1 => {
                let process = self.processes.swap_remove(self.rng.usize(0..count));
                self.log.push(format!("kill {}", process.run));
                process.task.abort();
                drop(process.task.await);
                tokio::spawn(async move { process.factory.shutdown().await });
            }
            4 | 5 => self.fault(),
            6 if !self.faults.is_empty() => {
                let index = self.rng.usize(0..self.faults.len());
                self.cluster.faults().remove(self.faults.swap_remove(index));
            }
            7 if self.edits => self.edit(),
            _ => (0..self.rng.u8(1..5)).for_each(|_| self.change()),
        }
        self.leaving.retain(|process| !process.task.is_finished());
        let millis = if self.rng.u8(0..5) == 0 { 0..20_000 } else { 0..800 };
        sleep(Duration::from_millis(self.rng.u64(millis))).await;
    }

    /// What is not yet as it must be without faults.
    fn unsettled(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut expected = vec![BTreeSet::new(); self.processes.len()];
        for map in self.cluster.list::<ConfigMap>().unwrap() {
            let (uid, name) = (map.metadata.uid.unwrap(), map.metadata.name.unwrap());
            let value = map.data.unwrap()["value"].clone();
            let owners: Vec<usize> = (0..self.processes.len())
                .filter(|index| self.processes[*index].sharding.ring().owns(&uid))
                .collect();
            let [owner] = owners[..] else {
                found.push(format!("{name} is owned by {owners:?}"));
                continue;
            };
            expected[owner].insert(uid.clone());
            let last = self.judge.lock().last.get(&uid).cloned();
            if last != Some((self.processes[owner].run.clone(), value.clone())) {
                found.push(format!("{name} {uid}: {last:?}, not {} {value}", self.processes[owner].run));
            }
        }
        for (process, expected) in self.processes.iter().zip(expected) {
            let maps = process
                .maps
                .snapshot()
                .map(|maps| maps.iter().map(|map| map.uid().unwrap().to_owned()).collect());
            if maps.as_ref().ok() != Some(&expected) {
                found.push(format!("{} holds {maps:?}, not {expected:?}", process.run));
            }
            if let Some(problem) = process.sharding.ring().status().problem {
                found.push(format!("{}: {problem}", process.run));
            }
        }
        found
    }

    async fn settle(&self, seed: u64) {
        let waiting = async {
            while !self.unsettled().is_empty() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        let is_settled = timeout(600 * S, waiting).await.is_ok();
        let judge = self.judge.lock().violations.clone();
        assert!(is_settled, "seed {seed}: {:#?} {:#?}", self.unsettled(), self.log);
        assert!(judge.is_empty(), "seed {seed}: {judge:#?} {:#?}", self.log);
    }
}

async fn schedule(seed: u64, steps: usize) -> usize {
    let mut world = World::new(seed).await;
    for _ in 0..steps {
        world.step().await;
        let violations = world.judge.lock().violations.clone();
        assert!(violations.is_empty(), "seed {seed}: {violations:#?} {:#?}", world.log);
    }
    world.cluster.faults().clear();
    for process in std::mem::take(&mut world.leaving) {
        let ended = timeout(120 * S, process.task).await;
        assert!(ended.is_ok(), "seed {seed}: {} does not end {:#?}", process.run, world.log);
    }
    world.settle(seed).await;
    // deletions in a calm ring are reconciled by the owner
    sleep(60 * S).await;
    world.judge.lock().missing.clear();
    let mut expected = Vec::new();
    for map in world.cluster.list::<ConfigMap>().unwrap().into_iter().take(8) {
        let (uid, name) = (map.metadata.uid.unwrap(), map.metadata.name.unwrap());
        let owner = world.processes.iter().find(|process| process.sharding.ring().owns(&uid)).unwrap();
        world.cluster.delete::<ConfigMap>(&format!("default/{name}")).unwrap();
        expected.push((owner.run.clone(), name));
    }
    sleep(60 * S).await;
    let missing: BTreeSet<_> = std::mem::take(&mut world.judge.lock().missing).into_iter().collect();
    assert_eq!(missing, expected.into_iter().collect(), "seed {seed}");
    world.settle(seed).await;
    let judge = world.judge.lock();
    judge.reconciliations
}

/// Processes start, end, are killed and isolated while objects change: no object is reconciled by two, or by one that does not own
/// it. Afterwards each is reconciled as it is by its owner, and each informer holds the objects of its process.
// contract: K-25a, K-25b, K-25c, K-25g
#[tokio::test(start_paused = true)]
async fn random_schedules() {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, count, steps) = (number("SEED", 1), number("SEEDS", 2), number("STEPS", 30));
    for seed in first..first + count {
        let reconciliations = schedule(seed, usize::try_from(steps).unwrap()).await;
        println!("seed {seed}: {reconciliations} reconciliations");
    }
}
