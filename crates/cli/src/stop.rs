//! What ends the program from outside.

use tokio_util::sync::CancellationToken;

use crate::exit::Error;

/// Asks everything to end, when a signal came or when the work is done. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Stop(CancellationToken);

impl Stop {
    /// Stops at the first Ctrl-C or SIGTERM. The second one ends the process at once, with code 130, for the
    /// case that something does not end.
    ///
    /// # Errors
    /// [`Error::Runtime`]: the operating system refuses the handlers.
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

    /// Completes when it is time to end. Cancel safe.
    pub(crate) async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Waits for something until it is time to end; `None` if it was not there by then.
    pub(crate) async fn unless<F: Future>(&self, wanted: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = wanted => Some(output),
            () = self.requested() => None,
        }
    }

    /// One that only ends by itself.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self(CancellationToken::new())
    }

    /// One that ends with this one, or earlier.
    pub(crate) fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Asks everything that has this one, or a child of it, to end.
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
