//! Handlers that join late: the initial list, then live events, and when they count as synced.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{Pod, Recorder, added, at_revision, gate, pod, start, updated};
use futures::FutureExt as _;
use kinformer_core::Change;
use kinformer_processor::{
    Added, Buffer, Deleted, Event, InitialState, Registration, SharedProcessor, Updated,
};
use kinformer_testing::reentrant::within;
use parking_lot::Mutex;
use tokio::sync::mpsc;

type Map = BTreeMap<String, Arc<Pod>>;

/// A minimal store with revisions.
#[derive(Default)]
struct Store(Mutex<(u64, Map)>);

impl Store {
    fn state(&self) -> InitialState<Pod> {
        let state = self.0.lock();
        let objects: Vec<_> = state.1.values().cloned().collect();
        InitialState::new(state.0, objects.into_iter())
    }

    /// Makes the change that `seed` selects. Returns its revision and the change to publish.
    fn change(&self, seed: u64) -> (u64, Change<Pod>) {
        let mut state = self.0.lock();
        state.0 += 1;
        let revision = state.0;
        let name = format!("p{}", seed % 50);
        let new = pod(&name, revision);
        let notification = match state.1.get(&name).cloned() {
            Some(old) if seed.is_multiple_of(3) => {
                state.1.remove(&name);
                Change::deleted(old)
            }
            Some(old) => {
                state.1.insert(name, new.clone());
                Change::updated(old, new)
            }
            None => {
                state.1.insert(name, new.clone());
                Change::added(new)
            }
        };
        (revision, notification)
    }
}

/// Pseudo-random numbers.
fn random(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed | 1), |state| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 7);
        Some(state ^ (state << 17))
    })
    .map(|state| state >> 11)
}

/// A handler, and the map that it builds from its events.
struct Follower {
    map: Arc<Mutex<Map>>,
    registration: Registration,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Inline,
    Blocking,
    Coalesced,
    Bounded,
}

const KINDS: [Kind; 4] = [Kind::Inline, Kind::Blocking, Kind::Coalesced, Kind::Bounded];

fn follow(processor: &SharedProcessor<Pod>, kind: Kind, end: mpsc::Sender<()>) -> Follower {
    let map = Arc::new(Mutex::new(Map::new()));
    let (mine, mut live) = (map.clone(), false);
    let handler = move |event: &Event<Arc<Pod>>| {
        let mut map = mine.lock();
        match event {
            Event::Added(Added { object, in_initial_list, .. }) => {
                assert!(!(live && *in_initial_list), "the initial list comes first");
                live |= !in_initial_list;
                assert!(map.insert(object.name.clone(), object.clone()).is_none(), "delivered twice");
            }
            Event::Updated(Updated { old, new, .. }) => {
                live = true;
                let previous =
                    map.insert(new.name.clone(), new.clone()).expect("update of an undelivered object");
                assert!(Arc::ptr_eq(&previous, old), "`old` is not the object delivered last");
                assert!(previous.version < new.version);
            }
            Event::Deleted(Deleted { tombstone, .. }) => {
                live = true;
                assert!(map.remove(tombstone.key().name()).is_some(), "deletion of an undelivered object");
            }
            _ => unreachable!("unknown event"),
        }
        if event.key().name() == "end" {
            end.try_send(()).unwrap();
        }
    };
    let builder = processor.handler();
    let registration = match kind {
        Kind::Inline => builder.inline().for_each(handler),
        Kind::Blocking => builder.for_each(handler),
        Kind::Coalesced => builder.buffer(Buffer::Coalesced).for_each(handler),
        Kind::Bounded => builder.buffer(Buffer::BackPressure(10)).inline().for_each(handler),
    };
    Follower { map, registration: registration.unwrap() }
}

/// Handlers that join under heavy load miss no event and receive none twice.
// contract: P-05b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_joiners_miss_and_repeat_nothing() {
    const JOINERS: usize = 40;
    let store = Arc::new(Store::default());
    let state = store.clone();
    let processor = SharedProcessor::builder("test").initial_state(move || state.state()).build();
    let (end, mut ended) = mpsc::channel(JOINERS + KINDS.len());
    let early: Vec<_> = KINDS.map(|kind| follow(&processor, kind, end.clone())).into();
    let running = start(&processor);

    let writer = {
        let (store, processor) = (store.clone(), processor.clone());
        tokio::spawn(async move {
            for (i, seed) in random(88_172_645_463_325_252).take(20_000).enumerate() {
                let (revision, notification) = store.change(seed);
                if i % 2 == 0 {
                    // A handler that joins here gets the change from the store. It must not be delivered again.
                    tokio::task::yield_now().await;
                }
                processor.send(at_revision(revision, [notification])).await;
            }
        })
    };
    let mut joining = Vec::new();
    for joiner in 0..JOINERS {
        let (processor, end) = (processor.clone(), end.clone());
        joining.push(tokio::spawn(async move {
            for _ in 0..joiner * 20 {
                tokio::task::yield_now().await;
            }
            follow(&processor, KINDS[joiner % KINDS.len()], end)
        }));
    }
    let mut followers = early;
    for joiner in joining {
        followers.push(within(joiner).await.unwrap());
    }
    within(writer).await.unwrap();
    let revision = {
        let mut state = store.0.lock();
        state.0 += 1;
        let end = pod("end", state.0);
        state.1.insert("end".to_owned(), end.clone());
        processor.publish(at_revision(state.0, [Change::added(end)]));
        state.0
    };
    processor.publish_synced();
    for follower in &followers {
        within(ended.recv()).await.unwrap();
        within(follower.registration.synced()).await.unwrap();
    }
    running.stop().await.unwrap();
    let store = store.0.lock();
    assert_eq!(revision, 20_001);
    for follower in &followers {
        assert_eq!(follower.registration.metrics().panics, 0, "see the assertions of the handler");
        assert_eq!(*follower.map.lock(), store.1);
    }
}

