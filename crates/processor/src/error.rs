//! The errors of the processor.

use std::sync::Arc;

/// The errors of the processor and its registrations.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The processor has stopped. It accepts no handlers and cannot run again.
    #[error("the processor {processor:?} has stopped; it accepts no handlers and cannot run again")]
    Stopped {
        /// The name of the processor.
        processor: Arc<str>,
    },
    /// The processor is already running.
    #[error("the processor {processor:?} is already running")]
    Running {
        /// The name of the processor.
        processor: Arc<str>,
    },
    /// A handler was removed, or its processor stopped, before it had processed the initial list.
    #[error(
        "the handler {handler:?} ended before it had processed the initial list; {depth} events were undelivered"
    )]
    Ended {
        /// The name of the handler.
        handler: Arc<str>,
        /// The number of undelivered events.
        depth: usize,
    },
    /// The deadline passed before a handler had processed the initial list.
    #[error(
        "the deadline passed before the handler {handler:?} had processed the initial list; {depth} events \
         are undelivered{}", if *stuck { ", and a callback has not returned for 30 seconds" } else { "" }
    )]
    DeadlineExceeded {
        /// The name of the handler.
        handler: Arc<str>,
        /// The number of undelivered events.
        depth: usize,
        /// Whether the handler has been in one callback for longer than 30 seconds.
        stuck: bool,
    },
    /// Handlers did not return within the grace period after the end of the processor.
    #[error("handlers did not return within the grace period: {}", handlers.join(", "))]
    Stuck {
        /// The names of the handlers.
        handlers: Vec<Arc<str>>,
    },
}

kinformer_core::debug_as_message!(Error);
