//! The embedded API server with the simulated cluster of the demo.

use std::sync::Arc;

use kinformer_apiserver::ApiServer;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::demo::churn::Churn;
use crate::demo::lag::LagRecorder;
use crate::exit::Error;

/// An API server, its simulated cluster, and the task that changes it.
pub(crate) struct Embedded {
    server: Arc<ApiServer>,
    stop: CancellationToken,
    churn: JoinHandle<()>,
    lag: LagRecorder,
}

impl Embedded {
    /// Starts the server, creates the cluster, and starts the changes.
    ///
    /// # Errors
    /// [`Error::Embedded`].
    pub(crate) async fn start(seed: u64) -> Result<Self, Error> {
        let server = Arc::new(ApiServer::builder().start().await?);
        let churn = Churn::begin(server.clone(), seed)?;
        let lag = churn.lag_recorder();
        let stop = CancellationToken::new();
        let churn = tokio::spawn(churn.run(stop.clone()));
        Ok(Self { server, stop, churn, lag })
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The recorder of the time from write to handler.
    pub(crate) fn lag_recorder(&self) -> LagRecorder {
        self.lag.clone()
    }

    /// Stops the changes, then the server.
    pub(crate) async fn shutdown(self) {
        self.stop.cancel();
        // The task has no result, and the panic hook has reported a panic.
        let _ = self.churn.await;
        if let Some(server) = Arc::into_inner(self.server) {
            server.shutdown().await;
        }
    }
}
