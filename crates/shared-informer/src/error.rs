//! What can go wrong.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kinformer_processor::Error as ProcessorError;
use kinformer_reflector::SourceError;

/// What an informer refuses, and how waiting for it fails: the one error of its methods.
///
/// Errors of [handlers](kinformer_processor::HandlerBuilder) and of their
/// [registrations](kinformer_processor::Registration) are converted into it by `?`.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The informer has stopped: it takes no handlers any more and cannot start again.
    #[error("the informer {informer:?} has stopped; it takes no more handlers and cannot start again")]
    Stopped {
        /// The name of the informer.
        informer: Arc<str>,
    },
    /// The informer runs already.
    #[error("the informer {informer:?} is running already")]
    Running {
        /// The name of the informer.
        informer: Arc<str>,
    },
    /// The informer does not run, so that there is nothing to wait for.
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
        /// What is wrong with them.
        #[source]
        source: Arc<kinformer_store::Error>,
    },
    /// The store has not reached the version that was waited for: the informer stopped or the deadline passed first, or
    /// the versions do not compare.
    #[error("the informer {informer:?} has not reached a version: {source}")]
    VersionNotReached {
        /// The name of the informer.
        informer: Arc<str>,
        /// Why, and which version it has reached.
        #[source]
        source: Arc<kinformer_store::Error>,
    },
    /// A handler has not finished the initial list: it ended or the deadline passed first.
    #[error(transparent)]
    Handler(ProcessorError),
    /// The informer was not given one source for each part.
    #[error(
        "the informer {informer:?} has {parts} parts and {sources} sources; give it one source for each part"
    )]
    Sources {
        /// The name of the informer.
        informer: Arc<str>,
        /// How many parts there are.
        parts: u32,
        /// How many sources were given.
        sources: usize,
    },
    /// An informer with the same name, resource, cluster and scope is registered for metrics: every series would be there twice.
    #[error(
        "an informer {informer:?} of {resource:?} with the cluster {cluster:?} and the scope {scope:?} is registered for \
         metrics; give this one another name, or a scope that says which objects it holds"
    )]
    DuplicateMetrics {
        /// The name of the informer.
        informer: Arc<str>,
        /// Its resource.
        resource: Arc<str>,
        /// Its cluster; empty if it has none.
        cluster: Arc<str>,
        /// Its scope; empty if it has none.
        scope: Arc<str>,
    },
    /// The reflector has ended for no reason of its own: it panicked, or the runtime that it ran on has ended. The store
    /// is not kept up to date any more.
    #[error("the informer {informer:?} has stopped because its reflector has ended{}", last(last_error))]
    ReflectorEnded {
        /// The name of the informer.
        informer: Arc<str>,
        /// The last error of its list or watch.
        last_error: Option<Arc<SourceError>>,
    },
    /// Handlers did not return within the grace period after the end.
    #[error("the informer {informer:?} has stopped, but handlers did not return within {grace:?}: {}", handlers.join(", "))]
    Stuck {
        /// The name of the informer.
        informer: Arc<str>,
        /// The names of the handlers.
        handlers: Vec<Arc<str>>,
        /// How long they were given.
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

fn last(error: &Option<Arc<SourceError>>) -> String {
    error.as_ref().map_or_else(String::new, |error| format!("; its last error was: {error}"))
}

/// Who has not synced, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NotSynced {
    /// The name of the informer.
    pub informer: Arc<str>,
    /// What ended the waiting.
    pub outcome: WaitOutcome,
    /// What the informer had reached.
    pub progress: SyncProgress,
    /// The last error of its list or watch.
    pub last_error: Option<Arc<SourceError>>,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitOutcome {
    /// The deadline passed.
    DeadlineExceeded,
    /// The informer stopped.
    Stopped,
}

/// How far an informer that has not synced has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncProgress {
    /// Nobody has started it.
    NotStarted,
    /// There is no list yet of these parts.
    NoList {
        /// The names of the parts; one empty name for an informer with one source.
        parts: Vec<Arc<str>>,
    },
    /// There is a list, which is being processed.
    Processing {
        /// How many deltas are still queued.
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
