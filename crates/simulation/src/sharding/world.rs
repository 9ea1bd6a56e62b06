//! One run with processes that share objects out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use kinformer::ShardField;
use kinformer_controller::kinformer_ring::Params;
use kinformer_processor::stepping::Stepping;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::gaps::Gaps;
use super::judge::{Judge, NAMESPACE, table_key};
use super::network::{Link, Network};
use super::process::{Process, Shared};
use crate::election::host::{Host, Stop};
use crate::limits::Limits;
use crate::random::pick;
use crate::server::{Cluster, Fault, Key, Lag, Options, Server, Stop as Broken, Verb};
use crate::state::{State as Object, text_of};
use crate::trace::{Recorder, Trace};

/// The time within which everything is reconciled after the last fault.
const SETTLES: Duration = Duration::from_secs(300);

/// The time within which deletions are reconciled without faults.
const CALM: Duration = Duration::from_secs(20);

/// The longest time between two steps of a runtime, in milliseconds: the skew between processes.
const LONGEST_STEP: u64 = 100;

const IDENTITIES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// How many namespaces and objects there are. The hashes of namespaces that differ at the beginning are even.
const NAMESPACES: usize = 8;
const NAMES: usize = 4;

/// What a world has.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Requests fail, and watch caches lag. Otherwise it is checked for how long slots have no owner.
    requests_fail: bool,
    /// Leases are deleted and edited.
    edits: bool,
    /// The clocks of processes have different speeds.
    is_skewed: bool,
}

impl Kind {
    fn random(rng: &mut Rng) -> Self {
        match rng.u8(..5) {
            0 | 1 => Self { requests_fail: false, edits: false, is_skewed: rng.bool() },
            2 => Self { requests_fail: true, edits: false, is_skewed: rng.bool() },
            _ => Self { requests_fail: true, edits: true, is_skewed: rng.bool() },
        }
    }
}

/// A world: the servers and the processes, each in a runtime.
struct World {
    rng: Rng,
    kind: Kind,
    recorder: Recorder,
    shared: Shared,
    cluster: Cluster,
    /// That of the Leases, and that of the objects.
    servers: [Server; 2],
    server_host: Host,
    processes: Vec<Process>,
    gaps: Gaps,
    started: usize,
    changes: usize,
    /// When a Lease was edited last.
    edited: Duration,
}

/// Runs the processes of a seed.
pub(crate) fn run(seed: u64, limits: &Limits) -> Trace {
    let _stepping = Stepping::from_seed(seed);
    let mut rng = Rng::with_seed(seed);
    let time = Arc::<Mutex<Duration>>::default();
    let recorder = Recorder::with_time({
        let time = time.clone();
        move || *time.lock()
    });
    let mut world = World::new(&mut rng, time, &recorder);
    let end = Duration::from_secs(rng.u64(40..120));
    let [faults, edits, writes] = ["faults", "edits", "writer"].map(|actor| limits.end(actor).unwrap_or(end));
    let (mut of_faults, mut of_writer) = (rng.fork(), rng.fork());
    let mut next = Duration::ZERO;
    while world.now() < end {
        let now = world.now();
        if now >= next {
            let longest = pick(&mut of_faults, [500, 3_000, 20_000]);
            next = now + Duration::from_millis(of_faults.u64(..longest));
            if now < faults {
                world.fail(&mut of_faults, now < edits);
            }
        }
        if of_writer.u8(..8) == 0 && now < writes {
            (0..of_writer.u8(1..5)).for_each(|_| world.change(&mut of_writer));
        }
        world.step();
    }
    world.calm();
    world.settle("after the faults");
    world.delete();
    world.settle("at the end");
    drop(world);
    recorder.trace()
}

