//! A handler of an informer.

use std::sync::Arc;
use std::time::Duration;

use kinformer::Registration;
use parking_lot::Mutex;

use crate::judge::HandlerView;
use crate::record::Objects;

/// A handler and its view of the objects.
pub(crate) struct CheckedHandler {
    pub(crate) registration: Registration,
    pub(super) known: Arc<Mutex<HandlerView>>,
    pub(super) resync: Duration,
    /// Whether it was added after the start.
    pub(super) is_late: bool,
    /// Whether it makes the store wait.
    pub(super) has_back_pressure: bool,
    /// The objects that were stored when it was added.
    pub(super) joined: Objects,
}

impl CheckedHandler {
    /// Removes the handler.
    pub(crate) async fn remove(&self) {
        self.registration.remove().await;
        self.known.lock().removed();
    }
}
