//! The stop signal of the program.

use tokio_util::sync::CancellationToken;

use crate::exit::Error;

/// A request to stop, after a signal or when the work is done. Clones share one state.
#[derive(Clone, Debug)]
pub(crate) struct Stop(CancellationToken);

impl Stop {
    /// Stops at the first Ctrl-C or SIGTERM. The second one ends the process at once with code 130, in case the
    /// shutdown hangs.
    ///
    /// # Errors
    /// [`Error::Runtime`]: the operating system rejects the signal handlers.
    pub(crate) fn on_signals() -> Result<Self, Error> {
        let token = CancellationToken::new();
        let mut signals = Signals::new().map_err(Error::Runtime)?;
        let stopping = token.clone();
        tokio::spawn(async move {
            signals.next().await;
            stopping.cancel();
            signals.next().await;
            std::process::exit(130);
        });
        Ok(Self(token))
    }

    /// Waits until a stop is requested.
    ///
    /// # Cancel safety
    /// Nothing is lost: a request is kept, and a later call returns at once.
    pub(crate) async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Waits for a future until a stop is requested; `None` if the stop comes first. The future is dropped then.
    pub(crate) async fn unless<F: Future>(&self, wanted: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = wanted => Some(output),
            () = self.requested() => None,
        }
    }

    /// Creates a stop that no signal triggers.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self(CancellationToken::new())
    }

    /// Creates a stop that is also triggered by this one.
    pub(crate) fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Requests a stop of everything that holds this stop or a child of it.
    pub(crate) fn now(&self) {
        self.0.cancel();
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
