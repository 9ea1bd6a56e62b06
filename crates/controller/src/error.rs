//! The errors of this crate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer::{BoxError, Informer};
use kinformer_core::internal::with_causes;
use tokio::time::Instant;

/// The error of this crate.
#[doc(alias = "RunnerError")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An informer could not be used.
    #[error("controller {controller}: {source}")]
    Informer {
        /// The name of the controller.
        controller: Arc<str>,
        /// The error of the informer.
        source: kinformer::Error,
    },
    /// The objects of an informer were not delivered to the controller before the sync timeout.
    #[error("controller {controller}: {informer} had not synced after {timeout:?}: {reason}")]
    NotSynced {
        /// The name of the controller.
        controller: Arc<str>,
        /// The resource of the informer.
        informer: Arc<str>,
        /// The sync timeout.
        timeout: Duration,
        /// The progress of the informer and its last error.
        reason: String,
    },
    /// The informer of a trigger has stopped: it was removed, its factory was shut down, or the run of its owner has ended. The
    /// controller would receive no events any more.
    #[error("controller {controller}: the informer of {informer} has stopped")]
    InformerStopped {
        /// The name of the controller.
        controller: Arc<str>,
        /// The resource of the informer.
        informer: Arc<str>,
    },
    /// Reconciliations had not ended when the grace period was over. Their futures were dropped.
    #[error("controller {controller}: not ended within {grace:?} after the shutdown: {}", keys.join(", "))]
    Stuck {
        /// The name of the controller.
        controller: Arc<str>,
        /// The grace period.
        grace: Duration,
        /// The keys of the reconciliations, in their `Debug` form.
        keys: Vec<String>,
    },
    /// `owns` or `refers_to` was called for a controller that has keys of its own and no reconciled kind.
    #[error(
        "controller {controller}: owns() and refers_to() need a reconciled kind; use trigger(Trigger::on(..))"
    )]
    NoReconciledKind {
        /// The name of the controller.
        controller: Arc<str>,
    },
    /// The manager runs something else with this name.
    #[error("the manager already runs something with the name {name:?}; set another name")]
    DuplicateName {
        /// The name.
        name: Arc<str>,
    },
    /// A group of the manager has a name that nothing has.
    #[error("nothing with the name {name:?} was added to the manager, and a group has it")]
    UnknownName {
        /// The name.
        name: Arc<str>,
    },
    /// Two groups of the manager have the same name.
    #[error("{name:?} is in two groups of the manager")]
    InTwoGroups {
        /// The name.
        name: Arc<str>,
    },
    /// A controller or a task was added to a manager that ends or has ended.
    #[error("{name} was not started: the manager has ended")]
    ManagerEnded {
        /// The name of the controller or task.
        name: Arc<str>,
    },
    /// A task has failed.
    #[error("task {name}: {}", with_causes(&**source))]
    Task {
        /// The name of the task.
        name: Arc<str>,
        /// Its error.
        source: BoxError,
    },
    /// A task has ended before the shutdown.
    #[error("task {name} has ended before the shutdown; use Task::once for one that may")]
    EndedEarly {
        /// The name of the task.
        name: Arc<str>,
    },
    /// A task had not ended when its grace period was over. Its future was dropped.
    #[error("task {name}: not ended within {grace:?} after the shutdown")]
    NotEnded {
        /// The name of the task.
        name: Arc<str>,
        /// The grace period.
        grace: Duration,
    },
    /// A task has panicked.
    #[error("{name} panicked: {message}")]
    Panicked {
        /// The name of what has panicked.
        name: Arc<str>,
        /// The message of the panic.
        message: String,
    },
    /// The informers of a [factory](crate::Manager::factory) could not be started, did not sync, or did not end.
    #[error(transparent)]
    Factory(kinformer::Error),
    /// Another controller with this name provides metrics.
    #[cfg(feature = "prometheus")]
    #[error(
        "a controller with the name {name:?} is already registered for metrics; set another one with name()"
    )]
    DuplicateMetrics {
        /// The name.
        name: Arc<str>,
    },
    /// The server of the manager could not be started.
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Serve(kinformer_serve::Error),
    /// Several controllers or tasks of a manager ended with an error.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
    /// The process is not the leader any more.
    #[error(transparent)]
    NotLeader(kinformer_leader_election::NotLeader),
    /// A second signal ended the controllers during their shutdown.
    #[error("interrupted during the shutdown")]
    Interrupted,
    /// The handler of signals could not be installed.
    #[error("signals cannot be handled: {0}")]
    Signal(std::io::Error),
}

impl Error {
    pub(crate) fn informer_stopped(controller: &Arc<str>, informer: &Informer<()>) -> Self {
        Self::InformerStopped {
            controller: controller.clone(),
            informer: informer.selection().resource().into(),
        }
    }

    /// The error of a wait for the objects of an informer, which has ended by the deadline or because the informer stops.
    pub(crate) fn not_synced(
        controller: &Arc<str>,
        informer: &Informer<()>,
        (timeout, deadline): (Duration, Instant),
        reason: &dyn fmt::Display,
    ) -> Self {
        if Instant::now() < deadline {
            return Self::informer_stopped(controller, informer);
        }
        let (controller, informer) = (controller.clone(), informer.selection().resource().into());
        Self::NotSynced { controller, informer, timeout, reason: reason.to_string() }
    }
}
