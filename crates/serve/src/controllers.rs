//! Controllers, as the server shows them. The program provides them.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::ring::RingView;
use crate::serialized::{optional_seconds, optional_time, seconds, time};

/// The provider of the controllers of a process: see [`ServerBuilder::controllers`](crate::ServerBuilder::controllers).
///
/// The functions are called for each request, at most two at a time, on threads for blocking work. A panic in one is
/// answered by 500 with its message. What they return is sent as it is, so each list needs a bound.
///
/// ```
/// use kinformer_serve::{ControllerView, Controllers, ReconciliationView, Server};
///
/// struct Ours;
///
/// impl Controllers for Ours {
///     fn controllers(&self) -> Vec<ControllerView> {
///         vec![ControllerView { name: "web".into(), state: "running".into(), ..ControllerView::default() }]
///     }
///
///     fn reconciliations(&self, _controller: &str, _key: &str) -> Vec<ReconciliationView> {
///         Vec::new()
///     }
/// }
///
/// let server = Server::builder().controllers(Ours);
/// # _ = server;
/// ```
pub trait Controllers: Send + Sync + 'static {
    /// The state of each controller, in the order in which they are shown. Names are not empty, and differ.
    fn controllers(&self) -> Vec<ControllerView>;

    /// The last reconciliations of a key, newest first; empty if none is known.
    fn reconciliations(&self, controller: &str, key: &str) -> Vec<ReconciliationView>;

    /// Who leads; `None` if there is no leader election.
    fn leadership(&self) -> Option<LeadershipView> {
        None
    }

    /// The ring that shares the objects out among processes; `None` if there is none.
    fn ring(&self) -> Option<RingView> {
        None
    }
}

/// The state of a controller, read at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerView {
    /// The name, which is in the path of the controller.
    pub name: String,
    /// The resource whose objects the keys name, such as `deployments.apps`; `None` for other keys. The page shows the
    /// reconciliations of an object for these controllers.
    pub resource: Option<String>,
    /// The state in words, such as `running` or `waiting for pods`.
    pub state: String,
    /// The error with which the controller has ended.
    pub error: Option<String>,
    /// The queue.
    pub queue: QueueView,
    /// How many keys are reconciled at the same time at most.
    pub workers: usize,
    /// The reconciliations that run now.
    pub running: Vec<RunningView>,
    /// The reconciliations since the start.
    pub counts: CountsView,
    /// The last reconciliations that failed, newest first.
    pub failures: Vec<FailureView>,
}

/// The queue of a controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// The keys that wait for a worker.
    pub ready: usize,
    /// The keys that wait for a time: requested again, or backed off after a failure.
    pub delayed: usize,
    /// The keys that are reconciled now.
    pub in_flight: usize,
    /// For how long the longest of these has been running. In JSON, durations are seconds.
    #[serde(serialize_with = "optional_seconds")]
    pub longest_running: Option<Duration>,
}

/// A reconciliation that runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningView {
    /// The key: `namespace/name` or `name`, for objects.
    pub key: String,
    /// Since when.
    #[serde(serialize_with = "time")]
    pub since: SystemTime,
}

/// How many reconciliations have ended, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountsView {
    /// Those that wait for the next change.
    pub succeeded: u64,
    /// Those that requested another one.
    pub requeued: u64,
    /// Those that failed; includes the following three.
    pub failed: u64,
    /// Those that failed with an error that is not retried.
    pub permanent: u64,
    /// Those that panicked.
    pub panicked: u64,
    /// Those that took longer than the timeout.
    pub timed_out: u64,
}

/// A reconciliation that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureView {
    /// The key: `namespace/name` or `name`, for objects.
    pub key: String,
    /// The error with its causes.
    pub error: String,
    /// The number of the attempt since the key last succeeded, from 1.
    pub attempt: u32,
    /// When it ended.
    #[serde(serialize_with = "time")]
    pub time: SystemTime,
}

/// A reconciliation of a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReconciliationView {
    /// The number, which the log lines of the reconciliation have.
    pub id: String,
    /// Why the key was queued, such as `updated`.
    pub reasons: Vec<String>,
    /// The newest event of another object that led to it.
    pub cause: Option<CauseView>,
    /// For how long the key was queued.
    #[serde(serialize_with = "seconds")]
    pub queued: Duration,
    /// How long it took; `None` while it runs.
    #[serde(serialize_with = "optional_seconds")]
    pub took: Option<Duration>,
    /// The result in a word, such as `success`, `error` or `running`.
    pub result: String,
    /// The error with its causes.
    pub error: Option<String>,
    /// When it began.
    #[serde(serialize_with = "time")]
    pub time: SystemTime,
}

/// An event of another object than the reconciled one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CauseView {
    /// The event, such as `updated`.
    pub event: String,
    /// The resource of the object, such as `replicasets.apps`.
    pub resource: String,
    /// The key of the object, if it is known.
    pub key: Option<String>,
}

/// Who leads, as this process knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeadershipView {
    /// The identity of the leader; `None` if it is not known.
    pub holder: Option<String>,
    /// Since when it leads, if that is known.
    #[serde(serialize_with = "optional_time")]
    pub since: Option<SystemTime>,
    /// Whether this process leads.
    pub is_leader: bool,
}
