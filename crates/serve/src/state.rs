//! The state of each informer, as JSON.

use jiff::Timestamp;
use kinformer::{HandlerMetrics, InformerMetrics, NextRequest, Part, Phase, ReflectorState, StopReason};
use serde::Serialize;

use crate::failures::FailureLog;
use crate::format::{rfc3339, seconds};
use crate::problems::{self, Problem};
use crate::selection::Selection;
use crate::trends::Trends;
use crate::watched::Watched;

/// The columns of lists of objects, by which they can be sorted.
pub(crate) const COLUMNS: [&str; 5] = ["namespace", "name", "status", "created", "resourceVersion"];

/// The state of all informers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct States {
    pub(crate) time: String,
    pub(crate) started_at: String,
    pub(crate) cluster: String,
    pub(crate) events_kept: usize,
    pub(crate) informers: Vec<InformerState>,
}

/// The state of one informer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InformerState {
    name: String,
    resource: String,
    group: String,
    version: String,
    kind: String,
    cluster: String,
    /// The scope when the informer was added, by which requests name it.
    scope: String,
    selection: Selection,
    namespaced: bool,
    phase: &'static str,
    pub(crate) synced: bool,
    hidden: bool,
    objects: usize,
    resource_version: String,
    bytes: Option<u64>,
    sources: Vec<Source>,
    counters: Counters,
    queue: Queue,
    handlers: Vec<Handler>,
    indexes: Vec<String>,
    columns: [&'static str; 5],
    last_event_at: Option<String>,
    pub(crate) problems: Vec<Problem>,
}

/// The source of a part of an informer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Source {
    name: String,
    state: &'static str,
    detail: String,
    synced: bool,
    last_error: Option<String>,
    /// Unknown without a log of failures.
    last_error_at: Option<String>,
    not_served: Option<String>,
    not_watchable: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counters {
    lists: u64,
    watches: u64,
    watch_restarts: u64,
    relists: u64,
    events: u64,
    bookmarks: u64,
    decode_errors: u64,
    stalled_watches: u64,
    requests_throttled: u64,
    failures: u64,
}

#[derive(Debug, Serialize)]
struct Queue {
    items: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Handler {
    name: String,
    depth: usize,
    lag: f64,
    delivered: u64,
    panics: u64,
    synced: bool,
    stuck: bool,
    removed: bool,
}

impl InformerState {
    /// Reads the state. O(objects) at times, for the number of bytes.
    pub(crate) fn of(watched: &Watched, trends: &Trends, failures: Option<&FailureLog>) -> Self {
        let informer = &watched.informer;
        let api = informer.selection().api_resource();
        let metrics = informer.status().metrics();
        let snapshot = watched.snapshot();
        let indexes = snapshot.as_ref().map(|snapshot| {
            let mut names: Vec<String> = snapshot.index_names().iter().map(ToString::to_string).collect();
            names.sort_unstable();
            names
        });
        Self {
            name: watched.name().to_owned(),
            resource: api.plural.clone(),
            group: api.group.clone(),
            version: api.version.clone(),
            kind: api.kind.clone(),
            cluster: watched.cluster.to_string(),
            scope: watched.scope.clone(),
            selection: Selection::of(informer),
            namespaced: informer.selection().is_namespaced(),
            phase: phase(informer.status().phase()),
            synced: informer.has_synced(),
            hidden: watched.is_hidden,
            objects: metrics.objects,
            resource_version: metrics.resource_versions.lowest().to_string(),
            bytes: snapshot.as_ref().map(|snapshot| watched.bytes_of(snapshot)),
            sources: informer
                .status()
                .parts()
                .iter()
                .map(|part| Source::of(part, watched, failures))
                .collect(),
            counters: Counters::of(&metrics, watched.events()),
            queue: Queue { items: metrics.queue.depth },
            handlers: metrics.handlers.iter().map(Handler::of).collect(),
            indexes: indexes.unwrap_or_default(),
            columns: COLUMNS,
            last_event_at: watched.last_event().map(rfc3339),
            problems: problems::of(watched, &metrics, trends),
        }
    }
}

impl Source {
    fn of(part: &Part, watched: &Watched, failures: Option<&FailureLog>) -> Self {
        let reflector = part.reflector();
        let (state, detail) = described(&reflector.state());
        Self {
            name: part.name().to_owned(),
            state,
            detail,
            synced: reflector.is_synced(),
            last_error: reflector.last_error().map(|error| watched.text_of(&error)),
            last_error_at: failures.and_then(|log| log.last_at(reflector.name())).map(rfc3339),
            not_served: reflector.not_served().map(|error| watched.text_of(&error)),
            not_watchable: reflector.not_watchable().map(|error| watched.text_of(&error)),
        }
    }
}

impl Counters {
    fn of(metrics: &InformerMetrics, events: u64) -> Self {
        let reflector = &metrics.reflector;
        Self {
            lists: reflector.lists + reflector.watch_lists,
            watches: reflector.watches,
            watch_restarts: reflector.watch_restarts,
            relists: reflector.relists,
            events,
            bookmarks: reflector.bookmarks,
            decode_errors: reflector.decode_errors,
            stalled_watches: reflector.stalled_watches,
            requests_throttled: reflector.requests_throttled,
            failures: reflector.failures,
        }
    }
}

impl Handler {
    fn of(metrics: &HandlerMetrics) -> Self {
        Self {
            name: metrics.name.to_string(),
            depth: metrics.depth,
            lag: metrics.lag.as_secs_f64(),
            delivered: metrics.delivered,
            panics: metrics.panics,
            synced: metrics.synced,
            stuck: metrics.stuck,
            removed: metrics.removed,
        }
    }
}

pub(crate) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::NotStarted => "NotStarted",
        Phase::Stopped => "Stopped",
        _ => "Running",
    }
}

/// The name of a reflector's state, and what it does.
fn described(state: &ReflectorState) -> (&'static str, String) {
    let since = |version: &kinformer::ResourceVersion| {
        if version.is_unset() { String::new() } else { format!(" at version {version}") }
    };
    match state {
        ReflectorState::Idle => ("Idle", "not started".to_owned()),
        ReflectorState::Listing { resource_version, pages } => {
            ("Listing", format!("requests a list{}, {pages} pages received", since(resource_version)))
        }
        ReflectorState::WatchListing { resource_version } => {
            ("WatchListing", format!("receives a list as a stream{}", since(resource_version)))
        }
        ReflectorState::Connecting { resource_version } => {
            ("Connecting", format!("opens a watch since version {resource_version}"))
        }
        ReflectorState::Watching { resource_version } => {
            ("Watching", format!("since version {resource_version}"))
        }
        ReflectorState::BackingOff { next, delay, failures } => {
            let next = match next {
                NextRequest::List => "list",
                NextRequest::Watch => "watch",
                _ => "request",
            };
            ("BackingOff", format!("{failures} failures in a row; the next {next} after {}", seconds(*delay)))
        }
        ReflectorState::WaitingForSink => {
            ("WaitingForSink", "the queue is full: waits until the store has processed it".to_owned())
        }
        ReflectorState::Stopped(reason) => (
            "Stopped",
            match reason {
                StopReason::Cancelled => "cancelled".to_owned(),
                StopReason::SinkClosed => "its queue was closed".to_owned(),
                _ => "dropped".to_owned(),
            },
        ),
        _ => ("Unknown", format!("{state:?}")),
    }
}

/// The current time.
pub(crate) fn now() -> String {
    rfc3339(Timestamp::now())
}
