//! What the server holds: objects as their wire bytes, one log of events per resource, one version for all.
//!
//! Nothing in here knows HTTP. A [`ResourceStore`] is one mutex around a persistent map and a ring of
//! events; readers take the map in O(1) and walk it outside the lock; watchers keep a cursor into the ring
//! and read it in batches, so that an event costs the writer the same whatever is stored and however many
//! watch.

mod event_kind;
mod log;
mod object;
mod resource;
mod versions;
mod watcher;

pub(crate) use event_kind::EventKind;
pub(crate) use log::Event;
pub(crate) use object::{FRAME_END, Key, Stored, write_json};
pub(crate) use resource::{Change, Outcome, ResourceStore, Snapshot};
pub(crate) use versions::Versions;
pub(crate) use watcher::{Next, Watcher};
