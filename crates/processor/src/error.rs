//! What can go wrong.

use std::sync::Arc;

/// What the processor and its registrations refuse.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The processor has stopped: it takes no more handlers and cannot run again.
    #[error("the processor {processor:?} has stopped; it takes no more handlers and cannot run again")]
    Stopped {
        /// The name of the processor.
        processor: Arc<str>,
    },
    /// The processor runs already.
    #[error("the processor {processor:?} is running already")]
    Running {
        /// The name of the processor.
        processor: Arc<str>,
    },
    /// A handler was removed, or its processor stopped, before it had finished the initial list.
    #[error(
        "the handler {handler:?} ended before it had finished the initial list; {depth} events were left"
    )]
    Ended {
        /// The name of the handler.
        handler: Arc<str>,
        /// How many events were undelivered.
        depth: usize,
    },
    /// The deadline passed before a handler had finished the initial list.
    #[error(
        "the deadline passed before the handler {handler:?} had finished the initial list; {depth} events \
         are left{}", if *stuck { ", and it has not returned from one of them for a long time" } else { "" }
    )]
    DeadlineExceeded {
        /// The name of the handler.
        handler: Arc<str>,
        /// How many events were undelivered.
        depth: usize,
        /// Whether it has been in one callback for longer than 30 seconds.
        stuck: bool,
    },
    /// Handlers did not return within the grace period after the end.
    #[error("handlers did not return within the grace period: {}", handlers.join(", "))]
    Stuck {
        /// Their names.
        handlers: Vec<Arc<str>>,
    },
}
