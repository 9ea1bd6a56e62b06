//! The trace of a run: what happened, when and to which actor.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The actor whose lines report a violation.
const JUDGE: &str = "judge";

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The simulated time since the start of the run.
    pub time: Duration,
    /// The part of the world that the event belongs to.
    pub actor: String,
    /// The event.
    pub event: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, actor, event } = self;
        write!(f, "{:>12.6}s  {actor:<12}  {event}", time.as_secs_f64())
    }
}

/// The finished trace of a run. Displayed as a story with one line for each event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    lines: Vec<Line>,
}

impl Trace {
    /// The events in order.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The lines that report violations.
    pub fn violations(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.actor == JUDGE)
    }

    /// The FNV-1a hash of the story, which is the same in every process.
    pub fn hash(&self) -> u64 {
        let text = self.to_string();
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Records the trace of a run that is in progress.
#[derive(Clone)]
pub(crate) struct Recorder {
    lines: Arc<Mutex<Vec<Line>>>,
    violations: Arc<Mutex<HashSet<String>>>,
    time: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Recorder {
    /// Begins a trace at the current simulated time.
    pub(crate) fn new() -> Self {
        let began = Instant::now();
        Self::with_time(move || began.elapsed())
    }

    /// Begins a trace with another source of the simulated time.
    pub(crate) fn with_time(time: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { lines: Arc::default(), violations: Arc::default(), time: Arc::new(time) }
    }

    /// Records an event.
    pub(crate) fn note(&self, actor: &str, event: impl fmt::Display) {
        let line = Line { time: (self.time)(), actor: actor.to_owned(), event: event.to_string() };
        self.lines.lock().push(line);
    }

    /// Records a violation, once for each message: a state that stays wrong is observed again and again.
    pub(crate) fn violation(&self, what: impl fmt::Display) {
        let message = what.to_string();
        if self.violations.lock().insert(message.clone()) {
            self.note(JUDGE, message);
        }
    }

    /// Returns the trace so far.
    pub(crate) fn trace(&self) -> Trace {
        Trace { lines: self.lines.lock().clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_recorded_once() {
        let recorder = Recorder::with_time(|| Duration::ZERO);
        for message in ["a/p is missing", "a/p is missing", "a/q is missing"] {
            recorder.violation(message);
        }
        let trace = recorder.trace();
        let events: Vec<_> = trace.violations().map(|line| line.event.as_str()).collect();
        assert_eq!(events, ["a/p is missing", "a/q is missing"]);
    }
}
