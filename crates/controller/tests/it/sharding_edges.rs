//! Reconciliations of a shard that meet deletions, other controllers, and the end of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::{ObjectKey, SharedInformerFactory};
use kinformer_apiserver::{Fault, TestCluster, Verb};
use kinformer_controller::kinformer_leader_election::{Clock, TokioClock};
use kinformer_controller::kinformer_ring::Ring;
use kinformer_controller::{
    Action, CancellationToken, Controller, Manager, ReconcileError, Request, Sharding,
};
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::common::config_map;

const S: Duration = Duration::from_secs(1);

fn sharding(cluster: &TestCluster, name: &'static str) -> (Client, Sharding) {
    let client = cluster.client_of(name).unwrap();
    let ring = Ring::leases(client.clone(), "default", "shop").identity(name).clock(TokioClock::new());
    (client, Sharding::new(ring.build().unwrap()))
}

/// The controllers that have reconciled a key, and whether they have found the object.
type Calls = Arc<Mutex<Vec<(&'static str, ObjectKey, bool)>>>;

fn found(calls: &Calls) -> BTreeSet<(&'static str, String, bool)> {
    let calls = std::mem::take(&mut *calls.lock()).into_iter();
    calls.map(|(name, key, is_there)| (name, key.name().to_owned(), is_there)).collect()
}

/// An object that is deleted while it is reconciled is reconciled once more.
// contract: K-25g
#[tokio::test(start_paused = true)]
async fn a_deletion_during_a_reconciliation() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.server().create(config_map("m", "0")).unwrap();
    let (client, sharding) = sharding(&cluster, "a");
    let factory = SharedInformerFactory::new(client);
    let (lister, calls) = (factory.informer::<ConfigMap>().lister(), Calls::default());
    let controller = Controller::of(&factory).reconciles::<ConfigMap>().sharded(&sharding);
    let controller = controller.build({
        let calls = calls.clone();
        move |request: Request<ObjectKey>| {
            let is_there = lister.get_opt(&request.key).unwrap().is_some();
            calls.lock().push(("a", request.key.clone(), is_there));
            async {
                sleep(S).await;
                Ok(Action::none())
            }
        }
    });
    let manager = Manager::new().add(controller).unwrap().sharding(&sharding).unwrap();
    let _running = tokio::spawn(manager.run(CancellationToken::new()));
    while calls.lock().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    cluster.delete::<ConfigMap>("default/m").unwrap();
    sleep(10 * S).await;
    assert_eq!(found(&calls), [("a", "m".to_owned(), true), ("a", "m".to_owned(), false)].into());
}

