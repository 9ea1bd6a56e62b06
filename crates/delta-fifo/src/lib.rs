//! The queues of Kubernetes informers, for any type of object: DeltaFIFO, RealFIFO, FIFO and a heap.
//!
//! Producers write deltas, a consumer pops them. Each kind of queue retains a different part of the history:
//!
//! | queue | order | retained for each key |
//! |---|---|---|
//! | [`DeltaFifo`] | keys, by their first delta | all deltas since the last pop |
//! | [`RealFifo`] | all deltas, by arrival | all deltas |
//! | [`Fifo`] | keys | the newest state |
//! | [`Heap`] | by priority | the newest state |
//!
//! The first two are kinds of one type, [`DeltaQueue`], and implement [`Queue`], so a controller accepts either; the
//! others are kinds of [`ObjectQueue`]. The
//! crate needs no runtime and no Kubernetes: every wait is either async, for any executor, or blocking.
//!
//! # How it works
//!
//! No user code runs under a queue's lock: transforms and key accessors run before it is taken, objects are dropped
//! after it is released, and known objects are looked up without it. A pop returns a [`Popped`]; dropping it marks the
//! deltas as processed. Until then their keys are *in flight*: a list that arrives between a pop and the store's update
//! neither misses such an object nor brings back a stale copy of it. client-go gets the same guarantee by processing
//! under the lock, so a slow consumer blocks its producers.
//!
//! A queue at its [`Bound`] rejects writes (`Error::Full`, nothing changed). `ready` waits until there is room.
//!
//! # Trade-offs
//!
//! Nothing is delivered twice: when a consumer is cancelled while it holds a [`Popped`], the queue treats its deltas as
//! processed. A [`DeltaFifo`], and a [`RealFifo`] with known objects, stores one map entry for each key in flight; the
//! atomic [`RealFifo`], the default in an informer, does not track keys.
//!
//! # Example
//!
//! ```
//! use kinformer_core::{KeyRef, Object};
//! use kinformer_delta_fifo::DeltaFifo;
//!
//! struct Pod {
//!     name: &'static str,
//!     value: u32,
//! }
//!
//! impl Object for Pod {
//!     fn key(&self) -> KeyRef<'_> {
//!         KeyRef::new("default", self.name)
//!     }
//! }
//!
//! let queue = DeltaFifo::new();
//! queue.add(Pod { name: "web", value: 1 })?.into_result()?;
//! queue.update(Pod { name: "web", value: 2 })?.into_result()?;
//!
//! let popped = queue.try_pop()?.unwrap(); // or `queue.pop().await?`
//! let history: Vec<_> = popped.iter().map(|delta| delta.delta_type().to_string()).collect();
//! assert_eq!(history, ["Added", "Updated"]);
//! assert_eq!(popped[1].object().unwrap().value, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod backlog;
mod bound;
mod delta_fifo;
mod delta_queue;
mod error;
mod in_flight;
mod incoming;
mod initial;
mod key_map;
mod known;
mod popped;
mod ports;
mod queue;
mod real_fifo;
mod shared;
mod state;
mod stats;
mod sync;
mod waiting;
mod writes;

// What users of this crate need of other crates.
#[doc(no_inline)]
pub use kinformer_core::{
    Delta, DeltaType, Deltas, KeyRef, Keyed, KnownObjects, Object, ObjectKey, PartialErrors, Replacement,
    ResourceVersion, Sink, Tombstone, Transform,
};

pub use bound::Bound;
pub use delta_fifo::{DeltaFifo, DeltaFifoBuilder, OnReplace, PerKey};
pub use delta_queue::{DeltaQueue, DeltaQueueBuilder};
pub use error::{Error, WriteError};
pub use popped::Popped;
pub use ports::{ByArrival, ByPriority, Fifo, Heap, ObjectQueue};
pub use queue::{BoxFuture, Queue};
pub use real_fifo::{InOrder, RealFifo, RealFifoBuilder};
pub use stats::DeltaQueueMetrics;
