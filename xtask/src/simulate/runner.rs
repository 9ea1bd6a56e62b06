//! The runner: the example `seeds` of the simulation, one process on each core.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::files;

/// The number of seeds of one process. A process starts in some milliseconds.
const PORTION: u64 = 100;

/// The time between two lines about the progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// How the runner is built. The dependencies are those of a release in both cases, so that they are built once.
#[derive(Clone, Copy)]
pub(crate) enum Build {
    /// As a release.
    Release,
    /// As a release, but our crates have debug assertions and overflow checks.
    Checked,
}

/// The settings of [`Build::Checked`].
const CHECKED: [&str; 4] = [
    "profile.release.debug-assertions=true",
    "profile.release.overflow-checks=true",
    "profile.release.package.\"*\".debug-assertions=false",
    "profile.release.package.\"*\".overflow-checks=false",
];

/// The environment variable with the number of the mutant of a process.
const MUTANT: &str = "KINFORMER_MUTANT";

/// A built runner.
#[derive(Clone)]
pub(crate) struct Runner {
    program: PathBuf,
    mutant: Option<u32>,
}

/// The result of seeds.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The seeds with violations, in the order in which they ended.
    pub(super) failed: Vec<u64>,
    /// Processes that ended in another way.
    pub(super) problems: Vec<String>,
    pub(super) seeds: u64,
    pub(super) time: Duration,
}

impl Outcome {
    /// A line about the run.
    pub(crate) fn summary(&self) -> String {
        let (seconds, failed) = (self.time.as_secs_f64(), self.failed.len());
        let rate = self.seeds as f64 / seconds.max(0.001);
        format!("{} seeds in {seconds:.0} s ({rate:.0} per second), {failed} failed", self.seeds)
    }
}

/// What the threads share.
struct Progress {
    next: u64,
    /// The first seeds of the portions that are running.
    running: BTreeSet<u64>,
    /// The first seed of the first portion that did not pass.
    failed: Option<u64>,
    outcome: Outcome,
    printed: Instant,
}

impl Runner {
    /// Builds the runner of a work tree.
    pub(crate) fn build(tree: &Path, target: &Path, build: Build) -> Result<Self, String> {
        let mut cargo = files::command("cargo");
        // The features of the whole workspace, as in other builds, so that nothing is built twice.
        cargo.current_dir(tree).args(["build", "--quiet", "--release", "--workspace", "--example", "seeds"]);
        cargo.arg("--target-dir").arg(target);
        if let Build::Checked = build {
            for setting in CHECKED {
                cargo.args(["--config", setting]);
            }
        }
        files::run(&mut cargo)?;
        Ok(Self { program: target.join("release/examples/seeds"), mutant: None })
    }

    /// Runs a mutant, if the program is built with mutants.
    pub(crate) fn with_mutant(self, number: u32) -> Self {
        Self { mutant: Some(number), ..self }
    }

    /// Returns a command that starts the runner.
    pub(crate) fn command(&self) -> Command {
        let mut command = files::command(&self.program);
        // The simulated user code panics often, and a backtrace takes as long as a part of a run.
        command.env_remove(MUTANT).env("RUST_BACKTRACE", "0");
        command.envs(self.mutant.map(|number| (MUTANT, number.to_string())));
        command
    }

