//! Which informer is behind, and why.

use std::collections::BTreeMap;
use std::time::Duration;

use kinformer::{HandlerMetrics, Informer, InformerMetrics, Part, Phase, Projection, ReflectorState};
use serde::Serialize;

use crate::format::seconds;
use crate::trends::{Pace, Trends};
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
    match informer.status().phase() {
        Phase::Stopped => {
            problems.insert(
                0,
                error("Stopped", "the informer has stopped: its objects are no longer updated".into()),
            );
        }
        Phase::NotStarted => problems.insert(0, warning("NotStarted", "the informer was not started".into())),
        _ => {}
    }
    problems.extend(of_whole_objects(watched));
    problems.extend(of_reflectors(watched, metrics, trends));
    if metrics.queue.depth >= QUEUE {
        problems.push(warning(
            "QueueGrowing",
            format!("{} changes wait between the watch and the store", grouped(metrics.queue.depth as u64)),
        ));
    }
    problems.extend(of_handlers(watched, metrics, trends));
    problems.sort_by_key(|problem| problem.severity != "error");
    problems
}

/// The name of a trend of this informer.
fn scoped(watched: &Watched, what: &str) -> String {
    format!("{} {} {} {what}", watched.name(), watched.cluster, watched.scope)
}

/// The problems that the counters of the reflectors show.
fn of_reflectors(watched: &Watched, metrics: &InformerMetrics, trends: &Trends) -> Vec<Problem> {
    let mut problems = Vec::new();
    let reflector = &metrics.reflector;
    if trends.has_increased(scoped(watched, "stalled"), reflector.stalled_watches) {
        problems.push(warning(
            "WatchStalled",
            format!(
                "a watch was silent for too long and was opened again, {} so far",
                count(reflector.stalled_watches, "time")
            ),
        ));
    }
    if trends.has_increased(scoped(watched, "went back"), reflector.versions_went_back) {
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
    let undecoded = reflector.decode_errors.saturating_add(watched.informer.status().undecoded());
    if undecoded > 0 {
        problems.push(warning(
            "DecodeErrors",
            format!(
                "objects could not be decoded, {} so far; the explanation of an object says whether it was one of them",
                count(undecoded, "time")
            ),
        ));
    }
    problems
}

fn of_handlers(watched: &Watched, metrics: &InformerMetrics, trends: &Trends) -> Vec<Problem> {
    let mut problems = Vec::new();
    let handlers: Vec<&HandlerMetrics> = metrics.handlers.iter().filter(|handler| !handler.removed).collect();
    let behind = handlers.iter().filter(|handler| is_behind(handler)).count();
    let mut namesakes: BTreeMap<&str, usize> = BTreeMap::new();
    for handler in &handlers {
        let number = namesakes.entry(&handler.name).or_default();
        *number += 1;
        // Noted at each reading, so that the pace is known when the handler gets behind.
        let key = scoped(watched, &format!("pace {} {number}", handler.name));
        let pace = trends.pace(key, handler.delivered, handler.depth);
        if is_behind(handler) {
            problems.push(Late::of(handler).problem(pace, handlers.len(), behind));
        }
    }
    for (name, panics) in panics_by_name(handlers.iter().map(|handler| (&*handler.name, handler.panics))) {
        if trends.has_increased(scoped(watched, &format!("panics {name}")), panics) {
            problems.push(warning(
                "HandlerPanicked",
                format!("handler {name:?} panicked over {}; each was skipped", count(panics, "event")),
            ));
        }
    }
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

/// The second informer of a resource: it has whole objects, and started after an informer of their metadata.
fn of_whole_objects(watched: &Watched) -> Option<Problem> {
    let informer = &watched.informer;
    let api = informer.selection().api_resource();
    let others = informer.factory()?.informers_of(&api.group, &api.plural);
    let is_second = |other: &Informer<()>| {
        other.selection().api_resource().version == api.version
            && other.selection().projection() == Projection::Metadata
    };
    (informer.selection().projection() == Projection::Whole && others.iter().any(is_second)).then(|| {
        warning(
            "SecondInformer",
            format!(
                "{} are watched twice: another informer has started with only their metadata; set whole_objects in the \
                 options of the resource, or request whole objects before the start",
                watched.name()
            ),
        )
    })
}

/// The problems of the lists and watches.
fn of_sources(watched: &Watched) -> Vec<Problem> {
    let informer = &watched.informer;
    let parts = informer.status().parts();
    let mut problems: Vec<Problem> = parts.iter().flat_map(|part| of_part(watched, part)).collect();
    if informer.status().phase() == Phase::Running && !informer.has_synced() && problems.is_empty() {
        let unsynced = parts.iter().filter(|part| !part.reflector().is_synced());
        let errors = unsynced.filter_map(|part| part.reflector().last_error());
        let errors: Vec<String> = errors.map(|error| watched.text_of(&error)).collect();
        let why = if errors.is_empty() { "no error so far".to_owned() } else { errors.join("; ") };
        problems.push(warning("NotSynced", format!("the first list is not complete: {why}")));
    }
    problems
}

fn of_part(watched: &Watched, part: &Part) -> Vec<Problem> {
    let mut problems = Vec::new();
    let reflector = part.reflector();
    let name = watched.name();
    let place = if part.name().is_empty() { String::new() } else { format!("{}: ", part.name()) };
    if let Some(refused) = reflector.not_watchable() {
        let why = watched.text_of(&refused);
        let fresh = "so it is as fresh as the last list";
        let message = format!("{place}the server refuses to watch {name}, {fresh}: {why}");
        problems.push(error("NotWatchable", message));
    }
    if let Some(refused) = reflector.not_served() {
        let why = watched.text_of(&refused);
        problems.push(error("NotServed", format!("{place}the server does not serve {name}: {why}")));
        return problems;
    }
    match reflector.state() {
        ReflectorState::BackingOff { delay, failures, .. } => {
            let last_error = reflector.last_error().map(|error| watched.text_of(&error));
            problems.push(error(
                "BackingOff",
                format!(
                    "{place}{} in a row failed; the next is sent after {}: {}",
                    count(failures.into(), "request"),
                    seconds(delay),
                    last_error.as_deref().unwrap_or("no error so far")
                ),
            ));
        }
        ReflectorState::WaitingForSink => problems.push(warning(
            "QueueFull",
            format!("{place}the watch waits, because the queue before the store is full"),
        )),
        _ => {}
    }
    problems
}

fn is_behind(handler: &HandlerMetrics) -> bool {
    handler.stuck || handler.lag >= LAG || handler.depth >= DEPTH
}

/// A handler that is behind.
#[derive(Clone, Copy, Debug)]
struct Late<'a> {
    name: &'a str,
    depth: usize,
    lag: Duration,
    stuck: bool,
    waits: bool,
}

impl<'a> Late<'a> {
    fn of(handler: &'a HandlerMetrics) -> Self {
        let HandlerMetrics { name, depth, lag, stuck, waiting_for_thread: waits, .. } = handler;
        Self { name, depth: *depth, lag: *lag, stuck: *stuck, waits: *waits }
    }

    /// The problem in words, if `behind` of `all` handlers of the informer are behind.
    fn problem(self, pace: Option<Pace>, all: usize, behind: usize) -> Problem {
        let (name, lag, events) = (self.name, seconds(self.lag), count(self.depth as u64, "event"));
        let others = others(all.saturating_sub(1), behind.saturating_sub(1));
        let late = format!("handler {name:?} is {lag} and {events} behind");
        if self.stuck {
            let why = "it has been in one callback for more than 30 s";
            return error("HandlerStuck", format!("{late}: {why}{others}"));
        }
        let why = match pace {
            _ if self.waits => {
                ": it waits for a thread, since the callbacks of other handlers occupy all of them".to_owned()
            }
            Some(pace) => {
                let (handled, arrived) = (rate(pace.handled), rate(pace.arrived));
                format!(", and {}: it handles {handled} events a second, {arrived} arrive", trend(pace))
            }
            None => format!(": the event that it handles was received {lag} ago"),
        };
        warning("HandlerBehind", format!("{late}{why}{others}"))
    }
}

/// Where a pace leads to. Rates that differ by a twentieth are taken as equal.
fn trend(pace: Pace) -> &'static str {
    let margin = pace.arrived.max(pace.handled) / 20.0;
    if pace.arrived > pace.handled + margin {
        "falls further behind"
    } else if pace.handled > pace.arrived + margin {
        "catches up"
    } else {
        "stays behind"
    }
}

