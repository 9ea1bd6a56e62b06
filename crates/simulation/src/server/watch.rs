//! Watches and watch-lists.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::encoding::Encoding;
use super::faults::Damage;
use super::history::{Change, History};
use super::request::Query;
use super::state::{Connection, Shared, State};
use super::status::Status;

/// A last bookmark is sent this long before the end. Follows kube-apiserver 1.37 (`nextBookmarkTime`).
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// A watch of a server's cache.
pub(crate) struct Watch {
    query: Query,
    encoding: Encoding,
    connection: Connection,
    /// The requested version. No bookmark is below it.
    from: u64,
    /// Events up to this version are sent, or below the requested version, where they are never sent.
    sent: u64,
    until: Instant,
    /// `None` without bookmarks.
    next_bookmark: Option<Instant>,
    /// When the initial events end with a bookmark; `None` if they have ended.
    initial_end: Option<Instant>,
    /// The damage of the next event.
    damage: Option<Damage>,
}

/// The longest time in which the initial events do not end, and other events follow them. kube-apiserver ends them when its
/// cache has reached the version that was the newest at the request.
const LONGEST_INITIAL: u64 = 3_000;

/// What a watch does next.
pub(crate) enum Step {
    Lines(Vec<u8>),
    Broken,
    Ended,
}

impl Watch {
    /// Starts a watch. Returns it with its first lines.
    pub(crate) async fn start(
        shared: &Shared,
        connection: Connection,
        query: Query,
    ) -> Result<(Self, Vec<u8>), Refusal> {
        let number = |name| query.number(name).map_err(Refusal::Status);
        let (version, timeout) = (number("resourceVersion")?, number("timeoutSeconds")?);
        let initial = query.flag("sendInitialEvents");
        check(&query, shared.options.watch_lists).map_err(Refusal::Status)?;
        if initial {
            let newest = shared.cluster.read(History::newest);
            shared.fresh(version.unwrap_or(newest)).await.map_err(Refusal::Event)?;
        }
        let bookmarks = query.flag("allowWatchBookmarks");
        let encoding = query.encoding(shared.options.protobuf);
        let now = Instant::now();
        shared.with(|state, history| {
            let timeout = timeout.unwrap_or_else(|| state.rng.u64(1_800..3_600));
            let until = now + Duration::from_secs(timeout);
            let next_bookmark =
                bookmarks.then(|| bookmark_after(now, until, shared.options.bookmark_interval));
            let position = state.cache.position();
            let mut lines = Vec::new();
            let sent = match version {
                Some(version) if version > 0 && !initial => {
                    if version < state.cache.dropped() {
                        return Err(Refusal::Event(Status::too_old_watch(version, state.cache.dropped())));
                    }
                    version
                }
                _ => {
                    for (key, object) in history.objects_at(position) {
                        if query.has_key(key) && query.matches(object) {
                            encoding.event(&mut lines, "ADDED", &query.object(object));
                        }
                    }
                    position
                }
            };
            let initial_end = (initial && bookmarks).then(|| {
                let time = if state.rng.bool() { 0 } else { state.rng.u64(..LONGEST_INITIAL) };
                now + Duration::from_millis(time)
            });
            let (from, damage) = (sent, None);
            let watch =
                Self { query, encoding, connection, from, sent, until, next_bookmark, initial_end, damage };
            Ok((watch, lines))
        })
    }

    /// Switches the bookmarks off.
    pub(crate) fn without_bookmarks(mut self) -> Self {
        self.next_bookmark = None;
        self
    }

    /// Damages the next event.
    pub(crate) fn damaged(mut self, damage: Damage) -> Self {
        self.damage = Some(damage);
        self
    }