/// A late handler receives every object. While its initial list is delivered, neither the publisher nor other handlers
/// wait.
// contract: P-05a, P-05c
#[tokio::test]
async fn late_handler_does_not_block_publisher() {
    let store = Arc::new(Store::default());
    let state = store.clone();
    let processor = SharedProcessor::builder("test").initial_state(move || state.state()).build();
    let first = Recorder::new();
    processor.handler().inline().add(first.handler()).unwrap();
    let running = start(&processor);
    // Stored at revision 1, and not published yet.
    store.0.lock().0 = 1;
    store.0.lock().1.insert("a".to_owned(), pod("a", 1));
    let (gate, mut wait) = gate();
    let late = Recorder::new();
    let note = late.clone();
    let handler = move |event: &Event<Arc<Pod>>| {
        wait();
        note.note(event);
    };
    let registration = processor.handler().buffer(Buffer::BackPressure(1)).add(handler).unwrap();
    assert_eq!(registration.metrics().depth, 1);
    gate.reached().await;

    // A callback that blocks in the initial list does not block the publisher.
    assert!(processor.is_ready());
    within(processor.send(at_revision(1, [added("a", 1)]))).await;
    processor.publish(at_revision(2, [updated("a", 1, 2)]));
    assert_eq!(first.received(2).await, ["+a1", "a1>2"]);
    drop(gate);
    assert_eq!(late.received(2).await, ["+a1!", "a1>2"]);
    running.stop().await.unwrap();
}

/// A joining handler receives only those changes of a batch that its initial state does not include. The batch has
/// several revisions, and is published between the cursor of the handler and the read of its initial state.
// contract: P-05b, P-21a, P-21b
#[tokio::test]
async fn initial_state_splits_published_batch() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(10)] {
        let to_publish = Arc::new(Mutex::new(None::<SharedProcessor<Pod>>));
        let publisher = to_publish.clone();
        let state = move || {
            if let Some(processor) = publisher.lock().take() {
                let [first, second] =
                    [at_revision(1, [added("a", 1), added("b", 1)]), at_revision(2, [added("c", 2)])];
                // Without a revision: no state includes it.
                processor.publish([first, second, vec![added("d", 3)]].concat());
                return InitialState::new(1, vec![pod("a", 1), pod("b", 1)].into_iter());
            }
            InitialState::new(0, Vec::new().into_iter())
        };
        let processor = SharedProcessor::builder("test").initial_state(state).build();
        let (early, late) = (Recorder::new(), Recorder::new());
        processor.handler().buffer(buffer).inline().add(early.handler()).unwrap();
        *to_publish.lock() = Some(processor.clone());
        processor.handler().buffer(buffer).inline().add(late.handler()).unwrap();
        let running = start(&processor);
        assert_eq!(early.received(4).await, ["+a1", "+b1", "+c2", "+d3"], "{buffer:?}");
        assert_eq!(late.received(4).await, ["+a1!", "+b1!", "+c2", "+d3"], "{buffer:?}");
        running.stop().await.unwrap();
    }
}

/// An initial list longer than the back-pressure bound does not block the publisher forever.
// contract: P-05c
#[tokio::test]
async fn initial_list_may_exceed_bound() {
    let state =
        || InitialState::new(0, (0..10).map(|i| pod(&format!("p{i}"), 1)).collect::<Vec<_>>().into_iter());
    let processor = SharedProcessor::builder("test").initial_state(state).build();
    let running = start(&processor);
    let recorder = Recorder::new();
    processor.handler().buffer(Buffer::BackPressure(1)).inline().add(recorder.handler()).unwrap();
    for i in 1..=5 {
        within(processor.send(at_revision(i, [added(&format!("q{i}"), i)]))).await;
    }
    assert_eq!(recorder.received(15).await[9..11], ["+p91!", "+q11"]);
    running.stop().await.unwrap();
}

