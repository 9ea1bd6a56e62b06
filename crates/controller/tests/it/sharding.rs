//! Controllers whose objects are shared out among processes, in paused time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kinformer::{Informer, ObjectKey, SharedInformerFactory};
use kinformer_apiserver::{Fault, TestCluster, Verb};
use kinformer_controller::kinformer_leader_election::{NotLeader, TokioClock};
use kinformer_controller::kinformer_ring::{Ring, ShardField};
use kinformer_controller::prometheus::ControllerCollector;
use kinformer_controller::{
    Action, CancellationToken, Controller, Error, Manager, Monitor, Request, Sharding,
};
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::common::config_map;

const MAPS: usize = 60;
const S: Duration = Duration::from_secs(1);

/// Which process reconciles an object, and what each has reconciled.
#[derive(Default)]
struct Judge {
    active: BTreeMap<ObjectKey, &'static str>,
    /// The processes that have reconciled an object since the last change, and the value that they read.
    seen: BTreeMap<ObjectKey, Vec<(&'static str, String)>>,
    violations: Vec<String>,
}

type SharedJudge = Arc<Mutex<Judge>>;

struct Active(SharedJudge, ObjectKey, &'static str);

impl Active {
    fn begin(judge: &SharedJudge, key: &ObjectKey, name: &'static str) -> Self {
        let mut locked = judge.lock();
        if let Some(other) = locked.active.insert(key.clone(), name) {
            locked.violations.push(format!("{key} is reconciled by {other} and {name}"));
        }
        Self(judge.clone(), key.clone(), name)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut judge = self.0.lock();
        if judge.active.get(&self.1) == Some(&self.2) {
            judge.active.remove(&self.1);
        }
    }
}

struct Process {
    sharding: Sharding,
    maps: Informer<ConfigMap>,
    monitor: Monitor<ObjectKey>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
    client: Client,
}

fn sharding(cluster: &TestCluster, name: &'static str, field: ShardField) -> (Client, Sharding) {
    let client = cluster.client_of(name).unwrap();
    let ring = Ring::leases(client.clone(), "default", "shop").identity(name).shard_by(field);
    (client, Sharding::new(ring.clock(TokioClock::new()).build().unwrap()))
}

/// A process whose reconciliations write the value that they have read, and take 20 ms, or as long as the gate is closed.
fn start(
    cluster: &TestCluster,
    name: &'static str,
    judge: &SharedJudge,
    gate: Option<Arc<Semaphore>>,
) -> Process {
    let (client, sharding) = sharding(cluster, name, ShardField::Uid);
    let factory = SharedInformerFactory::new(client.clone());
    let maps = factory.informer::<ConfigMap>();
    let writer = sharding.client(&client);
    let (lister, judge, written) = (maps.lister(), judge.clone(), writer.clone());
    let reconcile = move |request: Request<ObjectKey>| {
        let (lister, judge, writer, gate) = (lister.clone(), judge.clone(), writer.clone(), gate.clone());
        async move {
            let _active = Active::begin(&judge, &request, name);
            let Some(map) = lister.get_opt(&request.key)? else { return Ok(Action::none()) };
            let value = map.decode()?.data.as_ref().and_then(|data| data.get("value")).cloned();
            let value = value.unwrap_or_default();
            match &gate {
                Some(gate) => gate.acquire().await?.forget(),
                None => sleep(Duration::from_millis(20)).await,
            }
            let patch = json!({"metadata": {"annotations": {"value": value, "by": name}}});
            let maps: Api<ConfigMap> = Api::default_namespaced(writer);
            maps.patch(request.name(), &PatchParams::default(), &Patch::Merge(patch)).await?;
            judge.lock().seen.entry(request.key.clone()).or_default().push((name, value));
            Ok(Action::none())
        }
    };
    let controller = Controller::of(&factory).reconciles::<ConfigMap>().workers(8).sharded(&sharding);
    let controller = controller.build(reconcile);
    let (monitor, stop) = (controller.monitor(), CancellationToken::new());
    let manager = Manager::new().add(controller).unwrap().sharding(&sharding).unwrap();
    let task = tokio::spawn(manager.run(stop.clone()));
    Process { sharding, maps, monitor, stop, task, client: written }
}

async fn cluster() -> TestCluster {
    let cluster = TestCluster::start().await.unwrap();
    for number in 0..MAPS {
        cluster.server().create(config_map(&format!("m{number:02}"), "0")).unwrap();
    }
    cluster
}

/// Waits until each object has been reconciled with this value.
async fn reconciled(judge: &SharedJudge, value: &str) {
    let is_done = || {
        let judge = judge.lock();
        let done = judge.seen.values().filter(|seen| seen.iter().any(|(_, read)| read == value));
        done.count() == MAPS
    };
    let waiting = async {
        while !is_done() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(600 * S, waiting).await.unwrap();
    assert_eq!(judge.lock().violations, Vec::<String>::new());
}

fn change(cluster: &TestCluster, judge: &SharedJudge, value: &str) {
    judge.lock().seen.clear();
    for number in 0..MAPS {
        cluster.server().update(config_map(&format!("m{number:02}"), value)).unwrap();
    }
}

fn held(process: &Process) -> BTreeSet<ObjectKey> {
    let maps = process.maps.snapshot().unwrap();
    maps.iter().map(|map| map.key().try_into().unwrap()).collect()
}

/// Waits until the processes own equal shares and hold no other objects.
async fn settled(processes: &[&Process]) {
    let share = 1024 / processes.len();
    let is_settled = || {
        let owned = processes.iter().map(|process| process.sharding.ring().status().owned.len());
        let is_shared = owned.clone().all(|owned| owned == share || owned == share + 1);
        is_shared && processes.iter().map(|process| held(process).len()).sum::<usize>() == MAPS
    };
    let waiting = async {
        while !is_settled() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(600 * S, waiting).await.unwrap();
}

/// Three processes come and go. Each holds and reconciles its share, no object is reconciled by two at a time, and each change is
/// reconciled.
// contract: K-25a, K-25b
#[tokio::test(start_paused = true)]
async fn objects_are_shared_out() {
    let (cluster, judge) = (cluster().await, SharedJudge::default());
    let a = start(&cluster, "a", &judge, None);
    reconciled(&judge, "0").await;
    let b = start(&cluster, "b", &judge, None);
    let c = start(&cluster, "c", &judge, None);
    change(&cluster, &judge, "1");
    reconciled(&judge, "1").await;
    settled(&[&a, &b, &c]).await;
    let all: BTreeSet<ObjectKey> = [&a, &b, &c].into_iter().flat_map(held).collect();
    assert_eq!(all.len(), MAPS);
    for process in [&a, &b, &c] {
        assert!(held(process).len() < MAPS / 2);
        let maps = process.maps.snapshot().unwrap();
        assert!(maps.iter().all(|map| process.sharding.ring().owns(map.uid().unwrap())));
    }
    sleep(S).await;
    change(&cluster, &judge, "2");
    reconciled(&judge, "2").await;
    let by_one = |seen: &Vec<(&str, String)>| seen.iter().all(|(name, _)| *name == seen[0].0);
    assert!(judge.lock().seen.values().all(by_one));

    b.stop.cancel();
    b.task.await.unwrap().unwrap();
    change(&cluster, &judge, "3");
    settled(&[&a, &c]).await;
    reconciled(&judge, "3").await;
    a.task.abort();
    change(&cluster, &judge, "4");
    reconciled(&judge, "4").await;
    settled(&[&c]).await;
    c.stop.cancel();
    c.task.await.unwrap().unwrap();
}

/// A slot moves only when the reconciliation in it has ended, and the next process reconciles what has changed meanwhile.
// contract: K-25b
#[tokio::test(start_paused = true)]
async fn running_reconciliations_are_finished() {
    let (cluster, judge) = (cluster().await, SharedJudge::default());
    let gate = Arc::new(Semaphore::new(0));
    let a = start(&cluster, "a", &judge, Some(gate.clone()));
    while judge.lock().active.len() < 8 {
        sleep(Duration::from_millis(10)).await;
    }
    let b = start(&cluster, "b", &judge, None);
    sleep(60 * S).await;
    assert_eq!(judge.lock().violations, Vec::<String>::new());
    let active: Vec<ObjectKey> = judge.lock().active.keys().cloned().collect();
    assert_eq!(active.len(), 8);
    for key in &active {
        let uid = cluster.get::<ConfigMap>(&key.to_string()).unwrap().metadata.uid.unwrap();
        assert!(a.sharding.ring().owns(&uid) && !b.sharding.ring().owns(&uid));
    }
    change(&cluster, &judge, "1");
    gate.add_permits(100_000);
    reconciled(&judge, "1").await;
    settled(&[&a, &b]).await;
    assert_eq!(judge.lock().violations, Vec::<String>::new());
}

/// A process that is isolated drops its reconciliations before another one begins, and its writes are refused.
// contract: K-25c
#[tokio::test(start_paused = true)]
async fn lost_slots_end_reconciliations() {
    let (cluster, judge) = (cluster().await, SharedJudge::default());
    let gate = Arc::new(Semaphore::new(0));
    let a = start(&cluster, "a", &judge, Some(gate.clone()));
    while judge.lock().active.len() < 8 {
        sleep(Duration::from_millis(10)).await;
    }
    let isolated = [Fault::stall().by("a").always(), Fault::stall().on(Verb::Watch).by("a").always()];
    let isolated = isolated.map(|fault| cluster.faults().inject(fault));
    let b = start(&cluster, "b", &judge, None);
    reconciled(&judge, "0").await;
    assert!(judge.lock().seen.values().flatten().all(|(name, _)| *name == "b"));
    let failed = a.monitor.failures();
    assert_eq!(failed.len(), 8, "{failed:?}");
    assert!(failed[0].error.contains("does not own the object any more"), "{failed:?}");
    let maps: Api<ConfigMap> = Api::default_namespaced(a.client.clone());
    let refused = maps.patch("m00", &PatchParams::default(), &Patch::Merge(json!({}))).await.unwrap_err();
    NotLeader::of(&refused).unwrap();
    isolated.into_iter().for_each(|fault| cluster.faults().remove(fault));
    gate.add_permits(100_000);
    settled(&[&a, &b]).await;
    change(&cluster, &judge, "1");
    reconciled(&judge, "1").await;
    assert!(judge.lock().seen.values().flatten().any(|(name, _)| *name == "a"));
}

/// By namespaces, the objects of other kinds are held by the process that owns their namespace.
// contract: K-25d
#[tokio::test(start_paused = true)]
async fn namespaces_are_shared_out() {
    let cluster = TestCluster::start().await.unwrap();
    for number in 0..20 {
        let name = format!("team-{number}");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cluster.server().create(namespace).unwrap();
        let mut map = config_map("settings", "0");
        map["metadata"]["namespace"] = name.into();
        cluster.server().create(map).unwrap();
    }
    let start = |name| {
        let (client, sharding) = sharding(&cluster, name, ShardField::Namespace);
        let factory = SharedInformerFactory::new(client);
        let (pods, maps) = (factory.informer::<Pod>(), factory.informer::<ConfigMap>());
        let nodes = factory.informer::<Node>();
        let controller = Controller::of(&factory).reconciles::<Pod>().owns::<ConfigMap>();
        let controller = controller.watches::<Node>(|_, _| Ok(()));
        let controller = controller.sharded(&sharding).build(async |_| Ok(Action::none()));
        let manager = Manager::new().add(controller).unwrap().sharding(&sharding).unwrap();
        tokio::spawn(manager.run(CancellationToken::new()));
        (sharding, pods, maps, nodes)
    };
    let (a, b) = (start("a"), start("b"));
    let held = || [&a, &b].map(|(.., maps, _)| maps.snapshot().map_or(0, |maps| maps.len()));
    // with that of the default namespace, if there is one
    while held().iter().sum::<usize>() < 20 || held().contains(&0) {
        sleep(Duration::from_millis(100)).await;
    }
    sleep(S).await;
    for (sharding, _, maps, nodes) in [&a, &b] {
        let maps = maps.snapshot().unwrap();
        assert!(maps.iter().all(|map| sharding.ring().owns(map.namespace().unwrap())));
        assert!(nodes.has_synced());
    }
}

/// A cluster-scoped kind cannot be shared out: a typed error that names it.
// contract: K-25e
#[tokio::test(start_paused = true)]
async fn cluster_scoped_kinds_are_refused() {
    let cluster = TestCluster::start().await.unwrap();
    let (client, sharding) = sharding(&cluster, "a", ShardField::Uid);
    let factory = SharedInformerFactory::new(client);
    let nodes = Controller::of(&factory).reconciles::<Node>().sharded(&sharding);
    let nodes = nodes.build(async |_| Ok(Action::none()));
    let manager = Manager::new().add(nodes).unwrap().sharding(&sharding).unwrap();
    let error = timeout(60 * S, manager.run(CancellationToken::new())).await.unwrap().unwrap_err();
    let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert!(text.contains("ring") && text.contains("nodes"), "{text}");
}

/// The slots of a ring are metrics of its manager.
// contract: K-25f
#[tokio::test(start_paused = true)]
async fn slots_are_metrics() {
    let (cluster, judge) = (cluster().await, SharedJudge::default());
    let a = start(&cluster, "a", &judge, None);
    settled(&[&a]).await;
    let collector = ControllerCollector::new();
    collector.add_ring(a.sharding.ring());
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let page = || {
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        page.lines().filter(|line| line.starts_with("kinformer_ring")).map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = |[owned, ranges, released]: [u32; 3]| {
        [
            format!("kinformer_ring_owned_slots{{name=\"shop\"}} {owned}"),
            format!("kinformer_ring_owned_ranges{{name=\"shop\"}} {ranges}"),
            "kinformer_ring_unowned_slots{name=\"shop\"} 0".to_owned(),
            "kinformer_ring_problem{name=\"shop\"} 0".to_owned(),
            "kinformer_ring_moved_slots_total{name=\"shop\",move=\"begun\"} 1024".to_owned(),
            format!("kinformer_ring_moved_slots_total{{name=\"shop\",move=\"released\"}} {released}"),
            "kinformer_ring_moved_slots_total{name=\"shop\",move=\"stopped\"} 0".to_owned(),
        ]
    };
    assert_eq!(page(), expected([1024, 1, 0]));
    let b = start(&cluster, "b", &judge, None);
    settled(&[&a, &b]).await;
    assert_eq!(page(), expected([512, 1, 512]));
}

/// By UIDs, each process receives the events of all owned objects. It reconciles only its own owners, and a deleted object once.
// contract: K-25a, K-25g
#[tokio::test(start_paused = true)]
async fn owners_of_others_are_not_missing() {
    let cluster = cluster().await;
    let secret = |map: &ConfigMap, value: &str| {
        let (name, uid) = (map.metadata.name.clone(), map.metadata.uid.clone());
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"value": value},
            "metadata": {"name": name, "namespace": "default", "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": true}]}})
    };
    let maps: Vec<ConfigMap> = cluster.list().unwrap();
    maps.iter().for_each(|map| drop(cluster.server().create(secret(map, "0")).unwrap()));
    let calls = Arc::<Mutex<Vec<(&str, ObjectKey, bool)>>>::default();
    let start = |name| {
        let (client, sharding) = sharding(&cluster, name, ShardField::Uid);
        let factory = SharedInformerFactory::new(client);
        let (lister, calls) = (factory.informer::<ConfigMap>().lister(), calls.clone());
        let controller =
            Controller::of(&factory).reconciles::<ConfigMap>().owns::<Secret>().sharded(&sharding);
        let controller = controller.build(move |request: Request<ObjectKey>| {
            let is_there = lister.get_opt(&request.key).unwrap().is_some();
            calls.lock().push((name, request.key.clone(), is_there));
            std::future::ready(Ok(Action::none()))
        });
        let manager = Manager::new().add(controller).unwrap().sharding(&sharding).unwrap();
        tokio::spawn(manager.run(CancellationToken::new()));
        sharding
    };
    let (a, b) = (start("a"), start("b"));
    while [&a, &b].iter().any(|one| one.ring().status().owned.len() != 512) {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(60 * S).await;
    assert!(calls.lock().iter().all(|(.., is_there)| *is_there));
    calls.lock().clear();
    maps.iter().for_each(|map| drop(cluster.server().update(secret(map, "1")).unwrap()));
    sleep(60 * S).await;
    let owner = |map: &ConfigMap| if a.ring().owns(map.metadata.uid.as_deref().unwrap()) { "a" } else { "b" };
    let key = |map: &ConfigMap| ObjectKey::new("default", map.metadata.name.as_deref().unwrap()).unwrap();
    let expected =
        |is_there| maps.iter().map(|map| (owner(map), key(map), is_there)).collect::<BTreeSet<_>>();
    let found = || std::mem::take(&mut *calls.lock()).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(found(), expected(true));
    maps.iter().for_each(|map| cluster.delete::<ConfigMap>(&key(map).to_string()).unwrap());
    sleep(60 * S).await;
    assert_eq!(found(), expected(false));
}
