//! A reflector on a scripted source, and everything observable of it.

use std::sync::Arc;
use std::time::Duration;

use kinformer_reflector::{
    ApiStatus, Backoff, List, Recovery, Reflector, ReflectorHandle, ReflectorOptions, SourceError, StopReason,
};
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{Item, RecordingSink, ScriptedSource, reentrant};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct Run {
    pub(crate) source: Arc<ScriptedSource<Item>>,
    pub(crate) sink: Arc<RecordingSink<Item>>,
    pub(crate) handle: ReflectorHandle,
    /// The recovery, the error and the delay of each failure.
    pub(crate) failures: Arc<Mutex<Vec<(Recovery, String, Duration)>>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) task: JoinHandle<StopReason>,
    _checks: reentrant::CheckGuard,
}

/// Starts a reflector over the script.
pub(crate) fn start_with(source: ScriptedSource<Item>, options: ReflectorOptions) -> Run {
    let (source, sink) = (Arc::new(source), Arc::new(RecordingSink::new()));
    let failures = Arc::new(Mutex::new(Vec::new()));
    let seen = failures.clone();
    let options = options.error_hook(move |failure| {
        assert_eq!(failure.reflector, "test");
        reentrant::run_checks("the error hook");
        seen.lock().push((failure.recovery, failure.error.to_string(), failure.delay));
    });
    let reflector = Reflector::with_options("test", source.clone(), sink.clone(), options);
    let handle = reflector.handle();
    reentrant::install();
    let checked = handle.clone();
    let _checks = reentrant::add_check(move || {
        drop(format!("{checked:?}"));
        drop((
            checked.metrics(),
            checked.state(),
            checked.last_error(),
            checked.last_version(),
            checked.is_synced(),
        ));
    });
    let cancel = CancellationToken::new();
    let task = tokio::spawn(reflector.run(cancel.clone()));
    Run { source, sink, handle, failures, cancel, task, _checks }
}

pub(crate) fn start(source: ScriptedSource<Item>) -> Run {
    start_with(source, ReflectorOptions::new())
}

impl Run {
    /// Waits until the script is finished and its last events have arrived.
    pub(crate) async fn finished(&self) {
        self.source.finished().await;
        settle().await;
        assert_eq!(self.source.violation(), None);
    }

    /// Stops the reflector and checks that it leaves nothing behind.
    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        assert_eq!(reentrant::check_on_wake(self.task).await.unwrap(), StopReason::Cancelled);
        assert_eq!(reentrant::blocked_checks(), [""; 0]);
        assert_eq!(self.source.open_watches(), 0);
        assert!(self.handle.is_stopped());
    }

    pub(crate) fn recoveries(&self) -> Vec<Recovery> {
        self.failures.lock().iter().map(|(recovery, ..)| *recovery).collect()
    }

    pub(crate) fn delays(&self) -> Vec<Duration> {
        self.failures.lock().iter().map(|(.., delay)| *delay).collect()
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        self.failures.lock().iter().map(|(_, error, _)| error.clone()).collect()
    }
}

/// Runs all tasks that do not wait for time.
pub(crate) async fn settle() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn script() -> ScriptedSource<Item> {
    ScriptedSource::new()
}

/// A source whose first list has one item, at version 7.
pub(crate) fn listed() -> ScriptedSource<Item> {
    script().list(list(7, &[("a", 1)]))
}

/// A watch without events and without an end.
pub(crate) fn hang() -> WatchScript<Item> {
    WatchScript::new().hang()
}

/// A list of items at their versions.
pub(crate) fn list(version: u64, items: &[(&str, u64)]) -> List<Item> {
    List::new(items.iter().map(|(name, version)| Item::new(name, *version)), version)
}

/// A list without a version.
pub(crate) fn unversioned(items: &[(&str, u64)]) -> List<Item> {
    List::new(list(1, items).objects, "")
}

pub(crate) fn steady() -> ReflectorOptions {
    ReflectorOptions::new().backoff(Backoff::from_delays(|| std::iter::repeat(SECOND)))
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn expired() -> SourceError {
    SourceError::expired("too old resource version")
}

pub(crate) fn status(code: u16, reason: &str) -> SourceError {
    ApiStatus::new(code, reason, "sent by a test").into()
}

pub(crate) fn refused() -> SourceError {
    SourceError::ConnectionRefused { source: "no listener".into() }
}

pub(crate) fn broken() -> SourceError {
    SourceError::Transport { source: "reset by peer".into() }
}
