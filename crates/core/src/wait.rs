//! Waits that may have a deadline.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Timeout, timeout_at};

pin_project! {
    /// A wait: a future, which may have a deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use kinformer_core::Wait;
    /// use tokio::time::Instant;
    ///
    /// let wait = |result| Wait::new(async move { result }, || Err("not yet"));
    /// assert_eq!(wait(Ok(1)).await, Ok(1));
    ///
    /// let never = Wait::new(std::future::pending::<Result<u8, _>>(), || Err("not yet"));
    /// assert_eq!(never.until(Instant::now() + Duration::from_secs(60)).await, Err("not yet"));
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// As for the method that returned it.
    #[must_use = "a wait does nothing unless it is awaited"]
    #[derive(Debug)]
    pub struct Wait<F, L> {
        #[pin]
        wait: Limit<F>,
        at_deadline: L,
    }
}

pin_project! {
    #[project = LimitProjection]
    #[derive(Debug)]
    enum Limit<F> {
        Forever { #[pin] wait: F },
        Until { #[pin] wait: Timeout<F> },
    }
}

impl<F: Future, L: Fn() -> F::Output> Wait<F, L> {
    /// Creates a wait without a deadline. `at_deadline` returns the outcome if a deadline passes.
    pub fn new(wait: F, at_deadline: L) -> Self {
        Self { wait: Limit::Forever { wait }, at_deadline }
    }

    /// Ends the wait at a deadline, in place of an earlier one.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a timer.
    pub fn until(self, deadline: Instant) -> Self {
        let wait = match self.wait {
            Limit::Forever { wait } => wait,
            Limit::Until { wait } => wait.into_inner(),
        };
        Self { wait: Limit::Until { wait: timeout_at(deadline, wait) }, ..self }
    }

    /// Returns the outcome at a deadline that passes now: for waits that are made of others.
    pub fn at_deadline(&self) -> F::Output {
        (self.at_deadline)()
    }
}

impl<F: Future, L: Fn() -> F::Output> Future for Wait<F, L> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match this.wait.project() {
            LimitProjection::Forever { wait } => wait.poll(context),
            LimitProjection::Until { wait } => {
                wait.poll(context).map(|done| done.unwrap_or_else(|_| (this.at_deadline)()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn wait_ends_at_its_last_deadline() {
        let start = Instant::now();
        let wait = Wait::new(pending(), || "late");
        assert_eq!(wait.at_deadline(), "late");
        assert_eq!(wait.until(start).until(start + MINUTE).await, "late");
        assert_eq!(Instant::now().duration_since(start).as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn outcome_precedes_a_deadline_that_has_passed() {
        assert_eq!(Wait::new(ready("in time"), || "late").until(Instant::now() - MINUTE).await, "in time");
    }
}
