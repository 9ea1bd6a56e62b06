//! Processes on the Leases of an API server, in paused time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_apiserver::{Fault, TestCluster, Verb};
use kinformer_leader_election::{NotLeader, TokioClock};
use kinformer_ring::{
    LABEL, ListFrom, MemberPhase, Problem, Ring, RingProcess, RunError, Shards, Slots, StopReason,
};
use kube_client::Api;
use kube_client::api::PostParams;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

const S: Duration = Duration::from_secs(1);

/// Who acts on each slot, and for how long a slot had no owner.
#[derive(Default)]
struct Judge {
    owners: BTreeMap<u16, &'static str>,
    since: BTreeMap<u16, Instant>,
    longest_gap: Duration,
    stopped: Vec<(&'static str, StopReason)>,
    violations: Vec<String>,
}

impl Judge {
    fn begin(&mut self, name: &'static str, slots: &Slots) {
        for slot in slots.iter() {
            if let Some(other) = self.owners.insert(slot, name).filter(|other| *other != name) {
                self.violations.push(format!("slot {slot} is owned by {other} and {name}"));
            }
            let gap = self.since.remove(&slot).map_or(Duration::ZERO, |since| since.elapsed());
            self.longest_gap = self.longest_gap.max(gap);
        }
    }

    fn end(&mut self, name: &'static str, slots: &Slots) {
        for slot in slots.iter() {
            if self.owners.get(&slot) == Some(&name) {
                self.owners.remove(&slot);
                self.since.insert(slot, Instant::now());
            }
        }
    }

    fn owned_by(&self, name: &str) -> usize {
        self.owners.values().filter(|owner| **owner == name).count()
    }
}

type SharedJudge = Arc<Mutex<Judge>>;

/// A process that works for 5 ms after each release.
#[derive(Clone)]
struct Work {
    name: &'static str,
    judge: SharedJudge,
}

impl Shards for Work {
    fn own(&self, slots: Slots, list: ListFrom) -> impl Future<Output = u64> + Send + 'static {
        self.judge.lock().begin(self.name, &slots);
        std::future::ready(match list {
            ListFrom::AtLeast(version) => version,
            ListFrom::Latest => 1,
        })
    }

    fn release(&self, slots: Slots) -> impl Future<Output = Option<u64>> + Send + 'static {
        let (name, judge) = (self.name, self.judge.clone());
        async move {
            sleep(Duration::from_millis(5)).await;
            judge.lock().end(name, &slots);
            Some(1)
        }
    }

    fn stop(&self, slots: Slots, reason: StopReason) {
        let mut judge = self.judge.lock();
        judge.end(self.name, &slots);
        judge.stopped.push((self.name, reason));
    }
}

