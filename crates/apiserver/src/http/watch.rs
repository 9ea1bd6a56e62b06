//! Watches: a stream of lines, one per event.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::http::{HeaderValue, Request, StatusCode};
use bytes::Bytes;
use futures::stream;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::api::{ListItem, selects, write_object};
use crate::conversion::Unreadable;
use crate::faults::{Kind as FaultKind, RequestFaults};
use crate::metrics::Open;
use crate::registry::Resource;
use crate::selectors::Selection;
use crate::status::Status;
use crate::storage::{Event, EventType, FRAME_END, Next, Stored, Watcher, write_json};
use crate::table::{self, Columns, IncludeObject};

use super::answer::{self, Answer};
use super::binary;
use super::context::Context;
use super::conversion;
use super::list::objects_from;
use super::negotiate::{self, Encoding, Form, Representation};
use super::params::ListParams;
use super::request::{Query, Target};
use super::serialized::{write_malformed, write_metadata};

/// The size of a chunk when many events are waiting.
const PIECE: usize = 64 * 1024;
/// The lifetime of a watch without a timeout: between this and twice this. Follows Kubernetes 1.37.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

pub(super) async fn answer(
    context: &Arc<Context>,
    request: &Request<Incoming>,
    query: &Query,
    target: &Target,
    resource: Arc<Resource>,
    mut faults: RequestFaults,
) -> Result<Answer, Status> {
    let representation = negotiate::representation(request.headers(), context.offers_for(&resource))?;
    let include = IncludeObject::parse(query.get("includeObject"))?;
    let params = ListParams::parse(context.shards, query, target, &resource, true)?;
    let mut start = start(&params, &resource, &mut faults)?;
    let source = resource.is_converted().then(|| resource.clone());
    start.initial.retain(|stored| params.selection.reads(stored.key()));
    let resource = start.in_version(context, resource).await;
    start.initial.retain(|stored| selects(&params.selection, &resource, stored));
    let Start { from, initial, failure, hidden_up_to } = start;
    let timeout = params.timeout_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
    let watch_list = params.initial_events == Some(true) && params.bookmarks;
    let watch = Watch {
        watcher: Watcher::new(resource.store.clone(), from),
        source,
        events: Vec::new(),
        encoder: Encoder {
            resource,
            representation,
            include,
            context: context.clone(),
            columns: Columns::Shown,
        },
        selection: params.selection,
        initial,
        initial_end: watch_list.then_some(from),
        failure,
        hidden_up_to,
        bookmarks: params.bookmarks.then_some(context.bookmark_interval),
        next_bookmark: Box::pin(tokio::time::sleep(context.bookmark_interval)),
        deadline: Box::pin(tokio::time::sleep(timeout.unwrap_or_else(default_timeout))),
        ended: Box::pin(context.watch_token().cancelled_owned()),
        shutdown: context.shutdown.clone(),
        fault_changes: context.faults.changes(),
        faults,
        sent: 0,
        truncating: false,
        over: false,
        context: context.clone(),
        _open: Open::count(&context.counters, |counters| &counters.open_watches),
    };
    let pieces = stream::unfold(watch, |mut watch| async move {
        let piece = watch.piece().await?;
        Some((piece, watch))
    });
    let body = answer::stream_of(pieces);
    Ok(answer::with_body(StatusCode::OK, content_type(representation.encoding), body))
}

fn content_type(encoding: Encoding) -> HeaderValue {
    HeaderValue::from_static(match encoding {
        Encoding::Json => "application/json",
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
    })
}

/// Where a watch starts, and what it sends first.
struct Start {
    from: u64,
    initial: VecDeque<Arc<Stored>>,
    failure: Option<Status>,
    hidden_up_to: u64,
}

impl Start {
    /// Converts the objects. Returns the resource for these.
    async fn in_version(&mut self, context: &Context, resource: Arc<Resource>) -> Arc<Resource> {
        if !resource.is_converted() {
            return resource;
        }
        let states = self.initial.drain(..).map(|stored| (EventType::Added, stored)).collect();
        let (states, failures) = conversion::states(context, &resource, states, 1).await;
        self.initial.extend(states);
        self.failure = failures.into_iter().next().map(conversion_error);
        Arc::new(resource.of_converted())
    }
}