/// Each controller reconciles the deletions of its own objects: of one kind with others, and of another kind with the same
/// names.
// contract: K-25g
#[tokio::test(start_paused = true)]
async fn controllers_with_equal_keys() {
    let cluster = TestCluster::start().await.unwrap();
    let names: Vec<String> = (0..20).map(|number| format!("m{number:02}")).collect();
    for name in &names {
        cluster.server().create(config_map(name, "0")).unwrap();
        let metadata = json!({"name": name, "namespace": "default"});
        cluster.server().create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
    }
    let (client, sharding) = sharding(&cluster, "a");
    let factory = SharedInformerFactory::new(client);
    let calls = Calls::default();
    let maps = factory.informer::<ConfigMap>().lister();
    let secrets = factory.informer::<Secret>().lister();
    let note = |name, takes: Duration, is_there: Box<dyn Fn(&ObjectKey) -> bool + Send + Sync>| {
        let calls = calls.clone();
        move |request: Request<ObjectKey>| {
            calls.lock().push((name, request.key.clone(), is_there(&request.key)));
            async move {
                sleep(takes).await;
                Ok(Action::none())
            }
        }
    };
    let is_map = move |key: &ObjectKey| maps.get_opt(key).unwrap().is_some();
    let is_secret = move |key: &ObjectKey| secrets.get_opt(key).unwrap().is_some();
    let builder = || Controller::of(&factory).reconciles::<ConfigMap>().workers(1).sharded(&sharding);
    let fast = builder().name("fast").build(note("fast", Duration::ZERO, Box::new(is_map.clone())));
    let slow = builder().name("slow").build(note("slow", S, Box::new(is_map)));
    let other = Controller::of(&factory).reconciles::<Secret>().workers(1).sharded(&sharding);
    let other = other.name("other").build(note("other", S, Box::new(is_secret)));
    let manager = Manager::new().add(fast).unwrap().add(slow).unwrap().add(other).unwrap();
    let _running = tokio::spawn(manager.sharding(&sharding).unwrap().run(CancellationToken::new()));
    sleep(60 * S).await;
    let expected = |is_there| {
        let all = ["fast", "slow", "other"].into_iter();
        all.flat_map(|name| names.iter().map(move |key| (name, key.clone(), is_there)))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(found(&calls), expected(true));
    for name in &names {
        cluster.delete::<ConfigMap>(&format!("default/{name}")).unwrap();
        cluster.delete::<Secret>(&format!("default/{name}")).unwrap();
    }
    sleep(60 * S).await;
    assert_eq!(found(&calls), expected(false));
}

/// A deletion whose reconciliation has failed for ever is no reason to reconcile the object of that name of another process.
// contract: K-25a
#[tokio::test(start_paused = true)]
async fn a_deleted_object_of_a_name_of_another_process() {
    let cluster = TestCluster::start().await.unwrap();
    let calls = Calls::default();
    let start = |name| {
        let (client, sharding) = sharding(&cluster, name);
        let factory = SharedInformerFactory::new(client);
        let (lister, calls) = (factory.informer::<ConfigMap>().lister(), calls.clone());
        let controller =
            Controller::of(&factory).reconciles::<ConfigMap>().owns::<Secret>().sharded(&sharding);
        let controller = controller.build(move |request: Request<ObjectKey>| {
            let is_there = lister.get_opt(&request.key).unwrap().is_some();
            calls.lock().push((name, request.key.clone(), is_there));
            let gone = || ReconcileError::permanent(std::io::Error::other("gone"));
            std::future::ready(if is_there { Ok(Action::none()) } else { Err(gone()) })
        });
        let manager = Manager::new().add(controller).unwrap().sharding(&sharding).unwrap();
        tokio::spawn(manager.run(CancellationToken::new()));
        sharding
    };
    let (a, b) = (start("a"), start("b"));
    sleep(60 * S).await;
    assert_eq!([&a, &b].map(|one| one.ring().status().owned.len()), [512, 512]);
    let create = || cluster.server().create(config_map("m", "0")).unwrap()["metadata"]["uid"].clone();
    let mut uid = create();
    let first = a.ring().owns(uid.as_str().unwrap());
    sleep(S).await;
    while a.ring().owns(uid.as_str().unwrap()) == first {
        cluster.delete::<ConfigMap>("default/m").unwrap();
        sleep(S).await;
        uid = create();
    }
    sleep(S).await;
    found(&calls);
    let owner =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": uid, "controller": true}]);
    let metadata = json!({"name": "s", "namespace": "default", "ownerReferences": owner});
    cluster.server().create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
    sleep(S).await;
    assert_eq!(found(&calls), [(if first { "b" } else { "a" }, "m".to_owned(), true)].into());
}

/// A run that is dropped drops its reconciliations: another process begins them later.
// contract: K-25c
#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.server().create(config_map("m", "0")).unwrap();
    let active = Arc::<Mutex<BTreeMap<&str, usize>>>::default();
    let gate = Arc::new(Semaphore::new(0));
    let start = |name: &'static str| {
        let (client, sharding) = sharding(&cluster, name);
        let factory = SharedInformerFactory::new(client);
        let controller = Controller::of(&factory).reconciles::<ConfigMap>().sharded(&sharding);
        let (active, gate) = (active.clone(), gate.clone());
        let controller = controller.build(move |_| {
            let (active, gate) = (active.clone(), gate.clone());
            async move {
                let _active = Active::begin(active, name);
                gate.acquire().await.unwrap().forget();
                Ok(Action::none())
            }
        });
        tokio::spawn(controller.run(CancellationToken::new()));
        let run = tokio::spawn(async move { sharding.run(CancellationToken::new()).await });
        (run, factory)
    };
    let (a, _factory) = start("a");
    while active.lock().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    a.abort();
    let _b = start("b");
    sleep(60 * S).await;
    assert_eq!(*active.lock(), BTreeMap::from([("b", 1)]));
}

struct Active(Arc<Mutex<BTreeMap<&'static str, usize>>>, &'static str);

impl Active {
    fn begin(active: Arc<Mutex<BTreeMap<&'static str, usize>>>, name: &'static str) -> Self {
        *active.lock().entry(name).or_default() += 1;
        Self(active, name)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.lock().remove(self.1);
    }
}

/// A clock that jumps, as that of a computer that was suspended.
#[derive(Clone)]
struct Jumping(Arc<TokioClock>, Arc<Mutex<Duration>>);

impl Clock for Jumping {
    fn now(&self) -> Duration {
        self.0.now() + *self.1.lock()
    }
}

