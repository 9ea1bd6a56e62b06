//! Lines about lists and watches that fail, and about their recovery, for people.
//!
//! A failure that the next request repairs is not reported. With `-v` or `RUST_LOG` the log has all failures, and these
//! lines are left out.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kinformer::{Failure, Informer};
use kinformer_core::internal::with_causes;
use kinformer_reflector::{Recovery, ReflectorHandle, ReflectorState};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Level;

use crate::display_fields::DisplayFields;
use crate::fatal_errors::informer_of;
use crate::lines::format_duration;
use crate::text::{self, Line};

const FORBIDDEN: u16 = 403;

/// The failures of some informers. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outages(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By name.
    informers: HashMap<String, OfInformer>,
    /// By the name in their lines: that of an informer, or of one of its parts.
    outages: HashMap<String, Outage>,
}

#[derive(Debug)]
struct OfInformer {
    reported: mpsc::UnboundedSender<Reported>,
    /// The number of errors that concerned one object.
    skipped: u64,
}

/// A row of failed requests.
#[derive(Debug, Default)]
struct Outage {
    /// When the first request of the present row failed.
    began: Option<Instant>,
    is_reported: bool,
}

/// An outage that has been reported.
#[derive(Debug)]
struct Reported {
    name: String,
    /// The reflector whose request failed.
    reflector: String,
    began: Instant,
}

impl Outages {
    /// Registers an informer. Returns a future that reports the end of each of its outages, and ends with `self`.
    pub(crate) fn add(&self, informer: Informer<DisplayFields>) -> impl Future<Output = ()> + use<> {
        #[expect(
            clippy::disallowed_methods,
            reason = "no outage is reported twice before its end, so there is at most one item for each part"
        )]
        let (reported, mut outages) = mpsc::unbounded_channel();
        let of_informer = OfInformer { reported, skipped: 0 };
        self.0.lock().informers.insert(informer.name().to_owned(), of_informer);
        let all = Arc::downgrade(&self.0);
        async move {
            let mut ends = FuturesUnordered::new();
            loop {
                tokio::select! {
                    Some(outage) = outages.recv() => ends.push(end_of(informer.clone(), outage)),
                    Some((name, after)) = ends.next() => {
                        let Some(all) = all.upgrade() else { return };
                        all.lock().outages.remove(&name);
                        if let Some(after) = after {
                            text::to_stderr(&Line::new(format_args!("{name}: connected again after {after}")));
                        }
                    }
                    else => return,
                }
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
        let (reflector, error) = (failure.reflector, failure.error);
        let reason = with_causes(error);
        let mut state = self.0.lock();
        let State { informers, outages } = &mut *state;
        let informer = informer_of(reflector, informers.keys())?.clone();
        let of_informer = informers.get_mut(&informer)?;
        if failure.recovery == Recovery::Skip {
            of_informer.skipped += 1;
            let line = || Line::new(format_args!("{informer}: {reason}"));
            return of_informer.skipped.is_power_of_two().then(line);
        }
        // A part can be refused alone; all lose their connections together.
        let is_refused = error.status().is_some_and(|status| status.code == FORBIDDEN);
        let name = if is_refused { reflector.to_owned() } else { informer };
        let outage = outages.entry(name.clone()).or_default();
        if failure.failures <= 1 && !outage.is_reported {
            outage.began = Some(Instant::now());
        }
        let is_repaired_by_the_next = error.is_expired() || failure.failures <= 1 && error.is_retryable();
        if is_repaired_by_the_next || outage.is_reported || failure.recovery == Recovery::FallBackToList {
            return None;
        }
        outage.is_reported = true;
        let began = outage.began.unwrap_or_else(Instant::now);
        let line = Some(match error.status() {
            Some(_) => Line::new(format_args!("{name}: {reason}; retrying")),
            None => Line::new(format_args!("{name}: connection lost: {reason}; retrying")),
        });
        // An error means that the program ends.
        _ = of_informer.reported.send(Reported { name, reflector: reflector.to_owned(), began });
        line
    }
}

/// Waits for the end of an outage. Returns its name, and how long it took; `None` if the part has left or stopped.
async fn end_of(informer: Informer<DisplayFields>, outage: Reported) -> (String, Option<String>) {
    let Reported { name, reflector, began } = outage;
    let parts = informer.status().parts();
    let Some(part) = parts.iter().find(|part| part.reflector().name() == reflector) else {
        return (name, None);
    };
    // The state before the failure may still be the published one.
    part.reflector().state_where(|state| !is_watching(state)).await;
    let has_recovered = is_watching(&part.reflector().state_where(is_watching).await);
    let others = parts.iter().filter(|_| name == informer.name());
    for other in others.map(|part| part.reflector()) {
        other.state_where(|state| is_watching(state) || is_refused(other)).await;
    }
    (name, has_recovered.then(|| format_duration(began.elapsed())))
}

fn is_refused(reflector: &ReflectorHandle) -> bool {
    reflector.last_error().is_some_and(|error| error.status().is_some_and(|status| status.code == FORBIDDEN))
}

fn is_watching(state: &ReflectorState) -> bool {
    matches!(state, ReflectorState::Watching { .. })
}