/// Whether the other handlers of the informer are affected.
fn others(all: usize, behind: usize) -> String {
    let current = all.saturating_sub(behind);
    match (all, current) {
        (0, _) => String::new(),
        (1, 1) => "; the other handler is up to date".to_owned(),
        (1, _) => "; the other handler is behind, too".to_owned(),
        (_, 0) => format!("; the other {all} handlers are behind, too"),
        (_, _) if current == all => format!("; the other {all} handlers are up to date"),
        _ => format!(
            "; of the other {all} handlers, {current} {} up to date",
            if current == 1 { "is" } else { "are" }
        ),
    }
}

/// A rate with one decimal, without it from 100 on.
fn rate(rate: f64) -> String {
    if rate == 0.0 {
        "0".to_owned()
    } else if rate < 99.95 {
        format!("{rate:.1}")
    } else {
        grouped(rate.round() as u64)
    }
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

    // contract: H-02a
    #[test]
    #[expect(clippy::too_many_lines, reason = "a test shows each step of a case")]
    fn handler_that_is_behind_has_its_rates() {
        let slow = Late {
            name: "slow-report",
            depth: 402,
            lag: Duration::from_millis(24_300),
            stuck: false,
            waits: false,
        };
        let pace = |handled, arrived| Some(Pace { handled, arrived });
        let late = "handler \"slow-report\" is 24.3 s and 402 events behind";
        for (pace, all, behind, expected) in [
            (
                pace(0.5, 22.64),
                4,
                1,
                ", and falls further behind: it handles 0.5 events a second, 22.6 arrive; the other 3 handlers are up to date",
            ),
            (pace(1234.0, 0.0), 1, 1, ", and catches up: it handles 1,234 events a second, 0 arrive"),
            (
                pace(10.0, 10.3),
                2,
                1,
                ", and stays behind: it handles 10.0 events a second, 10.3 arrive; the other handler is up to date",
            ),
            (
                None,
                2,
                2,
                ": the event that it handles was received 24.3 s ago; the other handler is behind, too",
            ),
            (
                None,
                4,
                3,
                ": the event that it handles was received 24.3 s ago; of the other 3 handlers, 1 is up to date",
            ),
            (
                None,
                3,
                3,
                ": the event that it handles was received 24.3 s ago; the other 2 handlers are behind, too",
            ),
        ] {
            let problem = slow.problem(pace, all, behind);
            assert_eq!((problem.reason, problem.message), ("HandlerBehind", format!("{late}{expected}")));
        }
        let thread = Late { waits: true, ..slow }.problem(pace(0.0, 1.0), 1, 1);
        let why = ": it waits for a thread, since the callbacks of other handlers occupy all of them";
        assert_eq!(thread.message, format!("{late}{why}"));
        let stuck = Late { stuck: true, ..slow }.problem(None, 1, 1);
        let why = ": it has been in one callback for more than 30 s";
        assert_eq!((stuck.reason, stuck.message), ("HandlerStuck", format!("{late}{why}")));
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