impl World {
    fn new(rng: &mut Rng, time: Arc<Mutex<Duration>>, recorder: &Recorder) -> Self {
        let kind = Kind::random(rng);
        let (params, renew, retry) = parameters(rng);
        recorder.note("world", format_args!("sharding, {kind:?}, {params}"));
        let server_host = Host::new(Duration::ZERO);
        let cluster = Cluster::new();
        let options = Options {
            shards: rng.bool(),
            watch_lists: rng.bool(),
            protobuf: rng.bool(),
            ..Options::default()
        };
        recorder.note("world", format_args!("{options:?}"));
        let servers = ["leases", "objects"].map(|name| {
            let server = server_host.enter(|| Server::new(&cluster, rng.u64(..), options));
            let requests = recorder.clone();
            server.observe(move |line| requests.note(name, line));
            if kind.requests_fail {
                server_host.enter(|| server.set_lag(lag(rng)));
            }
            server
        });
        let judge = Judge::new(recorder, &cluster, &params);
        let slowest = if kind.is_skewed { 0.85 } else { 1.0 };
        let gaps = Gaps::new(&judge, slowest, retry);
        let gives_up = rng.u8(..3) == 0;
        let shared = Shared { judge, network: Network::default(), time, renew, retry, gives_up };
        let mut world = Self {
            rng: rng.fork(),
            kind,
            recorder: recorder.clone(),
            shared,
            cluster,
            servers,
            server_host,
            processes: Vec::new(),
            gaps,
            started: 0,
            changes: 0,
            edited: Duration::ZERO,
        };
        for number in 0..NAMESPACES * NAMES {
            world.create(&key_of(number));
        }
        (0..rng.usize(1..4)).for_each(|_| world.start(rng));
        world
    }

    fn now(&self) -> Duration {
        *self.shared.time.lock()
    }

    /// Starts a process, if there is a name that no other one has.
    fn start(&mut self, rng: &mut Rng) {
        let is_free = |identity: &&str| self.processes.iter().all(|process| process.identity != *identity);
        let Some(identity) = IDENTITIES.into_iter().find(is_free) else { return };
        self.started += 1;
        let speed = if self.kind.is_skewed { pick(rng, [0.85, 1.0, 1.2]) } else { 1.0 };
        self.recorder.note("world", format_args!("starts {identity}{}, speed {speed}", self.started));
        if let Some(mut process) = Process::start(rng, identity, self.started, speed, &self.shared) {
            // It may have to wait for the end of a Lease of its name.
            process.healthy += self.shared.judge.params.lease_duration * 2;
            self.processes.push(process);
        }
    }

    /// Runs all runtimes for some time, in any order, and the server at the end.
    fn step(&mut self) {
        let now = self.now() + Duration::from_millis(self.rng.u64(1..=LONGEST_STEP));
        *self.shared.time.lock() = now;
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        self.rng.shuffle(&mut order);
        for process in order {
            if let Some(process) = self.processes.get(process) {
                process.run_until(now);
            }
        }
        self.shared.network.deliver(now, &self.server_host, &self.servers);
        self.server_host.run_until(now);
        self.shared.judge.read();
        if !self.kind.requests_fail {
            let present: Vec<_> = self.processes.iter().map(Process::present).collect();
            self.gaps.check(now, &present);
        }
        self.remove_ended(now);
    }

    fn remove_ended(&mut self, now: Duration) {
        let Self { processes, gaps, shared, recorder, .. } = self;
        processes.retain(|process| {
            let Some(ended) = process.ended() else { return true };
            recorder.note(&process.run, format_args!("has ended: {ended:?}"));
            // A process that leaves may fail to hand its slots over in time.
            let is_expected =
                process.is_leaving && !ended.as_ref().is_err_and(|error| error.contains("panicked"));
            if !is_expected {
                shared.judge.violation(format_args!("{} has ended: {ended:?}", process.run));
            }
            if ended.is_err() {
                gaps.failed(process.identity, now);
            }
            false
        });
    }

    /// Creates an object, with another one that it owns.
    fn create(&mut self, (namespace, name): &(String, String)) {
        self.changes += 1;
        let key = Key::new("configmaps", namespace, name);
        let content = json!({"data": {"value": self.changes.to_string()}});
        self.server_host.enter(|| {
            self.cluster.put(key.clone(), content);
            let uid = self.cluster.read(|history| history.object(&key).cloned()).map(|map| uid_of(&map));
            let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": true}]);
            let content = json!({"metadata": {"ownerReferences": owner}});
            self.cluster.put(Key::new("secrets", namespace, format!("{name}-{}", self.changes)), content);
        });
    }

