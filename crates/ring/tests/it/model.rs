//! All states of a few processes are explored: the processes are the code that runs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use kinformer_ring::{Config, Input, Machine, Output, Params, Slots, View, Write, WriteResult};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::server::Server;

/// What is explored.
#[derive(Clone)]
struct Setup {
    processes: usize,
    slots: u16,
    /// How many units of time pass for each process in one tick.
    rates: Vec<u32>,
    ticks: u8,
    faults: u8,
    /// The faults that can happen.
    kinds: &'static [Fault],
    /// The processes that run, and own their shares, before the exploration begins.
    running: usize,
    /// A fault in the processes or their surroundings, which the exploration has to find.
    mutant: Option<Mutant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    Kill,
    Isolate,
    Pause,
    /// The process writes, but its reads are old.
    StaleReads,
    Lose,
    Leave,
    DeleteTable,
    DeleteLease,
}

/// A changed protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// A process does not finish its work before it reports slots as released.
    ReleasesAtOnce,
    /// A process acts on without regard to the end of its Lease.
    IgnoresDeadline,
    /// A Lease is closed although it has another version than the one observed.
    ClosesAnyVersion,
    /// The table is written although it has another version than the one read.
    WritesAnyTable,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Process {
    machine: Option<Machine>,
    /// The time that the machine has not been informed of, in units.
    late: u32,
    draining: Slots,
    is_isolated: bool,
    has_stale_reads: bool,
    is_paused: bool,
    /// The version of the view that it has.
    seen: u64,
}

impl Process {
    fn is_faulty(&self) -> bool {
        self.is_isolated || self.has_stale_reads || self.is_paused
    }

