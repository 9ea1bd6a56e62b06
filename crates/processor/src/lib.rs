//! Delivers one stream of events to any number of independent handlers: the `SharedProcessor` of Kubernetes informers.
//!
//! A publisher publishes changes of objects. Each handler receives them as events, in order and at its own pace.
//! Objects may be of any type that implements [`Object`]. This crate contains nothing of
//! Kubernetes.
//!
//! ```
//! use kinformer_core::{Change, Keyed};
//! use kinformer_processor::SharedProcessor;
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let processor = SharedProcessor::new("temperatures");
//! let registration = processor.handler().name("printer").for_each(|event| println!("{event:?}"))?;
//!
//! let cancel = CancellationToken::new();
//! let running = tokio::spawn({
//!     let (processor, cancel) = (processor.clone(), cancel.clone());
//!     async move { processor.run(cancel).await }
//! });
//! processor.publish([Change::added(Keyed::new("kitchen".parse()?, 21)).in_initial_list()]);
//! processor.publish_synced();
//! registration.synced().await?;
//! assert_eq!(registration.metrics().delivered, 1);
//!
//! registration.remove().await;
//! cancel.cancel();
//! running.await??;
//! # Ok(())
//! # }
//! ```
//!
//! # Trade-offs
//!
//! * **Publishing costs the same for one handler and for a hundred.** There is one log, and each handler has its own
//!   position in it. Nothing is copied for a handler.
//! * **A slow or stuck handler delays no other.** Its undelivered events stay in the log and are counted in its
//!   metrics. Its [`Buffer`] chooses between keeping all of them, keeping the newest state of each key, and making the
//!   publisher wait.
//! * **A handler that joins late misses nothing and stops no other.** It takes its position in the log first and reads
//!   the state afterwards. Revisions identify the events that the state already includes.
//! * **A callback may block.** It runs on a dedicated thread while there are events, which costs some microseconds for
//!   each wake-up. A callback that never blocks can run [inline](ListenerBuilder::inline) instead. The process has one
//!   pool of such threads. A callback that runs for longer than a second does not count against the size of the pool,
//!   and appears in [`thread_metrics`].
//!
//! # How it works
//!
//! The log is a linked list of immutable batches. The log itself holds only its end: a batch lives until the last
//! handler has read it. A handler that has read everything is positioned at the empty link at the end and keeps no
//! batch alive. The publisher wakes one task, and only if some handler sleeps; that task wakes the handlers.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The model checker includes the files that it checks one by one: see `tests/loom.rs`.
#![cfg(not(loom))]

mod backlog;
mod bell;
mod builder;
mod clock;
mod contained;
mod delivery;
mod error;
mod event;
mod feed;
mod handler;
mod limits;
mod listener;
mod listeners;
mod log;
mod log_reader;
mod members;
mod own_code;
mod processor;
mod publisher;
mod registration;
mod resync;
mod run;
#[cfg(not(feature = "test-util"))]
mod stepping;
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub mod stepping;
mod stream;
mod sync;
mod threads;
mod undelivered;

// What users of this crate need of other crates.
#[doc(no_inline)]
pub use kinformer_core::{
    Change, KeyRef, Keyed, Labels, Object, ObjectKey, ResourceVersion, Tombstone, Wait,
};
#[doc(no_inline)]
pub use tokio_util::sync::CancellationToken;

pub use self::{
    backlog::Buffer,
    builder::{InlineListenerBuilder, ListenerBuilder},
    error::Error,
    event::{Added, Deleted, Event, Left, Updated},
    handler::{AsyncEventHandler, AsyncFnWith, EventHandler, EventHandlerFuncs, WithState},
    listener::HandlerMetrics,
    log_reader::InitialState,
    processor::{SharedProcessor, SharedProcessorBuilder},
    registration::Registration,
    resync::DueHandlers,
    stream::ListenerStream,
    threads::{ThreadMetrics, set_base_threads, thread_metrics},
};
