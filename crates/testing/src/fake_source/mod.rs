//! Sources and a sink for tests of code that uses a [`ListerWatcher`](kinformer_reflector::ListerWatcher).
//!
//! * [`ScriptedSource`] answers each call as scripted, and records the calls.
//! * [`FakeSource`] is an in-memory server with versions, history, compaction, pages, bookmarks, watch-list and fault
//!   injection.
//! * [`Change`] is a random change or fault of a `FakeSource`.
//! * [`RecordingSink`] records every delta and holds the resulting objects.
//! * [`Item`] is a minimal object.

mod change;
mod item;
mod live;
mod recording;
mod scripted;

pub use change::Change;
pub use item::{Item, Versioned};
pub use live::{Backup, FakeSource, Versions};
pub use recording::{RecordingSink, delta_text};
pub use scripted::{Call, ScriptedSource, WatchScript};
