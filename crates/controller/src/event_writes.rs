//! The writes of events: those that wait, and the requests.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use kinformer_core::internal::with_causes;
use kinformer_leader_election::NotLeader;
use kube_client::client::Body;
use kube_client::{Client, Error};
use kube_core::params::{Patch, PatchParams, PostParams};
use kube_core::{Request, Resource, Status};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::event_metrics::{Loss, Pending};

/// Events that wait for the recorder's task, and events that wait for their request; further ones are dropped.
pub(crate) const QUEUED: usize = 1000;
/// The requests that run at a time.
pub(crate) const REQUESTS: usize = 8;
/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(30);
const ATTEMPTS: u32 = 12;
const RETRY: Duration = Duration::from_secs(10);
/// The longest `Retry-After`.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// An event that is to be written.
pub(crate) struct Write {
    pub(crate) event: Event,
    pub(crate) pending: Pending,
}

/// The object of an event: its kind, namespace, name and UID.
pub(crate) type Object = [Option<String>; 4];

/// The events that wait, in the order of each object.
#[derive(Default)]
pub(crate) struct Writes {
    /// While an event is being written, its object is here too, without that event.
    waiting: HashMap<Object, VecDeque<Write>>,
    /// The objects with events that wait, except those with an event that is being written.
    idle: VecDeque<Object>,
    /// All events, with those that are being written.
    len: usize,
}

impl Writes {
    pub(crate) fn is_full(&self) -> bool {
        self.len >= QUEUED
    }

    pub(crate) fn has_room_for_counts(&self) -> bool {
        self.len < QUEUED / 2
    }

    pub(crate) fn push(&mut self, write: Write) {
        self.len += 1;
        let ObjectReference { kind, namespace, name, uid, .. } =
            write.event.regarding.clone().unwrap_or_default();
        let object = [kind, namespace, name, uid];
        let idle = &mut self.idle;
        let of_object = self.waiting.entry(object).or_insert_with_key(|object| {
            idle.push_back(object.clone());
            VecDeque::new()
        });
        of_object.push_back(write);
    }

    /// Returns an event that may be written now. No other one of its object is returned until it is [done](Self::done).
    pub(crate) fn next(&mut self) -> Option<(Object, Write)> {
        let object = self.idle.pop_front()?;
        let write = self.waiting.get_mut(&object)?.pop_front()?;
        Some((object, write))
    }

    pub(crate) fn done(&mut self, object: Object) {
        self.len = self.len.saturating_sub(1);
        if self.waiting.get(&object).is_some_and(VecDeque::is_empty) {
            self.waiting.remove(&object);
        } else {
            self.idle.push_back(object);
        }
    }
}

/// A request that failed.
struct Failure {
    error: String,
    loss: Loss,
    /// When it may be repeated, if it may.
    retry: Option<Duration>,
}

/// Writes an event, with retries. Between two attempts, the other events have the permit.
pub(crate) async fn write(client: &Client, permits: &Semaphore, Write { event, pending }: Write) {
    let name = event.metadata.name.as_deref().unwrap_or_default();
    for attempt in 1..=ATTEMPTS {
        let result = {
            let _permit = permits.acquire().await; // it is never closed
            timeout(LIMIT, write_once(client, &event, attempt)).await
        };
        let no_response = || Failure {
            error: format!("no response within {LIMIT:?}"),
            loss: Loss::Failed,
            retry: Some(RETRY),
        };
        let Err(Failure { error, loss, retry }) = result.unwrap_or_else(|_| Err(no_response())) else {
            return pending.written();
        };
        match retry.filter(|_| attempt < ATTEMPTS) {
            Some(delay) => {
                tracing::debug!(event = name, error, "event not written; it is retried");
                sleep(delay).await;
            }
            None => {
                tracing::warn!(event = name, error, "event not written");
                return pending.lost(loss);
            }
        }
    }
}

async fn write_once(client: &Client, event: &Event, attempt: u32) -> Result<(), Failure> {
    let request = Request::new(Event::url_path(&(), event.metadata.namespace.as_deref()));
    if let (Some(series), Some(name)) = (&event.series, &event.metadata.name) {
        let patch = Patch::Merge(serde_json::json!({ "series": series }));
        let patch = request.patch(name, &PatchParams::default(), &patch).map_err(not_built)?;
        match send(client, patch).await {
            Err((404, _)) => {} // it has expired
            result => return result.map_err(|(_, failure)| failure),
        }
    }
    let body = serde_json::to_vec(event).map_err(not_built)?;
    let create = request.create(&PostParams::default(), body).map_err(not_built)?;
    match send(client, create).await {
        // An earlier attempt took effect without a response.
        Err((409, _)) if event.series.is_none() && attempt > 1 => Ok(()),
        // The event was created after the patch had not found it.
        Err((409, failure)) if event.series.is_some() => Err(Failure { retry: Some(RETRY), ..failure }),
        result => result.map_err(|(_, failure)| failure),
    }
}

/// Sends a request. A failure has the status code of the response, 409 only if the name is taken, or 0.
async fn send(client: &Client, request: http::Request<Vec<u8>>) -> Result<(), (u16, Failure)> {
    let unreachable = |error| (0, not_sent(&error));
    let response = client.send(request.map(Body::from)).await.map_err(unreachable)?;
    let code = response.status().as_u16();
    let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let is_success = response.status().is_success();
    let body = response.into_body().collect_bytes().await.map_err(unreachable)?;
    if is_success {
        return Ok(());
    }
    let status: Option<Status> = serde_json::from_slice(&body).ok();
    // Another conflict, such as that of a quota, says nothing about the event.
    let exists = status.as_ref().is_some_and(|status| status.reason == "AlreadyExists");
    let is_conflict = code == 409 && !exists;
    let seconds = status.as_ref().and_then(|status| status.details.as_ref()).map(|of| of.retry_after_seconds);
    let after = header.or(seconds.map(u64::from)).filter(|seconds| *seconds > 0);
    let message = status.map(|status| status.message).unwrap_or_default();
    let may_pass = code == 429 || code >= 500 || is_conflict;
    let failure = Failure {
        error: format!("{code}: {message}"),
        loss: if may_pass { Loss::Failed } else { Loss::Refused },
        retry: may_pass.then(|| after.map_or(RETRY, Duration::from_secs).min(LONGEST_RETRY)),
    };
    let code = if is_conflict { 0 } else { code };
    Err((code, failure))
}

/// The failure of a request that had no response.
fn not_sent(error: &Error) -> Failure {
    let (loss, retry) = match NotLeader::of(error) {
        Some(_) => (Loss::NotLeader, None),
        None => (Loss::Failed, Some(RETRY)),
    };
    Failure { error: with_causes(error), loss, retry }
}

fn not_built(error: impl std::error::Error + 'static) -> Failure {
    Failure { error: with_causes(&error), loss: Loss::Refused, retry: None }
}
