//! The API server of this process, with the demo's cluster in it and its changes going on.

use std::sync::Arc;

use kinformer_apiserver::ApiServer;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::demo::churn::Churn;
use crate::demo::clock::Clock;
use crate::exit::Error;

/// A server, a cluster and what happens to it.
pub(crate) struct Embedded {
    server: Arc<ApiServer>,
    stop: CancellationToken,
    churn: JoinHandle<()>,
    clock: Clock,
}

impl Embedded {
    /// Starts the server, fills it, and lets changes begin.
    ///
    /// # Errors
    /// [`Error::Embedded`].
    pub(crate) async fn start(seed: u64) -> Result<Self, Error> {
        let server = Arc::new(ApiServer::builder().start().await?);
        let churn = Churn::begin(server.clone(), seed)?;
        let clock = churn.clock();
        let stop = CancellationToken::new();
        let churn = tokio::spawn(churn.run(stop.clone()));
        Ok(Self { server, stop, churn, clock })
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Knows when what was written.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Ends the changes, then the server.
    pub(crate) async fn shutdown(self) {
        self.stop.cancel();
        // It has no result, and a panic in it has been told already.
        let _ = self.churn.await;
        if let Some(server) = Arc::into_inner(self.server) {
            server.shutdown().await;
        }
    }
}
