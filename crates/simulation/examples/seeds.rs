//! Runs seeds and prints their violations; `cargo xtask simulate` starts it on each core. `seeds FIRST COUNT` runs seeds,
//! `seeds FIRST COUNT 10` each tenth one, `seeds FIRST COUNT first` ends at the first violation, `seeds SEED` prints the
//! trace of one seed, and `seeds SEED shrink` that of a shorter run of a seed that fails.
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::disallowed_methods, reason = "the watchdog of a run waits for real time")]

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kinformer_simulation::{run, shrink};

/// The time of the processor that a seed may take, whatever else runs on the machine. A healthy one takes some milliseconds.
const MOST_WORK: Duration = Duration::from_secs(60);

/// How long a seed may take if it does not work, or on a system without a known time of the processor.
const LONGEST: Duration = Duration::from_secs(600);

/// The time between two looks at the seed that is running.
const INTERVAL: Duration = Duration::from_secs(5);

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

/// Ends the process if a seed does not end: a loop in which no simulated time passes, or a wait that does not end.
fn end_if_stuck() {
    let (mut running, mut began, mut work) = (NONE, Instant::now(), Duration::ZERO);
    loop {
        thread::sleep(INTERVAL);
        let now = RUNNING.load(Ordering::Relaxed);
        if now != running {
            (running, began, work) = (now, Instant::now(), work_of_runs());
        }
        let (worked, passed) = (work_of_runs().saturating_sub(work), began.elapsed());
        if running != NONE && (worked >= MOST_WORK || passed >= LONGEST) {
            println!("seed {running}: the run has not ended after {worked:?} of work, within {passed:?}");
            std::process::exit(1);
        }
    }
}

/// The time of the processor of the main thread, in which the seeds run. Known on Linux only.
fn work_of_runs() -> Duration {
    let times = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(
        times.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or_default(),
    )
}
