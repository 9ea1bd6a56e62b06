//! Runs seeds and prints their violations: `cargo run -p kinformer-simulation --example seeds -- FIRST COUNT`. With one
//! number, prints the trace of that seed.
#![allow(clippy::print_stdout, reason = "an example program prints")]

use std::process::ExitCode;

use kinformer_simulation::run;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let (first, count) = match *numbers {
        [seed] => {
            print!("{}", run(seed));
            return ExitCode::SUCCESS;
        }
        [first, count] => (first, count),
        _ => (0, 10),
    };
    let mut failed = 0;
    for seed in first..first.saturating_add(count) {
        let trace = run(seed);
        for violation in trace.violations() {
            println!("seed {seed}: {violation}");
        }
        failed += u64::from(trace.violations().next().is_some());
    }
    println!("{failed} of {count} seeds failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
