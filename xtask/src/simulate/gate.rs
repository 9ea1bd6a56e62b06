//! The seeds that each change must pass: the first ones, those that failed once, and some that were never run before.

use std::ops::Range;

use super::runner::{Build, Outcome, Runner};
use super::{FAILURES, mutants, report};
use crate::files;

/// The number of seeds from 0 on.
const FIRST: u64 = 1_000;

/// The number of fresh seeds.
const FRESH: u64 = 2_000;

/// The seeds that failed once.
const FAILED_ONCE: &str = "crates/simulation/seeds-that-failed.txt";

/// Runs the seeds, and checks that the patches of the mutants apply. The fresh seeds depend on the number only, so that two
/// runs of one commit are the same.
///
/// # Errors
/// A seed failed, or the runner did, or a patch does not apply.
pub(crate) fn gate(number: u64) -> Result<(), String> {
    mutants::check()?;
    let failed_once = seeds(&files::read(FAILED_ONCE)?)?;
    let runner = super::runner(Build::Release)?;
    println!("seeds 0..{FIRST}, and {} that failed once", failed_once.len());
    let known = std::iter::once(0..FIRST).chain(failed_once.iter().map(|&seed| seed..seed.saturating_add(1)));
    report(&run(&runner, known))?;
    let fresh = fresh(number);
    println!("fresh seeds {}..{}", fresh.start, fresh.end);
    report(&run(&runner, [fresh])).map_err(|problem| format!("fresh seeds: {problem}"))
}

/// The fresh seeds of a number.
fn fresh(number: u64) -> Range<u64> {
    let start = number.saturating_mul(FRESH).saturating_add(super::SEEDS);
    start..start.saturating_add(FRESH)
}

/// Runs seeds, and adds the outcomes.
fn run(runner: &Runner, ranges: impl IntoIterator<Item = Range<u64>>) -> Outcome {
    let mut all = Outcome::default();
    for range in ranges {
        let outcome = runner.run(range, FAILURES, |_| {});
        all.failed.extend(outcome.failed);
        all.problems.extend(outcome.problems);
        all.seeds += outcome.seeds;
        all.time += outcome.time;
    }
    all
}

/// Reads a seed from each line; the rest of a line says what it found.
fn seeds(text: &str) -> Result<Vec<u64>, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let seed = line.split_whitespace().next().and_then(|word| word.parse().ok());
            seed.ok_or_else(|| format!("{FAILED_ONCE}: {line:?} does not begin with a seed"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_that_failed_are_read() {
        assert_eq!(seeds("# head\n7 why\n12\n"), Ok(vec![7, 12]));
        assert!(seeds("x\n").is_err_and(|problem| problem.contains("\"x\" does not begin with a seed")));
        assert!(!seeds(&files::read(FAILED_ONCE).unwrap()).unwrap().is_empty());
    }

    #[test]
    fn fresh_seeds_depend_on_the_number() {
        assert_eq!(fresh(7), fresh(7));
        assert_eq!(fresh(7).end, fresh(8).start);
        assert!(fresh(0).start >= super::super::SEEDS, "the first seeds are run as well");
    }
}
