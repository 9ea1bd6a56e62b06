//! The promises of an informer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{HOUR, Map, QUEUES, Running, Seen, server, stored};
use kinformer_core::{KeyRef, PartId, Tombstone, Transform};
use kinformer_processor::{Added, Buffer, Deleted, Event, Updated};
use kinformer_reflector::{ApiStatus, SourceError};
use kinformer_shared_informer::{
    Error, NotSynced, QueueKind, SharedIndexInformer, SharedIndexInformerBuilder, SyncProgress, WaitOutcome,
};
use kinformer_store::IndexFunction;
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use tokio::time::Instant;

fn builder(source: &FakeSource<Item>, queue: QueueKind) -> SharedIndexInformerBuilder<Item> {
    SharedIndexInformer::builder(source.clone()).name("items").queue(queue)
}

fn recording(informer: &SharedIndexInformer<Item>) -> Seen {
    let seen = Seen::default();
    let recorder = seen.clone();
    informer.handler().inline().for_each(move |event| recorder.record(event)).unwrap();
    seen
}

fn apply_all(source: &FakeSource<Item>, names: &[&str]) {
    for name in names {
        source.apply(Item::of(name, 0, 1));
    }
}

fn internal() -> SourceError {
    ApiStatus::new(500, "InternalError", "the disk is full").into()
}

/// When a handler receives a state, the store and its indexes include this state or a later one.
// contract: I-01, Q-18d
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_and_index_include_delivered_state() {
    for queue in QUEUES {
        let source = FakeSource::new();
        let by_value =
            IndexFunction::new(|item: &Arc<Item>, values| values.push_fmt(format_args!("{}", item.value)));
        let informer = builder(&source, queue).index("value", by_value).build().unwrap();
        let (seen, stale) = (Seen::default(), Arc::new(Mutex::new(Vec::new())));
        let (recorder, wrong, reads) = (seen.clone(), stale.clone(), informer.clone());
        informer
            .handler()
            .for_each(move |event| {
                let snapshot = reads.snapshot();
                let found = snapshot.get(event.key());
                let good = match event {
                    Event::Deleted(Deleted { tombstone, .. }) => {
                        found.is_none_or(|now| now.version > tombstone.object().unwrap().version)
                    }
                    Event::Added(Added { object, .. }) | Event::Updated(Updated { new: object, .. }) => {
                        match found {
                            // The index is of the same state as the object.
                            Some(now) => {
                                let value = now.value.to_string();
                                let mut indexed = snapshot.by_index("value", &value).unwrap();
                                now.version >= object.version && indexed.any(|other| Arc::ptr_eq(other, now))
                            }
                            // Deleted since, so the store is at a later version.
                            None => {
                                snapshot.resource_versions().lowest().to_string().parse::<u64>().unwrap()
                                    > object.version
                            }
                        }
                    }
                    _ => unreachable!("not known to this test"),
                };
                if !good {
                    wrong.lock().push(format!("{event:?} {found:?}"));
                }
                recorder.record(event);
            })
            .unwrap();
        let running = Running::start(informer).await;
        for round in 0..200 {
            source.apply(Item::of(&format!("ns/{}", round % 7), 0, round));
            if round % 3 == 0 {
                source.delete(KeyRef::parse(format!("ns/{}", (round + 1) % 7).as_str()).unwrap());
            }
            tokio::task::yield_now().await;
        }
        let last = source.apply(Item::of("ns/last", 0, 0));
        seen.wait_for_version(last).await;
        running.stop().await.unwrap();
        assert_eq!(*stale.lock(), Vec::<String>::new(), "{queue:?}");
        seen.assert_no_faults();
    }
}

