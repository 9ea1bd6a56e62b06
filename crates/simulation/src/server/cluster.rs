//! The history that all servers of a cluster share.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::history::{History, Key};

/// A cluster: one history, shared by all its servers and actors. Clones are handles.
#[derive(Clone, Debug)]
pub struct Cluster {
    history: Arc<Mutex<History>>,
    /// Wakes in the order of the waits, unlike a `watch` channel.
    changed: Arc<Notify>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// Creates a cluster without objects, at version 1.
    pub fn new() -> Self {
        Self { history: Arc::default(), changed: Arc::default() }
    }

    /// Creates or replaces an object. The content is a JSON object, such as `{"data": {...}}` with or without
    /// `metadata.labels`. Returns its version.
    pub fn put(&self, key: Key, content: Value) -> u64 {
        self.write(|history| history.put(key, content))
    }

    /// Deletes an object. Returns the version of the deletion, or `None` if there is no such object.
    pub fn delete(&self, key: Key) -> Option<u64> {
        self.write(|history| history.delete(key, None))
    }

    /// Deletes an object, whose final state has another content. Returns the version of the deletion, or `None` if there
    /// is no such object.
    pub fn delete_with(&self, key: Key, content: Value) -> Option<u64> {
        self.write(|history| history.delete(key, Some(content)))
    }

    /// Changes content of all objects without changing the versions in them, as a new default or another conversion does.
    /// kube-apiserver sends no events for it, but begins with the new content: restart all servers with it.
    pub fn convert(&self, content: &Value) {
        self.write(|history| history.convert(content));
    }

    /// Moves the version on, as writes of other resources do.
    pub fn skip(&self, versions: u64) {
        self.write(|history| history.skip(versions));
    }

    /// Makes all states before a version unreadable. Watch caches keep their events; see
    /// [`Server::drop_events`](super::Server::drop_events).
    pub fn compact(&self, version: u64) {
        self.write(|history| history.compact(version));
    }

    /// Restores a backup: goes back to the state at a version, and continues from there, so that versions are used again.
    /// All servers restart, so all watches break.
    pub fn restore(&self, version: u64) {
        self.write(|history| history.restore(version));
    }

    /// Restores a backup, and continues this many versions after the newest, as `etcdutl snapshot restore` does with
    /// `--bump-revision` and `--mark-compacted`: no version is used again.
    pub fn restore_ahead(&self, version: u64, versions: u64) {
        self.write(|history| history.restore_ahead(version, versions));
    }

    /// Reads the history. `read` must not call the cluster or a server.
    pub fn read<R>(&self, read: impl FnOnce(&History) -> R) -> R {
        read(&self.history.lock())
    }

    pub(crate) fn write<R>(&self, write: impl FnOnce(&mut History) -> R) -> R {
        let written = write(&mut self.history.lock());
        self.notify();
        written
    }

    /// Wakes all requests that wait for a change.
    pub(crate) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Returns a future that completes at the next change after this call.
    pub(crate) fn next_change(&self) -> OwnedNotified {
        self.changed.clone().notified_owned()
    }
}
