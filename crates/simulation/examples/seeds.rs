//! Runs seeds and prints their violations; `cargo xtask simulate` starts it on each core. `seeds FIRST COUNT` runs seeds,
//! `seeds FIRST COUNT 10` each tenth one, `seeds FIRST COUNT first` ends at the first violation, `seeds SEED` prints the
//! trace of one seed, and `seeds SEED shrink` that of a shorter run of a seed that fails.
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::disallowed_methods, reason = "the watchdog of a run waits for real time")]

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use kinformer_simulation::{run, shrink};

/// How long a seed may take. A healthy one takes some milliseconds.
const LONGEST: Duration = Duration::from_secs(60);

/// The seed that is running.
static RUNNING: AtomicU64 = AtomicU64::new(NONE);

/// No seed: a run is made shorter, which takes many runs.
const NONE: u64 = u64::MAX;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().filter_map(|number| number.parse().ok()).collect();
    let until_first = arguments.iter().any(|argument| argument == "first");
    thread::spawn(end_if_stuck);
    let (first, count, step) = match *numbers {
        [seed] if arguments.iter().any(|argument| argument == "shrink") => return shrunk(seed),
        [seed] => {
            RUNNING.store(seed, Ordering::Relaxed);
            let trace = run(seed);
            print!("{trace}");
            return if trace.violations().next().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        [first, count] => (first, count, 1),
        [first, count, step] => (first, count, step.max(1)),
        _ => (0, 10, 1),
    };
    let mut failed: u64 = 0;
    for number in 0..count {
        let seed = first.saturating_add(number.saturating_mul(step));
        RUNNING.store(seed, Ordering::Relaxed);
        failed += u64::from(!is_clean(seed));
        if failed > 0 && until_first {
            break;
        }
    }
    println!("{failed} of {count} seeds failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a shorter run of a seed that fails.
fn shrunk(seed: u64) -> ExitCode {
    match shrink(seed) {
        Some((limits, trace)) => {
            print!("seed {seed} fails with {limits}:\n{trace}");
            ExitCode::FAILURE
        }
        None => {
            println!("seed {seed} does not fail");
            ExitCode::SUCCESS
        }
    }
}

/// Runs a seed, and prints its violations.
fn is_clean(seed: u64) -> bool {
    let Ok(trace) = catch_unwind(|| run(seed)) else {
        println!("seed {seed}: the run panicked");
        return false;
    };
    for violation in trace.violations() {
        println!("seed {seed}: {violation}");
    }
    trace.violations().next().is_none()
}

/// Ends the process if a seed does not end: a loop in which no simulated time passes.
fn end_if_stuck() {
    let mut before = NONE;
    loop {
        thread::sleep(LONGEST);
        let running = RUNNING.load(Ordering::Relaxed);
        if running == before && running != NONE {
            println!("seed {running}: the run has not ended within {LONGEST:?}");
            std::process::exit(1);
        }
        before = running;
    }
}
