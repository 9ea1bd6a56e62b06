//! Live events: a stream that reads the memory of changes.
//!
//! A stream has no queue: it reads the memory when its client has taken what was sent before. A slow client thus costs no
//! memory, and changes that the memory no longer has when it continues are a gap.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::{Stream, stream};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, MissedTickBehavior};

use crate::app::App;
use crate::memory::Recorded;
use crate::query::Query;
use crate::reply::{Failure, body_of};
use crate::watched::Watched;

/// How often the state is sent.
const STATE: Duration = Duration::from_secs(1);
/// How often a comment is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How many changes are read from the memory at a time.
const BATCH: usize = 50;
/// With how many bytes to be sent no more changes are read: a change with its difference may have some 100 KiB.
const READY: usize = 256 * 1024;
/// The header of a browser that resumes.
const LAST_EVENT_ID: &str = "last-event-id";

/// `GET /api/v1/events`.
pub(crate) fn events(app: Arc<App>, query: &Query, headers: &HeaderMap) -> Result<Response, Failure> {
    let selected = selected(&app, query)?;
    let since = since(query, headers)?;
    let permit = app.streams.clone().try_acquire_owned().map_err(|_| {
        Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "TooManyStreams",
            format!("{} streams of events are open, and there can be no more", app.settings.limits.streams),
        )
        .retry_after(10)
    })?;
    let mut response =
        body_of("text/event-stream", Body::from_stream(stream_of(app, selected, since, permit)));
    // Proxies must not collect the events.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The informers and the object of a stream.
struct Selected {
    informers: Option<Vec<usize>>,
    key: Option<String>,
}

fn selected(app: &App, query: &Query) -> Result<Selected, Failure> {
    let mut named: Vec<Arc<Watched>> = Vec::new();
    for name in query.all("informer") {
        let watched = app.find(name, query)?;
        watched.check_shown()?;
        named.push(watched);
    }
    let informers = (!named.is_empty()).then(|| named.iter().map(|watched| watched.number).collect());
    Ok(Selected { informers, key: query.get("key").map(str::to_owned) })
}

fn since(query: &Query, headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let header =
        headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    // A browser that reconnects repeats the URL, and the header is newer.
    let Some(text) = header.or_else(|| query.get("since")) else { return Ok(None) };
    let id = text.trim().parse();
    id.map(Some).map_err(|_| Failure::bad_request(format!("since={text:?} is not the id of an event")))
}

/// A stream between two polls.
struct Events {
    app: Arc<App>,
    selected: Selected,
    /// The last change that was sent or skipped.
    sent: u64,
    /// Up to this change, all that the memory has is sent, however many they are in a second.
    resumed: u64,
    /// When the current second began, and how many changes it can still have.
    second: Instant,
    left: usize,
    changes: watch::Receiver<u64>,
    states: tokio::time::Interval,
    keep_alive: tokio::time::Interval,
    /// What is to be sent next.
    ready: VecDeque<Bytes>,
    _permit: OwnedSemaphorePermit,
    _open: crate::metrics::OpenStream,
}

