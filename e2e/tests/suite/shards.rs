//! Processes of the example `shard` on the real kube-apiserver, killed, paused and ended at random: the audit of their writes says
//! whether each was made by the owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use e2e::{ControlPlane, Options, programs};
use fastrand::Rng;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_controller::kinformer::{Event, SharedInformerFactory};
use kinformer_controller::kinformer_ring::Table;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use serde_json::json;
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use crate::examples::end;
use crate::planes;
use crate::recorder::{check, eventually};

const MAPS: usize = 200;
/// For how long processes are disturbed, and objects changed.
const DISTURBED: Duration = Duration::from_secs(75);
const RING: &str = "shard-example";

/// What has happened, in the order of the resource versions.
#[derive(Default)]
struct Audit {
    tables: BTreeMap<u64, Table>,
    /// Who has written which object, by its UID.
    writes: BTreeMap<u64, (String, String)>,
    /// The texts of an object that no process has noted yet, and since when.
    open: BTreeMap<String, (String, Instant)>,
    delays: Vec<Duration>,
}

impl Audit {
    /// Returns the writes by processes that did not own the object at this version.
    fn violations(&self) -> Vec<String> {
        let is_owner = |version: &u64, uid: &str, by: &str| {
            let (_, table) = self.tables.range(..version).next_back()?;
            let slot = table.params().slot_of(uid);
            let owner = table.slots().get(usize::from(slot))?.owner.as_ref()?;
            Some(owner.identity() == by)
        };
        let wrong =
            self.writes.iter().filter(|(version, (uid, by))| is_owner(version, uid, by) != Some(true));
        wrong.map(|(version, (uid, by))| format!("{by} wrote {uid} at {version}")).collect()
    }
}

fn audit(factory: &SharedInformerFactory) -> Arc<Mutex<Audit>> {
    let audit = Arc::<Mutex<Audit>>::default();
    let log = audit.clone();
    let tables = factory.informer::<Lease>().handler().inline().for_each(move |event| {
        let Some(lease) = event.object().filter(|lease| lease.name() == RING) else { return };
        let lease = lease.decode().unwrap();
        if let Ok(table) = Table::parse(lease.metadata.annotations.as_ref().unwrap()) {
            log.lock().tables.insert(number(lease.metadata.resource_version.as_ref()), table);
        }
    });
    tables.unwrap();
    let log = audit.clone();
    let maps = factory.informer::<ConfigMap>().handler().inline().for_each(move |event| {
        let (false, Some(map)) = (matches!(event, Event::Deleted(_)), event.object()) else { return };
        let map = map.decode().unwrap();
        let metadata = &map.metadata;
        let annotation =
            |name: &str| metadata.annotations.as_ref()?.get(&format!("shard.example.com/{name}"));
        let (uid, text) = (metadata.uid.clone().unwrap(), map.data.as_ref().unwrap()["text"].clone());
        let mut audit = log.lock();
        if annotation("text") != Some(&text) {
            let is_new = audit.open.get(&uid).is_none_or(|(open, _)| *open != text);
            if is_new {
                audit.open.insert(uid, (text, Instant::now()));
            }
            return;
        }
        if let (Some((_, since)), Some(by)) = (audit.open.remove(&uid), annotation("by")) {
            audit.delays.push(since.elapsed());
            audit.writes.insert(number(metadata.resource_version.as_ref()), (uid, by.clone()));
        }
    });
    maps.unwrap();
    factory.start().unwrap();
    audit
}

fn number(version: Option<&String>) -> u64 {
    version.unwrap().parse().unwrap()
}

struct Processes<'a> {
    control_plane: &'a ControlPlane,
    leases: Api<Lease>,
    /// With their names.
    running: Vec<(String, Child)>,
    started: usize,
}

impl Processes<'_> {
    /// Each start has a name of its own, so that the audit can distinguish them.
    fn start(&mut self) {
        self.started += 1;
        let mut program = programs::example(programs::SHARD, &self.control_plane.kubeconfig()).unwrap();
        let name = format!("p{}", self.started);
        let program = program.arg(&name).kill_on_drop(true).spawn().unwrap();
        self.running.push((name, program));
    }

    fn signal(&self, index: usize, signal: Signal) {
        let id = Pid::from_raw(self.running[index].1.id().unwrap().try_into().unwrap());
        kill(id, signal).unwrap();
    }

    /// Ends one that has joined: one that has just started has no handler of the signal.
    async fn end(&self, (name, mut process): (String, Child)) {
        let lease = format!("{RING}.{name}");
        eventually("it has joined", async || {
            let found = self.leases.get_opt(&lease).await.unwrap();
            check(found.is_some(), &lease)
        })
        .await;
        end(&mut process, Signal::SIGTERM).await;
    }

    /// Kills, pauses or ends one.
    async fn disturb(&mut self, rng: &mut Rng) {
        let index = rng.usize(0..self.running.len());
        match rng.u32(0..3) {
            0 => {
                self.running.remove(index).1.kill().await.unwrap();
                self.start();
            }
            1 => {
                self.signal(index, Signal::SIGSTOP);
                // possibly for longer than the Lease lasts
                sleep(Duration::from_secs(rng.u64(1..20))).await;
                self.signal(index, Signal::SIGCONT);
            }
            _ => {
                let ended = self.running.remove(index);
                self.start();
                self.end(ended).await;
            }
        }
        sleep(Duration::from_secs(rng.u64(0..4))).await;
    }
}

