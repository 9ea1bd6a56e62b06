//! Shrinking: a run that fails with fewer actors, and with a shorter life of each, is easier to read.

use std::panic::catch_unwind;
use std::time::Duration;

use crate::limits::{ACTORS, Limits};
use crate::trace::Trace;
use crate::world::{World, run_with};

/// The differences of two times that are not looked at.
const PRECISION: Duration = Duration::from_millis(1);

/// Returns a run of a seed that fails with as little as possible before it, and what it leaves out. `None` if the seed does
/// not fail. Takes some hundred runs. The worlds of controllers and of elections have no limits.
///
/// # Panics
/// As [`run`](crate::run).
pub fn shrink(seed: u64) -> Option<(Limits, Trace)> {
    let run = |limits: &Limits| catch_unwind(|| run_with(seed, limits)).ok();
    let fails = |limits: &Limits| run(limits).is_none_or(|trace| trace.violations().next().is_some());
    let whole = run(&Limits::default());
    let end = whole.as_ref().and_then(|trace| Some(trace.lines().last()?.time)).unwrap_or(LONGEST);
    let limits = match World::of(seed) {
        World::Pipeline => shrunk(end, fails)?,
        World::Controllers | World::Election if fails(&Limits::default()) => Limits::default(),
        World::Controllers | World::Election => return None,
    };
    let trace = run(&limits).or(whole).unwrap_or_default();
    Some((limits, trace))
}

/// The end of an actor in a run that panicked, so that its length is unknown.
const LONGEST: Duration = Duration::from_secs(600);

/// Returns limits with which a run still fails, and fails no more if one actor ends earlier. `None` if it does not fail
/// without limits.
fn shrunk(end: Duration, mut fails: impl FnMut(&Limits) -> bool) -> Option<Limits> {
    let mut limits = Limits::default();
    if !fails(&limits) {
        return None;
    }
    loop {
        let before = limits.clone();
        for actor in ACTORS {
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

    #[test]
    fn actors_without_effect_are_left_out() {
        let end = |limits: &Limits, actor| limits.end(actor).unwrap_or(100 * S);
        let fails = |limits: &Limits| end(limits, "writer") >= 30 * S && end(limits, "faults") >= 7 * S;
        let limits = shrunk(100 * S, fails).unwrap();
        assert!(end(&limits, "writer") - 30 * S < 2 * PRECISION, "{limits}");
        assert!(end(&limits, "faults") - 7 * S < 2 * PRECISION, "{limits}");
        assert!(ACTORS[..7].iter().all(|actor| end(&limits, actor).is_zero()), "{limits}");
        assert_eq!(Limits::default().to_string(), "all actors");
        let limits = Limits::default().with("writer", 30 * S).with("crowd", Duration::ZERO);
        assert_eq!(limits.to_string(), "no crowd, writer until 30.000 s");
    }

    #[test]
    fn run_that_passes_is_not_shrunk() {
        assert_eq!(shrunk(100 * S, |_| false), None);
        assert_eq!(shrink(0).map(|(limits, _)| limits), None);
    }

    #[test]
    fn actors_end_and_the_others_do_the_same() {
        let written = |limits: &Limits| {
            let trace = run_with(3, limits);
            let of_writer = trace.lines().iter().filter(|line| line.actor == "writer");
            of_writer.map(ToString::to_string).collect::<Vec<_>>()
        };
        let whole = written(&Limits::default());
        let others =
            ACTORS[..7].iter().fold(Limits::default(), |limits, actor| limits.with(actor, Duration::ZERO));
        assert!(!whole.is_empty());
        assert_eq!(written(&others), whole);
        let early = written(&Limits::default().with("writer", S / 10));
        assert!(early.len() < whole.len() && whole.starts_with(&early), "{early:?}");
    }
}