fn start(params: &ListParams, resource: &Resource, faults: &mut RequestFaults) -> Result<Start, Status> {
    let current = resource.store.version();
    let requested = params.version.unwrap_or(0);
    let mut start = Start { from: requested, initial: VecDeque::new(), failure: None, hidden_up_to: 0 };
    if params.initial_events == Some(true) {
        if requested > current {
            return Err(Status::too_large_version(requested, current));
        }
        let snapshot = resource.store.snapshot();
        start.initial = objects_from(&snapshot, None, &params.selection.namespace).cloned().collect();
        start.from = snapshot.version;
    } else if requested == 0 {
        start.from = current;
    } else {
        let oldest = resource.store.oldest();
        if requested < oldest {
            start.failure = Some(too_old(requested, oldest));
        } else if requested > current {
            start.hidden_up_to = requested;
            if !faults.accepts_future_version() {
                start.failure = Some(never_issued(requested, current));
            }
        }
    }
    Ok(start)
}

fn too_old(requested: u64, oldest: u64) -> Status {
    Status::expired(format!("too old resource version: {requested} ({oldest})"))
}

fn never_issued(requested: u64, current: u64) -> Status {
    Status::expired(format!(
        "resource version {requested} was never issued by this server, which is at {current}"
    ))
}

/// The error that ends a watch. Follows Kubernetes 1.37 (`etcd3.transformErrorToEvent`).
fn conversion_error(failure: Unreadable) -> Status {
    Status::internal(failure.error.message())
}

fn default_timeout() -> Duration {
    // Randomized, so that the watches of a client do not end together.
    let spread = u32::from(uuid::Uuid::new_v4().as_bytes().first().copied().unwrap_or(0));
    MIN_TIMEOUT + MIN_TIMEOUT * spread / 256
}

struct Watch {
    watcher: Watcher,
    /// The resource whose objects a webhook converts; `None` if none does.
    source: Option<Arc<Resource>>,
    /// Events and objects that have been read and not yet sent, in reverse order.
    events: Vec<Arc<Event>>,
    encoder: Encoder,
    selection: Selection,
    initial: VecDeque<Arc<Stored>>,
    /// The version of the bookmark that ends the initial events, until it has been sent.
    initial_end: Option<u64>,
    failure: Option<Status>,
    /// The start version of the watch, if it was never issued. No bookmark is at or below it.
    hidden_up_to: u64,
    bookmarks: Option<Duration>,
    next_bookmark: Pin<Box<Sleep>>,
    deadline: Pin<Box<Sleep>>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    shutdown: CancellationToken,
    fault_changes: tokio::sync::watch::Receiver<u64>,
    faults: RequestFaults,
    sent: u64,
    /// Half a frame has been sent; the connection will be broken.
    truncating: bool,
    over: bool,
    context: Arc<Context>,
    _open: Open,
}

impl Watch {
    /// Returns the next bytes; `None` at a clean end.
    async fn piece(&mut self) -> Option<Result<Bytes, io::Error>> {
        if self.truncating {
            // The half frame must be sent before the connection is broken.
            answer::written().await;
            self.over = true;
            self.truncating = false;
            return Some(Err(answer::broken_off()));
        }
        if self.over {
            return None;
        }
        loop {
            // What was read before the failure is sent first.
            if self.initial.is_empty()
                && self.events.is_empty()
                && let Some(status) = self.failure.take()
            {
                self.over = true;
                return Some(Ok(self.encoder.error(&status)));
            }
            match self.faults.stream_fault(self.sent) {
                Some(FaultKind::Truncate) => {
                    self.truncating = true;
                    return Some(Ok(self.encoder.half_a_frame()));
                }
                Some(FaultKind::Stall) => {
                    self.shutdown.cancelled().await;
                    return None;
                }
                Some(_) => {
                    self.over = true;
                    let oldest = self.watcher.cursor();
                    return Some(Ok(self.encoder.error(&too_old(oldest.saturating_sub(1), oldest))));
                }
                None => {}
            }
            let mut out = Vec::new();
            self.write_initial(&mut out);
            if !out.is_empty() {
                return Some(Ok(out.into()));
            }
            if let Some(piece) = self.write_events() {
                return Some(Ok(piece));
            }
            if let ControlFlow::Break(last) = self.wait().await {
                return last.map(Ok);
            }
        }
    }

