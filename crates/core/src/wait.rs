//! Waits that may have a deadline.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

pin_project! {
    /// A future that waits for something, and may have a deadline.
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
        wait: F,
        at_deadline: L,
        deadline: Option<Instant>,
        // Set by the first poll that has to wait for the deadline.
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl<F: Future, L: Fn() -> F::Output> Wait<F, L> {
    /// Creates a wait without a deadline. `at_deadline` returns the outcome if a deadline passes.
    pub fn new(wait: F, at_deadline: L) -> Self {
        Self { wait, at_deadline, deadline: None, sleep: None }
    }

    /// Ends the wait at a deadline, in place of an earlier one.
    ///
    /// # Panics
    /// The wait panics when it is polled outside of a tokio runtime with a timer.
    pub fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Returns the outcome of a wait that is pending at its deadline, for waits that consist of other waits.
    #[doc(hidden)]
    pub fn at_deadline(&self) -> F::Output {
        (self.at_deadline)()
    }
}

impl<F: Future, L: Fn() -> F::Output> Future for Wait<F, L> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        if let Poll::Ready(outcome) = this.wait.poll(context) {
            return Poll::Ready(outcome);
        }
        let Some(deadline) = *this.deadline else { return Poll::Pending };
        let is_new = this.sleep.is_none();
        if is_new {
            this.sleep.set(Some(sleep_until(deadline)));
        }
        // The wait may have used the budget of its task, without which the timer is pending.
        let is_late = || !is_new && Instant::now() >= deadline;
        if this.sleep.as_pin_mut().is_some_and(|sleep| sleep.poll(context).is_pending()) && !is_late() {
            return Poll::Pending;
        }
        Poll::Ready((this.at_deadline)())
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

    /// As for the argument of `Runtime::block_on`.
    #[test]
    fn wait_may_be_created_outside_of_a_runtime() {
        let wait = Wait::new(pending(), || "late").until(Instant::now());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert_eq!(runtime.block_on(wait), "late");
    }
}
