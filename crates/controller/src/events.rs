//! Events: a recorder that reports what a controller did about an object, as shown by `kubectl describe`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube_client::Client;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, interval_at, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use crate::event_metrics::EventMetrics;
use crate::event_metrics::{Counters, Loss, Pending};
use crate::event_writes::{Object, QUEUED, REQUESTS, Write, Writes, write};

/// An event that was not repeated for this long is finished.
const FINISH: Duration = Duration::from_secs(6 * 60);
/// How often a series is written while it goes on.
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// The most events that are kept to count their repetitions, and the most counts of series that wait.
const KEPT: usize = 10_000;
/// The longest note that the API server accepts.
const NOTE: usize = 1024;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

impl EventType {
    /// Returns the type as it is written in an event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event to [publish](EventRecorder::publish).
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use kinformer_controller::events::{EventRecorder, EventType, NewEvent};
/// use kube_core::Resource as _;
///
/// # fn example(recorder: &EventRecorder, config_map: &ConfigMap, pod: &Pod) {
/// let about = config_map.object_ref(&());
/// let created = NewEvent::new(&about, EventType::Normal, "SuccessfulCreate", "Reconcile", "created a pod");
/// recorder.publish(created.related(&pod.object_ref(&())).annotation("example.com/attempt", "1"));
/// # }
/// ```
#[must_use = "it is not published yet"]
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent(Event);

impl NewEvent {
    /// Creates an event about an object, as [`EventRecorder::event`] publishes it.
    pub fn new(
        object: &ObjectReference,
        event_type: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) -> Self {
        Self(Event {
            action: Some(action.to_owned()),
            note: note.get(..note.floor_char_boundary(NOTE)).map(str::to_owned),
            reason: Some(reason.to_owned()),
            regarding: Some(object.clone()),
            type_: Some(event_type.as_str().to_owned()),
            ..Event::default()
        })
    }

    /// Sets a second object, which the action has changed or needs.
    pub fn related(mut self, object: &ObjectReference) -> Self {
        self.0.related = Some(object.clone());
        self
    }

    /// Adds an annotation. A series has those of its first event.
    #[doc(alias = "AnnotatedEventRecorder")]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let annotations: &mut BTreeMap<_, _> = self.0.metadata.annotations.get_or_insert_default();
        annotations.insert(key.into(), value.into());
        self
    }
}

/// Writes events (`events.k8s.io/v1`) from a task of its own. Cheap to clone; the task ends with the last clone, without
/// the events that wait. [`Self::shutdown`] writes these.
///
/// The first of several equal events is written at once. The second one makes it a series with a count, which is written
/// too; later ones are counted, and the count is written every 30 minutes, and when the series has had no event for 6
/// minutes, or for longer than three quarters of 10,000 events. Events are equal if their object, related object, type, reason and action are equal, whatever the resource version
/// of the object: in client-go the version counts too, so that a controller that writes a status with each event has no series.
///
/// Up to 8 requests run at a time, those for one object in order. A request ends after 30 s. It is repeated if it did not reach
/// the API server, had no response, or was answered by 429, 5xx or a conflict: after the server's `Retry-After`, at most a minute, else
/// after 10 s, 12 times at most. [`Self::metrics`] counts the events that were not written.
///
/// The task needs the permissions `create` and `patch` for `events` of the group `events.k8s.io`. Give it a client without a
/// restriction to the leadership: with [that of an elector](kinformer_leader_election::LeaderElector::client), events are
/// refused as soon as the leadership has ended.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinformer_controller::events::{EventRecorder, EventType};
/// use kube_core::Resource as _;
///
/// # fn example(client: kube_client::Client, config_map: &ConfigMap) {
/// let recorder = EventRecorder::new(client, "example.com/my-controller", "my-controller-7d9f");
/// let object = config_map.object_ref(&());
/// recorder.event(&object, EventType::Warning, "InvalidReplicas", "Reconcile", "replicas is not a number");
/// # }
/// ```
///
/// Follows client-go 0.37 (`tools/events`), which has no rate limit of its own: `EventSourceObjectSpamFilter` belongs to the
/// recorder of core/v1. Unlike it, this one shortens notes to 1,024 bytes, which are the API server's limit.
#[doc(alias("EventBroadcaster", "EventBroadcasterAdapter", "EventRecorderLogger"))]
#[derive(Clone)]
pub struct EventRecorder {
    sender: mpsc::Sender<Write>,
    flushes: mpsc::Sender<Flush>,
    counters: Arc<Counters>,
    reporter: Arc<(String, String)>,
    /// Makes the names of events unique that have the same time.
    sequence: Arc<AtomicU32>,
    /// Requests the end of the task.
    closing: CancellationToken,
    /// The task has ended.
    ended: CancellationToken,
    task: Arc<AbortOnDropHandle<()>>,
}

