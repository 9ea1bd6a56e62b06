//! The log lines of this process, to test what users read.
//!
//! A process has one subscriber, so tests that read the log are in a binary of their own.

use std::io;

use parking_lot::Mutex;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::reentrant::CheckOnLog;

static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGGED.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Installs a subscriber that collects the lines from level `INFO` on, and that [runs the checks](CheckOnLog) in every
/// log call of kinformer. Further calls have no effect.
///
/// # Panics
/// If the process has another subscriber already.
pub fn capture() {
    static CAPTURED: Mutex<bool> = Mutex::new(false);
    let mut captured = CAPTURED.lock();
    if !*captured {
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Writer).finish();
        let set = tracing::subscriber::set_global_default(subscriber.with(CheckOnLog));
        assert!(set.is_ok(), "the process has another subscriber");
        *captured = true;
    }
}

/// Returns all lines so far, of all threads. Each test searches them for its own names.
pub fn lines() -> Vec<String> {
    String::from_utf8_lossy(&LOGGED.lock()).lines().map(str::to_owned).collect()
}

/// Asserts that one line contains all of these parts.
///
/// # Panics
/// If there is none.
#[track_caller]
pub fn assert_logged(parts: &[&str]) {
    let lines = lines();
    let found = lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(found, "no line with {parts:?} in {lines:#?}");
}