    /// Changes, deletes or creates an object, or deletes it and creates it again.
    fn change(&mut self, rng: &mut Rng) {
        let of = key_of(rng.usize(..NAMESPACES * NAMES));
        let key = Key::new("configmaps", &of.0, &of.1);
        let choice = rng.u8(..4);
        let map = self.cluster.read(|history| history.object(&key).cloned());
        if let Some(map) = &map {
            if choice < 2 {
                self.changes += 1;
                let mut map = map.as_ref().clone();
                if let Some(data) = map.get_mut("data") {
                    *data = json!({"value": self.changes.to_string()});
                }
                self.server_host.enter(|| self.cluster.put(key, map));
                return;
            }
            self.server_host.enter(|| self.cluster.delete(key));
        }
        if map.is_none() || choice == 2 {
            self.create(&of);
        }
    }

    /// Injects a fault.
    fn fail(&mut self, rng: &mut Rng, edits: bool) {
        if edits && self.kind.edits && rng.u8(..4) == 0 {
            return self.edit(rng);
        }
        let now = self.now();
        let running = self.processes.iter().filter(|process| !process.is_leaving).count();
        let index = rng.usize(..self.processes.len().max(1));
        match rng.u8(..16) {
            0..=2 => self.start(rng),
            3 if running > 1 => {
                let able = |process: &&mut Process| !process.is_leaving && !process.is_stopped();
                self.processes.iter_mut().find(able).into_iter().for_each(Process::leave);
            }
            4 | 5 if running > 1 => {
                let process = self.processes.swap_remove(index.min(self.processes.len() - 1));
                self.recorder.note("faults", format_args!("{} is killed", process.run));
                self.gaps.failed(process.identity, now);
            }
            6 | 7 => {
                let how = pick(rng, [Stop::Signal, Stop::Suspend]);
                if let Some(process) = self.processes.get_mut(index).filter(|process| !process.is_stopped()) {
                    process.pause(how);
                    self.gaps.failed(process.identity, now);
                }
            }
            8 => self.go_on(),
            9 | 10 => self.isolate(rng, index),
            11 => self.connect(),
            12 | 14 if self.kind.requests_fail && !self.kind.is_skewed => {
                self.delay_writes(rng);
                self.start(rng);
            }
            13 if self.kind.requests_fail => {
                let lag = lag(rng);
                self.recorder.note("faults", format_args!("{lag:?}"));
                let server = rng.choice(&self.servers);
                self.server_host.enter(|| server.into_iter().for_each(|server| server.set_lag(lag)));
            }
            _ if self.kind.requests_fail => self.fail_requests(rng),
            _ if self.kind.is_skewed => self.isolate(rng, index),
            _ => {}
        }
    }

    /// A process and the server are not connected any more.
    fn isolate(&mut self, rng: &mut Rng, index: usize) {
        let link = pick(rng, [Link::Refused, Link::Silent, Link::Deaf]);
        let now = self.now();
        if let Some(process) = self.processes.get_mut(index).filter(|process| process.is_connected()) {
            process.set_link(link);
            self.gaps.failed(process.identity, now);
        }
    }

    /// All stopped processes go on.
    fn go_on(&mut self) {
        let now = self.now();
        for process in self.processes.iter_mut().filter(|process| process.is_stopped()) {
            process.go_on();
            self.gaps.failed(process.identity, now);
        }
    }

    /// All processes are connected.
    fn connect(&mut self) {
        let now = self.now();
        for process in self.processes.iter_mut().filter(|process| !process.is_connected()) {
            process.set_link(Link::Up);
            self.gaps.failed(process.identity, now);
        }
    }

    /// The next writes of objects are late.
    fn delay_writes(&self, rng: &mut Rng) {
        let delay = Duration::from_millis(rng.u64(1_000..10_000));
        self.recorder.note("faults", format_args!("the next writes of objects are {delay:?} late"));
        let [_, of_objects] = &self.servers;
        (0..8).for_each(|_| of_objects.plan(Verb::Object, Fault::Delay(delay)));
    }

