//! Events: a recorder that reports what a controller did about an object, as shown by `kubectl describe`.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_client::{Api, Client, Error};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Events that wait for the recorder's task, and events that wait for their request; further ones are dropped.
const QUEUED: usize = 1000;
/// An event that was not repeated for this long is finished.
const FINISH: Duration = Duration::from_secs(6 * 60);
/// How often a series is written while it goes on.
const REFRESH: Duration = Duration::from_secs(30 * 60);
const ATTEMPTS: u32 = 12;
const RETRY: Duration = Duration::from_secs(10);
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

/// Writes events (`events.k8s.io/v1`) from a task of its own. Cheap to clone; the task ends with the last clone, without
/// the events that wait. [`Self::shutdown`] writes these.
///
/// The first of several equal events is written at once. The second one makes it a series with a count, which is written
/// too; later ones are counted, and the count is written every 30 minutes, and when the series has had no event for 6
/// minutes. Events are equal if their object with its resource version, type, reason and action are equal.
///
/// One request runs at a time. A request that did not reach the API server is repeated every 10 s, 12 times at most.
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
#[derive(Clone)]
pub struct EventRecorder {
    sender: mpsc::Sender<Event>,
    dropped: Arc<AtomicU64>,
    reporter: Arc<(String, String)>,
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
    pub fn new(client: Client, controller: impl Into<String>, instance: impl Into<String>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUED);
        let dropped = Arc::new(AtomicU64::new(0));
        let series = Series { seen: HashMap::new(), writes: VecDeque::new(), dropped: dropped.clone() };
        let (closing, ended) = (CancellationToken::new(), CancellationToken::new());
        let (requested, on_end) = (closing.clone(), ended.clone().drop_guard());
        let task = tokio::spawn(async move {
            let _on_end = on_end;
            run(client, receiver, series, requested).await;
        });
        let task = Arc::new(AbortOnDropHandle::new(task));
        Self {
            sender,
            dropped,
            reporter: Arc::new((controller.into(), instance.into())),
            closing,
            ended,
            task,
        }
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
        let now = Timestamp::now();
        let mut event = Event {
            action: Some(action.to_owned()),
            event_time: Some(MicroTime(now)),
            note: note.get(..note.floor_char_boundary(NOTE)).map(str::to_owned),
            reason: Some(reason.to_owned()),
            regarding: Some(object.clone()),
            reporting_controller: Some(self.reporter.0.clone()),
            reporting_instance: Some(self.reporter.1.clone()),
            type_: Some(event_type.as_str().to_owned()),
            ..Event::default()
        };
        let of = name_prefix(object.name.as_deref().unwrap_or_default());
        event.metadata.name = Some(format!("{of}.{:x}", now.as_nanosecond()));
        let namespace = object.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        event.metadata.namespace = Some(namespace.unwrap_or("default").to_owned());
        if self.sender.try_send(event).is_err() {
            drop_one(&self.dropped);
        }
    }

    /// Writes the events that wait and the last counts of series, then ends the task, after the limit at the latest. Returns
    /// whether the limit was kept; if not, events may be lost. Call it when the controllers have ended: events that are
    /// reported later are dropped and counted, also by other clones.
    ///
    /// ```no_run
    /// # async fn example(recorder: kinformer_controller::events::EventRecorder) {
    /// if !recorder.shutdown(std::time::Duration::from_secs(5)).await {
    ///     eprintln!("the last events were not written");
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

    /// Returns how many events were dropped because too many waited, or the recorder was shut down.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRecorder")
            .field("reporter", &self.reporter)
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}

/// Counts a dropped event; logs the first, second, fourth, eighth and so on.
fn drop_one(dropped: &AtomicU64) {
    let dropped = dropped.fetch_add(1, Ordering::Relaxed) + 1;
    if dropped.is_power_of_two() {
        tracing::warn!(dropped, "event dropped; too many wait");
    }
}

/// The fields that equal events have in common. The reporter is that of the recorder.
type Identity = Vec<Option<String>>;

fn identity(event: &Event) -> Identity {
    let object = event.regarding.clone().unwrap_or_default();
    let ObjectReference { api_version, field_path, kind, name, namespace, resource_version, uid } = object;
    let object = [api_version, field_path, kind, name, namespace, resource_version, uid];
    [event.type_.clone(), event.reason.clone(), event.action.clone()].into_iter().chain(object).collect()
}

