//! Single scenarios: edits by hand, other parameters, lost writes.

use std::time::Duration;

use kinformer_ring::{
    Change, Config, Input, ListFrom, Machine, Output, Params, Problem, Slots, StopReason, TableError, Target,
    Write, WriteResult,
};

use crate::server::Server;

/// Processes whose writes and reads are instant.
struct Ring {
    server: Server,
    processes: Vec<Machine>,
    /// What the processes should do, but the writes.
    outputs: Vec<(usize, Output)>,
    /// The table cannot be read.
    damage: Option<TableError>,
    /// The next list is older than it should be.
    answers_old_list: bool,
}

impl Ring {
    fn new(configs: impl IntoIterator<Item = Config>) -> Self {
        let processes = configs.into_iter().map(|config| Machine::new(config).unwrap()).collect();
        let server = Server { version: 1, ..Server::default() };
        let mut ring = Self { server, processes, outputs: Vec::new(), damage: None, answers_old_list: false };
        ring.settle();
        ring
    }

    fn of(names: &[&str]) -> Self {
        Self::new(names.iter().map(|name| Config::new(*name, *name)))
    }

    fn settle(&mut self) {
        for _ in 0..50 {
            for index in 0..self.processes.len() {
                let mut view = self.server.view();
                if let (Some(error), Some(table)) = (&self.damage, &mut view.table) {
                    table.content = Err(error.clone());
                }
                self.step(index, Duration::ZERO, Input::View(view));
            }
        }
    }

    fn step(&mut self, index: usize, elapsed: Duration, input: Input) {
        let mut outputs = self.processes[index].step(elapsed, input);
        while !outputs.is_empty() {
            for output in std::mem::take(&mut outputs) {
                let version = self.server.version;
                let input = match output.clone() {
                    Output::Write(write) => {
                        let result = self.server.write(&write);
                        if write.target == Target::Table && matches!(result, WriteResult::Applied { .. }) {
                            self.damage = None;
                        }
                        Input::Written { target: write.target, result }
                    }
                    Output::Own { slots, list: ListFrom::AtLeast(version) } if self.answers_old_list => {
                        self.answers_old_list = false;
                        Input::Listed { slots, version: version - 1 }
                    }
                    Output::Own { slots, .. } => Input::Listed { slots, version },
                    Output::Release { slots } => Input::Drained { slots, version: Some(version) },
                    Output::Stop { .. } | Output::Left => {
                        self.outputs.push((index, output));
                        continue;
                    }
                };
                self.outputs.push((index, output));
                outputs.extend(self.processes[index].step(Duration::ZERO, input));
            }
        }
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            for index in 0..self.processes.len() {
                self.step(index, Duration::from_millis(500), Input::Tick);
            }
            self.settle();
        }
    }

    fn owned(&self) -> Vec<usize> {
        self.processes.iter().map(|process| process.owned().len()).collect()
    }

    fn problem(&self, index: usize) -> Option<Problem> {
        self.processes[index].status().problem
    }

    fn stops(&mut self) -> Vec<(usize, StopReason)> {
        let stop = |(index, output)| match output {
            Output::Stop { reason, .. } => Some((index, reason)),
            _ => None,
        };
        std::mem::take(&mut self.outputs).into_iter().filter_map(stop).collect()
    }
}

/// The new owner lists at the version of the release, and is asked again after an older list.
// contract: Y-04b
#[test]
fn released_version() {
    let mut ring = Ring::of(&["a"]);
    assert_eq!(ring.owned(), [1024]);
    ring.processes.push(Machine::new(Config::new("b", "b")).unwrap());
    ring.answers_old_list = true;
    ring.settle();
    assert_eq!(ring.owned(), [512, 512]);
    let is_own = |(index, output): &&(usize, Output)| {
        *index == 1 && matches!(output, Output::Own { list: ListFrom::AtLeast(_), .. })
    };
    let owns: Vec<_> = ring.outputs.iter().filter(is_own).collect();
    assert_eq!(owns.len(), 2);
    assert_eq!(owns[0], owns[1]);
}