async fn change(maps: &Api<ConfigMap>, rng: &mut Rng, text: &mut u64) {
    *text += 1;
    let patch = Patch::Merge(json!({"data": {"text": text.to_string()}}));
    let name = format!("shard-{}", rng.usize(0..MAPS));
    maps.patch(&name, &PatchParams::default(), &patch).await.unwrap();
}

async fn create(client: &Client) -> Api<ConfigMap> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for number in 0..MAPS {
        let map = json!({"metadata": {"name": format!("shard-{number}"), "labels": {"shard": "yes"}},
            "data": {"text": "0"}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
    maps
}

/// Each write is made by the process that owns the object according to the table at that version, and each change is noted.
#[expect(clippy::print_stdout, reason = "the seed and the figures are for the reader")]
async fn only_owners_write(options: Options) {
    let control_plane = planes::take(options).await;
    let client = control_plane.client().await.unwrap();
    let maps = create(&client).await;
    let factory = SharedInformerFactory::builder(client.clone())
        .namespaces(["default"])
        .of_kind::<ConfigMap>(|maps| maps.labels("shard"))
        .build();
    let audit = audit(&factory);
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let (running, control) = (Vec::new(), &control_plane);
    let mut processes = Processes { control_plane: control, leases: leases.clone(), running, started: 0 };
    (0..3).for_each(|_| processes.start());

    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let (mut rng, mut of_changes) = (Rng::with_seed(seed), Rng::with_seed(seed ^ 1));
    let until = Instant::now() + DISTURBED;
    let mut text = 0;
    let changes = async {
        while Instant::now() < until {
            change(&maps, &mut of_changes, &mut text).await;
            sleep(Duration::from_millis(10)).await;
        }
    };
    let disturbances = async {
        while Instant::now() < until {
            processes.disturb(&mut rng).await;
        }
    };
    tokio::join!(changes, disturbances);
    eventually("all changes are noted", async || {
        let (open, writes) = {
            let audit = audit.lock();
            (audit.open.len(), audit.writes.len())
        };
        check(open == 0 && writes >= MAPS, (open, writes))
    })
    .await;
    let listed = maps.list(&ListParams::default().labels("shard")).await.unwrap().items;
    for map in listed {
        let text = map.data.as_ref().unwrap().get("text");
        assert_eq!(map.metadata.annotations.unwrap().get("shard.example.com/text"), text);
    }
    let mut delays = audit.lock().delays.clone();
    delays.sort();
    let at = |part: usize| delays[(delays.len() - 1) * part / 100];
    let writers: BTreeSet<String> = audit.lock().writes.values().map(|(_, by)| by.clone()).collect();
    println!(
        "{} changes noted by {} processes: after {:?} (median), {:?} (95 %), {:?} (99 %), at most {:?}",
        delays.len(),
        writers.len(),
        at(50),
        at(95),
        at(99),
        at(100)
    );
    assert!(writers.len() >= 3, "{writers:?}");
    assert_eq!(audit.lock().violations(), Vec::<String>::new());
    for process in std::mem::take(&mut processes.running) {
        processes.end(process).await;
    }
    factory.shutdown().await.unwrap();
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("shard")).await.unwrap();
    let of_ring =
        ListParams::default().labels(&format!("{}={RING}", kinformer_controller::kinformer_ring::LABEL));
    leases.delete_collection(&DeleteParams::default(), &of_ring).await.unwrap();
    planes::keep(control_plane).await;
}

// contract: K-25a, K-25b, K-25c, Y-07a, Y-07b
#[tokio::test(flavor = "multi_thread")]
async fn only_owners_of_a_shard_write() {
    only_owners_write(Options::new()).await;
}

/// As above, with a server that sends each process only the objects of its shard.
// contract: K-25a, K-25b, K-25c
#[tokio::test(flavor = "multi_thread")]
async fn only_owners_of_a_shard_write_with_the_feature_gate() {
    only_owners_write(Options::new().apiserver_flag("--feature-gates=ShardedListAndWatch=true")).await;
}
