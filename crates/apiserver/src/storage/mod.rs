//! The state of the server: objects as wire bytes, one event log per resource, and one global version.
//!
//! Nothing in this module depends on HTTP. A [`ResourceStore`] is one mutex around a persistent map and a ring of
//! events. Readers clone the map in O(1) and walk it outside the lock. Watchers hold a cursor into the ring and read
//! it in batches, so writing an event costs the same for any number of objects and watches.

mod event_type;
mod log;
mod object;
mod ownership;
mod resource;
mod serialize;
mod texts;
mod versions;
mod watcher;

pub(crate) use event_type::EventType;
pub(crate) use log::{Event, Window};
pub(crate) use object::{FRAME_END, Key, ManagedFields, Stored};
pub(crate) use ownership::{DELETE_DEPENDENTS, ORPHAN_DEPENDENTS, OwnerReference};
pub(crate) use resource::{Change, CommitObserver, Outcome, ResourceStore, Snapshot, StoreId};
pub(crate) use serialize::write_json;
pub(crate) use versions::{Activity, Versions};
pub(crate) use watcher::{Next, Watcher};