    fn recover(&mut self) {
        (self.is_isolated, self.has_stale_reads, self.is_paused) = (false, false, false);
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Request {
    process: usize,
    write: Write,
    result: Option<WriteResult>,
    /// Its process does not wait for the response any more.
    is_lost: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct World {
    server: Server,
    history: Vec<Arc<View>>,
    processes: Vec<Process>,
    requests: Vec<Request>,
    ticks: u8,
    faults: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Start(usize),
    Tick,
    /// The server handles a request; the process receives the response if it can.
    Serve(usize),
    Answer(usize),
    View(usize, u64),
    Drain(usize),
    Fault(Fault, usize),
    Recover(usize),
}

const EXCLUSIVE: &str = "no slot has two owners";
const UNIT: Duration = Duration::from_secs(1);

impl Setup {
    fn config(&self, index: usize) -> Config {
        let name = ["a", "b", "c"][index];
        let mut config = Config::new(name, name);
        config.params = Params {
            slots: self.slots,
            lease_duration: UNIT * 6,
            renew_deadline: UNIT * 4,
            skew: Duration::ZERO,
            ..Params::default()
        };
        (config.renew_period, config.retry_period) = (UNIT * 2, UNIT * 2);
        config
    }

    fn start(&self, world: &mut World, index: usize) {
        world.processes[index].machine = Some(Machine::new(self.config(index)).unwrap());
    }

    fn initial(&self) -> World {
        let process = Process {
            machine: None,
            late: 0,
            draining: Slots::default(),
            is_isolated: false,
            has_stale_reads: false,
            is_paused: false,
            seen: 0,
        };
        let mut world = World {
            server: Server { version: 1, ..Server::default() },
            history: Vec::new(),
            processes: vec![process; self.processes],
            requests: Vec::new(),
            ticks: 0,
            faults: 0,
        };
        world.history.push(Arc::new(world.server.view()));
        for index in 0..self.running {
            self.start(&mut world, index);
        }
        if self.running > 0 {
            for _ in 0..4 {
                self.settle(&mut world);
                self.tick(&mut world);
            }
            self.settle(&mut world);
        }
        (world.ticks, world.faults) = (0, 0);
        world
    }

    /// Handles everything that is in flight, in one fixed order.
    fn settle(&self, world: &mut World) {
        for _ in 0..1_000 {
            let mut actions = Vec::new();
            self.urgent(world, &mut actions);
            match actions.into_iter().next() {
                Some(action) => self.apply(world, &action),
                None => return,
            }
        }
        panic!("the processes do not come to rest: {world:?}");
    }

    /// What happens without the passage of time.
    fn urgent(&self, world: &World, actions: &mut Vec<Action>) {
        for (index, process) in world.processes.iter().enumerate() {
            if process.machine.is_none() || process.is_paused {
                continue;
            }
            if !process.draining.is_empty() {
                actions.push(Action::Drain(index));
            }
            let newest = world.server.version;
            if !process.is_isolated && !process.has_stale_reads && process.seen < newest {
                let next =
                    world.history.iter().map(|view| view.version).find(|version| *version > process.seen);
                actions.extend(next.filter(|next| *next != newest).map(|next| Action::View(index, next)));
                actions.push(Action::View(index, newest));
            }
        }
        for (index, request) in world.requests.iter().enumerate() {
            let process = &world.processes[request.process];
            if request.is_lost || process.machine.is_none() || process.is_isolated {
                continue;
            }
            match request.result {
                None => actions.push(Action::Serve(index)),
                Some(_) if !process.is_paused => actions.push(Action::Answer(index)),
                Some(_) => {}
            }
        }
    }

    fn tick(&self, world: &mut World) {
        world.ticks += 1;
        for index in 0..world.processes.len() {
            world.processes[index].late += self.rates[index];
            if !world.processes[index].is_paused {
                self.step(world, index, Input::Tick);
            }
        }
    }

    fn step(&self, world: &mut World, index: usize, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let process = &mut world.processes[index];
            let Some(machine) = &mut process.machine else { return };
            let outputs = machine.step(UNIT * std::mem::take(&mut process.late), input);
            for output in outputs {
                match output {
                    Output::Write(write) => {
                        world.requests.push(Request { process: index, write, result: None, is_lost: false });
                    }
                    Output::Own { slots, .. } => {
                        inputs.push(Input::Listed { slots, version: world.server.version });
                    }
                    Output::Release { slots } if self.mutant == Some(Mutant::ReleasesAtOnce) => {
                        let version = Some(world.server.version);
                        inputs.push(Input::Drained { slots: slots.clone(), version });
                        process.draining = process.draining.iter().chain(slots.iter()).collect();
                    }
                    Output::Release { slots } => {
                        process.draining = process.draining.iter().chain(slots.iter()).collect();
                    }
                    Output::Stop { slots, .. } => {
                        process.draining =
                            process.draining.iter().filter(|slot| !slots.contains(*slot)).collect();
                    }
                    Output::Left => process.machine = None,
                }
            }
        }
    }

    fn serve(&self, world: &mut World, index: usize) -> WriteResult {
        let mut write = world.requests[index].write.clone();
        if let Some((uid, version)) = &mut write.precondition {
            let other = world.requests[index].process;
            let found = match &write.target {
                kinformer_ring::Target::Table if self.mutant == Some(Mutant::WritesAnyTable) => {
                    world.server.table.as_ref().map(|found| (found.uid.clone(), found.version))
                }
                kinformer_ring::Target::Member(name)
                    if self.mutant == Some(Mutant::ClosesAnyVersion)
                        && **name != *self.config(other).identity =>
                {
                    world.server.members.get(name).map(|found| (found.uid.clone(), found.version))
                }
                _ => None,
            };
            if let Some(found) = found {
                (*uid, *version) = found;
            }
        }
        let result = world.server.write(&write);
        if matches!(result, WriteResult::Applied { .. }) {
            world.history.push(Arc::new(world.server.view()));
        }
        result
    }

    fn apply(&self, world: &mut World, action: &Action) {
        match action {
            Action::Start(index) => self.start(world, *index),
            Action::Tick => self.tick(world),
            Action::Serve(index) => {
                let result = self.serve(world, *index);
                let Request { process, is_lost, .. } = world.requests[*index];
                world.requests[*index].result = Some(result);
                let process = &world.processes[process];
                if is_lost || process.machine.is_none() {
                    world.requests.remove(*index);
                } else if !process.is_paused && !process.is_isolated {
                    self.answer(world, *index);
                }
            }
            Action::Answer(index) => self.answer(world, *index),
            Action::View(index, version) => {
                let view = world.history.iter().find(|view| view.version == *version).unwrap();
                let view = View::clone(view);
                world.processes[*index].seen = *version;
                self.step(world, *index, Input::View(view));
            }
            Action::Drain(index) => {
                let slots = std::mem::take(&mut world.processes[*index].draining);
                let version = Some(world.server.version);
                self.step(world, *index, Input::Drained { slots, version });
            }
            Action::Fault(fault, index) => self.fault(world, *fault, *index),
            Action::Recover(index) => {
                let process = &mut world.processes[*index];
                process.recover();
            }
        }
        // no process reads an older view than it has
        let oldest = world.processes.iter().filter(|process| process.machine.is_some()).map(|p| p.seen).min();
        let newest = world.server.version;
        world
            .history
            .retain(|view| view.version == newest || oldest.is_some_and(|oldest| view.version > oldest));
    }

    fn answer(&self, world: &mut World, index: usize) {
        let request = world.requests.remove(index);
        let (target, result) = (request.write.target, request.result.unwrap());
        self.step(world, request.process, Input::Written { target, result });
    }

    fn fault(&self, world: &mut World, fault: Fault, index: usize) {
        world.faults += 1;
        match fault {
            Fault::Kill => {
                world.processes[index].machine = None;
                world
                    .requests
                    .iter_mut()
                    .filter(|request| request.process == index)
                    .for_each(|r| r.is_lost = true);
            }
            Fault::Isolate => world.processes[index].is_isolated = true,
            Fault::StaleReads => world.processes[index].has_stale_reads = true,
            Fault::Pause => world.processes[index].is_paused = true,
            Fault::Lose => {
                let request = &mut world.requests[index];
                request.is_lost = true;
                let (target, process) = (request.write.target.clone(), request.process);
                if request.result.is_some() {
                    world.requests.remove(index);
                }
                self.step(world, process, Input::Written { target, result: WriteResult::Unknown });
            }
            Fault::Leave => self.step(world, index, Input::Leave),
            Fault::DeleteTable => {
                world.server.table = None;
                self.touch(world);
            }
            Fault::DeleteLease => {
                let name = self.config(index).identity;
                world.server.members.remove(&name);
                self.touch(world);
            }
        }
    }

    fn touch(&self, world: &mut World) {
        world.server.version += 1;
        world.history.push(Arc::new(world.server.view()));
    }

    /// The processes that may process objects of a slot.
    fn acting(&self, world: &World, slot: u16) -> usize {
        let acts = |index: &usize| {
            let process = &world.processes[*index];
            let ends = self.mutant != Some(Mutant::IgnoresDeadline);
            let is_draining = process.draining.contains(slot);
            process.machine.as_ref().is_some_and(|machine| {
                (machine.owned().contains(slot) || is_draining)
                    && (!ends || machine.valid_for() > UNIT * process.late)
            })
        };
        (0..self.processes).filter(acts).count()
    }

    fn is_exclusive(&self, world: &World) -> bool {
        (0..self.slots).all(|slot| self.acting(world, slot) <= 1)
    }

    /// Whether each slot has an owner after some time without faults.
    fn recovers(&self, world: &World) -> bool {
        let mut world = world.clone();
        for process in &mut world.processes {
            process.recover();
        }
        if world.processes.iter().all(|process| process.machine.is_none()) {
            return true;
        }
        for _ in 0..20 {
            self.settle(&mut world);
            if (0..self.slots).all(|slot| self.acting(&world, slot) == 1) {
                return true;
            }
            self.tick(&mut world);
        }
        world.processes.iter().all(|process| process.machine.is_none())
    }
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.initial()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.urgent(world, actions);
        // time passes when nothing is in flight that no fault delays
        if actions.is_empty() && world.ticks < self.ticks {
            actions.push(Action::Tick);
        }
        for (index, request) in world.requests.iter().enumerate() {
            if request.is_lost {
                actions.push(Action::Serve(index));
            }
        }
        for (index, process) in world.processes.iter().enumerate() {
            if index >= self.running && process.machine.is_none() && process.seen == 0 {
                actions.push(Action::Start(index));
            }
            if process.is_faulty() {
                actions.push(Action::Recover(index));
            }
        }
        if world.faults < self.faults {
            for fault in self.kinds {
                self.faults(world, *fault, actions);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.apply(&mut next, &action);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |setup: &Setup, world: &World| setup.is_exclusive(world)),
            Property::always("a slot without an owner gets one", |setup: &Setup, world: &World| {
                let mut hasher = DefaultHasher::new();
                world.hash(&mut hasher);
                !hasher.finish().is_multiple_of(64) || setup.recovers(world)
            }),
        ]
    }
}

impl Setup {
    fn faults(&self, world: &World, fault: Fault, actions: &mut Vec<Action>) {
        match fault {
            Fault::Lose => {
                let sent = world.requests.iter().enumerate().filter(|(_, request)| !request.is_lost);
                let alive = sent.filter(|(_, request)| !world.processes[request.process].is_paused);
                actions.extend(alive.map(|(index, _)| Action::Fault(fault, index)));
            }
            Fault::DeleteTable => {
                actions.extend(world.server.table.as_ref().map(|_| Action::Fault(fault, 0)))
            }
            _ => {
                let can_fail = |process: &Process| process.machine.is_some() && !process.is_faulty();
                let processes = world.processes.iter().enumerate();
                let able = processes.filter(|(_, process)| can_fail(process));
                actions.extend(able.map(|(index, _)| Action::Fault(fault, index)));
            }
        }
    }
}

const FAULTS: &[Fault] =
    &[Fault::Kill, Fault::Isolate, Fault::StaleReads, Fault::Pause, Fault::Lose, Fault::Leave];

/// Two processes with a slot each, at the same time or with clocks of different speed.
fn setup(processes: usize, running: usize, ticks: u8, faults: u8, kinds: &'static [Fault]) -> Setup {
    let slots = if processes > 2 { 8 } else { 2 };
    Setup { processes, slots, rates: vec![2; processes], ticks, faults, kinds, running, mutant: None }
}

/// How many states are generated at most, the nearest to the beginning first.
const LIMIT: usize = 400_000;

/// Explores the states up to the limit; returns the properties that do not hold.
fn violated(name: &str, setup: Setup) -> Vec<&'static str> {
    let checker = setup
        .checker()
        .threads(2)
        .target_state_count(LIMIT)
        .finish_when(HasDiscoveries::Any)
        .spawn_bfs()
        .join();
    let (generated, unique) = (checker.state_count(), checker.unique_state_count());
    let is_all = generated < LIMIT;
    println!("{name}: {unique} states of {generated}, depth {}, all: {is_all}", checker.max_depth());
    checker.discoveries().into_keys().collect()
}

