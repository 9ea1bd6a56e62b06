//! One run with an election.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fastrand::Rng;
use kinformer_processor::stepping::Stepping;
use parking_lot::Mutex;
use serde_json::json;

use super::faults;
use super::host::{Host, Stop};
use super::judge::{Judge, SHARED, Timing};
use super::network::Network;
use super::process::Process;
use crate::limits::Limits;
use crate::random::pick;
use crate::server::{Cluster, Key, Options, Server};
use crate::trace::{Recorder, Trace};

/// The time without faults in which a leader writes, and releases are watched.
const CALM: Duration = Duration::from_secs(140);

/// The longest time between two steps of a runtime, in milliseconds: the skew between processes.
const LONGEST_STEP: u64 = 200;

/// The time after the last fault in which requests may still have an effect.
const LATEST_REQUEST: Duration = Duration::from_secs(11);

/// A world: the server and the processes, each in a runtime.
struct World {
    rng: Rng,
    time: Arc<Mutex<Duration>>,
    recorder: Recorder,
    judge: Judge,
    timing: Timing,
    cluster: Cluster,
    server: Server,
    server_host: Host,
    network: Network,
    terms: Arc<AtomicU64>,
    identities: Vec<String>,
    processes: Vec<Host>,
}

/// Runs the election of a seed.
pub(crate) fn run(seed: u64, limits: &Limits) -> Trace {
    let _stepping = Stepping::from_seed(seed);
    let mut rng = Rng::with_seed(seed);
    let time = Arc::<Mutex<Duration>>::default();
    let recorder = Recorder::with_time({
        let time = time.clone();
        move || *time.lock()
    });
    let mut world = World::new(&mut rng, time, &recorder);
    let faults = Duration::from_secs(rng.u64(20..150));
    let until = limits.end("faults").unwrap_or(faults);
    while world.now() < faults {
        if world.now() < until {
            world.fail();
        }
        world.step();
    }
    world.calm();
    let calm = world.now();
    while world.now() < calm + CALM {
        world.step();
    }
    let led = world.judge.written().is_some_and(|written| written > calm + CALM / 2);
    if !led {
        recorder.violation("no leader writes after the faults");
    }
    drop(world);
    recorder.trace()
}

impl World {
    fn new(rng: &mut Rng, time: Arc<Mutex<Duration>>, recorder: &Recorder) -> Self {
        let timing = Timing::random(rng);
        let server_host = Host::new(Duration::ZERO);
        let cluster = Cluster::new();
        let server = server_host.enter(|| {
            cluster.put(Key::new("configmaps", "default", SHARED), json!({"data": {}}));
            Server::new(&cluster, rng.u64(..), Options::default())
        });
        let requests = recorder.clone();
        server.observe(move |line| requests.note("server", line));
        server.set_fault_rate(pick(rng, [0, 0, 20, 200]));
        recorder.note("world", format_args!("election, {timing:?}"));
        let judge = Judge::new(recorder, time.clone(), timing);
        let mut world = Self {
            rng: rng.fork(),
            time,
            recorder: recorder.clone(),
            judge,
            timing,
            cluster,
            server,
            server_host,
            network: Network::default(),
            terms: Arc::default(),
            identities: (0..rng.usize(2..4)).map(|number| format!("process-{number}")).collect(),
            processes: Vec::new(),
        };
        for number in 0..world.identities.len() {
            let host = world.start(number);
            world.processes.push(host);
        }
        world
    }

    fn now(&self) -> Duration {
        *self.time.lock()
    }

    /// Starts a process.
    fn start(&mut self, number: usize) -> Host {
        let host = Host::new(self.now());
        let identity = self.identities.get(number).map_or("", String::as_str);
        let process = Process::new(identity, &host, &self.network, self.timing, &self.judge, &self.terms);
        host.clock.set(self.rng.i64(-100_000..100_000));
        host.spawn(process.run(self.rng.fork()));
        host
    }

    /// Runs all runtimes for some time, in any order, and the server at the end.
    fn step(&mut self) {
        let now = self.now() + Duration::from_millis(self.rng.u64(1..=LONGEST_STEP));
        *self.time.lock() = now;
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        self.rng.shuffle(&mut order);
        for process in order {
            if let Some(host) = self.processes.get(process) {
                host.run_until(now);
            }
        }
        self.network.deliver(now, &self.server_host, &self.server);
        self.server_host.run_until(now);
        self.cluster.read(|history| self.judge.read(history));
    }

    /// Injects faults at some times.
    fn fail(&mut self) {
        if self.rng.u8(..50) > 0 {
            return;
        }
        let number = self.rng.usize(..self.processes.len());
        let now = self.now();
        let done = match self.rng.u8(..10) {
            0 | 1 => {
                let stop = pick(&mut self.rng, [Stop::Signal, Stop::Suspend]);
                match self.processes.get_mut(number) {
                    Some(host) if host.is_stopped() => host.go_on(now),
                    Some(host) => host.stop(stop),
                    None => {}
                }
                let is_stopped = self.processes.get(number).is_some_and(Host::is_stopped);
                format!("process {number}: {stop:?}, is stopped: {is_stopped}")
            }
            2 | 3 => {
                // A stopped process goes on, sooner than another one is stopped.
                for host in &mut self.processes {
                    host.go_on(now);
                }
                "all processes go on".to_owned()
            }
            4 => {
                let host = self.start(number);
                if let Some(process) = self.processes.get_mut(number) {
                    *process = host;
                }
                format!("process {number} is killed, and starts again")
            }
            5 => {
                let jump = self.rng.i64(-10_000_000..10_000_000);
                self.processes.iter().for_each(|host| host.clock.set(jump));
                format!("the wall clock jumps by {jump} ms")
            }
            6 => self
                .server_host
                .enter(|| faults::of_lease(&mut self.rng, &self.cluster, &self.judge, &self.identities)),
            _ => faults::of_request(&mut self.rng, &self.server),
        };
        self.recorder.note("faults", done);
    }

    /// Ends all faults.
    fn calm(&mut self) {
        let now = self.now();
        for host in &mut self.processes {
            host.go_on(now);
        }
        self.server_host.enter(|| self.server.heal());
        self.recorder.note("world", "no more faults");
        let end = now + LATEST_REQUEST;
        while self.now() < end {
            self.step();
        }
        self.judge.set_calm();
    }
}
