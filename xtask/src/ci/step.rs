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
    Part(usize),
}

impl Extent {
    /// Returns the number that chooses a part.
    pub(super) fn part(self) -> Option<usize> {
        match self {
            Self::Complete => None,
            Self::Part(number) => Some(number),
        }
    }

    /// Returns all items, or those of one of so many parts.
    pub(super) fn of<T>(self, items: impl IntoIterator<Item = T>, parts: usize) -> Vec<T> {
        let parts = parts.max(1);
        let (first, step) = self.part().map_or((0, 1), |number| (number % parts, parts));
        items.into_iter().skip(first).step_by(step).collect()
    }
}

/// The result of a step that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Done {
    Passed,
    /// Why the step cannot run here, and what to install.
    Skipped(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_complete() {
        let part = |number| Extent::Part(number).of(0..7, 3);
        assert_eq!([part(0), part(1), part(5)], [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
        assert_eq!(Extent::Complete.of(0..3, 3), [0, 1, 2]);
    }
}
