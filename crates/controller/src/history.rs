//! The reconciliations that run, and the last ones that have ended, for who shows them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::Outcome;
use crate::reason::{Cause, Reasons};
use crate::request::{ReconcileId, Request};

/// How many ended reconciliations are kept, of all keys together.
const KEPT: usize = 1_000;

/// A reconciliation.
pub(crate) struct Reconciliation<K> {
    pub(crate) key: K,
    pub(crate) id: ReconcileId,
    pub(crate) reasons: Reasons,
    pub(crate) cause: Option<Cause>,
    pub(crate) queued: Duration,
    pub(crate) time: SystemTime,
    began: Instant,
    pub(crate) ended: OnceLock<Ended>,
}

/// The end of a reconciliation.
pub(crate) struct Ended {
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<String>,
}

struct State<K> {
    running: BTreeMap<ReconcileId, Arc<Reconciliation<K>>>,
    ended: VecDeque<Arc<Reconciliation<K>>>,
}

/// The reconciliations of a controller. It keeps none until somebody reads them, so that others do not pay for it.
pub(crate) struct History<K>(OnceLock<Mutex<State<K>>>);

impl<K> Default for History<K> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<K: Clone> History<K> {
    /// Keeps reconciliations from now on.
    pub(crate) fn keep(&self) {
        _ = self.0.set(Mutex::new(State { running: BTreeMap::new(), ended: VecDeque::new() }));
    }

    /// A reconciliation begins. It has ended when what is returned is dropped.
    pub(crate) fn begin(&self, request: &Request<K>) -> Option<Recording<'_, K>> {
        let state = self.0.get()?;
        let reconciliation = Arc::new(Reconciliation {
            key: request.key.clone(),
            id: request.id,
            reasons: request.reasons,
            cause: request.cause.clone(),
            queued: request.queued,
            time: Timestamp::now().into(),
            began: Instant::now(),
            ended: OnceLock::new(),
        });
        state.lock().running.insert(request.id, reconciliation.clone());
        Some(Recording { state, reconciliation })
    }

    /// Returns those that run, oldest first.
    pub(crate) fn running(&self) -> Vec<Arc<Reconciliation<K>>> {
        let Some(state) = self.0.get() else { return Vec::new() };
        state.lock().running.values().cloned().collect()
    }

    /// Returns all that are known, newest first.
    pub(crate) fn all(&self) -> Vec<Arc<Reconciliation<K>>> {
        let Some(state) = self.0.get() else { return Vec::new() };
        let state = state.lock();
        state.running.values().rev().chain(state.ended.iter().rev()).cloned().collect()
    }
}

/// A reconciliation that runs.
pub(crate) struct Recording<'a, K> {
    state: &'a Mutex<State<K>>,
    reconciliation: Arc<Reconciliation<K>>,
}

impl<K> Recording<'_, K> {
    pub(crate) fn end(self, outcome: Outcome, error: Option<String>) {
        let took = self.reconciliation.began.elapsed();
        _ = self.reconciliation.ended.set(Ended { took, outcome, error });
    }
}

impl<K> Drop for Recording<'_, K> {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let running = state.running.remove(&self.reconciliation.id);
        state.ended.extend(running);
        // Dropped without the lock: keys are of the program.
        let forgotten = if state.ended.len() > KEPT { state.ended.pop_front() } else { None };
        drop(state);
        drop(forgotten);
    }
}