    /// Waits until there may be something to send. Returns a bookmark, or `None` at a clean end.
    async fn wait(&mut self) -> ControlFlow<Option<Bytes>> {
        tokio::select! {
            // Timers are polled first: under a steady flow of events, later branches are never polled.
            biased;
            () = &mut self.ended => return ControlFlow::Break(None),
            () = &mut self.deadline => return ControlFlow::Break(None),
            () = &mut self.next_bookmark => {
                let interval = self.bookmarks.unwrap_or(self.context.bookmark_interval);
                self.next_bookmark.as_mut().set(tokio::time::sleep(interval));
                // Everything up to here has been sent; events that are read now come after the bookmark.
                let mut version = self.watcher.cursor();
                if self.watcher.catch_up(&mut self.events).is_ok() && self.events.is_empty() {
                    version = self.watcher.cursor();
                }
                self.convert().await;
                self.events.reverse();
                let hidden = version <= self.hidden_up_to;
                if self.bookmarks.is_some() && !hidden && !self.faults.drops_bookmark(self.sent) {
                    return ControlFlow::Break(Some(self.encoder.bookmark(version, false)));
                }
            }
            next = self.watcher.next(&mut self.events) => match next {
                Next::Events => {
                    self.convert().await;
                    self.events.reverse();
                }
                Next::Nothing => {}
                Next::Closed => return ControlFlow::Break(None),
                Next::Overtaken => {
                    // kube-apiserver ends the stream without an error; the next request of the client fails because
                    // its version is too old.
                    self.context.counters.watches_overtaken.fetch_add(1, Ordering::AcqRel);
                    return ControlFlow::Break(None);
                }
            },
            _ = self.fault_changes.changed() => {}
        }
        ControlFlow::Continue(())
    }

    /// Converts the events that have been read. After an error there are only those before it.
    async fn convert(&mut self) {
        let Some(source) = &self.source else { return };
        let mut events = std::mem::take(&mut self.events);
        events.retain(|event| self.selection.reads(event.object.key()));
        let needs_previous = !self.selection.has_no_selector();
        let states = events.iter().flat_map(|event| {
            let previous = event.previous.clone().filter(|_| needs_previous);
            std::iter::once(event.object.clone()).chain(previous).map(|state| (event.event_type, state))
        });
        let states = states.collect();
        let (states, failures) = conversion::states(&self.context, source, states, 1).await;
        self.failure = failures.into_iter().next().map(conversion_error);
        let mut states = states.into_iter();
        for event in events {
            let Some(object) = states.next() else { break };
            let previous = match &event.previous {
                Some(_) if needs_previous => {
                    let Some(previous) = states.next() else { break };
                    Some(previous)
                }
                previous => previous.clone(),
            };
            self.events.push(Arc::new(Event::new(event.event_type, object, previous)));
        }
    }

    fn write_initial(&mut self, out: &mut Vec<u8>) {
        while out.len() < PIECE
            && let Some(stored) = self.initial.pop_front()
        {
            let faulty = self.faults.corrupts_object(self.sent);
            self.encoder.frame(out, EventType::Added, &stored, faulty);
            self.count();
            if self.faults.are_armed() {
                break;
            }
        }
        if self.initial.is_empty()
            && self.failure.is_none()
            && let Some(version) = self.initial_end.take()
            && !self.faults.drops_bookmark(self.sent)
        {
            out.extend_from_slice(&self.encoder.bookmark(version, true));
        }
    }

    /// Moves waiting events into a chunk. A single event that is served as it is stored, and has no shared parts, is not
    /// copied: all watches send the same bytes.
    fn write_events(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        while out.len() < PIECE
            && let Some(event) = self.events.pop()
        {
            let Some((event_type, object)) = self.translate(&event) else { continue };
            let as_stored = event_type == event.event_type && self.encoder.is_plain();
            let faulty = self.faults.corrupts_object(self.sent);
            let twice = self.faults.duplicates_event(self.sent);
            if as_stored && !faulty {
                let frame = object.frame();
                self.count();
                if out.is_empty() && self.events.is_empty() && !twice {
                    return Some(frame);
                }
                out.extend_from_slice(&frame);
                if twice {
                    out.extend_from_slice(&frame);
                }
                // A fault that fires after some events needs its place between them.
                if self.faults.are_armed() {
                    break;
                }
                continue;
            }
            for _ in 0..=u8::from(twice) {
                self.encoder.frame(&mut out, event_type, &object, faulty);
                self.count();
            }
            if self.faults.are_armed() {
                break;
            }
        }
        (!out.is_empty()).then(|| out.into())
    }

    fn selects(&self, object: &Stored) -> bool {
        selects(&self.selection, &self.encoder.resource, object)
    }

