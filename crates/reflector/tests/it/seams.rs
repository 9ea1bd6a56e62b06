//! Combinations of failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use kinformer_core::{KeyRef, Object, ResourceVersion};
use kinformer_reflector::{
    DecodeError, List, ListOptions, ListerWatcher, Recovery, Reflector, SourceError, WatchListSupport,
    WatchOptions, WatchStream,
};
use kinformer_testing::fake_source::WatchScript;
use kinformer_testing::{Item, RecordingSink, ScriptedSource};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

fn incomplete(version: u64) -> List<Item> {
    list(version, &[("a", 1)]).undecodable([DecodeError::new("no such field").index(1)])
}

fn incomplete_at_twenty() -> ScriptedSource<Item> {
    script().list(list(7, &[("a", 1)])).watch_error(expired()).list(incomplete(20)).watch(hang())
}

/// A repeated list below the requested version leads to a list of the newest state.
// contract: R-15e, R-17b, R-17e
#[tokio::test(start_paused = true)]
async fn outdated_repeated_list_relists_the_newest() {
    let source = incomplete_at_twenty()
        .list(list(13, &[("b", 12)]))
        .watch(hang())
        .list(list(14, &[("b", 12)]))
        .watch(hang());
    let run = start_with(source, steady());
    run.finished().await;
    assert_eq!(run.source.texts()[3..], ["watch 20", "list 20", "watch 20", "list - limit 500", "watch 14"]);
    assert_eq!(run.sink.keys(), ["b"]);
    run.stop().await;
}

// contract: R-15e, R-17e
#[tokio::test(start_paused = true)]
async fn repeated_list_detects_a_restored_server() {
    // As kube-apiserver behaves: the version is too large for a list, and a watch stays silent.
    let source =
        incomplete_at_twenty().list_error(too_large()).watch(hang()).list(incomplete(13)).watch(hang());
    let run = start_with(source, steady());
    run.finished().await;
    assert_eq!(run.source.texts()[3..], ["watch 20", "list 20", "watch 20", "list - limit 500", "watch 13"]);
    assert!(run.handle.incomplete_list().is_some());
    run.stop().await;
}

fn too_large() -> SourceError {
    kinformer_reflector::ApiStatus::new(504, "Timeout", "Too large resource version: 20, current: 13").into()
}

#[derive(Debug)]
struct Keyless(&'static str);

impl Object for Keyless {
    fn key(&self) -> KeyRef<'_> {
        assert!(self.0 != "keyless", "no key");
        KeyRef::named(self.0)
    }

    fn resource_version(&self) -> ResourceVersion {
        3.into()
    }

    fn uid(&self) -> Option<&str> {
        None
    }
}

// contract: R-15e, R-15f, I-11d
#[tokio::test(start_paused = true)]
async fn keyless_initial_event_makes_list_incomplete() {
    let item = |name| Arc::new(Keyless(name));
    let source = ScriptedSource::new()
        .with_watch_list(WatchListSupport::new())
        .watch(WatchScript::new().added(item("a")).added(item("b")).initial_events_end(7).error(expired()))
        .watch(WatchScript::new().added(item("a")).added(item("keyless")).initial_events_end(9).hang())
        .list(List::new([item("a")], 9))
        .watch(WatchScript::new().hang());
    let (source, sink) = (Arc::new(source), Arc::new(RecordingSink::new()));
    let reflector = Reflector::with_options("test", source.clone(), sink.clone(), steady());
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let task = tokio::spawn(reflector.run(cancel.clone()));
    handle.wait_for_sync().await.unwrap();
    assert_eq!(timeout(60 * SECOND, handle.stopped()).await.ok(), None);
    assert_eq!(source.texts(), ["watch-list -", "watch-list 7", "list 9", "watch 9"]);
    assert_eq!(sink.keys(), ["a"], "a list without the keyless object is complete");
    assert!(handle.incomplete_list().is_none());
    cancel.cancel();
    task.await.unwrap();
}

/// A source whose watches end without an error after more than a second. It is restored to an older state at some time.
struct ShortWatches {
    restored_at: Instant,
    probes: AtomicUsize,
}

impl ShortWatches {
    fn version(&self) -> ResourceVersion {
        if Instant::now() < self.restored_at { 20.into() } else { 13.into() }
    }
}

#[async_trait::async_trait]
impl ListerWatcher<Item> for ShortWatches {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        Ok(List::new([Item::new("a", 1)], self.version()))
    }

    async fn watch(&self, _: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        let end = futures::stream::once(tokio::time::sleep(Duration::from_millis(1200)));
        Ok(Box::pin(futures::StreamExt::filter_map(end, |()| async { None })))
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        Ok(Some(self.version()))
    }
}

/// Watches that use up the limit on requests do not prevent requests for the newest version.
// contract: R-18e, R-21c
#[tokio::test(start_paused = true)]
async fn request_limit_leaves_room_for_version_probes() {
    let source =
        Arc::new(ShortWatches { restored_at: Instant::now() + 600 * SECOND, probes: AtomicUsize::new(0) });
    let sink = Arc::new(RecordingSink::new());
    let reflector = Reflector::new("test", source.clone(), sink);
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let task = tokio::spawn(reflector.run(cancel.clone()));
    assert_eq!(timeout(600 * SECOND, handle.stopped()).await.ok(), None);
    let before = source.probes.load(Ordering::Relaxed);
    assert_eq!(timeout(1800 * SECOND, handle.stopped()).await.ok(), None);
    assert_eq!(handle.last_version(), 13.into(), "{before} probes, then {:?}", source.probes);
    cancel.cancel();
    task.await.unwrap();
}

// contract: R-01b, R-15e
#[tokio::test(start_paused = true)]
async fn repeated_lists_do_not_lengthen_watch_delays() {
    let mut source = script().list(incomplete(20));
    for _ in 0..8 {
        source = source.watch(hang()).list(incomplete(20));
    }
    let run = start(source.watch(WatchScript::new().error(broken())).watch(hang()));
    run.finished().await;
    let failures = run.failures.lock().clone();
    let (.., delay) = failures.iter().find(|(recovery, ..)| *recovery == Recovery::Rewatch).unwrap();
    assert!(*delay <= 2 * SECOND, "the first failure of a watch is followed by {delay:?}");
    run.stop().await;
}