struct Seen {
    event: Event,
    last: Instant,
}

/// The events that may be repeated, and those that are to be written.
struct Series {
    seen: HashMap<Identity, Seen>,
    writes: VecDeque<Event>,
    dropped: Arc<AtomicU64>,
}

impl Series {
    fn observe(&mut self, event: Event) {
        let identity = identity(&event);
        let last = Instant::now();
        let Some(seen) = self.seen.get_mut(&identity) else {
            // Without a write it is not kept, so that the number of kept events is bounded by the rate of writes.
            if self.write(event.clone()) {
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
            self.write(event);
        }
    }

    /// Returns whether the event will be written.
    fn write(&mut self, event: Event) -> bool {
        let has_place = self.writes.len() < QUEUED;
        if has_place {
            self.writes.push_back(event);
        } else {
            drop_one(&self.dropped);
        }
        has_place
    }

    /// Forgets events that were not repeated, and writes the last count of their series.
    fn finish(&mut self) {
        let finished: Vec<_> = self.seen.extract_if(|_, seen| seen.last.elapsed() >= FINISH).collect();
        for (_, Seen { event, .. }) in finished {
            if event.series.is_some() {
                self.write(event);
            }
        }
    }

    /// Writes the counts of all series.
    fn refresh(&mut self) {
        let series: Vec<_> = self.seen.values().map(|seen| &seen.event).cloned().collect();
        series.into_iter().filter(|event| event.series.is_some()).for_each(|event| {
            self.write(event);
        });
    }
}

/// The beginning of an event's name: the name of its object, or `event` if that is no DNS name, such as `system:node`.
fn name_prefix(object: &str) -> &str {
    let end = object.floor_char_boundary(230); // of 253
    let name = object.get(..end).unwrap_or_default().trim_end_matches(['.', '-']);
    let is_label = |label: &str| {
        let is_dash_free = !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
        is_dash_free && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    if name.split('.').all(is_label) { name } else { "event" }
}

/// Receives events, and writes one at a time, until the end is requested and everything is written.
async fn run(
    client: Client,
    mut receiver: mpsc::Receiver<Event>,
    mut series: Series,
    closing: CancellationToken,
) {
    let mut is_last = false;
    let mut finish = interval_at(Instant::now() + FINISH, FINISH);
    let mut refresh = interval_at(Instant::now() + REFRESH, REFRESH);
    loop {
        let Some(event) = series.writes.pop_front() else {
            if is_last {
                return;
            }
            tokio::select! {
                biased;
                () = closing.cancelled(), if !receiver.is_closed() => receiver.close(),
                _ = finish.tick() => series.finish(),
                _ = refresh.tick() => series.refresh(),
                event = receiver.recv() => match event {
                    Some(event) => series.observe(event),
                    None => {
                        series.refresh();
                        is_last = true;
                    }
                },
            }
            continue;
        };
        let mut write = std::pin::pin!(write(&client, event));
        loop {
            tokio::select! {
                biased;
                () = &mut write => break,
                () = closing.cancelled(), if !receiver.is_closed() => receiver.close(),
                _ = finish.tick() => series.finish(),
                _ = refresh.tick() => series.refresh(),
                Some(event) = receiver.recv() => series.observe(event),
            }
        }
    }
}

/// Writes an event, with retries.
async fn write(client: &Client, event: Event) {
    for attempt in 1..=ATTEMPTS {
        let Err(error) = write_once(client, &event).await else { return };
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let may_pass = match &error {
            // The event was created after the patch had not found it.
            Error::Api(status) => status.code == 409 && event.series.is_some(),
            Error::SerdeError(_) | Error::BuildRequest(_) => false,
            _ => true,
        };
        if !may_pass || attempt == ATTEMPTS {
            tracing::warn!(event = name, %error, "event not written");
            return;
        }
        tracing::debug!(event = name, %error, "event not written; it is retried");
        sleep(RETRY).await;
    }
}

async fn write_once(client: &Client, event: &Event) -> Result<(), Error> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    if let (Some(series), Some(name)) = (&event.series, &event.metadata.name) {
        let patch = serde_json::json!({ "series": series });
        match api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(Error::Api(status)) if status.code == 404 => {} // it has expired
            result => return result.map(drop),
        }
    }
    api.create(&PostParams::default(), event).await.map(drop)
}
