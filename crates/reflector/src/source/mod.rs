//! The source of a reflector: what it implements, and what its requests and answers consist of.

mod exchange;
mod list;
mod lister_watcher;
mod requests;
mod watch_list_support;

pub use self::exchange::Exchange;
pub use self::list::List;
pub use self::lister_watcher::{ListerWatcher, WatchStream};
pub use self::requests::{ListOptions, VersionMatch, WatchOptions};
pub use self::watch_list_support::WatchListSupport;
