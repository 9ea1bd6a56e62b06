//! The health of a manager and of its controllers.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kinformer_leader_election::{Candidacy, LeaderElector};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The state of a [`Manager`](crate::Manager).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Not started, or the informers have not synced.
    #[default]
    Starting,
    /// The controllers reconcile.
    Running,
    /// The controllers end, or have ended.
    Stopped,
}

/// The state of a [`Controller`](crate::Controller).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControllerState {
    /// Not started, or the informers have not synced.
    Waiting {
        /// The resources of the informers that have not synced; empty before the start.
        missing: Vec<Arc<str>>,
    },
    /// The informers have synced; the controller waits for the others of its manager, or for the leadership.
    Synced,
    /// The controller reconciles, or waits for the last reconciliations of its shutdown.
    Running,
    /// The controller has ended, or was dropped before it began.
    Stopped {
        /// Its error. The error of one controller ends all of a manager, the others without an error of their own.
        error: Option<Arc<str>>,
    },
}

impl fmt::Display for ControllerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { missing } if missing.is_empty() => f.write_str("not started"),
            Self::Waiting { missing } => write!(f, "waiting for {}", missing.join(", ")),
            Self::Synced => f.write_str("synced"),
            Self::Running => f.write_str("running"),
            Self::Stopped { error: None } => f.write_str("stopped"),
            Self::Stopped { error: Some(error) } => write!(f, "stopped: {error}"),
        }
    }
}

impl ControllerState {
    /// Its text without an error, which may name objects.
    #[cfg(feature = "serve")]
    pub(crate) fn without_error(&self) -> String {
        match self {
            Self::Stopped { .. } => "stopped".to_owned(),
            state => state.to_string(),
        }
    }
}

/// The health of a controller, read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerHealth {
    /// The name of the controller.
    pub name: Arc<str>,
    /// The state of the controller.
    pub state: ControllerState,
}

/// The health of a manager, for the HTTP endpoints of a program. Cheap to clone.
///
/// ```
/// use kinformer_controller::Health;
///
/// /// The status code and the body of `/readyz`.
/// fn readyz(health: &Health) -> (u16, String) {
///     let lines = health.controllers().into_iter().map(|one| format!("{}: {}\n", one.name, one.state));
///     (if health.has_synced() { 200 } else { 503 }, lines.collect())
/// }
/// ```
///
/// controller-runtime 0.25 (`AddHealthzCheck`, `AddReadyzCheck`) serves checks of the program, and has none of its own for
/// controllers.
#[derive(Clone, Debug)]
pub struct Health {
    pub(crate) state: watch::Receiver<State>,
    pub(crate) controllers: Arc<Mutex<Vec<Arc<Status>>>>,
    pub(crate) elector: Arc<OnceLock<LeaderElector>>,
}

impl Health {
    /// Returns the state of the manager.
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Whether the controllers reconcile. With a leader election this is so in one replica only: then use
    /// [`Self::has_synced`] for a readiness probe, since a rolling update waits for the readiness of a new replica.
    pub fn is_ready(&self) -> bool {
        self.state() == State::Running && self.has_synced()
    }

    /// Whether the informers of all controllers have synced, and no controller has ended: for a readiness probe.
    pub fn has_synced(&self) -> bool {
        let has_synced =
            |status: &Arc<Status>| matches!(status.get(), ControllerState::Synced | ControllerState::Running);
        self.state() != State::Stopped && self.controllers.lock().iter().all(has_synced)
    }

    /// Whether the manager has not ended: for a liveness probe. A reconciliation that does not return is no reason to end
    /// the process; see [`timeout`](crate::ControllerBuilder::timeout).
    pub fn is_alive(&self) -> bool {
        self.state() != State::Stopped
    }

    /// Returns since when the manager waits for the leadership, when the API server last answered a request for the Lease, and the
    /// last error; `None` if it does not wait.
    #[doc(alias = "HealthzAdaptor")]
    pub fn candidacy(&self) -> Option<Candidacy> {
        self.elector.get()?.candidacy()
    }

    /// Returns the health of each controller, in the order in which they were added.
    pub fn controllers(&self) -> Vec<ControllerHealth> {
        let health =
            |status: &Arc<Status>| ControllerHealth { name: status.name.clone(), state: status.get() };
        self.controllers.lock().iter().map(health).collect()
    }
}

/// The current state of a controller.
#[derive(Debug)]
pub(crate) struct Status {
    name: Arc<str>,
    state: Mutex<ControllerState>,
}

impl Status {
    pub(crate) fn new(name: Arc<str>) -> Arc<Self> {
        Arc::new(Self { name, state: Mutex::new(ControllerState::Waiting { missing: Vec::new() }) })
    }

    #[cfg(feature = "prometheus")]
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn get(&self) -> ControllerState {
        self.state.lock().clone()
    }

    pub(crate) fn set(&self, state: ControllerState) {
        *self.state.lock() = state;
    }

    /// One of the missing informers has synced.
    pub(crate) fn synced(&self, informer: &str) {
        if let ControllerState::Waiting { missing } = &mut *self.state.lock()
            && let Some(place) = missing.iter().position(|name| **name == *informer)
        {
            missing.remove(place);
        }
    }

    /// A controller that works no longer, and has not ended, can work again.
    pub(crate) fn paused(&self) {
        let mut state = self.state.lock();
        if *state == ControllerState::Running {
            *state = ControllerState::Synced;
        }
    }

    /// The controller has ended, if not with an error before.
    pub(crate) fn ended(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, ControllerState::Stopped { .. }) {
            *state = ControllerState::Stopped { error: None };
        }
    }

    pub(crate) fn failed(&self, error: &impl fmt::Display) {
        self.set(ControllerState::Stopped { error: Some(error.to_string().into()) });
    }
}
