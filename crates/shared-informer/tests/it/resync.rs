//! Resyncs of an informer: complete, and only for the handlers that are due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{QUEUES, Running, Seen};
use kinformer_processor::{Added, Buffer, Event, Registration};
use kinformer_reflector::SourceError;
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_testing::{FakeSource, Item};
use tokio::time::{Instant, sleep, sleep_until};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn informer(source: &FakeSource<Item>, queue: QueueKind) -> SharedIndexInformer<Item> {
    SharedIndexInformer::builder(source.clone()).name("items").queue(queue).build().unwrap()
}

fn source(objects: usize) -> FakeSource<Item> {
    let source = FakeSource::new();
    for i in 0..objects {
        source.apply(Item::of(&format!("o{i:03}"), 0, 1));
    }
    source
}

/// An inline handler with a resync period.
fn every(informer: &SharedIndexInformer<Item>, period: Duration) -> (Seen, Registration) {
    let seen = Seen::default();
    let recorder = seen.clone();
    let handler = informer.handler().resync(period).inline();
    (seen, handler.for_each(move |event| recorder.record(event)).unwrap())
}

/// A handler that makes the store wait while it is in its callback, except for the initial list.
fn slow(informer: &SharedIndexInformer<Item>, period: Duration, each: Duration) {
    let handler = informer.handler().resync(period).buffer(Buffer::BackPressure(1));
    let slow = move |event: Event<Arc<Item>>| async move {
        if !matches!(event, Event::Added(Added { in_initial_list: true, .. })) {
            sleep(each).await;
        }
    };
    handler.add_async(slow).unwrap();
}

/// The events that are updates to the same value.
fn unchanged(seen: &Seen) -> Vec<String> {
    let unchanged = |text: &String| {
        let words: Vec<_> = text.split(' ').collect();
        words[0] == "update" && words[2] == words[3]
    };
    seen.texts().into_iter().filter(unchanged).collect()
}

/// A resync is complete even if another one is due before its end.
// contract: P-04a, P-18b
#[tokio::test(start_paused = true)]
async fn resync_completes_before_the_next_one() {
    const OBJECTS: usize = 300;
    for queue in QUEUES {
        let informer = informer(&source(OBJECTS), queue);
        let (seen, _) = every(&informer, secs(3));
        // One resync takes 2.4 s, and the next check comes after 1 s.
        slow(&informer, secs(1), Duration::from_millis(8));
        let running = Running::start(informer).await;
        seen.wait(|view| view.texts.len() == OBJECTS).await;
        seen.take();
        let began = Instant::now();
        seen.wait(|view| view.texts.len() >= 4 * OBJECTS).await;
        assert!(
            running.informer.metrics().queue.peak_depth <= OBJECTS,
            "{queue:?}: resyncs do not accumulate"
        );
        assert!(began.elapsed() < secs(20), "{queue:?}: four resyncs took {:?}", began.elapsed());
        for resync in seen.take().chunks(OBJECTS).take(4) {
            let objects: BTreeSet<_> = resync.iter().collect();
            assert_eq!(objects.len(), OBJECTS, "{queue:?}: one resync delivers each object once");
        }
        seen.assert_no_faults();
        running.stop().await.unwrap();
    }
}

// contract: P-04a, P-18b, P-18d
#[tokio::test(start_paused = true)]
async fn slow_store_loses_no_resync() {
    for queue in QUEUES {
        let source = source(1);
        let informer = informer(&source, queue);
        let (seen, _) = every(&informer, secs(3));
        // Its check interval of one second remains after its removal.
        let (_, often) = every(&informer, secs(1));
        slow(&informer, Duration::ZERO, Duration::from_millis(500));
        let running = Running::start(informer).await;
        let began = Instant::now();
        often.remove().await;
        for round in 1..=4 {
            // The store is blocked at the third second of each round and until after the next check.
            sleep_until(began + secs(3 * round) - Duration::from_millis(100)).await;
            for value in 0..5 {
                source.apply(Item::of("o000", 0, 10 * round + value));
            }
        }
        sleep_until(began + Duration::from_millis(14_900)).await;
        assert_eq!(unchanged(&seen).len(), 4, "{queue:?}: {:?}", seen.texts());
        seen.assert_no_faults();
        running.stop().await.unwrap();
    }
}

