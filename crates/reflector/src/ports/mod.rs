//! Parts of client-go that nothing else in the workspace uses: a watch without a list, and a check for tests.

pub(crate) mod consistency;
mod retry_watcher;

pub use retry_watcher::RetryWatcher;