/// The delivered states of an object are a subsequence of its states on the server.
// contract: I-02
#[tokio::test(start_paused = true)]
async fn delivered_states_are_a_subsequence() {
    for queue in QUEUES {
        let source = FakeSource::new();
        let informer = builder(&source, queue).build().unwrap();
        let states = Arc::new(Mutex::new(Vec::new()));
        let (seen, recorded) = (Seen::default(), states.clone());
        let recorder = seen.clone();
        informer
            .handler()
            .inline()
            .for_each(move |event| {
                let is_deletion =
                    matches!(event, Event::Deleted(Deleted { tombstone: Tombstone::FinalState(_), .. }));
                if !matches!(
                    event,
                    Event::Deleted(Deleted { tombstone: Tombstone::FinalStateUnknown(_), .. })
                ) {
                    let object = event.object().unwrap();
                    recorded.lock().push((object.version, object.value, is_deletion));
                }
                recorder.record(event);
            })
            .unwrap();
        let running = Running::start(informer).await;
        let mut servers = Vec::new();
        for value in 0..60 {
            if value % 10 == 9 {
                servers.push((source.delete(KeyRef::named("kettle")), value - 1, true));
            } else {
                servers.push((source.apply(Item::of("kettle", 0, value)), value, false));
            }
            match value % 13 {
                4 => source.disconnect(),
                7 => {
                    source.disconnect();
                    source.compact();
                }
                // Changes without a pause in between may be delivered together.
                _ if value % 4 == 0 => tokio::time::sleep(HOUR).await,
                _ => {}
            }
        }
        let last = source.apply(Item::of("kettle", 0, 100));
        servers.push((last, 100, false));
        seen.wait_for_version(last).await;
        let mut rest = servers.iter();
        for state in states.lock().iter() {
            assert!(rest.any(|server| server == state), "{queue:?}: {state:?} is not next in {servers:?}");
        }
        assert!(states.lock().len() > 10, "some states were delivered");
        seen.assert_no_faults();
        running.stop().await.unwrap();
    }
}

/// The store ends up equal to the server, whatever fault interrupted its lists and watches.
// contract: I-03
#[tokio::test(start_paused = true)]
async fn store_equals_server_after_each_fault() {
    let faults: [fn(&FakeSource<Item>); 5] = [
        |source| source.disconnect(),
        |source| {
            source.disconnect();
            source.compact();
        },
        |source| source.break_watches(|| SourceError::expired("compacted")),
        |source| source.break_watches(internal),
        |source| {
            source.compact();
            (0..4).for_each(|_| source.fail_next_list(internal()));
            (0..3).for_each(|_| source.fail_next_watch(internal()));
            source.disconnect();
        },
    ];
    for queue in QUEUES {
        for (number, fault) in faults.iter().enumerate() {
            let source = FakeSource::new();
            for n in 0..5 {
                source.apply(Item::of(&format!("ns/{n}"), 0, 1));
            }
            let informer = builder(&source, queue).build().unwrap();
            let seen = recording(&informer);
            let running = Running::start(informer.clone()).await;
            fault(&source);
            source.delete(("ns", "1"));
            source.apply(Item::of("ns/2", 0, 2));
            source.delete(("ns", "3"));
            source.apply(Item::of("ns/3", 0, 3));
            fault(&source);
            let last = source.apply(Item::of("ns/9", 0, 9));
            informer.wait_for(PartId::ONLY, &last.into()).await.unwrap();
            let expected = server(&source);
            assert_eq!(stored(&informer), expected, "{queue:?}, fault {number}");
            seen.wait(|view| view.map == expected).await;
            seen.assert_no_faults();
            running.stop().await.unwrap();
        }
    }
}

/// Indexes can be added while the informer runs, but not under a name that is taken, and not after the stop. Transform,
/// error hook, resync and queue are methods of the builder, which `build` consumes, so setting them too late does not
/// compile.
// contract: I-04
#[tokio::test(start_paused = true)]
async fn indexes_can_be_added_until_the_stop() {
    let source = FakeSource::new();
    source.apply(Item::of("kitchen/kettle", 0, 0));
    let room = || [("room", IndexFunction::by_namespace())];
    let twice = builder(&source, QueueKind::default()).indexers(room()).indexers(room()).build();
    let error = twice.unwrap_err();
    assert!(matches!(error, Error::Indexers { .. }) && error.to_string().contains("room"), "{error}");

    let informer = builder(&source, QueueKind::default()).build().unwrap();
    let running = Running::start(informer.clone()).await;
    informer.add_indexers(room()).unwrap();
    assert_eq!(informer.store().by_index("room", "kitchen").unwrap().len(), 1);
    let error = informer.add_indexers(room()).unwrap_err();
    assert!(matches!(error, Error::Indexers { .. }) && error.to_string().contains("items"), "{error}");
    assert_eq!(informer.store().by_index("room", "kitchen").unwrap().len(), 1, "nothing has changed");
    running.stop().await.unwrap();
    let late = informer.add_indexers([("late", IndexFunction::by_namespace())]);
    assert!(matches!(late, Err(Error::Stopped { .. })), "{late:?}");
    assert!(informer.store().by_index("late", "kitchen").is_err(), "nothing was added");
}