    fn fail_requests(&self, rng: &mut Rng) {
        // Where clocks differ, writes are on their way only for a part of the time between the deadline and the takeover.
        let longest = if self.kind.is_skewed { 200 } else { 10_000 };
        let fault = match rng.u8(..6) {
            0 | 1 => Fault::Status { code: pick(rng, [409, 429, 500, 503, 504]), retry_after: None },
            2 => Fault::Stop { bytes: rng.usize(..500), stop: pick(rng, [Broken::Broken, Broken::Silent]) },
            3 => Fault::Refused,
            4 => Fault::NoAnswer,
            _ => Fault::Delay(Duration::from_millis(rng.u64(..longest))),
        };
        let requests = pick(rng, [1, 3, 20]);
        self.recorder.note("faults", format_args!("the next {requests} requests: {fault:?}"));
        let Some(server) = rng.choice(&self.servers) else { return };
        (0..requests).for_each(|_| server.plan(None, fault));
        if rng.u8(..4) == 0 {
            self.server_host.enter(|| server.break_watches());
        }
    }

    /// Deletes or edits a Lease of a process, or the table, unless one was edited a short time ago: all Leases at once are not
    /// covered. In some cases a process does not see it.
    fn edit(&mut self, rng: &mut Rng) {
        let now = self.now();
        if now < self.edited + self.shared.judge.params.lease_duration * 2 {
            return;
        }
        self.edited = now;
        let link = pick(rng, [Link::Up, Link::Refused, Link::Silent]);
        let index = rng.usize(..self.processes.len().max(1));
        if let Some(process) =
            self.processes.get_mut(index).filter(|process| process.is_connected() && link != Link::Up)
        {
            process.set_link(link);
        }
        let leases = self.cluster.read(|history| {
            let objects = history.objects_at(history.newest()).into_iter();
            let leases = objects.filter(|(key, _)| key.plural == "leases" && key.namespace == NAMESPACE);
            leases.map(|(key, lease)| (key.clone(), lease.clone())).collect::<Vec<_>>()
        });
        let is_table = rng.bool();
        let leases: Vec<_> =
            leases.into_iter().filter(|(key, _)| (*key == table_key()) == is_table).collect();
        let Some((key, lease)) = rng.choice(leases) else { return };
        let field = pick(rng, ["/metadata/annotations", "/metadata/labels", "/spec", ""]);
        self.recorder.note("faults", format_args!("edits {key}: {field}"));
        let mut lease = lease.as_ref().clone();
        match lease.pointer_mut(field).filter(|_| !field.is_empty()) {
            Some(field) => {
                *field = Value::Object(serde_json::Map::new());
                self.server_host.enter(|| self.cluster.put(key, lease));
            }
            None => _ = self.server_host.enter(|| self.cluster.delete(key)),
        }
    }

    /// Ends all faults.
    fn calm(&mut self) {
        self.go_on();
        self.connect();
        self.server_host.enter(|| self.servers.iter().for_each(Server::heal));
        self.recorder.note("world", "no more changes and faults");
    }