struct Process {
    ring: Ring,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

fn ring(cluster: &TestCluster, name: &'static str) -> Ring {
    let client = cluster.client_of(name).unwrap();
    Ring::leases(client, "default", "shop").identity(name).clock(TokioClock::new()).build().unwrap()
}

fn start(cluster: &TestCluster, name: &'static str, judge: &SharedJudge) -> Process {
    start_with(cluster, name, Work { name, judge: judge.clone() })
}

fn start_with(cluster: &TestCluster, name: &'static str, work: impl Shards) -> Process {
    let (ring, stop) = (ring(cluster, name), CancellationToken::new());
    let task = tokio::spawn({
        let (ring, stop) = (ring.clone(), stop.clone());
        async move { ring.run(work, stop).await }
    });
    Process { ring, stop, task }
}

/// Waits until each process owns its share.
async fn settled(judge: &SharedJudge, processes: &[&str]) {
    let share = 1024 / processes.len();
    let is_settled = || {
        let judge = judge.lock();
        processes.iter().all(|name| (share..=share + 1).contains(&judge.owned_by(name)))
            && judge.owners.len() == 1024
    };
    while !is_settled() {
        sleep(Duration::from_millis(10)).await;
    }
    let violations = judge.lock().violations.clone();
    assert_eq!(violations, Vec::<String>::new());
}

/// Two processes, each with its share.
async fn two() -> (TestCluster, SharedJudge, [Process; 2]) {
    let cluster = TestCluster::start().await.unwrap();
    let judge = SharedJudge::default();
    let processes = ["a", "b"].map(|name| start(&cluster, name, &judge));
    settled(&judge, &["a", "b"]).await;
    (cluster, judge, processes)
}

/// Each process knows the others: their weights, their slots, and when they have renewed their Leases.
// contract: Y-07h
#[tokio::test(start_paused = true)]
async fn processes_are_known_to_each_other() {
    let (_cluster, _judge, [a, b]) = two().await;
    for process in [&a, &b] {
        let known = process.ring.processes();
        let names: Vec<&str> = known.iter().map(|process| &*process.identity).collect();
        assert_eq!(names, ["a", "b"]);
        let slots: usize = known.iter().map(|process| process.slots.len()).sum();
        assert_eq!(slots, 1024);
        let is_joined = |process: &RingProcess| {
            process.renewed.is_some()
                && process
                    .member
                    .as_ref()
                    .is_some_and(|member| (member.weight, member.phase) == (1, MemberPhase::Joined))
        };
        assert!(known.iter().all(is_joined), "{known:?}");
        assert_eq!(
            known.iter().find(|known| *known.identity == *process.ring.identity()).unwrap().slots,
            process.ring.status().owned
        );
    }
    a.stop.cancel();
    a.task.await.unwrap().unwrap();
    assert_eq!(a.ring.processes(), []);
    b.stop.cancel();
    b.task.await.unwrap().unwrap();
}

/// Processes join, each owns its share, and one that ends hands its slots over without a gap of more than the requests take.
// contract: Y-07a
#[tokio::test(start_paused = true)]
async fn processes_join_and_leave() {
    let cluster = TestCluster::start().await.unwrap();
    let judge = SharedJudge::default();
    let a = start(&cluster, "a", &judge);
    settled(&judge, &["a"]).await;
    let b = start(&cluster, "b", &judge);
    settled(&judge, &["a", "b"]).await;
    let c = start(&cluster, "c", &judge);
    settled(&judge, &["a", "b", "c"]).await;
    let owned: usize = [&a, &b, &c].map(|process| process.ring.status().owned.len()).iter().sum();
    assert_eq!(owned, 1024);
    let uid = "5e0ab0d2-6bd1-4d5c-8d11-0e5a4e1c3a11";
    assert_eq!([&a, &b, &c].iter().filter(|process| process.ring.owns(uid)).count(), 1);

    a.stop.cancel();
    assert_eq!(a.task.await.unwrap(), Ok(()));
    settled(&judge, &["b", "c"]).await;
    assert!(a.ring.status().owned.is_empty() && !a.ring.owns(uid));
    b.stop.cancel();
    assert_eq!(b.task.await.unwrap(), Ok(()));
    settled(&judge, &["c"]).await;
    let judge = judge.lock();
    assert!(judge.longest_gap < Duration::from_millis(200), "{:?}", judge.longest_gap);
    assert_eq!(judge.stopped, []);
    drop(c);
}

/// A process whose future is dropped, as if it was killed: others own its slots when its Lease has expired, not before.
// contract: Y-07a, Y-07b
#[tokio::test(start_paused = true)]
async fn slots_of_a_killed_process() {
    let (cluster, judge, [a, b]) = two().await;
    let client = a.ring.client(&cluster.client());
    write(&client, "one").await.unwrap();
    a.task.abort();
    a.task.await.unwrap_err();
    NotLeader::of(&write(&client, "two").await.unwrap_err()).unwrap();
    let owned: Slots = (0..1024).collect::<Slots>().without(&b.ring.status().owned);
    judge.lock().end("a", &owned);
    settled(&judge, &["b"]).await;
    let gap = judge.lock().longest_gap;
    assert!((9 * S..=16 * S).contains(&gap), "{gap:?}");
}

async fn write(client: &kube_client::Client, name: &str) -> Result<ConfigMap, kube_client::Error> {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &object).await
}