/// While a due handler waits for its resync, further checks find it due again.
// contract: P-18c
#[tokio::test(start_paused = true)]
async fn handler_due_several_times_gets_one_resync() {
    for queue in QUEUES {
        let source = source(1);
        let informer = informer(&source, queue);
        let (seen, _) = every(&informer, secs(1));
        // Due as well, so that a resync fills its buffer.
        slow(&informer, secs(1), secs(3));
        let running = Running::start(informer).await;
        let began = Instant::now();
        sleep_until(began + Duration::from_millis(500)).await;
        // The first is published at once, the second after 3 s; the resync comes after it.
        for value in 1..=3 {
            source.apply(Item::of("o000", 0, 10 + value));
        }
        seen.wait(|view| view.texts.iter().any(|text| text.ends_with("12 12") || text.ends_with("13 13")))
            .await;
        assert!(began.elapsed() > secs(5), "{queue:?}: it was due about five times");
        sleep(Duration::from_millis(500)).await;
        assert_eq!(unchanged(&seen).len(), 1, "{queue:?}: {:?}", seen.texts());
        seen.assert_no_faults();
        running.stop().await.unwrap();
    }
}

// contract: P-03a, P-03b, I-06a, I-06c
#[tokio::test(start_paused = true)]
async fn relist_between_checks_delivers_only_changes() {
    for queue in QUEUES {
        let source = source(100);
        let informer = informer(&source, queue);
        let (with, _) = every(&informer, secs(9));
        let (without, _) = every(&informer, Duration::ZERO);
        let running = Running::start(informer.clone()).await;
        with.wait(|view| view.texts.len() == 200).await;
        let resynced = Instant::now();
        with.take();
        without.take();

        let lists = informer.metrics().reflector.relists;
        source.break_watches(|| SourceError::expired("compacted"));
        source.apply(Item::of("o007", 0, 2));
        source.compact();
        without.wait(|view| !view.texts.is_empty()).await;
        sleep_until(resynced + secs(5)).await;
        assert!(informer.metrics().reflector.relists > lists);
        for (seen, who) in [(&without, "without a period"), (&with, "with a period")] {
            assert_eq!(seen.take(), ["update o007 1 2"], "{queue:?}: the handler {who}");
        }
        // Only the next resync follows.
        with.wait(|view| view.texts.len() >= 100).await;
        assert_eq!(unchanged(&with).len(), 100, "{queue:?}");
        assert_eq!(with.take().len(), 100, "{queue:?}");
        assert_eq!(without.take(), Vec::<String>::new(), "{queue:?}");
        running.stop().await.unwrap();
    }
}

/// A resync that is due while the store is empty is not repeated after the first object.
// contract: P-18b
#[tokio::test(start_paused = true)]
async fn resync_of_an_empty_store_is_complete() {
    for queue in QUEUES {
        let source = source(0);
        let informer = informer(&source, queue);
        let (seen, _) = every(&informer, secs(10));
        let running = Running::start(informer).await;
        sleep(secs(15)).await;
        source.apply(Item::of("late", 0, 1));
        seen.wait(|view| !view.texts.is_empty()).await;
        sleep(secs(1)).await;
        assert_eq!(seen.take(), ["add late 1"], "{queue:?}");
        seen.wait(|view| !view.texts.is_empty()).await;
        assert_eq!(seen.take(), ["update late 1 1"], "{queue:?}");
        running.stop().await.unwrap();
    }
}

// contract: P-04e, I-15
#[tokio::test(start_paused = true)]
async fn longest_duration_means_never() {
    let source = source(1);
    let informer = SharedIndexInformer::builder(source.clone())
        .resync(Duration::MAX)
        .grace(Duration::MAX)
        .reflector(|options| {
            let options = options.min_watch_timeout(Duration::MAX).list_timeout(Duration::MAX);
            options.stall_margin(Duration::MAX).watch_list_deadline(Duration::MAX)
        })
        .build()
        .unwrap();
    let (seen, registration) = every(&informer, Duration::MAX);
    let default = informer.handler().inline().for_each(|_| ()).unwrap();
    assert_eq!((registration.resync_period(), default.resync_period()), (None, None));
    let running = Running::start(informer).await;
    seen.wait(|view| view.texts.len() == 1).await;
    sleep(100 * crate::common::HOUR).await;
    source.apply(Item::of("late", 0, 1));
    seen.wait(|view| view.texts.len() == 2).await;
    assert_eq!(unchanged(&seen), Vec::<String>::new());
    running.stop().await.unwrap();
}
