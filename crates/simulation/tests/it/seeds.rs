//! Seeds: each run is free of violations, and the same in every process.

use std::fs;
use std::path::Path;
use std::process::Command;

use kinformer_simulation::{Trace, run};

/// The number of seeds.
const SEEDS: u64 = 100;

/// Names the folder for the traces of the second process.
const FOLDER: &str = "KINFORMER_SIMULATION_FOLDER";

/// Runs a seed, and fails if there are violations.
fn checked(seed: u64) -> Trace {
    let trace = run(seed);
    let violations: Vec<_> = trace.violations().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "seed {seed}:\n{trace}\n{}", violations.join("\n"));
    trace
}

/// The second process: writes the trace and the hash of each seed.
#[test]
#[ignore = "run in a process of its own by seeds_replay_in_another_process"]
fn second_process() {
    let folder = std::env::var(FOLDER).unwrap();
    for seed in 0..SEEDS {
        let trace = run(seed);
        fs::write(Path::new(&folder).join(format!("{seed}.trace")), trace.to_string()).unwrap();
        fs::write(Path::new(&folder).join(format!("{seed}.hash")), trace.hash().to_string()).unwrap();
    }
}

/// Fails with the first line that differs.
fn fail_at_first_difference(seed: u64, own: &str, other: &str) -> ! {
    let mut lines = own.lines().zip(other.lines()).zip(1..);
    match lines.find(|((own, other), _)| own != other) {
        Some(((own, other), number)) => panic!("seed {seed}, line {number}:\n{own}\n{other}"),
        None => panic!("seed {seed}: one trace is longer"),
    }
}

/// Two processes produce the same trace from the same seed.
#[test]
fn seeds_replay_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "seeds::second_process", "--ignored"]).env(FOLDER, folder.path());
    let mut other = other.spawn().unwrap();
    let own: Vec<_> = (0..SEEDS).map(checked).collect();
    assert!(other.wait().unwrap().success());
    for (own, seed) in own.iter().zip(0..) {
        let written = |what: &str| fs::read_to_string(folder.path().join(format!("{seed}.{what}"))).unwrap();
        if own.hash().to_string() != written("hash") {
            fail_at_first_difference(seed, &own.to_string(), &written("trace"));
        }
    }
}

/// A restored backup repeats versions, and the server accepts an update that was sent with an earlier state of the Lease.
#[test]
fn update_from_before_a_restore_is_no_violation() {
    checked(920_092_167);
}

/// Two informers of a path ask for the newest version: the delay that one was asked for does not concern the other.
#[test]
fn question_of_another_informer_is_no_violation() {
    checked(920_130_002);
}

/// Different seeds are different worlds.
#[test]
fn seeds_differ() {
    assert_ne!(run(0).hash(), run(1).hash());
}
