//! One stream of events, any number of independent handlers: the `SharedProcessor` of Kubernetes informers.
//!
//! A publisher publishes changes of objects; handlers receive them as events, each in order and at its own pace. Any type
//! that is an [`Object`](kinformer_core::Object) will do; there is no Kubernetes in it.
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
//! * **Publishing costs the same for one handler and for a hundred.** There is one log, and each handler has
//!   its own place in it; nothing is copied for a handler.
//! * **A slow or stuck handler delays no other.** Its undelivered events wait in the log, visibly; its [`Buffer`] says
//!   whether all of them wait, only the newest state of each key, or the publisher.
//! * **A handler that joins late misses nothing and stops no other.** It takes its place in the log first and reads the
//!   state then; revisions say what is in both.
//! * **A callback may block.** It runs on a thread for that while there are events, which costs some microseconds each time
//!   it wakes; a callback that never blocks can do [without](HandlerBuilder::inline). The threads are one pool for the
//!   process; a callback that runs for longer than a second does not count against its size, and [`thread_metrics`]
//!   shows it.
//!
//! # How it works
//!
//! The log is a linked list of frozen batches. It holds its end only: a batch lives until the last handler has left it, and
//! a handler that has read everything is at the empty link behind and keeps nothing alive. The publisher wakes one
//! task, and only if some handler sleeps; that task wakes the handlers.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
// The model checker takes the files that it checks one by one: see `tests/loom.rs`.
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
mod stream;
mod sync;
mod threads;
mod undelivered;

pub use self::{
    backlog::Buffer,
    builder::{HandlerBuilder, InlineHandlerBuilder},
    error::Error,
    event::{Added, Deleted, Event, Updated},
    handler::{AsyncEventHandler, EventHandler, EventHandlerFuncs},
    listener::HandlerMetrics,
    log_reader::InitialState,
    processor::{SharedProcessor, SharedProcessorBuilder},
    registration::Registration,
    resync::DueHandlers,
    stream::EventStream,
    threads::{ThreadMetrics, set_base_threads, thread_metrics},
};
