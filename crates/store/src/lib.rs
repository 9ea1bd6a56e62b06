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
//! // Owned by a reader, borrowed from a snapshot; a snapshot never changes.
//! assert_eq!(pods.by_index("node", "a")?.len(), 1);
//! assert_eq!(before.by_index("node", "a")?.count(), 1);
//! assert!(before.contains(("default", "web-0")) && !pods.contains(("default", "web-0")));
//! assert_eq!(pods.index_values("node")?, ["a".into()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Trade-offs
//!
//! * **Readers do not block writers.** A reader clones one pointer to the state under a lock held for O(1) and iterates
//!   without the lock; listing 100,000 objects does not delay a writer. In return, a write copies the nodes that a live
//!   snapshot still shares, a few hundred bytes, and a retained snapshot keeps its objects alive.
//! * **Reads are consistent.** Objects, point look-ups, all indexes and the resource version belong to one state.
//! * **Iteration is in slot order**, which has no meaning. Iteration in key order is available at the cost of sorting
//!   references.
//! * **Writers are serialized.** A write takes about half a microsecond; a batch of deltas is published at once.
//!
//! # How it works
//!
//! Every object has a numbered slot in a copy-on-write vector. A hash table maps a key to its slot; it does not contain
//! the keys, because the objects do. An index maps a value to a bucket, a copy-on-write vector of slot numbers, so a
//! write that leaves an object's index values unchanged does not modify any index. Index functions and transforms run
//! before any lock is taken, and objects are dropped after all locks are released: user code blocks nothing, even if it
//! writes to the same store.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod add_indexers;
mod apply_parts;
mod bucket;
mod compact;
mod error;
mod evaluated;
mod index;
mod index_function;
mod indexer;
mod lazy;
mod points;
mod ports;
mod reader;
mod replace;
mod roots;
mod snapshot;
mod store;
mod sync;
mod tree;
mod wait;
mod write;

// What users of this crate need of other crates.
#[cfg(not(loom))]
#[doc(no_inline)]
pub use kinformer_core::Wait;
#[doc(no_inline)]
pub use kinformer_core::{
    BoxError, Delta, DeltaType, KeyError, KeyRef, Keyed, Labels, Object, ObjectKey, PartialErrors,
    Replacement, ResourceVersion, Sink, Tombstone, Transform,
};

pub use error::Error;
pub use index_function::{IndexFunction, IndexValues, Indexers};
pub use indexer::{Indexer, IndexerBuilder};
pub use lazy::Lazy;
pub use ports::{Adds, ExpiringStore, MutationCache, MutationCacheOptions, UndeltaStore};
pub use reader::Reader;
pub use snapshot::{Cursor, ObjectDifference, Page, Snapshot};
pub use store::Store;
pub use write::Applied;

/// The conventional name of the index [by namespace](IndexFunction::by_namespace).
pub const NAMESPACE_INDEX: &str = "namespace";
