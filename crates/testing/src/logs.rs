//! The log lines of this process, to test what users read.
//!
//! A process has one subscriber, so tests that read the log of all threads are in a binary of their own.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::dispatcher::{DefaultGuard, Dispatch};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::reentrant::{self, CheckOnLog};

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

/// Makes this the subscriber of the current thread until the guard is dropped, for tests with a subscriber of their own.
///
/// The process gets a subscriber too. Without one, tracing would disable a log line permanently if another thread, without
/// a subscriber, reached it first.
pub fn set_default(subscriber: impl Into<Dispatch>) -> DefaultGuard {
    reentrant::install();
    tracing::dispatcher::set_default(&subscriber.into())
}

/// The lines of one thread.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Returns the lines that contain all of these parts.
    pub fn having(&self, parts: &[&str]) -> Vec<String> {
        let logged = self.0.lock();
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        String::from_utf8_lossy(&logged).lines().filter(has_all).map(str::to_owned).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Collects the lines of the current thread from level `DEBUG` on until the guard is dropped.
pub fn of_this_thread() -> (DefaultGuard, Lines) {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::DEBUG);
    (set_default(subscriber.with_writer(move || writer.clone()).finish()), lines)
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
