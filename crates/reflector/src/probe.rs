//! Probes: requests for the newest version of a source, which detect that its versions have started over.
//!
//! A kube-apiserver sends no event at or below the version from which a watch was requested. After the restore of an
//! older state its watches are therefore silent until it has passed that version, without any indication. So the newest
//! version is requested after a watch that ended early, and after a time of silence.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kinformer_core::{Object, ResourceVersion};
use tokio::time::{Instant, timeout};

use crate::backoff::retry_after;
use crate::contained::contained;
use crate::{ListerWatcher, ProbeBudget, SourceError};

/// The shortest silence, without an event or bookmark, after which the newest version is requested; the longest is a
/// third more. kube-apiserver 1.37 sends a bookmark each minute if its version has moved.
const SILENCE: Duration = Duration::from_secs(90);
const TIMEOUT: Duration = Duration::from_secs(30);

/// The schedule of the probes of one reflector.
pub(crate) struct Probing {
    budget: ProbeBudget,
    /// Whether the last answer had no version: perhaps the source has none.
    is_unversioned: bool,
    /// Whether a watch has ended early since the last answer.
    wanted: bool,
    /// The earliest time of the next probe after an answer or error.
    not_before: Option<Instant>,
    /// The earliest time that the source has asked for, which a list does not change.
    retry_at: Option<Instant>,
    /// The time of the last list, event or bookmark. The start of a watch does not count: it may be one of many short
    /// watches.
    silent_since: Instant,
    silence: Duration,
}

/// The progress of a probe.
pub(crate) enum ProbeEvent {
    /// The budget admits the request.
    Admitted,
    /// The source has answered. `known` is the last version of the reflector at the time of the request.
    Answered { known: ResourceVersion, newest: Result<Option<ResourceVersion>, SourceError> },
}

pub(crate) type Probe = BoxFuture<'static, ProbeEvent>;

impl Probing {
    pub(crate) fn new(budget: ProbeBudget) -> Self {
        Self {
            budget,
            is_unversioned: false,
            wanted: false,
            not_before: None,
            retry_at: None,
            silent_since: Instant::now(),
            silence: silence(),
        }
    }

    /// Requests a probe, because a watch has ended early.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Resets the schedule after a list: the reflector now has the newest state. A source without versions is not asked
    /// more often for that.
    pub(crate) fn listed(&mut self) {
        self.wanted = false;
        self.not_before = self.not_before.filter(|_| self.is_unversioned);
        self.silent_since = Instant::now();
    }

    /// Restarts the silence at an event or bookmark.
    pub(crate) fn received(&mut self, now: Instant) {
        self.silent_since = now;
    }

    /// Extends the silence by a time in which the source was not read.
    pub(crate) fn received_later(&mut self, by: Duration) {
        self.silent_since += by;
    }

    /// Returns the time of the next probe if the source stays silent; `None` for never.
    pub(crate) fn due_at(&self, version: &ResourceVersion) -> Option<Instant> {
        let known = version.compare(&ResourceVersion::number(0)).is_some_and(std::cmp::Ordering::is_gt);
        if !known {
            return None;
        }
        let due = if self.wanted { self.silent_since } else { self.silent_since + self.silence };
        Some([self.not_before, self.retry_at].into_iter().flatten().fold(due, Instant::max))
    }

    pub(crate) fn admission(&self) -> Probe {
        let budget = self.budget.clone();
        Box::pin(async move {
            budget.admission().await;
            ProbeEvent::Admitted
        })
    }

    pub(crate) fn ask<T: Object>(source: Arc<dyn ListerWatcher<T>>, known: ResourceVersion) -> Probe {
        Box::pin(async move {
            let request = contained("newest_version", async { source.newest_version().await });
            let newest = timeout(TIMEOUT, request).await;
            let newest = newest.unwrap_or(Err(SourceError::Timeout { after: TIMEOUT }));
            ProbeEvent::Answered { known, newest }
        })
    }

    /// Records an answer or error, and schedules the earliest next probe.
    pub(crate) fn completed(&mut self, newest: &Result<Option<ResourceVersion>, SourceError>) {
        self.silence = silence();
        let mut pause = self.silence;
        match newest {
            // An answer without a version may be a passing fault: the source is asked again.
            Ok(newest) => (self.wanted, self.is_unversioned) = (false, newest.is_none()),
            Err(error) => {
                let delay = retry_after(error);
                self.retry_at = Instant::now().checked_add(delay);
                pause = delay.max(self.silence / 3);
            }
        }
        self.not_before = Instant::now().checked_add(pause);
    }
}

/// Returns a random silence, so that a thousand reflectors whose sources fell silent together do not probe together.
fn silence() -> Duration {
    SILENCE.mul_f64(1.0 + fastrand::f64() / 3.0)
}