/// A process whose requests are not answered stops by itself, and its writes are refused, before others own its slots. It
/// joins again.
// contract: Y-07b, Y-07c
#[tokio::test(start_paused = true)]
async fn an_isolated_process_stops() {
    let (cluster, judge, [a, b]) = two().await;
    let client = a.ring.client(&cluster.client());
    let isolated = [Fault::stall().by("a").always(), Fault::stall().on(Verb::Watch).by("a").always()];
    let isolated = isolated.map(|fault| cluster.faults().inject(fault));
    settled(&judge, &["b"]).await;
    assert_eq!(judge.lock().stopped, [("a", StopReason::NotRenewed)]);
    NotLeader::of(&write(&client, "two").await.unwrap_err()).unwrap();
    let error = a.ring.error().unwrap();
    assert_eq!(&*error, "lease default/shop.a: no response in time");
    isolated.into_iter().for_each(|fault| cluster.faults().remove(fault));
    settled(&judge, &["a", "b"]).await;
    write(&client, "three").await.unwrap();
    drop(b);
}

/// A watch that shows nothing and does not end is not noticed: a list shows the renewals.
// contract: Y-07c
#[tokio::test(start_paused = true)]
async fn a_silent_watch_stops_nothing() {
    let cluster = TestCluster::start().await.unwrap();
    let judge = SharedJudge::default();
    let a = start(&cluster, "a", &judge);
    settled(&judge, &["a"]).await;
    cluster.faults().inject(Fault::stall().on(Verb::Watch).resource("leases").always());
    sleep(60 * S).await;
    assert_eq!(judge.lock().stopped, []);
    assert_eq!(a.ring.status().owned.len(), 1024);
    let lists = cluster.requests().by("a").to_string().matches("LIST").count();
    assert!(lists <= 25, "{lists} lists in a minute");
}

/// Metadata that others have written into a Lease is kept, and is no reason to stop.
// contract: Y-07d
#[tokio::test(start_paused = true)]
async fn foreign_metadata_is_kept() {
    let cluster = TestCluster::start().await.unwrap();
    let judge = SharedJudge::default();
    let _a = start(&cluster, "a", &judge);
    settled(&judge, &["a"]).await;
    for name in ["default/shop", "default/shop.a"] {
        cluster
            .modify::<Lease>(name, |lease| {
                lease.metadata.labels.get_or_insert_default().insert("team".into(), "blue".into());
            })
            .unwrap();
    }
    let before: BTreeSet<_> = versions(&cluster);
    sleep(30 * S).await;
    let _b = start(&cluster, "b", &judge);
    settled(&judge, &["a", "b"]).await;
    assert!(before.is_disjoint(&versions(&cluster)));
    for name in ["default/shop", "default/shop.a"] {
        let labels = cluster.get::<Lease>(name).unwrap().metadata.labels.unwrap();
        assert_eq!((&*labels["team"], &*labels[LABEL]), ("blue", "shop"));
    }
    assert_eq!(judge.lock().stopped, []);
}

fn versions(cluster: &TestCluster) -> BTreeSet<String> {
    let leases = cluster.list::<Lease>().unwrap().into_iter();
    leases.filter_map(|lease| lease.metadata.resource_version).collect()
}

/// A server that is restored from a backup: each process stops and joins again.
// contract: Y-07e
#[tokio::test(start_paused = true)]
async fn a_restored_server() {
    let (cluster, judge, [_a, _b]) = two().await;
    let backup = cluster.snapshot();
    sleep(60 * S).await;
    cluster.restore(&backup);
    while judge.lock().stopped.len() < 2 {
        sleep(Duration::from_millis(100)).await;
    }
    settled(&judge, &["a", "b"]).await;
}

/// Whether to panic, and where.
struct Faulty(Work, &'static str);

impl Shards for Faulty {
    fn own(&self, slots: Slots, list: ListFrom) -> impl Future<Output = u64> + Send + 'static {
        assert_ne!(self.1, "own before the future");
        let (listed, is_faulty) = (self.0.own(slots, list), self.1 == "own");
        async move {
            assert!(!is_faulty);
            listed.await
        }
    }

    fn release(&self, slots: Slots) -> impl Future<Output = Option<u64>> + Send + 'static {
        let (drained, fault) = (self.0.release(slots), self.1);
        async move {
            assert_ne!(fault, "release");
            if fault == "no end" {
                std::future::pending::<()>().await;
            }
            drained.await
        }
    }

    fn stop(&self, slots: Slots, reason: StopReason) {
        self.0.stop(slots, reason);
    }
}