/// A write of the table without a response may be applied later: its slots are not owned again until the table has another
/// version, also if they would be given back.
// contract: Y-03c
#[test]
fn lost_write() {
    let mut ring = Ring::of(&["a", "b", "c"]);
    let is_write = |output: &Output| match output {
        Output::Write(write) if write.target == Target::Table => Some(write.clone()),
        _ => None,
    };
    // d joins, and a releases slots for it
    ring.processes.push(Machine::new(Config::new("d", "d")).unwrap());
    ring.step(3, Duration::ZERO, Input::View(ring.server.view()));
    ring.step(3, Duration::ZERO, Input::View(ring.server.view()));
    let outputs = ring.processes[0].step(Duration::ZERO, Input::View(ring.server.view()));
    let Some(Output::Release { slots }) =
        outputs.iter().find(|output| matches!(output, Output::Release { .. }))
    else {
        panic!("{outputs:?}");
    };
    let drained = Input::Drained { slots: slots.clone(), version: Some(1) };
    let outputs = ring.processes[0].step(Duration::ZERO, drained);
    let lost: Write = outputs.iter().find_map(is_write).unwrap();
    ring.processes[0]
        .step(Duration::ZERO, Input::Written { target: Target::Table, result: WriteResult::Unknown });
    // d is closed: a should have its slots back
    let mut view = ring.server.view();
    view.version += 1;
    view.members.retain(|name, _| **name != *"d");
    let outputs = ring.processes[0].step(Duration::ZERO, Input::View(view.clone()));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Own { .. })), "{outputs:?}");
    let outputs = ring.processes[0].step(Duration::from_millis(500), Input::Tick);
    assert!(!outputs.iter().any(|output| matches!(output, Output::Own { .. })), "{outputs:?}");
    let again: Write = outputs.iter().find_map(is_write).unwrap();
    assert_eq!(again.precondition, lost.precondition);
    let applied = WriteResult::Applied { uid: again.precondition.unwrap().0, version: view.version + 1 };
    let outputs =
        ring.processes[0].step(Duration::ZERO, Input::Written { target: Target::Table, result: applied });
    assert!(outputs.iter().any(|output| matches!(output, Output::Own { .. })), "{outputs:?}");
}

/// A process whose clock says that the deadline is over stops before it handles anything else.
// contract: Y-03b
#[test]
fn pause_longer_than_the_lease() {
    let mut ring = Ring::of(&["a"]);
    assert_eq!(ring.processes[0].valid_for(), Duration::from_secs(10));
    let outputs = ring.processes[0].step(Duration::from_secs(10), Input::View(ring.server.view()));
    let slots: Slots = "0-1023".parse().unwrap();
    assert_eq!(outputs[0], Output::Stop { slots, reason: StopReason::NotRenewed });
    assert!(ring.processes[0].owned().is_empty());
    assert_eq!(ring.problem(0), Some(Problem::NotRenewed));
}

/// A process with other parameters does not join while others follow the table, and says so. When they are gone it makes a
/// table of its own.
// contract: Y-06a
#[test]
fn other_parameters() {
    let mut ring = Ring::of(&["a"]);
    let mut other = Config::new("b", "b");
    other.params = Params { slots: 512, ..Params::default() };
    ring.processes.push(Machine::new(other).unwrap());
    ring.pass(60);
    assert_eq!(ring.owned(), [1024, 0]);
    assert!(matches!(ring.problem(1), Some(Problem::ParametersDiffer { .. })));
    assert!(!ring.server.members.contains_key("b"));
    ring.step(0, Duration::ZERO, Input::Leave);
    ring.pass(60);
    assert_eq!(ring.processes[1].owned().len(), 512);
    assert!(ring.outputs.contains(&(0, Output::Left)));
}

