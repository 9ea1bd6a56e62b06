//! Runs seeds of the simulation on all cores, and the mutants that it must find.

mod mutants;
mod runner;

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::files;
use runner::{Outcome, Runner};

/// The number of seeds of a run, of the step of `ci`, and after which a mutant has survived.
const SEEDS: u64 = 10_000;

/// The number of failed seeds after which a run ends.
const FAILURES: usize = 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The number of seeds; with --mutants, the most for each mutant
    #[arg(long, value_name = "N", default_value_t = SEEDS)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    first_seed: u64,
    /// Print everything that happens in one seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "first_seed", "resume", "mutants"])]
    trace: Option<u64>,
    /// Continue after the last seed of the interrupted run that began at the same seed
    #[arg(long, conflicts_with = "mutants")]
    resume: bool,
    /// Run each mutant of crates/simulation/mutants until a seed finds it
    #[arg(long)]
    mutants: bool,
    /// With --mutants: only those whose name contains this text
    #[arg(long, value_name = "NAME", requires = "mutants")]
    only: Option<String>,
}

/// Runs the task.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    if args.mutants {
        return mutants::run(args.first_seed, args.seeds, args.only.as_deref());
    }
    let runner = Runner::build(&files::root(), &files::root().join("target"))?;
    match args.trace {
        Some(seed) => files::run(runner.command().arg(seed.to_string()).stdin(Stdio::null())),
        None => run_seeds(&runner, args.first_seed, args.seeds, args.resume),
    }
}

/// The step of `ci`.
pub(crate) fn step() -> Result<(), String> {
    let runner = Runner::build(&files::root(), &files::root().join("target"))?;
    run_seeds(&runner, 0, SEEDS, false)
}

fn run_seeds(runner: &Runner, first: u64, seeds: u64, resume: bool) -> Result<(), String> {
    let end = first.saturating_add(seeds);
    let state = state_file(first);
    let start = if resume { resumed(&state, first, end) } else { first };
    println!("seeds {start}..{end}");
    let outcome = runner.run(start..end, FAILURES, |done| {
        // A run whose state cannot be written is not resumable, but its result is as good.
        _ = files::write(&state, &done.to_string());
    });
    report(&outcome)
}

/// The file with the seed at which a run continues.
fn state_file(first: u64) -> PathBuf {
    files::root().join(format!("target/simulation/run-from-{first}"))
}

/// Returns the seed at which a run continues; the first one if there is no state of this run.
fn resumed(state: &std::path::Path, first: u64, end: u64) -> u64 {
    let next = fs::read_to_string(state).ok().and_then(|text| text.trim().parse().ok());
    next.unwrap_or(first).clamp(first, end)
}

fn report(outcome: &Outcome) -> Result<(), String> {
    println!("{}", outcome.summary());
    match outcome.failed.as_slice() {
        [] if outcome.problems.is_empty() => Ok(()),
        [] => Err(outcome.problems.join("; ")),
        [seed, ..] => {
            Err(format!("{} seeds failed; replay: cargo xtask simulate --trace {seed}", outcome.failed.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_seeds_and_of_the_runner_fail_the_run() {
        assert_eq!(report(&Outcome::default()), Ok(()));
        let failed = Outcome { failed: vec![7, 9], ..Outcome::default() };
        assert_eq!(report(&failed).unwrap_err(), "2 seeds failed; replay: cargo xtask simulate --trace 7");
        let broken = Outcome { problems: vec!["aborted".into()], ..Outcome::default() };
        assert_eq!(report(&broken).unwrap_err(), "aborted");
    }

    #[test]
    fn runs_continue_where_they_ended() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!(resumed(&state, 5, 100), 5);
        files::write(&state, "42").unwrap();
        assert_eq!(resumed(&state, 5, 100), 42);
        assert_eq!(resumed(&state, 5, 20), 20);
        files::write(&state, "nothing").unwrap();
        assert_eq!(resumed(&state, 5, 100), 5);
    }
}