// contract: I-06a, I-06b, P-03a
#[tokio::test(start_paused = true)]
async fn relist_delivers_only_changes_and_deletions() {
    for queue in QUEUES {
        let source = FakeSource::new();
        apply_all(&source, &["a", "b", "c"]);
        let informer = builder(&source, queue).build().unwrap();
        let without = recording(&informer);
        let with = Seen::default();
        let recorder = with.clone();
        let period = Duration::from_secs(30);
        informer.handler().resync(period).inline().for_each(move |event| recorder.record(event)).unwrap();
        let running = Running::start(informer.clone()).await;
        with.wait(|view| view.texts.len() == 3).await;
        assert_eq!(without.take(), ["add a 1 initial", "add b 1 initial", "add c 1 initial"]);
        with.take();

        // The relist finds one new object. Unchanged objects are delivered only by the resync, when it is due.
        let lists = informer.metrics().reflector.relists;
        source.break_watches(|| SourceError::expired("compacted"));
        let last = source.apply(Item::of("d", 0, 1));
        informer.wait_for(PartId::ONLY, &last.into()).await.unwrap();
        without.wait(|view| !view.texts.is_empty()).await;
        assert!(informer.metrics().reflector.relists > lists);
        assert_eq!(without.take(), ["add d 1"], "{queue:?}");

        // The list contains the changes made during the interruption.
        source.break_watches(|| SourceError::expired("compacted"));
        source.delete(KeyRef::named("a"));
        source.apply(Item::of("b", 0, 2));
        let last = source.apply(Item::of("e", 0, 1));
        source.compact();
        informer.wait_for(PartId::ONLY, &last.into()).await.unwrap();
        without.wait(|view| view.texts.len() >= 3).await;
        let mut recorded = without.take();
        recorded.sort();
        assert_eq!(recorded, ["add e 1", "delete a unknown", "update b 1 2"], "{queue:?}");

        with.take();
        with.wait(|view| view.texts.len() >= 4).await;
        let mut recorded = with.take();
        recorded.sort();
        assert_eq!(recorded, ["update b 2 2", "update c 1 1", "update d 1 1", "update e 1 1"], "{queue:?}");
        assert_eq!(without.take(), Vec::<String>::new(), "a handler without a period receives no resync");
        without.assert_no_faults();
        with.assert_no_faults();
        running.stop().await.unwrap();
    }
}

/// A handler that is due for a resync receives every object.
// contract: P-04a, P-04b, P-04e
#[tokio::test(start_paused = true)]
async fn due_handler_receives_every_object() {
    for queue in QUEUES {
        let source = FakeSource::new();
        apply_all(&source, &["a", "b"]);
        let informer = builder(&source, queue).resync(Duration::from_secs(600)).build().unwrap();
        let join = |period: Option<u64>| {
            let seen = Seen::default();
            let recorder = seen.clone();
            let mut handler = informer.handler();
            if let Some(period) = period {
                handler = handler.resync(Duration::from_secs(period));
            }
            handler.inline().for_each(move |event| recorder.record(event)).unwrap();
            seen
        };
        let (never, minute, default) = (join(Some(0)), join(Some(60)), join(None));
        let began = Instant::now();
        let running = Running::start(informer.clone()).await;
        minute.wait(|view| view.texts.len() == 4).await;
        assert!(began.elapsed() >= Duration::from_secs(60));
        assert_eq!(default.texts().len(), 2, "not due yet");
        default.wait(|view| view.texts.len() == 4).await;
        assert!(began.elapsed() >= Duration::from_secs(600));
        assert_eq!(&default.texts()[2..], ["update a 1 1", "update b 1 1"], "{queue:?}");
        assert_eq!(never.texts().len(), 2);
        running.stop().await.unwrap();
    }
}

