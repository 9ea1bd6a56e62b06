//! Keeps a store equal to a source and delivers every change to handlers: the `SharedIndexInformer` of Kubernetes'
//! client-go, for any source and any type.
//!
//! ```
//! use kinformer_shared_informer::SharedIndexInformer;
//! use kinformer_store::IndexFunction;
//! use kinformer_testing::{FakeSource, Item};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Any source that can be listed and watched: an API server, a directory, a table.
//! let source = FakeSource::new();
//! source.apply(Item::of("kitchen/kettle", 0, 0));
//!
//! let informer = SharedIndexInformer::builder(source)
//!     .name("appliances")
//!     .index("room", IndexFunction::by_namespace())
//!     .build()?;
//! let handler = informer.handler().name("printer").for_each(|event| println!("{event:?}"))?;
//!
//! let cancel = CancellationToken::new();
//! let running = informer.spawn(cancel.clone());
//! informer.wait_for_sync().await?;
//! assert_eq!(informer.store().by_index("room", "kitchen")?.len(), 1);
//! handler.synced().await?;
//!
//! cancel.cancel();
//! running.await??;
//! # Ok(())
//! # }
//! ```
//!
//! # Trade-offs
//!
//! * **The store is ahead of every event.** A handler that receives a change finds this state, or a later one, in the
//!   store.
//! * **A relist delivers only changed objects.** Objects are compared by version, UID and, if their type supports it,
//!   content. Objects without versions are delivered as updates by every list.
//! * **An informer runs once.** All settings that must precede the run are methods of its builder.
//! * **No wait hangs silently.** Every wait ends when the informer stops and has a variant with a deadline. Its error
//!   contains the progress of the informer and its last error.
//!
//! # How it works
//!
//! ```text
//! source ─list/watch─▶ Reflector ─deltas─▶ Queue ─pop─▶ InformerLoop ─apply─▶ Indexer
//!                                                           └─publish─▶ SharedProcessor ─▶ handlers, streams
//! ```
//!
//! The reflector adds deltas to a queue. The [`InformerLoop`] pops them in batches. The store applies the deltas of a
//! batch and returns the changes, and the changes with a new state are published to the handlers.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod apply;
mod builder;
mod error;
mod informer;
mod informer_loop;
mod informer_parts;
mod latency;
mod losses;
mod metrics;
mod objects;
mod part_list;
mod parts;
#[cfg(feature = "prometheus")]
pub mod prometheus;
mod resyncs;
mod reuse;
mod same;

// What users of this crate need of other crates.
#[doc(no_inline)]
pub use kinformer_core::{KeyRef, Keyed, Object, ObjectKey, ResourceVersion, Tombstone, Transform, Wait};
#[doc(no_inline)]
pub use kinformer_processor::{Buffer, Error as HandlerError, Event, EventHandler, Registration};
#[doc(no_inline)]
pub use kinformer_reflector::{List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchOptions};
#[doc(no_inline)]
pub use kinformer_store::{Error as StoreError, IndexFunction, IndexValues, Reader, Snapshot};
#[doc(no_inline)]
pub use tokio_util::sync::CancellationToken;

pub use builder::{QueueKind, QueueParts, SharedIndexInformerBuilder};
pub use error::{Error, NotSynced, SyncProgress, WaitOutcome};
pub use informer::{Phase, SharedIndexInformer};
pub use informer_loop::{InformerLoop, Process};
// The queue between the reflectors and the store.
pub use kinformer_delta_fifo::{Bound, BoxFuture, DeltaQueueMetrics, Error as QueueError, Popped, Queue};
pub use latency::LatencySummary;
pub use metrics::InformerMetrics;
pub use parts::{Part, Sources};
