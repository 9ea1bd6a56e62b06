//! Waits for a state of the cluster.

use std::fmt;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{Fault, LoggedRequests};

use super::test_cluster::TestCluster;

/// How long a wait sleeps at most, for checks of states that are not on the server: this part of its limit, within bounds.
const RECHECKS: u32 = 300;
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);
/// How often a state is checked while the clock does not advance.
const STANDSTILL: u32 = 10_000;
/// How many requests an error shows.
const SHOWN: usize = 20;

/// A wait with a time limit. See [`TestCluster::within`].
#[derive(Clone, Copy, Debug)]
#[must_use = "it does nothing until it waits"]
pub struct Wait<'a> {
    pub(super) cluster: &'a TestCluster,
    pub(super) limit: Duration,
}

impl TestCluster {
    /// Waits until a check succeeds, and returns its value.
    ///
    /// The check runs at once, after each write to the server, and every 100 ms of tokio's clock, for other states: of the
    /// operator, of the log. With a limit of more than 30 s it is every 300th part of the limit, and every minute at least.
    /// The check may borrow anything.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and nothing else.
    ///
    /// # Errors
    /// [`NotReached`] after 30 s of tokio's clock, or [another limit](Self::within); and if a paused clock does not advance
    /// during 10,000 checks, because the operator writes without an end.
    pub async fn eventually<T, E: fmt::Display>(
        &self,
        check: impl FnMut() -> Result<T, E>,
    ) -> Result<T, NotReached> {
        self.within(self.limit).eventually(check).await
    }

    /// As [`Self::eventually`], for a check that waits, such as one that sends requests. A check that runs at the time limit
    /// is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use kube_client::Api;
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # let cluster = kinformer_apiserver::TestCluster::start().await?;
    /// let namespaces = Api::<Namespace>::all(cluster.client());
    /// cluster.eventually_async(async || namespaces.get("default").await).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The requests of a check are logged, and faults apply to them. A check that writes leads to its own repetition.
    ///
    /// # Cancel safety
    /// Dropping the future drops the check at its await point.
    ///
    /// # Errors
    /// As [`Self::eventually`].
    pub async fn eventually_async<T, E: fmt::Display>(
        &self,
        check: impl AsyncFnMut() -> Result<T, E>,
    ) -> Result<T, NotReached> {
        self.within(self.limit).eventually_async(check).await
    }

    /// Returns a wait with another time limit: `cluster.within(hour).eventually(..)`.
    pub fn within(&self, limit: Duration) -> Wait<'_> {
        Wait { cluster: self, limit }
    }
}

impl Wait<'_> {
    /// As [`TestCluster::eventually`].
    ///
    /// # Errors
    /// [`NotReached`] after the time limit.
    pub async fn eventually<T, E: fmt::Display>(
        self,
        mut check: impl FnMut() -> Result<T, E>,
    ) -> Result<T, NotReached> {
        let mut progress = Progress::new(self);
        loop {
            progress.before_check();
            if let Some(outcome) = progress.after_check(Some(check())) {
                return outcome;
            }
            progress.changed().await;
        }
    }

    /// As [`TestCluster::eventually_async`].
    ///
    /// # Errors
    /// [`NotReached`] after the time limit.
    pub async fn eventually_async<T, E: fmt::Display>(
        self,
        mut check: impl AsyncFnMut() -> Result<T, E>,
    ) -> Result<T, NotReached> {
        let mut progress = Progress::new(self);
        loop {
            progress.before_check();
            let result = timeout_at(progress.deadline, check()).await;
            if let Some(outcome) = progress.after_check(result.ok()) {
                return outcome;
            }
            progress.changed().await;
        }
    }

    fn not_reached(&self, reason: String, waited: Duration, checks: u32) -> NotReached {
        let explanations = self.cluster.explanations.lock().clone();
        NotReached(Box::new(Failure {
            reason,
            waited,
            checks,
            explanations: explanations.iter().map(ToString::to_string).collect(),
            unfired: self.unfired(),
            requests: self.cluster.server.requests().last(SHOWN),
        }))
    }

    /// The faults that have not fired, with those whose resource is not served.
    fn unfired(&self) -> Vec<String> {
        let server = &self.cluster.server;
        let text = |fault: &Fault| match fault.plural() {
            Some(plural) if !plural.is_empty() && !server.serves(plural) => {
                format!("{fault}; it cannot fire: no kind with the plural {plural:?} is served")
            }
            _ => fault.to_string(),
        };
        server.faults().unfired().iter().map(text).collect()
    }
}

