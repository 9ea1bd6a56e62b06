//! Runs seeds of the simulation on all cores, and the mutants that it must find.

mod gate;
mod mutants;
mod runner;

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::files;
pub(crate) use gate::gate;
use mutants::Choice;
use runner::{Build, Outcome, Runner};

/// The number of seeds of a run, and after which a mutant has survived.
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
    /// Print a seed that fails with as few actors and events as possible
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "first_seed", "resume", "mutants", "trace"])]
    shrink: Option<u64>,
    /// Continue the interrupted run of the same program that began at the same seed
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
        let choice = args.only.as_deref().map_or(Choice::All, Choice::Named);
        return mutants::run(args.first_seed, args.seeds, choice);
    }
    let runner = runner(Build::Checked)?;
    match (args.trace, args.shrink) {
        (Some(seed), _) => files::run(runner.command().arg(seed.to_string()).stdin(Stdio::null())),
        (_, Some(seed)) => print_shrunk(&runner, seed),
        _ => run_seeds(&runner, args.first_seed, args.seeds, args.resume),
    }
}

/// The number of parts of the first seeds, and of the mutants.
const PARTS: (u64, usize) = (10, 20);

/// Runs the first seeds, or a part of them.
pub(crate) fn first_seeds(part: Option<usize>) -> Result<(), String> {
    let (first, seeds) = match part {
        None => (0, SEEDS),
        Some(number) => (number as u64 % PARTS.0 * (SEEDS / PARTS.0), SEEDS / PARTS.0),
    };
    run_seeds(&runner(Build::Checked)?, first, seeds, false)
}

/// Runs the mutants, or a part of them.
pub(crate) fn mutants(part: Option<usize>) -> Result<(), String> {
    mutants::run(0, SEEDS, part.map_or(Choice::All, |number| Choice::Part { number, of: PARTS.1 }))
}

fn runner(build: Build) -> Result<Runner, String> {
    Runner::build(&files::root(), &files::root().join("target"), build)
}

fn run_seeds(runner: &Runner, first: u64, seeds: u64, resume: bool) -> Result<(), String> {
    let end = first.saturating_add(seeds);
    let state = State {
        file: files::root().join(format!("target/simulation/run-from-{first}")),
        program: runner.hash()?,
    };
    let start = if resume { state.read().unwrap_or(first).clamp(first, end) } else { first };
    println!("seeds {start}..{end}");
    // A run whose state cannot be written is not resumable, but its result is as good.
    let outcome = runner.run(start..end, FAILURES, |passed| _ = state.write(passed));
    let result = report(&outcome);
    match (&result, outcome.failed.first()) {
        (Ok(()), _) => state.remove(),
        // The result has the problem, whatever becomes of the shorter run.
        (Err(_), Some(&seed)) => _ = print_shrunk(runner, seed),
        (Err(_), None) => {}
    }
    result
}

fn print_shrunk(runner: &Runner, seed: u64) -> Result<(), String> {
    // Each of its runs may panic, also in the simulated user code, where that is expected.
    let mut command = runner.command();
    files::run(command.args([&seed.to_string(), "shrink"]).stdin(Stdio::null()).stderr(Stdio::null()))
}

/// The file with the seed at which an interrupted run continues, if the program is the same.
struct State {
    file: PathBuf,
    /// The hash of the program.
    program: u64,
}

impl State {
    fn read(&self) -> Option<u64> {
        let text = fs::read_to_string(&self.file).ok()?;
        let (program, next) = text.trim().split_once(' ')?;
        if program.parse() == Ok(self.program) { next.parse().ok() } else { None }
    }

    fn write(&self, next: u64) -> Result<(), String> {
        files::write(&self.file, &format!("{} {next}", self.program))
    }

    fn remove(&self) {
        _ = fs::remove_file(&self.file);
    }
}

fn report(outcome: &Outcome) -> Result<(), String> {
    println!("{}", outcome.summary());
    match outcome.failed.as_slice() {
        [] if outcome.problems.is_empty() => Ok(()),
        [] => Err(outcome.problems.join("; ")),
        [seed, ..] => {
            let failed = outcome.failed.len();
            Err(format!(
                "{failed} of {} seeds failed; replay: cargo xtask simulate --trace {seed}; with fewer actors: \
                 cargo xtask simulate --shrink {seed}",
                outcome.seeds
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_seeds_and_of_the_runner_fail_the_run() {
        assert_eq!(report(&Outcome::default()), Ok(()));
        let failed = Outcome { failed: vec![7, 9], seeds: 100, ..Outcome::default() };
        assert_eq!(
            report(&failed).unwrap_err(),
            "2 of 100 seeds failed; replay: cargo xtask simulate --trace 7; with fewer actors: cargo xtask \
             simulate --shrink 7"
        );
        let broken = Outcome { problems: vec!["aborted".into()], ..Outcome::default() };
        assert_eq!(report(&broken).unwrap_err(), "aborted");
    }

    #[test]
    fn runs_of_the_same_program_continue() {
        let folder = tempfile::tempdir().unwrap();
        let state = |program| State { file: folder.path().join("state"), program };
        assert_eq!(state(1).read(), None);
        state(1).write(42).unwrap();
        assert_eq!((state(1).read(), state(2).read()), (Some(42), None));
        state(1).remove();
        assert_eq!(state(1).read(), None);
        files::write(&state(1).file, "nothing").unwrap();
        assert_eq!(state(1).read(), None);
    }
}