/// A reconciliation that goes on after the process was suspended is dropped before it does anything.
// contract: K-25c
#[tokio::test(start_paused = true)]
async fn a_suspended_process() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.server().create(config_map("m", "0")).unwrap();
    let clock = Jumping(Arc::new(TokioClock::new()), Arc::default());
    let client = cluster.client_of("a").unwrap();
    let ring = Ring::leases(client.clone(), "default", "shop").identity("a").clock(clock.clone());
    let sharding = Sharding::new(ring.build().unwrap());
    let factory = SharedInformerFactory::new(client);
    let controller = Controller::of(&factory).reconciles::<ConfigMap>().sharded(&sharding);
    let steps = Arc::<Mutex<usize>>::default();
    let controller = controller.build({
        let steps = steps.clone();
        move |_| {
            let steps = steps.clone();
            async move {
                loop {
                    *steps.lock() += 1;
                    sleep(Duration::from_millis(10)).await;
                }
            }
        }
    });
    let manager = Manager::new().add(controller).unwrap().sharding(&sharding).unwrap();
    let _running = tokio::spawn(manager.run(CancellationToken::new()));
    sleep(Duration::from_millis(31_005)).await;
    assert!(*steps.lock() > 100);
    *clock.1.lock() = 60 * S;
    let before = *steps.lock();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(*steps.lock(), before);
}

/// A second run at the same time is an error that changes nothing. A run after one that has ended is as the first.
// contract: K-25a
#[tokio::test(start_paused = true)]
async fn runs_again() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.server().create(config_map("m", "0")).unwrap();
    let (client, sharding) = sharding(&cluster, "a");
    let factory = SharedInformerFactory::new(client);
    let (maps, calls) = (factory.informer::<ConfigMap>(), Calls::default());
    let controller = Controller::of(&factory).reconciles::<ConfigMap>().sharded(&sharding);
    let controller = controller.build({
        let (lister, calls) = (maps.lister(), calls.clone());
        move |request: Request<ObjectKey>| {
            let is_there = lister.get_opt(&request.key).unwrap().is_some();
            calls.lock().push(("a", request.key.clone(), is_there));
            std::future::ready(Ok(Action::none()))
        }
    });
    let _controller = tokio::spawn(controller.run(CancellationToken::new()));
    let expected = BTreeSet::from([("a", "m".to_owned(), true)]);
    for value in ["1", "2"] {
        let stop = CancellationToken::new();
        let run = tokio::spawn({
            let (sharding, stop) = (sharding.clone(), stop.clone());
            async move { sharding.run(stop).await }
        });
        sleep(30 * S).await;
        assert_eq!(found(&calls), expected);
        let second = sharding.run(CancellationToken::new()).await;
        assert!(second.unwrap_err().to_string().contains("already"));
        sleep(S).await;
        cluster.server().update(config_map("m", value)).unwrap();
        sleep(S).await;
        assert_eq!(found(&calls), expected);
        stop.cancel();
        run.await.unwrap().unwrap();
        assert_eq!(maps.snapshot().unwrap().len(), 0);
    }
}

/// A slot does not move while a write may take effect that a reconciliation has given up.
// contract: K-25b
#[tokio::test(start_paused = true)]
async fn a_write_that_was_given_up() {
    let cluster = TestCluster::start().await.unwrap();
    cluster.server().create(config_map("m", "0")).unwrap();
    let uid = cluster.get::<ConfigMap>("default/m").unwrap().metadata.uid.unwrap();
    let (client, of_a) = sharding(&cluster, "a");
    let factory = SharedInformerFactory::new(client.clone());
    let (maps, given_up) =
        (Api::<ConfigMap>::default_namespaced(of_a.client(&client)), Arc::new(Semaphore::new(0)));
    let controller = Controller::of(&factory).reconciles::<ConfigMap>().sharded(&of_a).build({
        let given_up = given_up.clone();
        move |request| {
            let (maps, given_up) = (maps.clone(), given_up.clone());
            async move {
                let patch = Patch::Merge(json!({"data": {"by": "a"}}));
                let written = timeout(S, maps.patch(request.name(), &PatchParams::default(), &patch)).await;
                given_up.add_permits(usize::from(written.is_err()));
                Ok(Action::none())
            }
        }
    });
    let stalled = cluster.faults().inject(Fault::stall().on(Verb::Patch).always());
    let manager = Manager::new().add(controller).unwrap().sharding(&of_a).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone()));
    given_up.acquire().await.unwrap().forget();
    cluster.faults().remove(stalled);
    let (_, of_b) = sharding(&cluster, "b");
    let other = tokio::spawn({
        let of_b = of_b.clone();
        async move { of_b.run(CancellationToken::new()).await }
    });
    stop.cancel();
    sleep(8 * S).await;
    assert!(of_a.ring().owns(&uid) && !of_b.ring().owns(&uid));
    running.await.unwrap().unwrap();
    sleep(2 * S).await;
    assert!(of_b.ring().owns(&uid));
    other.abort();
}
