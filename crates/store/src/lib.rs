//! A concurrent store of objects with indexes and consistent O(1) snapshots: the `Store` and `Indexer` of
//! Kubernetes informers, for any type.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use kinformer_core::{KeyRef, Object};
//! use kinformer_store::{IndexFunction, Indexer, NAMESPACE_INDEX};
//!
//! struct Pod {
//!     namespace: String,
//!     name: String,
//!     node: String,
//! }
//!
//! impl Object for Pod {
//!     fn key(&self) -> KeyRef<'_> {
//!         KeyRef::new(&self.namespace, &self.name)
//!     }
//! }
//!
//! let pods = Indexer::builder()
//!     .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
//!     .index("node", IndexFunction::new(|pod: &Arc<Pod>, values| values.push(&pod.node)))
//!     .build()?;
//!
//! let pod = |name: &str, node: &str| Pod { namespace: "default".into(), name: name.into(), node: node.into() };
//! pods.add(pod("web-0", "a"))?.into_result()?;
//! pods.add(pod("web-1", "b"))?.into_result()?;
//!
//! let before = pods.snapshot();
//! pods.update(pod("web-1", "a"))?.into_result()?;
//! pods.delete_by_key(("default", "web-0"));
//!
//! // By value or by reference; what a snapshot shows stays as it was.
//! assert_eq!(pods.by_index("node", "a")?.len(), 1);
//! assert_eq!(before.by_index("node", "a")?.count(), 1);
//! assert!(before.contains(("default", "web-0")) && !pods.contains(("default", "web-0")));
//! assert_eq!(pods.index_values("node")?, ["a".into()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Trade-offs
//!
//! * **Readers are never in the way.** A reader takes the state as one pointer under a lock held for a
//!   moment and walks it outside; a list of a hundred thousand objects costs a writer nothing. In return a
//!   write copies what a living snapshot still shares, a few hundred bytes; and a snapshot that is kept keeps
//!   the objects of its time alive.
//! * **A read is consistent.** Objects, point look-ups, every index and the resource version are one state.
//! * **Order is by slot**, which means nothing. Order by key is offered where it is needed, at the cost of
//!   sorting references.
//! * **Writers take turns.** One write takes about half a microsecond, and one batch of deltas is
//!   published at once.
//!
//! # How it works
//!
//! Every object has a numbered slot in a copy-on-write vector. A table of hashes leads from a key to its slot; it
//! holds no keys, since the object has one. An index leads from a value to a bucket, a copy-on-write vector
//! of slot numbers; so a write that leaves an object's values as they are touches no index. Index functions and
//! transforms run before any lock is taken, objects are dropped after all are released: what they do,
//! writing to the same store included, can block nobody.

mod add_indexers;
mod bucket;
mod compact;
mod error;
mod evaluated;
mod expiring;
mod index;
mod index_function;
mod indexer;
mod mutation_cache;
mod points;
mod reader;
mod replace;
mod roots;
mod snapshot;
mod store;
mod sync;
mod tree;
mod undelta;
mod wait;
mod write;

pub use error::Error;
pub use expiring::ExpiringStore;
pub use index_function::{IndexFunction, IndexValues, Indexers};
pub use indexer::{Indexer, IndexerBuilder};
pub use mutation_cache::{Adds, MutationCache, MutationCacheOptions};
pub use reader::Reader;
pub use snapshot::{Cursor, Difference, Page, Snapshot};
pub use store::Store;
pub use undelta::UndeltaStore;
pub use write::Applied;

/// The usual name of the index [by namespace](IndexFunction::by_namespace).
pub const NAMESPACE_INDEX: &str = "namespace";