/// A process joins one that owns everything.
// contract: Y-03a, Y-05b
#[test]
fn join() {
    assert_eq!(violated("join", setup(2, 1, 1, 1, FAULTS)), [""; 0]);
}

/// Two processes own their shares when one fails.
// contract: Y-03a, Y-05b
#[test]
fn steady() {
    const STOPS: &[Fault] = &[Fault::Kill, Fault::Isolate, Fault::StaleReads, Fault::Pause];
    assert_eq!(violated("steady", setup(2, 2, 3, 1, STOPS)), [""; 0]);
    assert_eq!(violated("lost writes", setup(2, 2, 1, 2, &[Fault::Lose, Fault::Leave])), [""; 0]);
}

/// Somebody deletes the table or Leases while the reads of a process are old.
// contract: Y-03a, Y-06b, Y-06c
#[test]
fn edits() {
    for kinds in [&[Fault::StaleReads, Fault::DeleteTable], &[Fault::StaleReads, Fault::DeleteLease]] {
        assert_eq!(violated("edits", setup(2, 2, 3, 2, kinds)), [""; 0]);
    }
}

/// Somebody deletes the table and Leases.
// contract: Y-03a, Y-06b, Y-06c
#[test]
fn edits_together() {
    assert_eq!(violated("edits", setup(2, 2, 3, 2, &[Fault::DeleteTable, Fault::DeleteLease])), [""; 0]);
}

