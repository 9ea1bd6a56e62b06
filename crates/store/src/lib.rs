//! A store of objects with indexes and consistent snapshots: the Store and Indexer of Kubernetes informers,
//! for any type.
//!
//! * [`Indexer`]: objects by key, with any number of named indexes, each an [`IndexFunction`] that says under
//!   which values an object is found. Without indexes it is the plain store.
//! * [`Snapshot`]: one state of an indexer, taken in O(1): objects, all indexes and the resource version
//!   together. It is read without a lock and nobody waits for it.
//! * [`Store`]: what all stores have in common, for code that takes any of them.
//!
//! # How it works
//!
//! Every object has a slot number. All that a reader needs is kept in vectors that are copied on write, piece
//! by piece: the objects by slot; a table from the hash of a key to the slot, which holds no keys; and for each
//! index a table from the hash of a value to a bucket of slots. A snapshot is a handful of reference counts on
//! these. A write changes them in place if no snapshot shares the piece, and copies that piece if one does: at
//! most 32 objects and the way to them.
//!
//! One short lock guards the roots: a reader holds it for a look-up or for the taking of a snapshot, a writer
//! while it changes a few pieces. A replace makes the new state beside the old one and swaps the two. What only
//! writing needs (each slot's places in the buckets) no snapshot holds; so an index function is asked
//! once about each state of an object, and a write that keeps its index values touches no index.
//!
//! # Trade-offs
//!
//! Objects come in no particular order; [`Snapshot::ordered`] sorts when asked. A snapshot that is held for
//! long keeps alive what has since been replaced. Keys are compared on the stored objects themselves, so
//! [`Object::key`](kinformer_core::Object::key) must be the plain accessor that its documentation asks for.
//!
//! # Example
//!
//! ```
//! use kinformer_core::{KeyRef, Object};
//! use kinformer_store::{IndexFunction, Indexer, NAMESPACE_INDEX};
//!
//! struct Pod {
//!     namespace: &'static str,
//!     name: &'static str,
//!     node: &'static str,
//! }
//!
//! impl Object for Pod {
//!     fn key(&self) -> KeyRef<'_> {
//!         KeyRef::new(self.namespace, self.name)
//!     }
//! }
//!
//! let pods = Indexer::builder()
//!     .index(NAMESPACE_INDEX, IndexFunction::by_namespace())
//!     .index("node", IndexFunction::new(|pod: &Pod, values| values.push(pod.node)))
//!     .build()?;
//! pods.add(Pod { namespace: "default", name: "web-0", node: "n1" })?;
//! pods.add(Pod { namespace: "default", name: "web-1", node: "n2" })?;
//!
//! let before = pods.snapshot();
//! pods.delete_by_key("default/web-0");
//! assert_eq!((before.len(), pods.len()), (2, 1));
//! for pod in before.by_index("node", "n1")? {
//!     assert_eq!(pod.name, "web-0");
//! }
//! assert!(pods.get_by_key("default/web-1").is_some());
//! # Ok::<(), kinformer_store::Error>(())
//! ```

mod bucket;
mod cow;
mod error;
mod hash;
mod index;
mod index_function;
mod indexer;
mod points;
mod roots;
mod snapshot;
mod step;
mod store;
mod sync;
mod transaction;
mod wait;

pub use error::Error;
pub use index_function::{IndexFunction, IndexValues, NAMESPACE_INDEX};
pub use indexer::{Indexer, IndexerBuilder};
pub use snapshot::{Cursor, Page, Snapshot};
pub use store::Store;
pub use transaction::{Applied, Change, Transaction};
