//! The listening socket, which can be closed and opened again.

use tokio::sync::watch;

/// Whether the server listens for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerState {
    Open,
    Closed,
}

/// The requested state of the socket, and its actual one.
#[derive(Debug)]
pub(crate) struct Listener {
    requested: watch::Sender<ListenerState>,
    actual: watch::Sender<ListenerState>,
}

impl Listener {
    pub(super) fn new() -> Self {
        Self {
            requested: watch::Sender::new(ListenerState::Open),
            actual: watch::Sender::new(ListenerState::Open),
        }
    }

    /// Requests a state without waiting for it.
    pub(super) fn request(&self, state: ListenerState) {
        self.requested.send_replace(state);
    }

    /// Requests a state, and completes when it is the actual one.
    pub(super) async fn set(&self, state: ListenerState) {
        self.request(state);
        let mut actual = self.actual.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = actual.wait_for(|actual| *actual == state).await;
    }

    pub(crate) fn requested(&self) -> watch::Receiver<ListenerState> {
        self.requested.subscribe()
    }

    pub(crate) fn set_actual(&self, state: ListenerState) {
        self.actual.send_replace(state);
    }
}
