//! The signals that end a program.

use std::io;

/// Returns a future that ends at the first SIGINT or SIGTERM.
#[cfg(unix)]
pub(crate) fn received() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Returns a future that ends at the first Ctrl-C.
#[cfg(not(unix))]
pub(crate) fn received() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        // An error means that no signal can arrive.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    })
}