impl EventRecorder {
    /// Starts the task. `controller` is the name of the controller, such as `example.com/my-controller`, `instance` that of
    /// the process, such as the name of its pod.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[doc(alias(
        "NewBroadcaster",
        "NewEventBroadcasterAdapter",
        "NewEventBroadcasterAdapterWithContext",
        "NewRecorder",
        "StartRecordingToSink"
    ))]
    pub fn new(client: Client, controller: impl Into<String>, instance: impl Into<String>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUED);
        let (flushes, requests) = mpsc::channel(1);
        let counters = Arc::new(Counters::default());
        let series = Series::new(counters.clone());
        let (closing, ended) = (CancellationToken::new(), CancellationToken::new());
        let (requested, on_end) = (closing.clone(), ended.clone().drop_guard());
        let task = tokio::spawn(async move {
            let _on_end = on_end;
            run(client, (receiver, requests), series, requested).await;
        });
        let task = Arc::new(AbortOnDropHandle::new(task));
        let reporter = Arc::new((controller.into(), instance.into()));
        Self { sender, flushes, counters, reporter, sequence: Arc::default(), closing, ended, task }
    }

    /// Reports an event about an object. `reason` and `action` are short and in CamelCase, such as `FailedCreate` and
    /// `Reconcile`; `note` is for people. Does not wait. The event is dropped and counted if 1,000 others wait.
    ///
    /// The namespace of the event is that of the object, and `default` for a cluster-scoped one.
    pub fn event(
        &self,
        object: &ObjectReference,
        event_type: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.publish(NewEvent::new(object, event_type, reason, action, note));
    }

    /// As [`Self::event`], for an event with a related object or annotations.
    pub fn publish(&self, event: NewEvent) {
        let (NewEvent(mut event), now) = (event, Timestamp::now());
        event.event_time = Some(MicroTime(now));
        event.reporting_controller = Some(self.reporter.0.clone());
        event.reporting_instance = Some(self.reporter.1.clone());
        let object = event.regarding.as_ref();
        let of = name_prefix(object.and_then(|object| object.name.as_deref()).unwrap_or_default());
        let namespace = object.and_then(|object| object.namespace.as_deref());
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("default").to_owned();
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        event.metadata.name = Some(format!("{of}.{:x}-{number:x}", now.as_nanosecond()));
        event.metadata.namespace = Some(namespace);
        let write = Write { event, pending: Pending::new(&self.counters) };
        match self.sender.try_send(write) {
            Ok(()) => {}
            Err(TrySendError::Full(write)) => write.pending.lost(Loss::QueueFull),
            Err(TrySendError::Closed(write)) => write.pending.lost(Loss::ShutDown),
        }
    }

    /// Writes the events that wait and the last counts of series, then ends the task, after the limit at the latest. Returns
    /// whether the limit was kept; if not, events may be lost. Call it when the controllers have ended, or give the recorder
    /// to [`Manager::events`](crate::Manager::events): events that are reported later are dropped and counted, also by other
    /// clones.
    ///
    /// ```no_run
    /// # async fn example(recorder: kinformer_controller::events::EventRecorder) {
    /// if !recorder.shutdown(std::time::Duration::from_secs(5)).await {
    ///     eprintln!("events were not written: {:?}", recorder.metrics());
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The first poll requests the end. If the future is dropped, the task continues without a limit until all is written.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.closing.cancel();
        let is_in_time = timeout(limit, self.ended.cancelled()).await.is_ok();
        self.task.abort();
        is_in_time
    }

    /// Writes the events that wait and the counts of series. Returns whether the limit was kept.
    pub(crate) async fn flush(&self, limit: Duration) -> bool {
        let (flush, written) = oneshot::channel();
        let flushed = async {
            _ = self.flushes.send(flush).await; // fails if the task has ended
            _ = written.await; // its drop is the answer
        };
        timeout(limit, flushed).await.is_ok()
    }

    /// Returns the numbers of written and of lost events.
    pub fn metrics(&self) -> EventMetrics {
        self.counters.read()
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn observed(&self) -> (Arc<str>, std::sync::Weak<Counters>) {
        (self.reporter.0.as_str().into(), Arc::downgrade(&self.counters))
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRecorder")
            .field("reporter", &self.reporter)
            .field("metrics", &self.metrics())
            .finish_non_exhaustive()
    }
}

/// The fields that equal events have in common. The reporter is that of the recorder.
type Identity = Vec<Option<String>>;

fn identity(event: &Event) -> Identity {
    let objects = [&event.regarding, &event.related].into_iter().flat_map(|object| {
        let ObjectReference { api_version, field_path, kind, name, namespace, uid, .. } =
            object.clone().unwrap_or_default();
        [api_version, field_path, kind, name, namespace, uid]
    });
    [event.type_.clone(), event.reason.clone(), event.action.clone()].into_iter().chain(objects).collect()
}

struct Seen {
    event: Event,
    last: Instant,
}

/// The events that may be repeated, and those that are to be written.
struct Series {
    seen: HashMap<Identity, Seen>,
    writes: Writes,
    /// The counts of series that are to be written when there is room.
    counts: VecDeque<Write>,
    counters: Arc<Counters>,
}