/// Waits until no handler has undelivered events.
async fn settled(processor: &SharedProcessor<Pod>) {
    let recorder = Recorder::new();
    processor.handler().inline().add(recorder.handler()).unwrap();
    processor.publish(at_revision(u64::MAX, [added("settled", 1)]));
    within(async {
        while !recorder.recorded().contains(&"+settled1".to_owned())
            || processor.handler_metrics().iter().any(|s| s.depth > 0)
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A handler has synced once the informer has synced and the handler has processed its initial events.
// contract: P-06a, P-06b
#[tokio::test]
async fn handler_syncs_after_informer_and_backlog() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(10)] {
        let processor = SharedProcessor::new("test");
        let (gate, mut wait) = gate();
        let slow = processor.handler().buffer(buffer).for_each(move |_: &Event<Arc<Pod>>| wait()).unwrap();
        let fast = processor.handler().buffer(buffer).inline().for_each(|_: &Event<Arc<Pod>>| ()).unwrap();
        let running = start(&processor);
        processor.publish([added("a", 1).in_initial_list(), added("b", 1).in_initial_list()]);
        gate.reached().await;
        while fast.metrics().delivered < 2 {
            tokio::task::yield_now().await;
        }
        assert!(!fast.has_synced(), "the informer has not synced");
        assert!(!processor.has_synced());
        processor.publish_synced();
        processor.publish_synced();
        assert!(processor.has_synced());
        within(fast.synced()).await.unwrap();

        assert!(!slow.has_synced());
        gate.let_one_pass();
        gate.reached().await;
        assert!(!slow.has_synced(), "the last one is still being delivered");
        assert!(slow.synced().now_or_never().is_none());
        drop(gate);
        within(slow.synced()).await.unwrap();
        assert!(slow.has_synced() && slow.metrics().synced);
        running.stop().await.unwrap();
        assert!(slow.synced().await.is_ok(), "it remains synced after the stop");
    }
}

/// A handler whose backlog is never empty is marked as synced once it has processed its initial list.
// contract: P-06b
#[tokio::test]
async fn busy_handler_becomes_synced() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced] {
        let processor = SharedProcessor::new("test");
        let (gate, mut wait) = gate();
        let busy = processor
            .handler()
            .buffer(buffer)
            .for_each(move |event: &Event<Arc<Pod>>| {
                if !matches!(event, Event::Added(Added { in_initial_list: true, .. })) {
                    wait();
                }
            })
            .unwrap();
        processor.publish([added("a", 1).in_initial_list()]);
        processor.publish_synced();
        processor.publish([added("b", 1), added("c", 1)]);
        let running = start(&processor);
        gate.reached().await;
        within(busy.synced()).await.unwrap();
        drop(gate);
        running.stop().await.unwrap();
    }
}

/// A handler with an empty initial list has synced once the informer has synced.
// contract: P-06a, P-06b
#[tokio::test]
async fn empty_initial_list_syncs_with_informer() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced] {
        let processor = SharedProcessor::builder("test")
            .initial_state(|| InitialState::new(0, Vec::new().into_iter()))
            .build();
        let without_state = SharedProcessor::new("test");
        let (running, other) = (start(&processor), start(&without_state));
        let early = processor.handler().buffer(buffer).for_each(|_: &Event<Arc<Pod>>| ()).unwrap();
        settled(&processor).await;
        assert!(!early.has_synced());
        for processor in [&processor, &without_state] {
            processor.publish_synced();
            let late = processor.handler().buffer(buffer).for_each(|_: &Event<Arc<Pod>>| ()).unwrap();
            within(late.synced()).await.unwrap();
        }
        within(early.synced()).await.unwrap();
        running.stop().await.unwrap();
        other.stop().await.unwrap();
    }
}

// contract: P-06b
#[tokio::test]
async fn late_joiner_syncs_after_its_initial_list() {
    let processor = SharedProcessor::builder("test")
        .initial_state(|| InitialState::new(0, vec![pod("a", 1)].into_iter()))
        .build();
    let running = start(&processor);
    processor.publish_synced();
    let (gate, mut wait) = gate();
    let late = processor.handler().for_each(move |_: &Event<Arc<Pod>>| wait()).unwrap();
    gate.reached().await;
    assert!(processor.has_synced() && !late.has_synced());
    drop(gate);
    within(late.synced()).await.unwrap();
    running.stop().await.unwrap();
}

// contract: P-06a
#[tokio::test(start_paused = true)]
async fn sync_wait_error_names_the_reason() {
    let processor = SharedProcessor::new("test");
    let handler = processor.handler().name("slow").for_each(|_: &Event<Arc<Pod>>| ()).unwrap();
    processor.publish([added("a", 1).in_initial_list()]);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(5);
    let error = within(handler.synced().until(deadline)).await.unwrap_err().to_string();
    assert!(
        error.contains("deadline") && error.contains("\"slow\"") && error.contains("1 events"),
        "{error}"
    );
    let running = start(&processor);
    tokio::task::yield_now().await;
    running.stop().await.unwrap();
    let error = within(handler.synced()).await.unwrap_err().to_string();
    assert!(error.contains("ended") && error.contains("\"slow\""), "{error}");
}
