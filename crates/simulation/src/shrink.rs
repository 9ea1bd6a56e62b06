//! Shrinking: a run that fails with fewer actors, and with a shorter life of each, is easier to read.

use std::panic::catch_unwind;
use std::time::Duration;

use crate::limits::Limits;
use crate::trace::Trace;
use crate::world::{World, run_with};

/// The differences of two times that are not looked at.
const PRECISION: Duration = Duration::from_millis(1);

/// Returns a run of a seed that fails with as little as possible before it, and what it leaves out. `None` if the seed does
/// not fail. Takes some hundred runs.
///
/// # Panics
/// As [`run`](crate::run).
pub fn shrink(seed: u64) -> Option<(Limits, Trace)> {
    let run = |limits: &Limits| catch_unwind(|| run_with(seed, limits)).ok();
    let fails = |limits: &Limits| run(limits).is_none_or(|trace| trace.violations().next().is_some());
    let whole = run(&Limits::default());
    let end = whole.as_ref().and_then(|trace| Some(trace.lines().last()?.time)).unwrap_or(LONGEST);
    let limits = shrunk(World::of(seed).actors(), end, fails)?;
    let trace = run(&limits).or(whole).unwrap_or_default();
    Some((limits, trace))
}

/// The end of an actor in a run that panicked, so that its length is unknown.
const LONGEST: Duration = Duration::from_secs(600);

/// Returns limits with which a run still fails, and fails no more if one actor ends earlier. `None` if it does not fail
/// without limits.
fn shrunk(actors: &[&'static str], end: Duration, mut fails: impl FnMut(&Limits) -> bool) -> Option<Limits> {
    let mut limits = Limits::default();
    if !fails(&limits) {
        return None;
    }
    loop {
        let before = limits.clone();
        for &actor in actors {
            let mut last = limits.end(actor).unwrap_or(end);
            let mut first = Duration::ZERO;
            if fails(&limits.with(actor, first)) {
                limits = limits.with(actor, first);
                continue;
            }
            while last.saturating_sub(first) > PRECISION {
                let middle = first + (last - first) / 2;
                match fails(&limits.with(actor, middle)) {
                    true => last = middle,
                    false => first = middle,
                }
            }
            if fails(&limits.with(actor, last)) {
                limits = limits.with(actor, last);
            }
        }
        if limits == before {
            return Some(limits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    const ACTORS: &[&str] = &["guests", "crowd", "faults", "writer"];

    #[test]
    fn actors_without_effect_are_left_out() {
        let end = |limits: &Limits, actor| limits.end(actor).unwrap_or(100 * S);
        let fails = |limits: &Limits| end(limits, "writer") >= 30 * S && end(limits, "faults") >= 7 * S;
        let limits = shrunk(ACTORS, 100 * S, fails).unwrap();
        assert!(end(&limits, "writer") - 30 * S < 2 * PRECISION, "{limits}");
        assert!(end(&limits, "faults") - 7 * S < 2 * PRECISION, "{limits}");
        assert!(ACTORS[..2].iter().all(|actor| end(&limits, actor).is_zero()), "{limits}");
        assert_eq!(Limits::default().to_string(), "all actors");
        let limits = Limits::default().with("writer", 30 * S).with("crowd", Duration::ZERO);
        assert_eq!(limits.to_string(), "no crowd, writer until 30.000 s");
    }

    #[test]
    fn run_that_passes_is_not_shrunk() {
        assert_eq!(shrunk(ACTORS, 100 * S, |_| false), None);
        assert_eq!(shrink(0).map(|(limits, _)| limits), None);
    }

    /// What an actor does in a run with these limits.
    fn lines_of(actor: &str, seed: u64, limits: &Limits) -> Vec<String> {
        let trace = run_with(seed, limits);
        trace.lines().iter().filter(|line| line.actor == actor).map(ToString::to_string).collect()
    }

    #[test]
    fn actors_end_and_the_others_do_the_same() {
        // Without the versions, since other actors write as well.
        let lines_of = |actor, seed, limits: &Limits| {
            let lines = lines_of(actor, seed, limits).into_iter();
            lines.map(|line| line.split(" at ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        for seed in [3, 4] {
            let actors = World::of(seed).actors().split_last().unwrap().1;
            let whole = lines_of("writer", seed, &Limits::default());
            let others = |limits: Limits, actor: &&'static str| limits.with(actor, Duration::ZERO);
            let others = actors.iter().fold(Limits::default(), others);
            assert!(!whole.is_empty());
            assert_eq!(lines_of("writer", seed, &others), whole);
            let early = lines_of("writer", seed, &Limits::default().with("writer", S / 10));
            assert!(early.len() < whole.len() && whole.starts_with(&early), "{early:?}");
        }
    }

    #[test]
    fn faults_of_an_election_end() {
        let whole = lines_of("faults", 7, &Limits::default());
        assert!(!whole.is_empty());
        assert!(lines_of("faults", 7, &Limits::default().with("faults", Duration::ZERO)).is_empty());
    }
}
