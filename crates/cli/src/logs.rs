//! Logging to standard error.

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

/// The live display on the terminal, if there is one.
static LIVE: OnceLock<MultiProgress> = OnceLock::new();

/// Registers a live display, which is suspended while a log line is written.
pub(crate) fn beside(live: MultiProgress) {
    LIVE.get_or_init(|| live);
}

/// Standard error, above the live display.
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

/// Starts logging with the filter of `RUST_LOG`, or else of the `-v` count, which is warnings for zero.
pub(crate) fn start(verbosity: u8) {
    let fallback = match verbosity {
        // Errors of kube-client are reported by its callers, failures of lists and watches in lines for people.
        0 => "warn,kube_client=off,kinformer_reflector=error",
        1 => "warn,kinformer=info",
        2 => "info,kinformer=debug",
        _ => "debug,kinformer=trace",
    };
    // Directives match prefixes, and all crates of the workspace have names that begin with `kinformer`.
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
        tracing::warn!(%error, "RUST_LOG is invalid and ignored");
    }
}

/// Formats a field of an event or span, escaped. All foreign text in a log line is in a field.
fn field(to: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() == "message" {
        return text::write_escaped(to, format_args!("{value:?}"));
    }
    let name = if to.has_ansi_escapes() { Style::new().italic() } else { Style::new() };
    write!(to, "{name}{field}{name:#}=")?;
    text::write_escaped(to, format_args!("{value:?}"))
}
