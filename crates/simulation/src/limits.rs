//! The limits of a shorter run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::time::timeout;

/// The actors of a run that end early, each at a simulated time. The others do what they do without it, since each has
/// random numbers of its own; only in an election the faults and the network share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits(BTreeMap<&'static str, Duration>);

impl Limits {
    /// Runs an actor until its end.
    pub(crate) async fn run(self, actor: &'static str, work: impl Future<Output = ()>) {
        match self.end(actor) {
            Some(end) if end.is_zero() => {}
            Some(end) => _ = timeout(end, work).await,
            None => work.await,
        }
    }

    /// The time at which an actor ends; `None` if it ends by itself.
    pub(crate) fn end(&self, actor: &str) -> Option<Duration> {
        self.0.get(actor).copied()
    }

    pub(crate) fn with(&self, actor: &'static str, end: Duration) -> Self {
        let mut limits = self.clone();
        limits.0.insert(actor, end);
        limits
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "all actors");
        }
        for (number, (actor, end)) in self.0.iter().enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            match end.is_zero() {
                true => write!(f, "{separator}no {actor}")?,
                false => write!(f, "{separator}{actor} until {:.3} s", end.as_secs_f64())?,
            }
        }
        Ok(())
    }
}
