//! Errors of evaluations, and their budget.

pub(super) const NO_OVERLOAD: &str = "no such overload";

/// Why an expression has no value.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    Error(String),
    /// The budget is used up.
    Exceeded,
}

pub(super) type Found<T> = Result<T, Fault>;

pub(super) fn error<T>(text: impl Into<String>) -> Found<T> {
    Err(Fault::Error(text.into()))
}

/// How much work the evaluation may still do, in the units of cel-go: about one for each step, and one for ten bytes.
#[derive(Debug)]
pub(super) struct Budget(pub(super) u64);

impl Budget {
    /// # Errors
    /// The budget is used up.
    pub(super) fn spend(&mut self, cost: usize) -> Found<()> {
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.0 = self.0.checked_sub(cost).ok_or(Fault::Exceeded)?;
        Ok(())
    }
}
