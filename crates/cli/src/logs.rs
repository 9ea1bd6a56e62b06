//! Logs, to stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use indicatif::MultiProgress;
use tracing_subscriber::EnvFilter;

/// What is shown live on the terminal, if anything is.
static LIVE: OnceLock<MultiProgress> = OnceLock::new();

/// From now on this is shown live, and has to make room for what is logged.
pub(crate) fn beside(live: MultiProgress) {
    LIVE.get_or_init(|| live);
}

/// Standard error, beside what is shown live.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match LIVE.get() {
            Some(live) => live.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Starts logging: what `RUST_LOG` says, else what the number of `-v` says, which is warnings for none.
pub(crate) fn start(verbosity: u8) {
    let fallback = match verbosity {
        // What fails in kube-client is told by whoever asked it.
        0 => "warn,kube_client=off",
        1 => "warn,kinformer=info",
        2 => "info,kinformer=debug",
        _ => "debug,kinformer=trace",
    };
    // Every crate of the workspace has a name that begins with `kinformer`, and a directive is for a prefix.
    let set = std::env::var("RUST_LOG").ok().filter(|text| !text.trim().is_empty());
    let filter = set.as_deref().map(EnvFilter::try_new).unwrap_or_else(|| EnvFilter::try_new(fallback));
    let (filter, problem) = match filter {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(fallback), Some(error)),
    };
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Stderr).with_ansi(colours).init();
    if let Some(error) = problem {
        tracing::warn!(%error, "RUST_LOG is not understood, and ignored");
    }
}
