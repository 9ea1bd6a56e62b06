//! Asking a source for its newest version, to find out that its versions have begun again.
//!
//! A kube-apiserver sends no event at or below the version that a watch was asked from. After the restore of an older
//! state its watches are therefore silent until it has passed that version, and nothing in them says so. So the
//! version is asked for after a watch that ended before its time, and after some time of silence.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kinformer_core::{Object, ResourceVersion};
use tokio::time::{Instant, timeout};

use crate::backoff::retry_after;
use crate::contained::contained;
use crate::{ListerWatcher, ProbeBudget, SourceError};

/// After this long without an event or bookmark the version is asked for, and at most a third later. kube-apiserver
/// 1.37 sends a bookmark each minute if it has anything new to say.
const SILENCE: Duration = Duration::from_secs(90);
const TIMEOUT: Duration = Duration::from_secs(30);

/// Whether and when the source of one reflector is to be asked.
pub(crate) struct Probing {
    budget: ProbeBudget,
    /// The source has said that it cannot be asked.
    unavailable: bool,
    /// A watch has ended before its time and the version has not been asked for since.
    wanted: bool,
    /// The last answer, or error, holds until then.
    not_before: Option<Instant>,
    /// The last list, event or bookmark. A watch that begins does not count: it may be one of many short ones.
    silent_since: Instant,
    silence: Duration,
}

/// What has become of a question.
pub(crate) enum ProbeEvent {
    /// It may be asked now.
    Admitted,
    /// It was asked when the reflector knew this version.
    Answered { known: ResourceVersion, newest: Result<Option<ResourceVersion>, SourceError> },
}

pub(crate) type Probe = BoxFuture<'static, ProbeEvent>;

impl Probing {
    pub(crate) fn new(budget: ProbeBudget) -> Self {
        Self {
            budget,
            unavailable: false,
            wanted: false,
            not_before: None,
            silent_since: Instant::now(),
            silence: silence(),
        }
    }

    /// A watch has ended before its time.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Whatever the source has, it has been listed.
    pub(crate) fn listed(&mut self) {
        self.wanted = false;
        self.not_before = None;
        self.silent_since = Instant::now();
    }

    /// The source has sent an event or bookmark, or was not read until now.
    pub(crate) fn received(&mut self, now: Instant) {
        self.silent_since = now;
    }

    /// The source was not read for so long.
    pub(crate) fn received_later(&mut self, by: Duration) {
        self.silent_since += by;
    }

    /// When the source is to be asked if it stays silent; `None` for never.
    pub(crate) fn due_at(&self, version: &ResourceVersion) -> Option<Instant> {
        let known = version.compare(&ResourceVersion::number(0)).is_some_and(std::cmp::Ordering::is_gt);
        if self.unavailable || !known {
            return None;
        }
        let due = if self.wanted { self.silent_since } else { self.silent_since + self.silence };
        Some(self.not_before.map_or(due, |not_before| not_before.max(due)))
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
            let question = contained("newest_version", async { source.newest_version().await });
            let newest = timeout(TIMEOUT, question).await;
            let newest = newest.unwrap_or(Err(SourceError::Timeout { after: TIMEOUT }));
            ProbeEvent::Answered { known, newest }
        })
    }

    /// The question has been answered, with an error or not. It is not asked again for a while.
    pub(crate) fn answered(&mut self, newest: &Result<Option<ResourceVersion>, SourceError>) {
        self.silence = silence();
        let mut pause = self.silence;
        match newest {
            Ok(Some(_)) => self.wanted = false,
            Ok(None) => self.unavailable = true,
            Err(error) => pause = retry_after(error).max(self.silence / 3),
        }
        self.not_before = Instant::now().checked_add(pause);
    }
}

/// Random, so that a thousand reflectors that fell silent together do not ask together.
fn silence() -> Duration {
    SILENCE.mul_f64(1.0 + fastrand::f64() / 3.0)
}

/// The error that a version is where only versions from `asked` on can be.
pub(crate) fn went_back(asked: &ResourceVersion, found: &ResourceVersion) -> Option<SourceError> {
    let back = found.compare(asked).is_some_and(std::cmp::Ordering::is_lt);
    back.then(|| SourceError::VersionsWentBack { asked: asked.clone(), found: found.clone() })
}
