//! The shared vocabulary of Kubernetes informers, and the traits that connect the layers of kinformer.
//!
//! This crate contains data types and traits only: no async runtime by default, no HTTP, no Kubernetes. It defines:
//!
//! * [`Object`]: anything with a key. Your own `struct Pod { name, value }` becomes one by implementing `key`; wrap a
//!   foreign type in [`Keyed`].
//! * [`ObjectKey`] and [`KeyRef`]: an optional cluster, an optional namespace and a name of any characters; owned in
//!   one allocation, or borrowed without any.
//! * [`ResourceVersion`]: an opaque string, compared only where the result is certain.
//! * [`Delta`], [`DeltaType`], [`Tombstone`], [`Replacement`]: a change of one object or of all objects.
//! * [`PartId`], [`Partition`], [`Versions`]: collections with several sources, one part per source.
//! * [`Change`]: the effect of a delta on a stored object.
//! * [`Sink`]: the target of a reflector. Queues and stores are sinks.
//! * [`KnownObjects`]: the objects that a queue looks up in a store.
//! * `Wait`: a future that may have a deadline (feature `wait`, which needs tokio's timer).
//! * [`Error`] and [`PartialErrors`]: an `Err` means that nothing changed; a [`PartialErrors`] lists the errors of individual objects
//!   in an operation that was applied to all others.
//!
//! # Trade-offs
//!
//! Identity is the key, never the UID: an object that was deleted and recreated under the same name may arrive as one
//! update, which carries both states and so both UIDs. Objects are shared as `Arc<T>` and never copied, so a reader
//! cannot modify what other readers see.
//!
//! # Example
//!
//! ```
//! use kinformer_core::{KeyRef, Object, ObjectKey, ResourceVersion};
//!
//! struct Pod {
//!     name: String,
//!     value: u32,
//! }
//!
//! impl Object for Pod {
//!     fn key(&self) -> KeyRef<'_> {
//!         KeyRef::new("default", &self.name)
//!     }
//! }
//!
//! let pod = Pod { name: "web-0".into(), value: 1 };
//! assert_eq!(pod.key().to_string(), "default/web-0");
//! assert_eq!("default/web-0".parse::<ObjectKey>()?.name(), "web-0");
//! assert!("a/b/c".parse::<ObjectKey>().is_err());
//!
//! // Versions of an unknown format are never ordered.
//! let (old, new) = (ResourceVersion::from("9"), ResourceVersion::from("10"));
//! assert_eq!(old.compare(&new), Some(std::cmp::Ordering::Less));
//! assert_eq!(old.compare(&ResourceVersion::from("x7")), None);
//! # assert_eq!(pod.value, 1);
//! # Ok::<(), kinformer_core::KeyError>(())
//! ```
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod box_error;
mod change;
mod delta;
mod deltas;
mod error;
#[doc(hidden)]
pub mod internal;
mod key;
#[cfg(loom)]
mod modelled;
mod object;
mod part;
mod sink;
mod tombstone;
mod transform;
mod version;
mod versions;
#[cfg(feature = "wait")]
mod wait;
mod watch_event;

pub use box_error::BoxError;
pub use change::Change;
pub use delta::{Delta, DeltaType, Replacement};
pub use deltas::{Deltas, IntoDeltas};
pub use error::{Error, ObjectError, ObjectName, PartialErrors};
pub use key::{KeyError, KeyProblem, KeyRef, ObjectKey};
pub use object::{Keyed, Labels, Object};
pub use part::{ByNamespace, PartId, PartOrKey, Partition, Parts};
pub use sink::{KnownObjects, ReadyFuture, Sink};
pub use tombstone::{FinalStateUnknown, Tombstone};
pub use transform::Transform;
pub use version::{ResourceVersion, VersionUpdate};
pub use versions::{VersionUpdates, Versions};
#[cfg(feature = "wait")]
pub use wait::Wait;
pub use watch_event::{DecodeError, EventType, WatchEvent};