    /// Waits until everything is as it must be without faults.
    fn settle(&mut self, when: &str) {
        let end = self.now() + SETTLES;
        let mut left = self.unsettled();
        while !left.is_empty() && self.now() < end {
            self.run_for(Duration::from_millis(500));
            left = self.unsettled();
        }
        if !left.is_empty() {
            self.recorder.violation(format_args!("not settled in time {when}: {left:?}"));
        }
        self.recorder.note("world", format_args!("settled {when}"));
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            self.step();
        }
    }

    fn objects(&self, plural: &str) -> BTreeMap<Key, Object> {
        self.cluster.read(|history| {
            let objects =
                history.objects_at(history.newest()).into_iter().filter(|(key, _)| key.plural == plural);
            objects.map(|(key, object)| (key.clone(), object.clone())).collect()
        })
    }

    /// The index of the only process that owns a value.
    fn owner(&self, value: &str) -> Result<usize, String> {
        let owners: Vec<usize> = (0..)
            .zip(&self.processes)
            .filter(|(_, process)| process.owns(value))
            .map(|(index, _)| index)
            .collect();
        match owners[..] {
            [owner] => Ok(owner),
            _ => Err(format!("{value} is owned by {owners:?}")),
        }
    }

    /// What is not yet as it must be without faults: each object was reconciled by its owner as it is, and each informer holds
    /// the objects of its process (K-25a, K-25d).
    fn unsettled(&self) -> Vec<String> {
        let leaving = self.processes.iter().filter(|process| process.is_leaving);
        let mut found: Vec<String> =
            leaving.map(|process| format!("{} has not ended", process.run)).collect();
        let mut expected = vec![[BTreeSet::new(), BTreeSet::new()]; self.processes.len()];
        let judge = &self.shared.judge;
        for (key, map) in self.objects("configmaps") {
            let uid = uid_of(&map);
            let owner = match self.owner(judge.hashed(&key.namespace, &uid)) {
                Ok(owner) => owner,
                Err(problem) => {
                    found.push(problem);
                    continue;
                }
            };
            let value = text_of(&map, ["data", "value"]).unwrap_or_default().to_owned();
            let wanted = self.processes.get(owner).map(|process| (process.run.clone(), value));
            let last = judge.last(&uid);
            if last != wanted {
                found.push(format!("{key} {uid} was reconciled last by {last:?}, not {wanted:?}"));
            }
            expected.get_mut(owner).map(|[maps, _]| maps.insert(uid));
        }
        for (key, secret) in self.objects("secrets") {
            let owner = match judge.params.field {
                ShardField::Namespace => self.owner(&key.namespace).ok(),
                ShardField::Uid => None, // all informers hold it
            };
            let of = (0..).zip(&mut expected).filter(|(index, _)| owner.is_none_or(|owner| *index == owner));
            of.for_each(|(_, [_, secrets])| _ = secrets.insert(uid_of(&secret)));
        }
        for (process, expected) in self.processes.iter().zip(expected) {
            let held = process.held();
            if held.as_ref() != Some(&expected) {
                found.push(format!("{} holds {held:?}, not {expected:?}", process.run));
            }
            found.extend(process.problem());
        }
        found
    }

    /// Deletions in a calm ring are reconciled only by the owner (K-25g).
    fn delete(&mut self) {
        self.run_for(CALM);
        self.shared.judge.take_missing();
        let mut expected = BTreeSet::new();
        for (key, map) in self.objects("configmaps").into_iter().step_by(3) {
            let value = self.shared.judge.hashed(&key.namespace, &uid_of(&map)).to_owned();
            if let Some(owner) = self.owner(&value).ok().and_then(|owner| self.processes.get(owner)) {
                expected.insert((owner.run.clone(), key.path()));
            }
            self.server_host.enter(|| self.cluster.delete(key));
        }
        self.recorder.note("world", format_args!("deletes {} objects", expected.len()));
        self.run_for(CALM);
        let missing = self.shared.judge.take_missing();
        if missing != expected {
            self.recorder
                .violation(format_args!("the deletions of {expected:?} are reconciled by {missing:?}"));
        }
    }
}

/// The parameters of the ring, the renew period and the retry period.
fn parameters(rng: &mut Rng) -> (Params, Duration, Duration) {
    let [lease, deadline, skew, renew, retry] =
        pick(rng, [[15_000, 10_000, 500, 3_000, 500], [6_000, 4_000, 200, 1_200, 200]])
            .map(Duration::from_millis);
    let params = Params {
        slots: pick(rng, [16, 64, 64, 1024]),
        field: pick(rng, [ShardField::Uid, ShardField::Uid, ShardField::Namespace]),
        lease_duration: lease,
        renew_deadline: deadline,
        skew,
    };
    (params, renew, retry)
}

/// How far a watch cache is behind.
fn lag(rng: &mut Rng) -> Lag {
    Lag::After(Duration::from_millis(pick(rng, [0, 300, 2_000])))
}

/// The namespace and the name of an object.
fn key_of(number: usize) -> (String, String) {
    (format!("{}-shop", number % NAMESPACES), format!("m{}", number / NAMESPACES))
}

fn uid_of(object: &Value) -> String {
    text_of(object, ["metadata", "uid"]).unwrap_or_default().to_owned()
}
