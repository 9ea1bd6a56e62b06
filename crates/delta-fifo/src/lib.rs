//! The queues of Kubernetes informers, for any type of object: DeltaFIFO, RealFIFO, FIFO and a heap.
//!
//! A producer says what happened to objects, a consumer pops it, and the queue keeps exactly as much of the
//! history as its kind promises:
//!
//! | queue | order | keeps of a key |
//! |---|---|---|
//! | [`DeltaFifo`] | of the keys, by their first delta | all that happened since its last pop |
//! | [`RealFifo`] | of everything | everything |
//! | [`Fifo`] | of the keys | its newest state |
//! | [`Heap`] | by a priority | its newest state |
//!
//! The first two are one type, [`DeltaQueue`], and implement [`Queue`], so that a controller can take either. There is no runtime here and no
//! Kubernetes: every wait is async for any executor, or blocking.
//!
//! # How it works
//!
//! No user code runs under a queue's lock: the transform and the keys are done before it is taken, objects are
//! dropped after, and the known objects are asked without it. A pop gives out a [`Popped`], which says when it
//! is dropped that the deltas were processed. Until then their keys are *in flight*: a list that arrives between
//! a pop and the store's update neither misses that object nor brings a stale copy of it. In client-go the same
//! is had by processing under the lock, so that a slow consumer stops its producers.
//!
//! A queue at its [`Bound`] refuses more (`Error::Full`, nothing changed) and wakes producers who wait with
//! `ready` once there is room.
//!
//! # Trade-offs
//!
//! There is no second delivery: a consumer that is cancelled with a [`Popped`] in its hands has processed it, as
//! far as the queue knows. Keys in flight cost an entry in a map each, where there are known objects; the atomic
//! [`RealFifo`], the default in an informer, has none and tracks none.
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

mod backlog;
mod bound;
mod delta_fifo;
mod delta_queue;
mod error;
mod fifo;
mod heap;
mod in_flight;
mod incoming;
mod initial;
mod key_map;
mod known;
mod popped;
mod queue;
mod real_fifo;
mod shared;
mod state;
mod stats;
mod sync;
mod waiting;
mod writes;

pub use bound::Bound;
pub use delta_fifo::{DeltaFifo, DeltaFifoBuilder, OnReplace, PerKey};
pub use delta_queue::{DeltaQueue, DeltaQueueBuilder};
pub use error::{Error, WriteError};
pub use fifo::Fifo;
pub use heap::Heap;
pub use popped::Popped;
pub use queue::{BoxFuture, Queue};
pub use real_fifo::{InOrder, RealFifo, RealFifoBuilder};
pub use stats::Stats;
