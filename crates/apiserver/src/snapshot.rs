//! The state of a server as a value.

use std::fmt;
use std::sync::Arc;

use crate::api::State;

/// The state of a server at one version, as [`ApiServer::snapshot`](crate::ApiServer::snapshot) returns it. Clones share
/// the state.
#[derive(Clone)]
pub struct Snapshot(Arc<State>);

impl Snapshot {
    pub(crate) fn new(state: State) -> Self {
        Self(Arc::new(state))
    }

    /// Returns the newest resource version of the state.
    pub fn version(&self) -> u64 {
        self.0.version()
    }

    pub(crate) fn state(&self) -> &State {
        &self.0
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("version", &self.version()).finish_non_exhaustive()
    }
}
