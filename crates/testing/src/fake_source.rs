//! Sources and a sink for tests of whatever consumes a [`ListerWatcher`](kinformer_reflector::ListerWatcher).
//!
//! * [`ScriptedSource`] answers what the script says, call by call, and records what was asked.
//! * [`FakeSource`] is a server in memory: versions, history, compaction, pages, bookmarks, watch-list, and
//!   faults on demand.
//! * [`RecordingSink`] records what it is given and holds the map that results.
//! * [`Item`] is an object of which there is no more than a test needs.

mod item;
mod live;
mod recording;
mod scripted;

pub use item::{Item, Versioned};
pub use live::{Backup, FakeSource};
pub use recording::{RecordingSink, delta_text};
pub use scripted::{Call, ScriptedSource, WatchScript};
