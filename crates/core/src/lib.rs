//! The vocabulary of Kubernetes informers, and the traits through which the layers of kinformer meet.
//!
//! This crate holds no machinery: no async runtime, no HTTP, no Kubernetes. Everything above it agrees on
//! what is defined here:
//!
//! * [`Object`]: anything with a key. Your own `struct Pod { name, value }` is one as soon as it says what
//!   its key is; a type that is not yours becomes one inside [`Keyed`].
//! * [`ObjectKey`] and [`KeyRef`]: an optional cluster, an optional namespace and a name of any characters, owned in
//!   one allocation or borrowed in none.
//! * [`ResourceVersion`]: an opaque string that compares only when comparing is not a guess.
//! * [`Delta`], [`DeltaType`], [`Tombstone`], [`Replacement`]: what happened to an object, to all objects.
//! * [`PartId`], [`Partition`], [`Versions`]: collections that several sources bring, a part each.
//! * [`Change`]: what a delta did to a stored object.
//! * [`Sink`]: what a reflector writes into. Queues and stores are sinks.
//! * [`KnownObjects`]: what a queue asks a store.
//! * [`Error`] and [`Report`]: an `Err` means that nothing changed; a [`Report`] lists what was wrong with
//!   single objects while everything else was applied.
//!
//! # Trade-offs
//!
//! Identity is the key, never the UID: an object that was deleted and made again under one name may arrive
//! as one update, and both UIDs can be read from the two states. Objects travel as `Arc<T>` and are never
//! copied; so nobody can change what others read.
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
//! // Versions of no known form are not ordered, not even by accident.
//! let (old, new) = (ResourceVersion::from("9"), ResourceVersion::from("10"));
//! assert_eq!(old.compare(&new), Some(std::cmp::Ordering::Less));
//! assert_eq!(old.compare(&ResourceVersion::from("x7")), None);
//! # assert_eq!(pod.value, 1);
//! # Ok::<(), kinformer_core::KeyError>(())
//! ```

mod change;
mod delta;
mod deltas;
mod error;
#[doc(hidden)]
pub mod internal;
mod key;
mod object;
mod part;
mod sink;
mod tombstone;
mod transform;
mod version;

pub use change::Change;
pub use delta::{Delta, DeltaType, Replacement};
pub use deltas::{Deltas, IntoDeltas};
pub use error::{BoxError, Error, Problem, Report};
pub use key::{KeyError, KeyProblem, KeyRef, ObjectKey};
pub use object::{Keyed, Labels, Object};
pub use part::{ByNamespace, PartId, PartOrKey, Partition, Parts, VersionUpdates, Versions};
pub use sink::{KnownObjects, ReadyFuture, Sink};
pub use tombstone::{FinalStateUnknown, Tombstone};
pub use transform::Transform;
pub use version::{ResourceVersion, VersionUpdate};