/// All stop when the table is deleted or damaged; it is replaced, and owned again after the lease duration and the skew.
// contract: Y-06b
#[test]
fn table_edited() {
    for is_deleted in [true, false] {
        let mut ring = Ring::of(&["a", "b"]);
        ring.stops();
        match is_deleted {
            true => ring.server.table = None,
            false => ring.damage = Some(TableError::Damaged("edited")),
        }
        ring.server.version += 1;
        ring.settle();
        assert_eq!(ring.stops(), [(0, StopReason::TableLost), (1, StopReason::TableLost)]);
        ring.pass(15);
        assert_eq!(ring.owned(), [0, 0]);
        assert_eq!(ring.problem(0), Some(Problem::TableIsNew));
        ring.pass(2);
        assert_eq!(ring.owned(), [512, 512]);
    }
}

/// A process whose Lease is deleted stops, and takes part with a new one. Its old slots wait until the Lease would have expired.
// contract: Y-06c
#[test]
fn lease_deleted() {
    let mut ring = Ring::of(&["a", "b"]);
    ring.stops();
    ring.server.members.remove("b");
    ring.server.version += 1;
    ring.settle();
    assert_eq!(ring.stops(), [(1, StopReason::LeaseLost)]);
    ring.pass(14);
    assert_eq!(ring.owned().iter().sum::<usize>(), 512);
    assert_eq!(ring.processes[0].status().unowned.len(), 512);
    ring.pass(3);
    assert_eq!(ring.owned(), [512, 512]);
}

/// A second process with the same identity waits until the first one's Lease has expired.
// contract: Y-06d
#[test]
fn same_identity() {
    let mut ring = Ring::new([Config::new("a", "first"), Config::new("a", "second")]);
    ring.pass(60);
    assert_eq!(ring.owned(), [1024, 0]);
    assert_eq!(ring.problem(1), Some(Problem::IdentityInUse("a".into())));
    ring.processes.remove(0);
    ring.pass(20);
    assert_eq!(ring.owned(), [1024]);
}

/// A shorter duration that somebody writes into a Lease does not make it expire earlier, and is corrected by its process.
// contract: Y-06e
#[test]
fn shorter_duration() {
    let mut ring = Ring::of(&["a", "b"]);
    let edited = ring.server.members.get_mut("b").unwrap();
    edited.content.lease_duration = Duration::from_secs(1);
    ring.server.version += 1;
    edited.version = ring.server.version;
    let a = &mut ring.processes[0];
    for _ in 0..15 {
        let mut view = ring.server.view();
        view.members.get_mut("a").unwrap().version = view.version;
        let outputs = a.step(Duration::from_secs(1), Input::View(view));
        let closes = |output: &Output| matches!(output, Output::Write(write) if write.target == Target::Member("b".into()));
        assert!(!outputs.iter().any(closes), "{outputs:?}");
    }
    ring.settle();
    assert_eq!(ring.server.members["b"].content.lease_duration, Duration::from_secs(15));
}

/// A process that leaves hands its slots over by one write, and closes its Lease.
#[test]
fn leave() {
    let mut ring = Ring::of(&["a", "b"]);
    ring.outputs.clear();
    ring.step(0, Duration::ZERO, Input::Leave);
    ring.settle();
    assert_eq!(ring.processes[1].owned().len(), 1024);
    let table = |output: &&(usize, Output)| {
        matches!(output, (0, Output::Write(Write { change: Change::Table(_), .. })))
    };
    assert_eq!(ring.outputs.iter().filter(table).count(), 1);
    assert_eq!(ring.outputs.iter().filter(|output| **output == (0, Output::Left)).count(), 1);
    ring.processes.remove(0);
    ring.pass(20);
    assert!(!ring.server.members.contains_key("a"), "the closed Lease is deleted");
}

#[test]
fn auto_traits() {
    static_assertions::assert_impl_all!(Machine: Send, Sync, Clone);
}