/// The checks of a wait.
struct Progress<'c> {
    wait: Wait<'c>,
    activity: watch::Receiver<()>,
    began: Instant,
    deadline: Instant,
    /// Whether the next check begins at the time limit.
    is_last: bool,
    checks: u32,
    /// The checks since the clock has advanced.
    standstill: u32,
    last: Instant,
    reason: String,
}

impl<'c> Progress<'c> {
    fn new(wait: Wait<'c>) -> Self {
        let began = Instant::now();
        Self {
            activity: wait.cluster.server.activity(),
            began,
            // One that is too long for the clock is as good as never.
            deadline: began.checked_add(wait.limit).unwrap_or_else(|| began + Duration::from_secs(1 << 30)),
            is_last: false,
            checks: 0,
            standstill: 0,
            last: began,
            reason: "the first check did not finish".to_owned(),
            wait,
        }
    }

    /// Before a check, so that a write during the check leads to another one.
    fn before_check(&mut self) {
        self.activity.mark_unchanged();
        self.is_last = self.checks > 0 && Instant::now() >= self.deadline;
    }

    /// Returns the outcome of the wait, if it ends with this check; `None` is one that has not finished.
    fn after_check<T, E: fmt::Display>(
        &mut self,
        result: Option<Result<T, E>>,
    ) -> Option<Result<T, NotReached>> {
        match result {
            Some(Ok(value)) => return Some(Ok(value)),
            Some(Err(error)) => self.reason = error.to_string(),
            // One that waits at the limit has no time to do so.
            None if self.is_last => {}
            None => self.reason.push_str("; a check was running at the time limit"),
        }
        self.checks += 1;
        let now = Instant::now();
        self.standstill = if now == self.last { self.standstill + 1 } else { 0 };
        self.last = now;
        if self.standstill >= STANDSTILL {
            self.reason.push_str(
                "; the paused clock does not advance, because requests or writes follow each other endlessly",
            );
        }
        let is_over = now >= self.deadline || self.standstill >= STANDSTILL;
        is_over.then(|| {
            Err(self.wait.not_reached(std::mem::take(&mut self.reason), now - self.began, self.checks))
        })
    }

    /// Waits until something was written, or for the time after which a state is checked again.
    async fn changed(&mut self) {
        let recheck = (self.wait.limit / RECHECKS).clamp(SHORTEST, LONGEST);
        tokio::select! {
            _ = self.activity.changed() => {}
            () = sleep_until(self.deadline.min(self.last + recheck)) => {}
        }
    }
}

/// A state was not reached in time. Its text has the last error of the check, the explanations, the faults
/// that have not fired, and the last requests.
pub struct NotReached(Box<Failure>);

struct Failure {
    reason: String,
    waited: Duration,
    checks: u32,
    explanations: Vec<String>,
    unfired: Vec<String>,
    requests: LoggedRequests,
}

impl NotReached {
    /// Returns the last error of the check.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns how long the wait was, on tokio's clock.
    pub fn waited(&self) -> Duration {
        self.0.waited
    }

    /// Returns the last requests before the end of the wait, at most 20.
    pub fn requests(&self) -> LoggedRequests {
        self.0.requests.clone()
    }
}

impl fmt::Display for NotReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { reason, waited, checks, explanations, unfired, requests } = &*self.0;
        write!(f, "not reached in {:.3}s, after {checks} checks: {reason}", waited.as_secs_f64())?;
        for explanation in explanations.iter().filter(|text| !text.is_empty()) {
            write!(f, "\n{explanation}")?;
        }
        if !unfired.is_empty() {
            f.write_str("\nfaults that have not fired:")?;
            unfired.iter().try_for_each(|fault| write!(f, "\n  {fault}"))?;
        }
        if requests.is_empty() {
            return f.write_str("\nno requests are logged");
        }
        f.write_str("\nthe last requests, with the time since the start of the server:")?;
        requests.iter().try_for_each(|request| write!(f, "\n  {request}"))
    }
}

/// Formats the message, which Rust prints if a test returns the error or unwraps it.
impl fmt::Debug for NotReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotReached {}