    /// Waits until there is something to send.
    pub(crate) async fn next(&mut self, shared: &Shared) -> Step {
        loop {
            let changed = shared.cluster.next_change();
            if shared.connection() != self.connection {
                return Step::Broken;
            }
            let now = Instant::now();
            let (lines, next_change) = shared.with(|state, history| {
                (self.lines(shared, state, history, now), state.cache.next_change(history))
            });
            if !lines.is_empty() {
                return Step::Lines(lines);
            }
            if now >= self.until {
                return Step::Ended;
            }
            let times = [Some(self.until), self.initial_end.or(self.next_bookmark), next_change];
            let next = times.into_iter().flatten().min().unwrap_or(self.until);
            let _ = timeout_at(next, changed).await;
        }
    }

    /// Returns the lines that are due.
    fn lines(&mut self, shared: &Shared, state: &mut State, history: &History, now: Instant) -> Vec<u8> {
        let position = state.cache.position();
        let mut lines = Vec::new();
        for change in history.changes_after(self.sent).take_while(|change| change.version <= position) {
            let Some((name, object)) = self.event(change) else { continue };
            match self.damage.take() {
                Some(damage) => damage.of_event(&mut lines, self.encoding, name, object),
                None => self.encoding.event(&mut lines, name, &object),
            }
        }
        self.sent = self.sent.max(position);
        if let Some(end) = self.initial_end {
            if end <= now {
                self.initial_end = None;
                state.list_sent(self.query.scope(), position);
                let annotations = json!({"k8s.io/initial-events-end": "true"});
                self.bookmark(&mut lines, position, Some(annotations));
            }
            return lines;
        }
        if self.next_bookmark.is_some_and(|next| next <= now) {
            self.next_bookmark = Some(bookmark_after(now, self.until, shared.options.bookmark_interval));
            if position > self.from {
                self.bookmark(&mut lines, position, None);
            }
        }
        lines
    }

    /// Returns the event of a change, unless the watch is for other objects.
    fn event(&self, change: &Change) -> Option<(&'static str, Value)> {
        if !self.query.has_key(&change.key) {
            return None;
        }
        let before = change.before.as_ref().filter(|object| self.query.matches(object));
        let after = change.after.as_ref().filter(|object| self.query.matches(object));
        match (before, after) {
            (None, Some(after)) => Some(("ADDED", self.query.object(after))),
            (Some(_), Some(after)) => Some(("MODIFIED", self.query.object(after))),
            (Some(before), None) => {
                let mut object = self.query.object(before);
                if let Some(version) = object.pointer_mut("/metadata/resourceVersion") {
                    *version = json!(change.version.to_string());
                }
                Some(("DELETED", object))
            }
            (None, None) => None,
        }
    }

    fn bookmark(&self, lines: &mut Vec<u8>, version: u64, annotations: Option<Value>) {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let (Some(annotations), Some(members)) = (annotations, metadata.as_object_mut()) {
            members.insert("annotations".into(), annotations);
        }
        self.encoding.event(lines, "BOOKMARK", &self.query.object(&json!({"metadata": metadata})));
    }
}

/// Why there is no watch.
pub(crate) enum Refusal {
    /// The request is wrong: an error response.
    Status(Status),
    /// The cache cannot serve the version: an event, if the server sends such errors as events.
    Event(Status),
}

/// Follows apimachinery 1.37 (`ValidateListOptions`).
fn check(query: &Query, watch_lists: bool) -> Result<(), Status> {
    let (initial, version_match) = (query.param("sendInitialEvents"), query.param("resourceVersionMatch"));
    match (initial, version_match) {
        ("", "") => Ok(()),
        ("", _) => Err(Status::invalid(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
        _ if !watch_lists => Err(Status::invalid(
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        )),
        (_, "NotOlderThan") => Ok(()),
        _ => Err(Status::invalid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")),
    }
}

/// The time of the next bookmark: after the interval, and once shortly before the end.
fn bookmark_after(now: Instant, until: Instant, interval: Duration) -> Instant {
    let next = now + interval;
    let last = until.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    last.map_or(next, |last| last.min(next))
}
