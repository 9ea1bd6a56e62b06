//! Where the answers to one trouble meet another.

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
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn hang() -> WatchScript<Item> {
    WatchScript::new().hang()
}

fn incomplete(version: u64) -> List<Item> {
    list(version, &[("a", 1)]).undecodable([DecodeError::new("no such field").position(1)])
}

fn degraded_at_twenty() -> ScriptedSource<Item> {
    script().list(list(7, &[("a", 1)])).watch_error(expired()).list(incomplete(20)).watch(hang())
}

// contract
#[tokio::test(start_paused = true)]
async fn a_healing_list_below_the_version_asked_for_leads_to_a_list_of_the_newest() {
    let source = degraded_at_twenty()
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

// contract
#[tokio::test(start_paused = true)]
async fn a_degraded_reflector_follows_a_restored_server() {
    // As a kube-apiserver: too large for a list, and a watch that stays silent.
    let source =
        degraded_at_twenty().list_error(too_large()).watch(hang()).list(incomplete(13)).watch(hang());
    let run = start_with(source, steady());
    run.finished().await;
    assert_eq!(run.source.texts()[3..], ["watch 20", "list 20", "watch 20", "list - limit 500", "watch 13"]);
    assert!(run.handle.degraded().is_some());
    run.stop().await;
}

fn too_large() -> SourceError {
    kinformer_reflector::ApiStatus::new(504, "Timeout", "Too large resource version: 20, current: 13").into()
}

#[derive(Debug)]
struct Mute(&'static str);

impl Object for Mute {
    fn key(&self) -> KeyRef<'_> {
        assert!(self.0 != "mute", "no key");
        KeyRef::named(self.0)
    }

    fn resource_version(&self) -> ResourceVersion {
        3.into()
    }

    fn uid(&self) -> Option<&str> {
        None
    }
}

// contract: R-15, I-11
#[tokio::test(start_paused = true)]
async fn an_initial_event_without_a_key_leaves_a_watch_list_degraded() {
    let item = |name| Arc::new(Mute(name));
    let source = ScriptedSource::new()
        .with_watch_list(WatchListSupport::new())
        .watch(WatchScript::new().added(item("a")).added(item("b")).initial_events_end(7).error(expired()))
        .watch(WatchScript::new().added(item("a")).added(item("mute")).initial_events_end(9).hang())
        .list(List::new([item("a")], 9))
        .watch(WatchScript::new().hang());
    let (source, sink) = (Arc::new(source), Arc::new(RecordingSink::new()));
    let reflector = Reflector::with_options("test", source.clone(), sink.clone(), steady());
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let task = tokio::spawn(reflector.run(cancel.clone()));
    handle.wait_for_sync().await.unwrap();
    assert_eq!(handle.stopped_until(Instant::now() + 60 * SECOND).await, None);
    assert_eq!(source.texts(), ["watch-list -", "watch-list 7", "list 9", "watch 9"]);
    assert_eq!(sink.keys(), ["a"], "a list without the object that gives no key is complete");
    assert!(handle.degraded().is_none());
    cancel.cancel();
    task.await.unwrap();
}

/// Its watches end in good order, after a while that is longer than a very short one. It is restored at some time.
struct Restless {
    restored_at: Instant,
    asked: AtomicUsize,
}

impl Restless {
    fn version(&self) -> ResourceVersion {
        if Instant::now() < self.restored_at { 20.into() } else { 13.into() }
    }
}

#[async_trait::async_trait]
impl ListerWatcher<Item> for Restless {
    async fn list(&self, _: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        Ok(List::new([Item::new("a", 1)], self.version()))
    }

    async fn watch(&self, _: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        let end = futures::stream::once(tokio::time::sleep(Duration::from_millis(1200)));
        Ok(Box::pin(futures::StreamExt::filter_map(end, |()| async { None })))
    }

    async fn newest_version(&self) -> Result<Option<ResourceVersion>, SourceError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(Some(self.version()))
    }
}

// contract
#[tokio::test(start_paused = true)]
async fn watches_that_use_up_the_limit_on_requests_leave_room_for_the_newest_version() {
    let source =
        Arc::new(Restless { restored_at: Instant::now() + 600 * SECOND, asked: AtomicUsize::new(0) });
    let sink = Arc::new(RecordingSink::new());
    let reflector = Reflector::new("test", source.clone(), sink);
    let (handle, cancel) = (reflector.handle(), CancellationToken::new());
    let task = tokio::spawn(reflector.run(cancel.clone()));
    assert_eq!(handle.stopped_until(Instant::now() + 600 * SECOND).await, None);
    let before = source.asked.load(Ordering::Relaxed);
    assert_eq!(handle.stopped_until(Instant::now() + 1800 * SECOND).await, None);
    assert_eq!(handle.last_version(), 13.into(), "asked {before} times, then {:?}", source.asked);
    cancel.cancel();
    task.await.unwrap();
}

// contract
#[tokio::test(start_paused = true)]
async fn healing_lists_do_not_make_the_watch_wait_longer() {
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