/// The clock of one process runs 1.5 times as fast as the other.
// contract: Y-03a
#[test]
fn clocks() {
    const STOPS: &[Fault] = &[Fault::Isolate, Fault::StaleReads, Fault::Pause];
    for rates in [vec![2, 3], vec![3, 2]] {
        assert_eq!(violated("clocks", Setup { rates, ..setup(2, 2, 3, 1, STOPS) }), [""; 0]);
    }
}

/// A third process joins two, which both write the table.
// contract: Y-03a
#[test]
fn three() {
    assert_eq!(violated("three", setup(3, 2, 1, 0, &[])), [""; 0]);
}

/// The exploration finds a protocol that is changed in a single place.
#[test]
fn mutants_are_found() {
    const ISOLATE: &[Fault] = &[Fault::Isolate];
    for (mutant, setup) in [
        (Some(Mutant::ReleasesAtOnce), setup(2, 1, 1, 0, &[])),
        (Some(Mutant::IgnoresDeadline), setup(2, 2, 5, 1, &[Fault::Pause])),
        (Some(Mutant::ClosesAnyVersion), setup(2, 2, 5, 1, &[Fault::StaleReads])),
        (Some(Mutant::WritesAnyTable), setup(3, 2, 1, 0, &[])),
        // one clock runs three times as fast
        (None, Setup { rates: vec![1, 3], ..setup(2, 2, 4, 1, ISOLATE) }),
    ] {
        let found = violated(&format!("{mutant:?}"), Setup { mutant, ..setup });
        assert!(found.contains(&EXCLUSIVE), "{mutant:?}: {found:?}");
    }
}