fn stream_of(
    app: Arc<App>,
    selected: Selected,
    since: Option<u64>,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let changes = app.memory.subscribe();
    let last = app.memory.last();
    let mut ready = VecDeque::new();
    let sent = match since {
        None => last,
        // The stream begins with everything that the memory has.
        Some(id) if app.memory.is_foreign(id) => {
            ready.push_back(gap(0, ""));
            app.memory.start()
        }
        Some(id) => id,
    };
    let interval = |from, period| {
        let mut interval = tokio::time::interval_at(from, period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval
    };
    let now = Instant::now();
    let left = app.settings.limits.changes_per_second;
    let open = app.metrics.open_stream();
    let events = Events {
        selected,
        sent,
        resumed: last,
        second: now,
        left,
        changes,
        states: interval(now, STATE),
        keep_alive: interval(now + KEEP_ALIVE, KEEP_ALIVE),
        ready,
        _permit: permit,
        _open: open,
        app,
    };
    stream::unfold(events, |mut events| async move {
        let next = events.next().await?;
        Some((Ok(next), events))
    })
}

impl Events {
    /// Waits for what is sent next; `None` at shutdown.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.app.shutdown.is_cancelled() {
                return None;
            }
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            let shutdown = self.app.shutdown.clone();
            let wait = tokio::select! {
                biased;
                () = shutdown.cancelled() => return None,
                wait = self.read() => wait,
            };
            if !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return None,
                _ = self.states.tick() => return self.state().await,
                _ = self.keep_alive.tick() => return Some(Bytes::from_static(b": keep-alive\n\n")),
                () = tokio::time::sleep_until(self.second + STATE), if wait == Wait::NextSecond => {}
                changed = self.changes.changed(), if wait == Wait::Change => {
                    // The memory belongs to the application, which this stream holds.
                    changed.ok()?;
                }
            }
        }
    }

    /// The state, with the identifier of the last change that was sent, skipped or not selected: a client can resume
    /// from it before its first change, and long after its last one.
    async fn state(&self) -> Option<Bytes> {
        match self.app.state_json().await {
            Ok(json) => Some(format!("id: {}\nevent: state\ndata: {json}\n\n", self.sent).into()),
            Err(error) => Some(comment(&error)),
        }
    }

    /// Reads the next changes from the memory.
    async fn read(&mut self) -> Wait {
        // Changes after this are seen by the next wait.
        self.changes.borrow_and_update();
        if self.second.elapsed() >= STATE {
            self.second = Instant::now();
            self.left = self.app.settings.limits.changes_per_second;
            self.skip();
        }
        let mut bytes = 0;
        while self.ready.len() < BATCH {
            let (changes, dropped) = self.app.memory.after(self.sent, BATCH);
            if dropped > 0 {
                self.ready.push_back(gap(dropped, ""));
                self.sent += dropped;
            }
            if changes.is_empty() {
                return Wait::Change;
            }
            let informers = self.app.informers();
            for change in changes {
                if !self.is_selected(&change, &informers) {
                    self.sent = change.id;
                    continue;
                }
                if change.id > self.resumed {
                    if self.left == 0 {
                        return Wait::NextSecond;
                    }
                    self.left -= 1;
                }
                self.sent = change.id;
                if let Some(watched) = informers.get(change.informer) {
                    let event = match self.app.encoded(&change, watched).await {
                        Ok(encoded) => encoded.event(),
                        Err(error) => comment(&error),
                    };
                    bytes += event.len();
                    self.ready.push_back(event);
                    if bytes >= READY {
                        return Wait::Change;
                    }
                }
            }
        }
        Wait::Change
    }

    /// Skips the oldest of the changes that do not fit into the current second, and says how many they are.
    fn skip(&mut self) {
        let informers = self.app.informers();
        if self.sent < self.resumed {
            return;
        }
        let (waiting, dropped) = self.app.memory.after(self.sent, usize::MAX);
        let waiting: Vec<_> = waiting.iter().filter(|change| self.is_selected(change, &informers)).collect();
        let excess = waiting.len().saturating_sub(self.left);
        if excess == 0 {
            return;
        }
        if dropped > 0 {
            self.ready.push_back(gap(dropped, ""));
        }
        let mut skipped: std::collections::BTreeMap<usize, u64> = std::collections::BTreeMap::new();
        for change in waiting.iter().take(excess) {
            *skipped.entry(change.informer).or_default() += 1;
            self.sent = change.id;
        }
        for (number, count) in skipped {
            let name = informers.get(number).map_or("", |watched| &watched.name);
            self.ready.push_back(gap(count, name));
        }
    }

    fn is_selected(&self, change: &Recorded, informers: &[Arc<Watched>]) -> bool {
        let is_shown = informers.get(change.informer).is_some_and(|watched| !watched.is_hidden);
        is_shown
            && self.selected.informers.as_ref().is_none_or(|informers| informers.contains(&change.informer))
            && self.selected.key.as_ref().is_none_or(|key| change.key.to_string() == *key)
    }
}

/// What a stream waits for after it has read the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Change,
    NextSecond,
}

/// A comment, which clients ignore.
fn comment(error: &Failure) -> Bytes {
    format!(": {}\n\n", error.message.replace('\n', " ")).into()
}

/// The event of a gap. Changes that the memory dropped may be of any informer.
fn gap(skipped: u64, informer: &str) -> Bytes {
    format!("event: gap\ndata: {}\n\n", json!({"skipped": skipped, "informer": informer})).into()
}
