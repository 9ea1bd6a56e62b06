//! The errors of an informer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_processor::Error as ProcessorError;
use kinformer_reflector::SourceError;
use kinformer_store::Error as StoreError;

/// The error of all methods of an informer.
///
/// Errors of [handlers](kinformer_processor::ListenerBuilder), of their
/// [registrations](kinformer_processor::Registration) and of the [store](kinformer_store::Reader) are converted into it
/// by `?`.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The informer has stopped. It accepts no handlers and cannot start again.
    #[doc(alias = "WriterDropped")]
    #[error("the informer {informer:?} has stopped; it accepts no handlers and cannot start again")]
    Stopped {
        /// The name of the informer.
        informer: Arc<str>,
    },
    /// The informer is already running.
    #[error("the informer {informer:?} is already running")]
    Running {
        /// The name of the informer.
        informer: Arc<str>,
    },
    /// The informer was never started, so a wait for it would not end.
    #[error("the informer {informer:?} was never started; call start() or run() before waiting for it")]
    NotStarted {
        /// The name of the informer.
        informer: Arc<str>,
    },
    /// The informer, or a handler of it, had not synced when it stopped or the deadline passed.
    #[error(transparent)]
    NotSynced(#[from] Box<NotSynced>),
    /// Two indexes have the same name.
    #[error("the informer {informer:?} cannot have these indexes: {source}")]
    Indexers {
        /// The name of the informer.
        informer: Arc<str>,
        /// The error of the store.
        #[source]
        source: Arc<StoreError>,
    },
    /// The store has not reached the awaited version: the informer stopped or the deadline passed first, there is no
    /// such part, or the versions do not compare.
    #[error("the informer {informer:?} has not reached a version: {source}")]
    VersionNotReached {
        /// The name of the informer.
        informer: Arc<str>,
        /// The reason, with the version that the store has reached.
        #[source]
        source: Arc<StoreError>,
    },
    /// An error of the informer's store, as returned by its reader and snapshots: for example, there is no such index.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// A handler has not processed the initial list: it ended or the deadline passed first.
    #[error(transparent)]
    Handler(ProcessorError),
    /// The informer was not given one source for each part.
    #[error(
        "the informer {informer:?} has {parts} parts but {sources} sources; it needs one source for each part"
    )]
    Sources {
        /// The name of the informer.
        informer: Arc<str>,
        /// The number of parts.
        parts: u32,
        /// The number of sources.
        sources: usize,
    },
    /// An informer with the same name, resource, cluster and scope is already registered for metrics: every series
    /// would occur twice.
    #[error(
        "an informer {informer:?} of {resource:?} with the cluster {cluster:?} and the scope {scope:?} is already registered \
         for metrics; set another name or a scope"
    )]
    DuplicateMetrics {
        /// The name of the informer.
        informer: Arc<str>,
        /// The resource of the informer.
        resource: Arc<str>,
        /// The cluster of the informer; empty if it has none.
        cluster: Arc<str>,
        /// The scope of the informer; empty if it has none.
        scope: Arc<str>,
    },
    /// A reflector ended unexpectedly: it panicked, or the runtime on which it ran has ended. The store is no longer
    /// updated.
    #[error("the informer {informer:?} has stopped because its reflector has ended{}", last(last_error))]
    ReflectorEnded {
        /// The name of the informer.
        informer: Arc<str>,
        /// The last error of its list or watch.
        last_error: Option<Arc<SourceError>>,
    },
    /// Handlers did not return within the grace period after the end of the informer.
    #[error("the informer {informer:?} has stopped, but handlers did not return within {grace:?}: {}", handlers.join(", "))]
    Stuck {
        /// The name of the informer.
        informer: Arc<str>,
        /// The names of the handlers.
        handlers: Vec<Arc<str>>,
        /// The grace period.
        grace: Duration,
    },
}

impl From<ProcessorError> for Error {
    fn from(error: ProcessorError) -> Self {
        // An informer and its processor have one name.
        match error {
            ProcessorError::Stopped { processor } => Self::Stopped { informer: processor },
            ProcessorError::Running { processor } => Self::Running { informer: processor },
            other => Self::Handler(other),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

fn last(error: &Option<Arc<SourceError>>) -> String {
    error.as_ref().map_or_else(String::new, |error| format!("; its last error was: {error}"))
}

/// The state of an informer that has not synced.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NotSynced {
    /// The name of the informer.
    pub informer: Arc<str>,
    /// The reason for the end of the wait.
    pub outcome: WaitOutcome,
    /// The progress of the informer.
    pub progress: SyncProgress,
    /// The last error of its list or watch.
    pub last_error: Option<Arc<SourceError>>,
}

/// The reason for the end of an unsuccessful wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitOutcome {
    /// The deadline passed.
    DeadlineExceeded,
    /// The informer stopped.
    Stopped,
}

/// The progress of an informer that has not synced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncProgress {
    /// The informer was never started.
    NotStarted,
    /// Some parts have no list yet.
    NoList {
        /// The names of these parts; one empty name for an informer with one source.
        parts: Vec<Arc<str>>,
    },
    /// Every part has a list, which is being processed.
    Processing {
        /// The number of queued deltas.
        queued: usize,
    },
}

impl fmt::Display for NotSynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match self.outcome {
            WaitOutcome::DeadlineExceeded => "the deadline passed",
            WaitOutcome::Stopped => "it was stopped",
        };
        write!(f, "the informer {:?} has not synced: {end}, and ", self.informer)?;
        match &self.progress {
            SyncProgress::NotStarted => f.write_str("it was never started")?,
            SyncProgress::NoList { parts } => {
                f.write_str("there was no list yet")?;
                if parts.iter().any(|part| !part.is_empty()) {
                    write!(f, " of {}", parts.join(", "))?;
                }
            }
            SyncProgress::Processing { queued } => write!(f, "{queued} changes were still queued")?,
        }
        f.write_str(&last(&self.last_error))
    }
}

impl std::error::Error for NotSynced {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.last_error.as_deref().map(|error| error as _)
    }
}

kinformer_core::debug_as_message!(Error);
