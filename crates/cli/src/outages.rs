//! Lines about lists and watches that fail, and about their recovery, for people.
//!
//! A failure that the next request repairs is not reported. With `-v` or `RUST_LOG` the log has all failures, and these
//! lines are left out.

use std::collections::HashMap;
use std::sync::Arc;

use kinformer::{Failure, Informer};
use kinformer_core::internal::with_causes;
use kinformer_reflector::{Recovery, ReflectorState};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Level;

use crate::display_fields::DisplayFields;
use crate::lines::format_duration;
use crate::text::{self, Line};

/// The failures of some informers. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outages(Arc<Mutex<HashMap<String, Outage>>>);

/// The present outage of an informer, if there is one.
#[derive(Debug)]
struct Outage {
    /// When the first request of the present row failed.
    began: Option<Instant>,
    /// When the outage that has been reported began.
    reported: watch::Sender<Option<Instant>>,
    /// The number of errors that concerned one object.
    skipped: u64,
}

impl Outages {
    /// Registers an informer. Returns a future that reports the end of each of its outages, and ends with the informer.
    pub(crate) fn add(&self, informer: Informer<DisplayFields>) -> impl Future<Output = ()> + use<> {
        let (reported, mut outage) = watch::channel(None);
        let name = informer.name().to_owned();
        self.0.lock().insert(name.clone(), Outage { began: None, reported, skipped: 0 });
        let all = self.0.clone();
        async move {
            while let Ok(began) = outage.wait_for(Option::is_some).await.map(|began| *began) {
                let parts = informer.status().parts();
                for part in parts.iter() {
                    // The state before the failure may still be the published one.
                    let reflector = part.reflector();
                    reflector.state_where(|state| !is_watching(state)).await;
                    if !is_watching(&reflector.state_where(is_watching).await) {
                        return;
                    }
                }
                if let Some(outage) = all.lock().get_mut(&name) {
                    outage.began = None;
                    outage.reported.send_replace(None);
                }
                let after = began.map_or_else(String::new, |began| format_duration(began.elapsed()));
                text::to_stderr(&Line::new(format_args!("{name}: connected again after {after}")));
            }
        }
    }

    /// Reports a failure, unless it is one of a reported outage.
    pub(crate) fn report(&self, failure: &Failure<'_>) {
        if tracing::enabled!(target: "kinformer_reflector::machine::report", Level::WARN) {
            return;
        }
        let Some(line) = self.line(failure) else { return };
        text::to_stderr(&line);
    }

    fn line(&self, failure: &Failure<'_>) -> Option<Line> {
        let (name, error) = (failure.reflector, failure.error);
        let reason = with_causes(error);
        let mut all = self.0.lock();
        let outage = all.get_mut(name)?;
        if failure.recovery == Recovery::Skip {
            outage.skipped += 1;
            let line = || Line::new(format_args!("{name}: {reason}"));
            return outage.skipped.is_power_of_two().then(line);
        }
        if failure.failures <= 1 {
            outage.began = Some(Instant::now());
        }
        let is_repaired_by_the_next = error.is_expired() || failure.failures <= 1 && error.is_retryable();
        let is_reported = outage.reported.borrow().is_some();
        if is_repaired_by_the_next || is_reported || failure.recovery == Recovery::FallBackToList {
            return None;
        }
        outage.reported.send_replace(outage.began.or_else(|| Some(Instant::now())));
        Some(match error.status() {
            Some(_) => Line::new(format_args!("{name}: {reason}; retrying")),
            None => Line::new(format_args!("{name}: connection lost: {reason}; retrying")),
        })
    }
}

fn is_watching(state: &ReflectorState) -> bool {
    matches!(state, ReflectorState::Watching { .. })
}