// contract: I-07
#[tokio::test(start_paused = true)]
async fn store_and_handlers_get_transformed_objects() {
    for queue in QUEUES {
        let source = FakeSource::new();
        source.apply(Item::of("kettle", 0, 1));
        source.apply(Item::of("broken", 0, 13));
        let transform = Transform::in_place(|item: &mut Item| {
            if item.value == 13 {
                return Err("thirteen is not transformed".into());
            }
            item.value += 1000;
            Ok(())
        });
        let (errors, calls) = (Arc::new(Mutex::new(Vec::new())), AtomicU64::new(0));
        let log = errors.clone();
        let informer = builder(&source, queue)
            .transform(transform)
            .on_error(move |failure| {
                calls.fetch_add(1, Ordering::Relaxed);
                log.lock().push(failure.error.to_string());
            })
            .build()
            .unwrap();
        let seen = recording(&informer);
        let running = Running::start(informer.clone()).await;
        let last = source.apply(Item::of("toaster", 0, 2));
        seen.wait_for_version(last).await;
        assert_eq!(seen.take(), ["add kettle 1001 initial", "add toaster 1002"], "{queue:?}");
        let values: Vec<_> = stored(&informer).values().map(|item| item.value).collect();
        assert_eq!(values, [1001, 1002]);
        assert!(
            errors.lock().iter().any(|error| error.contains("broken") && error.contains("thirteen")),
            "{:?}",
            errors.lock()
        );

        // The known state stays until the next state that can be transformed.
        source.apply(Item::of("kettle", 0, 13));
        let last = source.apply(Item::of("kettle", 0, 3));
        seen.wait_for_version(last).await;
        assert_eq!(seen.take(), ["update kettle 1001 1003"]);
        seen.assert_no_faults();
        running.stop().await.unwrap();
    }
}

/// The progress of an informer with one source and no list.
fn no_list() -> SyncProgress {
    SyncProgress::NoList { parts: vec!["".into()] }
}

fn not_synced(error: Error) -> NotSynced {
    match error {
        Error::NotSynced(not_synced) => *not_synced,
        other => panic!("{other}"),
    }
}

/// A wait for the sync that fails reports the progress of the informer and its last error.
// contract: I-08b, I-08c
#[tokio::test(start_paused = true)]
async fn failed_wait_for_sync_reports_the_reason() {
    let source = FakeSource::<Item>::new().without_watch_list();
    let informer = builder(&source, QueueKind::default()).build().unwrap();
    let soon = || Instant::now() + Duration::from_secs(5);
    let error = informer.wait_for_sync().until(soon()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the informer \"items\" has not synced: the deadline passed, and it was never started"
    );
    let why = not_synced(error);
    assert_eq!(
        (why.outcome, why.progress.clone()),
        (WaitOutcome::DeadlineExceeded, SyncProgress::NotStarted)
    );

    (0..1000).for_each(|_| source.fail_next_list(internal()));
    let running = Running::start_only(informer.clone());
    let error = informer.wait_for_sync().until(soon()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"items\"") && text.contains("the disk is full"), "{text}");
    let why = not_synced(error);
    assert_eq!((why.outcome, &why.progress), (WaitOutcome::DeadlineExceeded, &no_list()));
    assert!(why.last_error.is_some());
    assert!(!informer.has_synced());

    let waits = tokio::spawn({
        let informer = informer.clone();
        async move { informer.wait_for_sync().await }
    });
    running.stop().await.unwrap();
    let why = not_synced(waits.await.unwrap().unwrap_err());
    assert_eq!((why.outcome, &why.progress), (WaitOutcome::Stopped, &no_list()));
    assert!(why.to_string().contains("the disk is full"), "{why}");
    // Also at a deadline, as in the wait for all informers of a factory.
    let at_deadline = not_synced(informer.wait_for_sync().at_deadline().unwrap_err());
    assert_eq!(at_deadline.outcome, WaitOutcome::Stopped);
}

/// The list has arrived, and a handler with back-pressure blocks its processing.
// contract: I-08b
#[tokio::test(start_paused = true)]
async fn failed_wait_for_sync_reports_processing() {
    let source = FakeSource::new();
    apply_all(&source, &["a", "b", "c"]);
    let informer = builder(&source, QueueKind::default()).grace(Duration::ZERO).build().unwrap();
    informer
        .handler()
        .name("never returns")
        .buffer(Buffer::BackPressure(1))
        .add_async(|_: Event<Arc<Item>>| std::future::pending::<()>())
        .unwrap();
    let running = Running::start_only(informer.clone());
    let why = not_synced(informer.wait_for_sync().until(Instant::now() + HOUR).await.unwrap_err());
    assert!(matches!(why.progress, SyncProgress::Processing { .. }), "{why}");
    let Err(Error::Stuck { handlers, .. }) = running.stop().await else { panic!("it never returns") };
    assert_eq!(handlers, ["never returns".into()]);
}