/// A panic of user code ends the run with an error that names the function, and all slots are stopped.
// contract: Y-07f
#[tokio::test(start_paused = true)]
async fn panics_end_the_run() {
    for (fault, function) in [("own", "own"), ("own before the future", "own"), ("release", "release")] {
        let cluster = TestCluster::start().await.unwrap();
        let judge = SharedJudge::default();
        let work = Work { name: "a", judge: judge.clone() };
        let a = start_with(&cluster, "a", Faulty(work, fault));
        if fault == "release" {
            settled(&judge, &["a"]).await;
            a.stop.cancel();
        }
        let slots: Slots = (0..1024).collect();
        let ring = "default/shop".to_owned();
        assert_eq!(a.task.await.unwrap(), Err(RunError::Panicked { ring, function, slots }), "{fault}");
        assert_eq!(judge.lock().stopped, [("a", StopReason::Ended)], "{fault}");
        assert!(!a.ring.owns("x"));
    }
}

/// A process whose work does not end is an error after the limit; a second run at the same time is one, too.
// contract: Y-07f
#[tokio::test(start_paused = true)]
async fn work_that_does_not_end() {
    let cluster = TestCluster::start().await.unwrap();
    let judge = SharedJudge::default();
    let work = Work { name: "a", judge: judge.clone() };
    let a = start_with(&cluster, "a", Faulty(work.clone(), "no end"));
    settled(&judge, &["a"]).await;
    let second = a.ring.run(work, CancellationToken::new()).await;
    assert_eq!(second, Err(RunError::Running { ring: "default/shop".to_owned() }));
    a.stop.cancel();
    let (ring, slots) = ("default/shop".to_owned(), (0..1024).collect());
    let ended = timeout(16 * S, a.task).await.unwrap().unwrap();
    assert_eq!(ended, Err(RunError::NotHandedOver { ring, slots }));
    assert_eq!(judge.lock().stopped, [("a", StopReason::Ended)]);
}

fn unlabel(cluster: &TestCluster, lease: &str) {
    let remove = |lease: &mut Lease| drop(lease.metadata.labels.as_mut().unwrap().remove(LABEL));
    cluster.modify::<Lease>(lease, remove).unwrap();
}

/// A label that somebody removes is written again.
// contract: Y-07g
#[tokio::test(start_paused = true)]
async fn removed_labels() {
    let (cluster, judge, [_a, _b]) = two().await;
    unlabel(&cluster, "default/shop");
    while judge.lock().stopped.len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    settled(&judge, &["a", "b"]).await;
    unlabel(&cluster, "default/shop.a");
    while judge.lock().stopped.len() < 3 {
        sleep(Duration::from_millis(10)).await;
    }
    timeout(60 * S, settled(&judge, &["a", "b"])).await.unwrap();
}

/// A Lease of the same name that belongs to another ring, or to none, is an error that says so.
// contract: Y-07g
#[tokio::test(start_paused = true)]
async fn leases_of_others() {
    for (labels, expected) in [
        (serde_json::json!({LABEL: "other"}), "lease default/shop: it belongs to the ring \"other\""),
        (serde_json::json!({}), "lease default/shop: it is not a lease of a ring"),
    ] {
        let cluster = TestCluster::start().await.unwrap();
        let lease = serde_json::json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "shop", "namespace": "default", "labels": labels}});
        cluster.server().create(lease).unwrap();
        let judge = SharedJudge::default();
        let a = start(&cluster, "a", &judge);
        let has_error = || a.ring.error().is_some_and(|error| *error == *expected);
        timeout(60 * S, async {
            while !has_error() {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
        assert_eq!(a.ring.status().problem, Some(Problem::TableHidden));
        assert!(judge.lock().owners.is_empty());
    }
}