    /// Returns a hash of the program.
    pub(crate) fn hash(&self) -> Result<u64, String> {
        let program =
            fs::read(&self.program).map_err(|error| format!("{}: {error}", self.program.display()))?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&program);
        Ok(hasher.finish())
    }

    /// Runs seeds until so many have failed. Calls a function with the seed before which all have passed.
    pub(crate) fn run(&self, seeds: Range<u64>, failures: usize, passed: impl Fn(u64) + Sync) -> Outcome {
        #[expect(clippy::disallowed_methods, reason = "the time is only printed")]
        let started = Instant::now();
        let outcome = Outcome::default();
        let progress = Mutex::new(Progress {
            next: seeds.start,
            running: BTreeSet::new(),
            failed: None,
            outcome,
            printed: started,
        });
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| self.run_portions(&progress, &seeds, failures, &passed));
            }
        });
        let mut outcome = progress.into_inner().outcome;
        outcome.time = started.elapsed();
        outcome.failed.sort_unstable();
        outcome
    }

    fn run_portions(
        &self,
        progress: &Mutex<Progress>,
        seeds: &Range<u64>,
        failures: usize,
        passed: &(impl Fn(u64) + Sync),
    ) {
        loop {
            let first = {
                let mut progress = progress.lock();
                let stopped =
                    progress.outcome.failed.len() >= failures || !progress.outcome.problems.is_empty();
                if progress.next >= seeds.end || stopped {
                    return;
                }
                let first = progress.next;
                progress.next = first.saturating_add(PORTION).min(seeds.end);
                progress.running.insert(first);
                first
            };
            let count = (seeds.end - first).min(PORTION);
            let portion = self.run_portion(first, count, failures == 1);
            let mut progress = progress.lock();
            progress.running.remove(&first);
            progress.outcome.seeds += count;
            if portion.as_ref().map_or(true, |failed| !failed.is_empty()) {
                progress.failed = Some(progress.failed.map_or(first, |earlier| earlier.min(first)));
            }
            match portion {
                Ok(failed) => progress.outcome.failed.extend(failed),
                Err(problem) => progress.outcome.problems.push(problem),
            }
            let done = progress.running.first().copied().unwrap_or(progress.next);
            passed(progress.failed.map_or(done, |failed| failed.min(done)));
            if progress.printed.elapsed() >= PROGRESS {
                progress.printed += PROGRESS;
                println!("{} of {} seeds", progress.outcome.seeds, seeds.end - seeds.start);
            }
        }
    }

    /// Runs seeds in one process, and prints their violations. Returns the failed seeds.
    fn run_portion(&self, first: u64, count: u64, until_first: bool) -> Result<Vec<u64>, String> {
        let mut command = self.command();
        command.args([first.to_string(), count.to_string()]);
        if until_first {
            command.arg("first");
        }
        // Panics of the simulated user code are expected; those of the library are violations.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.program.display()))?;
        let mut failed = Vec::new();
        for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
            let Ok(line) = line else { break };
            let Some(seed) = seed_of(&line) else { continue };
            println!("{}", shortened(&line));
            if failed.last() != Some(&seed) {
                failed.push(seed);
            }
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        match status.code() {
            Some(0) => Ok(failed),
            Some(1) if !failed.is_empty() => Ok(failed),
            _ => Err(format!("the runner ended in the seeds from {first} on: {status}")),
        }
    }
}

/// Returns the seed of a line about a violation.
fn seed_of(line: &str) -> Option<u64> {
    line.strip_prefix("seed ")?.split_once(':')?.0.parse().ok()
}

/// The beginning of a line: a violation may show all objects.
fn shortened(line: &str) -> String {
    line.chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_violations_name_their_seed() {
        assert_eq!(seed_of("seed 42:  1.5s  judge  configmaps first: added a/p, which it has"), Some(42));
        assert_eq!(seed_of("2 of 100 seeds failed"), None);
    }

    /// A program that prints these lines and ends with this code, in place of the runner.
    #[cfg(unix)]
    fn program(script: &str) -> (tempfile::TempDir, Runner) {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("seeds");
        files::write(&program, &format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, Runner { program, mutant: None })
    }

    #[cfg(unix)]
    #[test]
    fn failed_seeds_and_broken_runners_are_reported() {
        let (_folder, runner) = program("[ $1 = 100 ] && echo \"seed 107: x\" && exit 1; exit 0");
        let passed = Mutex::new(0);
        let outcome = runner.run(0..250, 10, |before| *passed.lock() = before);
        assert_eq!(passed.into_inner(), 100, "a run continues at the portion that has failed");
        assert_eq!((outcome.failed.as_slice(), outcome.seeds), (&[107][..], 250));
        assert!(outcome.problems.is_empty());
        for script in ["exit 1", "kill -9 $$", "echo \"seed 1: x\"; exit 101"] {
            let (_folder, runner) = program(script);
            assert!(!runner.run(0..1, 10, |_| {}).problems.is_empty(), "{script}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn all_seeds_have_passed_at_the_end() {
        let (_folder, runner) = program("exit 0");
        let passed = Mutex::new(Vec::new());
        runner.run(50..1_000, 10, |before| passed.lock().push(before));
        let passed = passed.into_inner();
        assert!(passed.is_sorted());
        assert_eq!(passed.last(), Some(&1_000));
    }
}