/// Paused time advances only by timers, so a wait that polled periodically would be woken more often.
// contract: I-08a
#[tokio::test(start_paused = true)]
async fn wait_for_sync_is_woken_once() {
    let source = FakeSource::<Item>::new();
    let informer = builder(&source, QueueKind::default()).build().unwrap();
    let woken = Arc::new(AtomicU64::new(0));
    let waits = {
        let (informer, woken) = (informer.clone(), woken.clone());
        tokio::spawn(async move {
            let wait = informer.wait_for_sync();
            let mut wait = std::pin::pin!(wait);
            std::future::poll_fn(|context| {
                woken.fetch_add(1, Ordering::Relaxed);
                wait.as_mut().poll(context)
            })
            .await
        })
    };
    tokio::time::sleep(HOUR).await;
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    let running = Running::start(informer).await;
    waits.await.unwrap().unwrap();
    assert_eq!(woken.load(Ordering::Relaxed), 2);
    running.stop().await.unwrap();
}

/// A handler that is added while objects change misses no event and receives none twice.
// contract: P-05b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_added_under_load_misses_no_event() {
    for queue in QUEUES {
        let source = FakeSource::new();
        for n in 0..100 {
            source.apply(Item::of(&format!("ns/{n}"), 0, 0));
        }
        let running = Running::start(builder(&source, queue).build().unwrap()).await;
        let done = Arc::new(AtomicBool::new(false));
        let writer = {
            let (source, done) = (source.clone(), done.clone());
            tokio::spawn(async move {
                let mut round = 0;
                while !done.load(Ordering::Relaxed) {
                    round += 1;
                    source.apply(Item::of(&format!("ns/{}", round % 120), 0, round));
                    source.delete(KeyRef::parse(format!("ns/{}", (round * 7) % 120).as_str()).unwrap());
                    tokio::task::yield_now().await;
                }
                source.apply(Item::of("last", 0, 0))
            })
        };
        let mut all = Vec::new();
        for n in 0..20 {
            let seen = Seen::default();
            let recorder = seen.clone();
            let handler = running.informer.handler();
            match n % 3 {
                0 => handler.for_each(move |event| recorder.record(event)),
                1 => handler.inline().for_each(move |event| recorder.record(event)),
                _ => handler.buffer(Buffer::Coalesced).for_each(move |event| recorder.record(event)),
            }
            .unwrap();
            // Some changes have been delivered.
            seen.wait(|view| view.texts.len() > 150).await;
            all.push(seen);
        }
        done.store(true, Ordering::Relaxed);
        writer.await.unwrap();
        let expected: Map = server(&source);
        for seen in all {
            seen.wait(|view| view.map == expected).await;
            seen.assert_no_faults();
        }
        running.stop().await.unwrap();
    }
}

/// A handler has synced when the informer has synced and the handler has processed the initial list.
// contract: P-06a, P-06b, P-06c
#[tokio::test(start_paused = true)]
async fn handler_syncs_after_informer_and_own_list() {
    let source = FakeSource::new().without_watch_list();
    apply_all(&source, &["a", "b"]);
    source.fail_next_list(internal());
    let informer = builder(&source, QueueKind::default()).build().unwrap();
    let (open, gate) = tokio::sync::watch::channel(0);
    let slow = informer
        .handler()
        .name("slow")
        .add_async(move |_: Event<Arc<Item>>| {
            let mut gate = gate.clone();
            async move { drop(gate.wait_for(|open| *open > 0).await) }
        })
        .unwrap();
    let panics = informer.handler().inline().for_each(|_| panic!("on purpose")).unwrap();
    assert!(!slow.has_synced());
    let running = Running::start(informer).await;
    panics.synced().await.unwrap();
    assert_eq!(panics.metrics().panics, 2, "its events count as finished");
    assert!(!slow.has_synced(), "it has not finished its first event");
    let error = slow.synced().until(Instant::now() + HOUR).await.unwrap_err();
    assert!(error.to_string().contains("slow"), "{error}");
    open.send_replace(1);
    slow.synced().await.unwrap();
    running.stop().await.unwrap();
}
