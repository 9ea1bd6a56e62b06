//! What the handles of a ring and its run share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kinformer_kube::KubeListerWatcher;
use kube_client::Client;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::names::Names;
use super::owned::Owned;
use super::reads::Reads;
use crate::config::Config;
use crate::machine::{Machine, Status};

/// Reads the Leases of a ring.
pub(crate) type Source = KubeListerWatcher<Lease>;

pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) names: Names,
    pub(crate) config: Config,
    /// A process that has not begun.
    pub(crate) machine: Machine,
    pub(crate) leave_timeout: Duration,
    pub(crate) owned: Owned,
    pub(crate) status: watch::Sender<Status>,
    /// The error of the last request, if it has failed.
    pub(crate) error: Mutex<Option<Arc<str>>>,
    pub(crate) is_running: AtomicBool,
    pub(crate) counters: Counters,
    /// The Leases that the present run has read.
    pub(crate) reads: Mutex<Option<Arc<Reads>>>,
}

/// What a process has done since its start; from [`Ring::metrics`](super::Ring::metrics).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingMetrics {
    /// Slots that the process began to own, each time counted.
    pub slots_begun: u64,
    /// Slots that it has given away.
    pub slots_released: u64,
    /// Slots that it had to stop, since its Lease was not renewed or somebody has changed a Lease.
    pub slots_stopped: u64,
}

/// The counters of [`RingMetrics`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) begun: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) stopped: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> RingMetrics {
        let [slots_begun, slots_released, slots_stopped] =
            [&self.begun, &self.released, &self.stopped].map(|counter| counter.load(Ordering::Relaxed));
        RingMetrics { slots_begun, slots_released, slots_stopped }
    }
}

impl Inner {
    /// Namespace and name, for people.
    pub(crate) fn text(&self) -> String {
        format!("{}/{}", self.names.namespace, self.names.name)
    }

    /// Returns a process that has not begun. Each start has its own incarnation.
    pub(crate) fn machine(&self) -> Machine {
        self.machine.clone().with_incarnation(incarnation())
    }

    pub(crate) fn renew_period(&self) -> Duration {
        self.config.renew_period
    }

    pub(crate) fn set_error(&self, error: Option<Arc<str>>) {
        *self.error.lock() = error;
    }

    pub(crate) fn publish(&self, status: Status) {
        self.status.send_if_modified(|known| {
            let is_new = *known != status;
            *known = status;
            is_new
        });
    }
}

/// Returns a text that no other start has.
pub(crate) fn incarnation() -> Arc<str> {
    uuid::Uuid::new_v4().to_string().into()
}