impl Series {
    fn new(counters: Arc<Counters>) -> Self {
        Self { seen: HashMap::new(), writes: Writes::default(), counts: VecDeque::new(), counters }
    }

    fn observe(&mut self, Write { event, pending }: Write) {
        let identity = identity(&event);
        let last = Instant::now();
        let Some(seen) = self.seen.get_mut(&identity) else {
            if self.write(event.clone(), pending) {
                self.make_room();
                self.seen.insert(identity, Seen { event, last });
            }
            return;
        };
        seen.last = last;
        let last_observed_time = event.event_time.unwrap_or(MicroTime(Timestamp::now()));
        let is_second = seen.event.series.is_none();
        let count = seen.event.series.as_ref().map_or(1, |series| series.count).saturating_add(1);
        seen.event.series = Some(EventSeries { count, last_observed_time });
        if is_second {
            let event = seen.event.clone();
            self.write(event, pending);
        } else {
            pending.merged();
        }
    }

    /// Returns whether the event will be written.
    fn write(&mut self, event: Event, pending: Pending) -> bool {
        if self.writes.is_full() {
            pending.lost(Loss::QueueFull);
            return false;
        }
        self.writes.push(Write { event, pending });
        true
    }

    /// If too many events are kept, finishes those that were not repeated for longest.
    fn make_room(&mut self) {
        if self.seen.len() < KEPT {
            return;
        }
        let mut times: Vec<_> = self.seen.values().map(|seen| seen.last).collect();
        let (_, &mut limit, _) = times.select_nth_unstable(KEPT / 4);
        self.finish(|seen| seen.last <= limit);
    }

    /// Forgets events, and writes the last counts of their series.
    fn finish(&mut self, is_finished: impl Fn(&Seen) -> bool) {
        let finished: Vec<_> = self.seen.extract_if(|_, seen| is_finished(seen)).collect();
        finished.into_iter().for_each(|(_, Seen { event, .. })| self.count(event));
    }

    /// Writes the counts of all series.
    fn refresh(&mut self) {
        let events: Vec<_> = self.seen.values().map(|seen| &seen.event).cloned().collect();
        events.into_iter().for_each(|event| self.count(event));
    }

    /// Writes the count of an event, if it is a series.
    fn count(&mut self, event: Event) {
        if event.series.is_none() {
            return;
        }
        let pending = Pending::new(&self.counters);
        if self.counts.len() < KEPT {
            self.counts.push_back(Write { event, pending });
        } else {
            pending.lost(Loss::QueueFull);
        }
    }

    /// Returns an event that may be written now. Counts take at most half of the room.
    fn next(&mut self) -> Option<(Object, Write)> {
        while self.writes.has_room_for_counts()
            && let Some(count) = self.counts.pop_front()
        {
            self.writes.push(count);
        }
        self.writes.next()
    }
}

/// The beginning of an event's name: the name of its object, or `event` if that is no DNS name, such as `system:node`.
fn name_prefix(object: &str) -> &str {
    let end = object.floor_char_boundary(220); // of 253, with the time and a number
    let name = object.get(..end).unwrap_or_default().trim_end_matches(['.', '-']);
    let is_label = |label: &str| {
        let is_dash_free = !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
        is_dash_free && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    if name.split('.').all(is_label) { name } else { "event" }
}

/// Dropped when the events that were reported before are written.
type Flush = oneshot::Sender<()>;

/// Receives events and writes them, until the end is requested and everything is written.
async fn run(
    client: Client,
    (mut receiver, mut requests): (mpsc::Receiver<Write>, mpsc::Receiver<Flush>),
    mut series: Series,
    closing: CancellationToken,
) {
    let permits = Semaphore::new(REQUESTS);
    let mut writing = FuturesUnordered::new();
    let mut flushes = Vec::new();
    let mut is_last = false;
    let mut finish = interval_at(Instant::now() + FINISH, FINISH);
    let mut refresh = interval_at(Instant::now() + REFRESH, REFRESH);
    loop {
        while let Some((object, next)) = series.next() {
            let written = write(&client, &permits, next);
            writing.push(async move {
                written.await;
                object
            });
        }
        if writing.is_empty() {
            if is_last {
                return;
            }
            flushes.clear();
        }
        tokio::select! {
            biased;
            Some(object) = writing.next() => series.writes.done(object),
            () = closing.cancelled(), if !receiver.is_closed() => receiver.close(),
            _ = finish.tick() => series.finish(|seen| seen.last.elapsed() >= FINISH),
            _ = refresh.tick() => series.refresh(),
            event = receiver.recv(), if !is_last => match event {
                Some(event) => series.observe(event),
                None => {
                    series.refresh();
                    is_last = true;
                }
            },
            // After the events that were reported before.
            Some(flush) = requests.recv() => {
                series.refresh();
                flushes.push(flush);
            }
        }
    }
}