    fn count(&mut self) {
        self.sent += 1;
        self.context.counters.events_sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Converts an event for this watch: an object that starts to match has been added, and one that no longer
    /// matches has been deleted. Follows Kubernetes 1.37 (`cacher.convertToWatchEvent`).
    fn translate(&self, event: &Event) -> Option<(EventType, Arc<Stored>)> {
        let before = event.previous.as_ref().is_some_and(|previous| self.selects(previous));
        if event.event_type == EventType::Deleted {
            return before.then(|| (EventType::Deleted, event.object.clone()));
        }
        match (before, self.selects(&event.object)) {
            (false, false) => None,
            (false, true) => Some((EventType::Added, event.object.clone())),
            (true, true) => Some((EventType::Modified, event.object.clone())),
            (true, false) => {
                let fields = self.encoder.resource.store.fields();
                event.left_view(fields).map(|view| (EventType::Deleted, view.clone()))
            }
        }
    }
}

/// The requested serialization of a watch.
struct Encoder {
    resource: Arc<Resource>,
    representation: Representation,
    include: IncludeObject,
    context: Arc<Context>,
    /// Only the first table has the column definitions.
    columns: Columns,
}

impl Encoder {
    /// Whether objects are sent as they are stored.
    fn is_plain(&self) -> bool {
        self.representation == Representation::OBJECTS && self.resource.serves_as_stored()
    }

    /// Appends the frame of an event.
    fn frame(&mut self, out: &mut Vec<u8>, event_type: EventType, object: &Stored, is_malformed: bool) {
        let Representation { form, encoding, managed_fields } = self.representation;
        if encoding == Encoding::Protobuf {
            let message = if is_malformed {
                binary::malformed_message(object)
            } else {
                binary::message(&self.resource, object, form, managed_fields)
            };
            binary::write_frame(out, event_type, &self.resource, &message, form);
            return;
        }
        out.extend_from_slice(event_type.frame_start());
        if is_malformed {
            write_malformed(out, &self.resource, object);
        } else {
            self.write(out, object);
        }
        out.extend_from_slice(FRAME_END);
    }

    fn half_a_frame(&self) -> Bytes {
        Bytes::from_static(match self.representation.encoding {
            Encoding::Json => b"{\"type\":\"MODIFIED\",\"object\":{\"apiVersion\":\"v1\",\"ki",
            // The length prefix announces a hundred bytes.
            Encoding::Protobuf => b"\0\0\0\x64\x0a\x08MODIFIED\x12\x58\x0a\x56k8s\0",
        })
    }

    fn other(&self, event: &str, object: &Value) -> Bytes {
        if self.representation.encoding == Encoding::Protobuf {
            return binary::json_frame(event, object);
        }
        let mut out = Vec::new();
        write_json(&mut out, &json!({"type": event, "object": object}));
        out.push(b'\n');
        out.into()
    }

    fn error(&self, status: &Status) -> Bytes {
        self.other("ERROR", &status.to_json())
    }

    fn write(&mut self, out: &mut Vec<u8>, object: &Stored) {
        let Representation { form, managed_fields, .. } = self.representation;
        match form {
            Form::Objects => write_object(out, &self.resource, object, ListItem::No, managed_fields),
            Form::Metadata => write_metadata(out, object, managed_fields),
            Form::Table => {
                let metadata = json!({"resourceVersion": object.version().to_string()});
                let table =
                    table::of(&self.resource, std::iter::once(object), self.include, &self.context.api.clock);
                let columns = std::mem::replace(&mut self.columns, Columns::Left);
                write_json(out, &table.to_json(metadata, columns));
            }
        }
    }

    fn bookmark(&self, version: u64, ends_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if ends_initial && let Some(map) = metadata.as_object_mut() {
            map.insert("annotations".into(), json!({"k8s.io/initial-events-end": "true"}));
        }
        let kind = &self.resource.kind;
        let form = self.representation.form;
        let mut object = match form {
            Form::Objects => json!({"kind": kind.kind, "apiVersion": kind.api_version()}),
            Form::Metadata => json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}),
            Form::Table => {
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": []})
            }
        };
        if let Some(map) = object.as_object_mut() {
            map.insert("metadata".into(), metadata);
            // kube-apiserver serializes an empty Go value here, and strictly typed clients depend on these fields.
            if form == Form::Objects && kind.is("", "pods") {
                map.insert("spec".into(), json!({"containers": null}));
                map.insert("status".into(), json!({}));
            }
        }
        self.other("BOOKMARK", &object)
    }
}
