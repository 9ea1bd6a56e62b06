//! Which informer is behind, and why.

use std::collections::BTreeMap;
use std::time::Duration;

use kinformer::{HandlerMetrics, InformerMetrics, Phase, ReflectorState};
use serde::Serialize;

use crate::format::seconds;
use crate::trends::Trends;
use crate::watched::Watched;

/// A handler is behind if its current event is at least this old.
const LAG: Duration = Duration::from_secs(1);
/// A handler is behind if it has at least this many undelivered events.
const DEPTH: usize = 1000;
/// A queue is long if it has at least this many items.
const QUEUE: usize = 1000;

/// Something that is wrong with an informer, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    pub(crate) severity: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

fn error(reason: &'static str, message: String) -> Problem {
    Problem { severity: "error", reason, message }
}

fn warning(reason: &'static str, message: String) -> Problem {
    Problem { severity: "warning", reason, message }
}

/// Returns the problems of an informer, the most severe first; empty if all is well.
pub(crate) fn of(watched: &Watched, metrics: &InformerMetrics, trends: &Trends) -> Vec<Problem> {
    let mut problems = of_sources(watched);
    let informer = &watched.informer;
    match informer.phase() {
        Phase::Stopped => {
            problems.insert(
                0,
                error("Stopped", "the informer has stopped: its objects are no longer updated".into()),
            );
        }
        Phase::NotStarted => problems.insert(0, warning("NotStarted", "the informer was not started".into())),
        _ => {}
    }
    let scoped = |what: &str| format!("{} {} {} {what}", watched.name, watched.cluster, watched.scope);
    let reflector = &metrics.reflector;
    if trends.has_increased(scoped("stalled"), reflector.stalled_watches) {
        problems.push(warning(
            "WatchStalled",
            format!(
                "a watch was silent for too long and was opened again, {} so far",
                count(reflector.stalled_watches, "time")
            ),
        ));
    }
    if trends.has_increased(scoped("went back"), reflector.versions_went_back) {
        problems.push(warning(
            "VersionsWentBack",
            "the versions of the server went back, as after the restore of an older state".into(),
        ));
    }
    if reflector.unidentified_objects > 0 {
        problems.push(error(
            "IncompleteList",
            format!(
                "the last list has {} without a readable key; it deleted nothing and is repeated",
                count(reflector.unidentified_objects, "object")
            ),
        ));
    }
    let undecoded = reflector.decode_errors.saturating_add(informer.undecoded());
    if undecoded > 0 {
        problems.push(warning(
            "DecodeErrors",
            format!(
                "objects could not be decoded, {} so far; the explanation of an object says whether it was one of them",
                count(undecoded, "time")
            ),
        ));
    }
    if metrics.queue.depth >= QUEUE {
        problems.push(warning(
            "QueueGrowing",
            format!("{} changes wait between the watch and the store", grouped(metrics.queue.depth as u64)),
        ));
    }
    for handler in metrics.handlers.iter().filter(|handler| !handler.removed) {
        problems.extend(of_handler(handler));
    }
    let handlers = metrics.handlers.iter().filter(|handler| !handler.removed);
    for (name, panics) in panics_by_name(handlers.map(|handler| (&*handler.name, handler.panics))) {
        if trends.has_increased(scoped(&format!("panics {name}")), panics) {
            problems.push(warning(
                "HandlerPanicked",
                format!("handler {name:?} panicked over {}; each was skipped", count(panics, "event")),
            ));
        }
    }
    problems.sort_by_key(|problem| problem.severity != "error");
    problems
}

/// The panics of the handlers with each name, which several may have. Taken one by one, different counts of one name
/// would look like an increase at each reading.
fn panics_by_name<'a>(handlers: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<&'a str, u64> {
    let mut panics = BTreeMap::new();
    for (name, count) in handlers {
        let sum: &mut u64 = panics.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }
    panics
}

/// The problems of the lists and watches.
fn of_sources(watched: &Watched) -> Vec<Problem> {
    let mut problems = Vec::new();
    let informer = &watched.informer;
    for part in informer.parts() {
        let reflector = part.reflector();
        let state = reflector.state();
        let place = if part.name().is_empty() { String::new() } else { format!("{}: ", part.name()) };
        let last_error = reflector.last_error().map(|error| watched.text_of(&error));
        let last_error = last_error.as_deref().unwrap_or("no error so far");
        if let Some(not_served) = reflector.not_served() {
            problems.push(error(
                "NotServed",
                format!(
                    "{place}the server does not serve {}: {}",
                    watched.name,
                    watched.text_of(&not_served)
                ),
            ));
        } else if let ReflectorState::BackingOff { delay, failures, .. } = state {
            problems.push(error(
                "BackingOff",
                format!(
                    "{place}{} in a row failed; the next is sent after {}: {last_error}",
                    count(failures.into(), "request"),
                    seconds(delay)
                ),
            ));
        } else if matches!(state, ReflectorState::WaitingForSink) {
            problems.push(warning(
                "QueueFull",
                format!("{place}the watch waits, because the queue before the store is full"),
            ));
        }
    }
    if informer.phase() == Phase::Running && !informer.has_synced() && problems.is_empty() {
        let errors: Vec<String> = informer
            .parts()
            .iter()
            .filter(|part| !part.reflector().is_synced())
            .filter_map(|part| part.reflector().last_error().map(|error| watched.text_of(&error)))
            .collect();
        let why = if errors.is_empty() { "no error so far".to_owned() } else { errors.join("; ") };
        problems.push(warning("NotSynced", format!("the first list is not complete: {why}")));
    }
    problems
}

fn of_handler(handler: &HandlerMetrics) -> Option<Problem> {
    let HandlerMetrics { name, depth, lag, .. } = handler;
    let events = count(*depth as u64, "event");
    if handler.stuck {
        return Some(error(
            "HandlerStuck",
            format!(
                "handler {name:?} is {} and {events} behind: it has been in one callback for more than 30 s",
                seconds(*lag)
            ),
        ));
    }
    if *lag < LAG && *depth < DEPTH {
        return None;
    }
    let why = if handler.waiting_for_thread {
        "it waits for a thread: the callbacks of other handlers occupy all of them"
    } else {
        "its callbacks take longer than the events that arrive"
    };
    Some(warning(
        "HandlerBehind",
        format!("handler {name:?} is {} and {events} behind: {why}", seconds(*lag)),
    ))
}

/// A number with its noun: `1 event`, `1,234 events`.
fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: H-02b
    #[tokio::test(start_paused = true)]
    async fn panics_of_handlers_with_one_name_are_one_counter() {
        let trends = Trends::default();
        let recent = || {
            panics_by_name([("same", 1), ("other", 0), ("same", 2)].into_iter())
                .into_iter()
                .filter(|(name, panics)| trends.has_increased((*name).to_owned(), *panics))
                .collect::<Vec<_>>()
        };
        assert_eq!(recent(), [("same", 3)]);
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(recent(), [], "nothing has increased");
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0 events"),
            (1, "1 event"),
            (999, "999 events"),
            (1234, "1,234 events"),
            (1_234_567, "1,234,567 events"),
        ] {
            assert_eq!(count(number, "event"), text);
        }
    }
}
