//! Random histories: when the server stops changing, the sink ends up equal to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::StreamExt;
use kinformer_core::{Delta, Object};
use kinformer_reflector::{
    DecodeError, List, ListOptions, ListerWatcher, Reflector, ReflectorOptions, SourceError, StopReason,
    WatchEvent, WatchListSupport, WatchOptions, WatchStream,
};
use kinformer_testing::fake_source::Change;
use kinformer_testing::{FakeSource, Item, RecordingSink};
use proptest::prelude::*;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
enum Step {
    Change(Change),
    /// The number of following lists in which one item is unidentified.
    DamageLists(u8),
    /// The number of following events that are unidentified.
    DamageEvents(u8),
    NoRoom,
    Room,
    /// Milliseconds.
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => Change::any().prop_map(Step::Change),
        1 => (1_u8..4).prop_map(Step::DamageLists),
        1 => (1_u8..4).prop_map(Step::DamageEvents),
        1 => Just(Step::NoRoom),
        1 => Just(Step::Room),
        6 => any::<u16>().prop_map(Step::Pass),
    ]
}

/// A server whose answers may be damaged in transit.
struct Damaging {
    server: FakeSource<Item>,
    lists: Arc<AtomicU8>,
    events: Arc<AtomicU8>,
}

/// Returns whether this answer is damaged as well.
fn is_damaged(left: &AtomicU8) -> bool {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[async_trait::async_trait]
impl ListerWatcher<Item> for Damaging {
    async fn list(&self, options: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        let mut list = self.server.list(options).await?;
        if !list.objects.is_empty() && is_damaged(&self.lists) {
            let position = list.objects.len() / 2;
            list.objects.remove(position);
            list.undecodable.push(DecodeError::new("damaged").index(position));
        }
        Ok(list)
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        let events = self.events.clone();
        let damaged = move |event| match event {
            Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_))
                if is_damaged(&events) =>
            {
                Ok(WatchEvent::Undecodable(DecodeError::new("damaged")))
            }
            event => event,
        };
        Ok(self.server.watch(options).await?.map(damaged).boxed())
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        self.server.watch_list_support()
    }
}

fn server(kind: u8) -> FakeSource<Item> {
    let server = FakeSource::new();
    match kind % 4 {
        0 => server,
        1 => server.without_watch_list(),
        2 => server.without_bookmarks(),
        _ => server.without_pages().without_watch_list(),
    }
}

/// Asserts that the versions of a key never go back.
fn check_versions(records: &[Delta<Item>]) {
    let mut newest: HashMap<String, u64> = HashMap::new();
    let mut check = |item: &Arc<Item>, what: &str| {
        let seen = newest.entry(item.key().to_string()).or_default();
        assert!(*seen <= item.version, "{what} {} goes back from {seen} to {}", item.key(), item.version);
        *seen = item.version;
    };
    for record in records {
        match record {
            Delta::Added(item) => check(item, "add"),
            Delta::Updated(item) => check(item, "update"),
            Delta::ReplacedAll(list) => list.objects.iter().for_each(|item| check(item, "replace")),
            Delta::Deleted(tombstone) => tombstone.object().iter().for_each(|item| check(item, "delete")),
            other => assert!(matches!(other, Delta::SyncAll | Delta::Bookmark { .. }), "{other:?}"),
        }
    }
}

async fn history(kind: u8, page: u8, steps: Vec<Step>) {
    let server = server(kind);
    let sink = Arc::new(RecordingSink::new());
    let mut options = ReflectorOptions::new().resync_period(Duration::from_secs(20));
    if let Some(size) = std::num::NonZeroU32::new(u32::from(page % 4)) {
        options = options.page_size(size);
    }
    let (lists, events) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicU8::new(0)));
    let source = Damaging { server: server.clone(), lists: lists.clone(), events: events.clone() };
    let reflector = Reflector::with_options("random", source, sink.clone(), options);
    let handle = reflector.handle();
    let cancel = CancellationToken::new();
    let task = tokio::spawn(reflector.run(cancel.clone()));
    for (value, step) in (1_u64..).zip(steps) {
        match step {
            Step::Change(change) => change.make(&server, value),
            Step::DamageLists(n) => lists.store(n, Relaxed),
            Step::DamageEvents(n) => events.store(n, Relaxed),
            Step::NoRoom => sink.set_room(0),
            Step::Room => sink.set_room(usize::MAX),
            // The paused clock advances only while no task can run.
            Step::Pass(ms) => drop(timeout_at(after(u64::from(ms)), handle.stopped()).await),
        }
    }
    sink.set_room(usize::MAX);
    // From here on the server does not change. The wait is longer than all delays and deadlines.
    _ = timeout_at(after(3_600_000), handle.stopped()).await;
    let stored = sink.objects();
    let decodable = server.decodable();
    for (key, item) in &decodable {
        assert_eq!(stored.get(key), Some(item), "{key}");
    }
    // An undecodable object keeps its previous state or is missing.
    for key in stored.keys() {
        assert!(decodable.contains_key(key) || server.exists(key), "{key} is deleted at the server");
    }
    check_versions(&sink.take());
    assert!(handle.is_synced());
    assert!(handle.incomplete_list().is_none(), "a list was complete by now");
    cancel.cancel();
    assert_eq!(task.await.unwrap(), StopReason::Cancelled);
    assert_eq!(server.open_watches(), 0);
}

fn after(ms: u64) -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_millis(ms)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    // contract: I-02, I-03, R-05a, R-08a, R-14e, R-15a, L-08b
    #[test]
    fn sink_ends_up_equal_to_the_server(
        kind in any::<u8>(),
        page in any::<u8>(),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(history(kind, page, steps));
    }
}
