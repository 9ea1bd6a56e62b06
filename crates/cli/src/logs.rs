//! Logs, to stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use anstyle::Style;
use indicatif::MultiProgress;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{self, Writer};

use crate::text;

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
    tracing_subscriber::fmt()
        .fmt_fields(format::debug_fn(field).delimited(" "))
        .with_env_filter(filter)
        .with_writer(|| Stderr)
        .with_ansi(colours)
        .init();
    if let Some(error) = problem {
        tracing::warn!(%error, "RUST_LOG is not understood, and ignored");
    }
}

/// A field of an event or of a span. Everything in a log line that is not the program's own is in one.
fn field(to: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() == "message" {
        return text::write_escaped(to, format_args!("{value:?}"));
    }
    let name = if to.has_ansi_escapes() { Style::new().italic() } else { Style::new() };
    write!(to, "{name}{field}{name:#}=")?;
    text::write_escaped(to, format_args!("{value:?}"))
}
