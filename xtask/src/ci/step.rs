//! What a step is.

/// The steps that run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// `cargo xtask ci`, which is `.ci/run`: the steps that find most faults in a minute.
    Gate,
    /// `cargo xtask ci --full`: all others.
    Full,
}

/// A step.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) group: Group,
    pub(super) run: fn(Extent) -> Result<Done, String>,
}

/// How much of a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Complete,
    /// A part, if the step takes longer than some minutes: the gate runs one step of the other group. The number chooses
    /// the part.
    Part(u64),
}

/// The result of a step that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Done {
    Passed,
    /// Passed, with something to read in the summary.
    Reported(String),
    /// Why the step cannot run here, and what to install.
    Skipped(String),
}
