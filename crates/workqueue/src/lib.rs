//! client-go's work queue for Rust: deduplicated keys with priorities, delays and rate limits.
//!
//! Producers add keys, workers process them. A key that is added many times is processed once, and never by two workers
//! at the same time. The crate works for any type of key and needs no Kubernetes. Waits are async or blocking.
//!
//! ```
//! use kinformer_workqueue::{Add, LOW_PRIORITY, WorkQueue};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue = WorkQueue::new();
//! queue.add_with("default/web-0", Add::new().priority(LOW_PRIORITY)); // from the initial list
//! queue.add("default/web-1"); // a live change
//! queue.add("default/web-1");
//!
//! queue.shut_down(); // a program does this at its end
//! let mut keys = Vec::new();
//! while let Some(item) = queue.next().await { // or next_blocking()
//!     keys.push(*item.key());
//!     item.done(); // or retry(), or retry_after(delay)
//! }
//! assert_eq!(keys, ["default/web-1", "default/web-0"]);
//! # }
//! ```
//!
//! # How it works
//!
//! client-go has three queues around each other, and controller-runtime has a fourth one. Here delays, rate limits and
//! priorities are options of one [`WorkQueue`]. A key is stored once. A list for each priority, a list of all ready
//! keys by age, and a table of delays refer to it. Adding, handing out and ending a run of a key take O(1), a delay takes
//! O(log n), and the priority takes O(log p) for p priorities with keys.
//!
//! The queue owns no task and no thread. While keys are delayed, one of the waiters wakes at the end of the first delay;
//! when it stops waiting, another one replaces it.
//!
//! # Order
//!
//! The highest priority first, and keys of one priority in the order in which they were queued. So that lower priorities
//! progress under a constant load of higher ones, every tenth key is the oldest one ([`Fairness`]). client-go's custom
//! order (`Touch`, `Push`, `Pop`) is a priority here: any number of priorities is possible, such as a negative
//! deadline. Adding a queued key again with a higher priority moves it, which is `Touch`.
//!
//! # Retries
//!
//! [`WorkQueue::next`] returns an [`Item`]. Dropping it ends the run of its key, [`Item::retry`] and a panic add the key
//! again after its backoff, and [`Item::done`] forgets its failures. [`QueueMetrics::failing`] is the number of keys that
//! the [`RateLimiter`] remembers.
//!
//! # Trade-offs
//!
//! * A key has one pending run. In client-go, `AddAfter` for a queued key leads to a second run; here, as in
//!   controller-runtime, it does not.
//! * Keys are shared as `Arc<K>`, so that a key is neither copied nor dropped under the lock.
//! * client-go's `ParallelizeUntil` is not part of the crate: `for_each_concurrent` of the crate futures and scoped
//!   threads do the same.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod bucket;
mod defaults;
mod entries;
mod error;
mod item;
mod metrics;
mod options;
mod queue;
mod rate_limiter;
mod shared;
mod state;
mod sync;
mod waiting;

pub use bucket::Bucket;
pub use defaults::default_rate_limiter;
pub use error::DeadlineExceeded;
pub use item::Item;
pub use metrics::{Histogram, QueueMetrics};
pub use options::{Add, Fairness, LOW_PRIORITY};
pub use queue::{WorkQueue, WorkQueueBuilder};
pub use rate_limiter::{ItemExponential, ItemFastSlow, MaxOf, MaxWait, RateLimiter};
