//! Live events: a stream that reads the memory of changes.
//!
//! A stream has no queue: it reads the memory when its client has taken what was sent before. A slow client thus costs no
//! memory, and changes that the memory no longer has when it continues are a gap.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::app::App;
use crate::query::Query;
use crate::reply::{Failure, body_of};
use crate::streams::{SECOND, Second, Selected, Stream, key_of};
use crate::watched::Watched;

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
    let stream = app.streams.open(selected).ok_or_else(|| {
        Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "TooManyStreams",
            format!("{} streams of events are open, and there can be no more", app.settings.limits.streams),
        )
        .retry_after(10)
    })?;
    let events = stream::unfold(Events::new(app, stream, since), |mut events| async move {
        let next = events.next().await?;
        Some((Ok::<_, Infallible>(next), events))
    });
    let mut response = body_of("text/event-stream", Body::from_stream(events));
    // Proxies must not collect the events.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
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
    stream: Stream,
    /// The last change that was sent or skipped.
    sent: u64,
    /// Up to this change, all that the memory has is sent, however many they are in a second.
    resumed: u64,
    second: Second,
    states: Interval,
    /// What is to be sent next.
    ready: VecDeque<Bytes>,
}

impl Events {
    fn new(app: Arc<App>, stream: Stream, since: Option<u64>) -> Self {
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
        let mut states = interval_at(Instant::now(), SECOND);
        states.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let second = Second::new(app.settings.limits.changes_per_second);
        Self { app, stream, sent, resumed: last, second, states, ready }
    }

    /// Waits for what is sent next; `None` at shutdown.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // Later changes are seen by the next wait.
            let published = (*self.stream.published.borrow_and_update())?;
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            let wait = self.read(published).await;
            if !self.ready.is_empty() {
                continue;
            }
            let in_next_second = wait == Wait::NextSecond;
            tokio::select! {
                biased;
                // The publisher ends the stream later than this.
                () = self.app.shutdown.cancelled(), if in_next_second => return None,
                _ = self.states.tick() => return Some(self.state().await),
                () = tokio::time::sleep_until(self.second.end()), if in_next_second => {}
                changed = self.stream.published.changed(), if wait == Wait::Change => {
                    // The application, which this stream holds, publishes.
                    changed.ok()?;
                }
            }
        }
    }

    /// The state, with the identifier of the last change that was sent, skipped or not selected: a client can resume
    /// from it before its first change, and long after its last one.
    async fn state(&self) -> Bytes {
        match self.app.state_json().await {
            Ok(json) => format!("id: {}\nevent: state\ndata: {json}\n\n", self.sent).into(),
            Err(error) => comment(&error),
        }
    }

    /// Reads the next changes from the memory, until the last published one.
    async fn read(&mut self, published: u64) -> Wait {
        if self.second.renew() {
            self.skip();
        }
        let mut bytes = 0;
        while self.sent < published && self.ready.len() < BATCH {
            let (changes, dropped) = self.app.memory.after(self.sent, BATCH);
            if dropped > 0 {
                self.ready.push_back(gap(dropped, ""));
                self.sent += dropped;
            }
            if changes.is_empty() {
                return Wait::Change;
            }
            for change in changes {
                if change.id > published {
                    return Wait::Change;
                }
                if !self.stream.selected.has(&change, &key_of(&change)) {
                    self.sent = change.id;
                    continue;
                }
                if change.id > self.resumed && !self.second.take() {
                    return Wait::NextSecond;
                }
                self.sent = change.id;
                let event = match self.app.encoded(&change).await {
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
        Wait::Change
    }

    /// Skips the oldest of the changes that do not fit into the current second, and says how many they are.
    fn skip(&mut self) {
        if self.sent < self.resumed {
            return;
        }
        let (waiting, dropped) = self.app.memory.after(self.sent, usize::MAX);
        let waiting: Vec<_> =
            waiting.iter().filter(|change| self.stream.selected.has(change, &key_of(change))).collect();
        let excess = waiting.len().saturating_sub(self.second.left);
        if excess == 0 {
            return;
        }
        if dropped > 0 {
            self.ready.push_back(gap(dropped, ""));
        }
        let mut skipped: BTreeMap<usize, u64> = BTreeMap::new();
        for change in waiting.iter().take(excess) {
            *skipped.entry(change.informer).or_default() += 1;
            self.sent = change.id;
        }
        for (number, count) in skipped {
            let watched = self.app.watched(number);
            self.ready.push_back(gap(count, watched.as_ref().map_or("", |watched| watched.name())));
        }
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
