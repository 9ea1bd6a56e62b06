//! Faulty user code and sources: their errors are contained and reported. A test binary of its own, because it records
//! the log of the process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

#[allow(dead_code, unreachable_pub, reason = "the tests of the other binary use the rest")]
#[path = "it/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{HOUR, Running, Seen};
use kinformer_core::{PartId, Transform};
use kinformer_processor::Event;
use kinformer_reflector::{ApiStatus, SourceError};
use kinformer_shared_informer::{Error, QueueKind, SharedIndexInformer, SharedIndexInformerBuilder};
use kinformer_store::{IndexFunction, IndexValues};
use kinformer_testing::logs::{self, assert_logged};
use kinformer_testing::{FakeSource, Item, tasks};
use parking_lot::Mutex;
use tokio::time::Instant;

fn builder(source: &FakeSource<Item>, name: &str) -> SharedIndexInformerBuilder<Item> {
    logs::capture();
    SharedIndexInformer::builder(source.clone()).name(name)
}

/// Adds a handler without faults.
fn well_behaved(informer: &SharedIndexInformer<Item>) -> Seen {
    let seen = Seen::default();
    let recorder = seen.clone();
    informer.handler().name("well behaved").inline().for_each(move |event| recorder.record(event)).unwrap();
    seen
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

// contract: P-09a, P-09b, P-14a
#[tokio::test(start_paused = true)]
async fn panicking_handler_misses_one_event() {
    let before = tasks::alive();
    let source = FakeSource::new();
    source.apply(Item::of("bad", 0, 1));
    source.apply(Item::of("good", 0, 1));
    let informer = builder(&source, "with a panicking handler").build().unwrap();
    let seen = Seen::default();
    let recorder = seen.clone();
    let panics = informer
        .handler()
        .name("panics at bad")
        .for_each(move |event| {
            assert!(event.key().name() != "bad", "a bad object");
            recorder.record(event);
        })
        .unwrap();
    let others = well_behaved(&informer);
    let running = Running::start(informer).await;
    panics.synced().await.unwrap();
    assert_eq!(seen.texts(), ["add good 1 initial"]);
    assert_eq!(panics.metrics().panics, 1);
    assert_logged(&["panics at bad", "key=\"bad\"", "a bad object"]);
    others.wait(|view| view.map.len() == 2).await;
    running.stop().await.unwrap();
    assert_eq!(tasks::alive(), before);
}

// contract: P-01b, P-14a
#[tokio::test(start_paused = true)]
async fn stuck_handler_delays_no_other_handler() {
    let before = tasks::alive();
    let source = FakeSource::new();
    source.apply(Item::of("kettle", 0, 1));
    let informer = builder(&source, "with a stuck handler").grace(Duration::from_secs(2)).build().unwrap();
    let stuck = informer
        .handler()
        .name("never returns")
        .add_async(|_: Event<Arc<Item>>| std::future::pending())
        .unwrap();
    let others = well_behaved(&informer);
    let running = Running::start(informer).await;
    let last = source.apply(Item::of("toaster", 0, 1));
    others.wait_for_version(last).await;
    let error = stuck.synced().until(Instant::now() + HOUR).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("never returns") && text.contains("has not returned"), "{text}");
    assert_logged(&["never returns", "has not returned from an event"]);
    let stopping = Instant::now();
    let error = running.stop().await.unwrap_err();
    assert!(error.to_string().contains("never returns"), "{error}");
    assert_eq!(stopping.elapsed(), Duration::from_secs(2), "the grace, by the paused clock");
    assert_logged(&["with a stuck handler", "never returns", "grace=2s"]);
    assert_eq!(tasks::alive(), before);
}

/// Its thread cannot be ended; everything else can.
// contract: P-01b, P-14a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_that_blocks_its_thread_is_abandoned() {
    let before = tasks::alive();
    let source = FakeSource::new();
    source.apply(Item::of("kettle", 0, 1));
    let informer = builder(&source, "with a blocked thread").grace(Duration::from_secs(1)).build().unwrap();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (start_sender, started) = tokio::sync::oneshot::channel();
    let mut start_sender = Some(start_sender);
    informer
        .handler()
        .name("blocks its thread")
        .for_each(move |_| {
            if let Some(start_sender) = start_sender.take() {
                start_sender.send(()).unwrap();
            }
            let _ = released.recv();
        })
        .unwrap();
    let others = well_behaved(&informer);
    let running = Running::start(informer.clone()).await;
    started.await.unwrap();
    let last = source.apply(Item::of("toaster", 0, 1));
    others.wait_for_version(last).await;
    let Err(Error::Stuck { handlers, .. }) = running.stop().await else { panic!("it is blocked") };
    assert_eq!(handlers, ["blocks its thread".into()]);
    assert!(informer.is_stopped());
    tasks::fall_to(before).await;
    drop(release);
}

// contract: S-16c
#[tokio::test(start_paused = true)]
async fn failing_transform_leaves_one_object_out() {
    for queue in common::QUEUES {
        let before = tasks::alive();
        let source = FakeSource::new();
        for name in ["fails", "good", "panics"] {
            source.apply(Item::of(&format!("{queue:?}/{name}"), 0, 1));
        }
        let transform = Transform::in_place(|item: &mut Item| match item.name.as_str() {
            "fails" => Err("it has no handle".into()),
            "panics" => panic!("it is too hot"),
            _ => Ok(()),
        });
        let failures = Arc::new(Mutex::new(Vec::new()));
        let hook = failures.clone();
        let informer = builder(&source, "with a bad transform")
            .queue(queue)
            .transform(transform)
            .on_error(move |failure| hook.lock().push(failure.error.to_string()))
            .build()
            .unwrap();
        let seen = well_behaved(&informer);
        let running = Running::start(informer.clone()).await;
        seen.wait(|view| view.map.len() == 1).await;
        assert_eq!(seen.texts(), [format!("add {queue:?}/good 1 initial")]);
        assert_eq!(informer.snapshot().len(), 1);
        for (name, why) in [("fails", "it has no handle"), ("panics", "it is too hot")] {
            let key = format!("{queue:?}/{name}");
            let failures = failures.lock();
            let is_reported = failures.iter().any(|failure| failure.contains(&key) && failure.contains(why));
            assert!(is_reported, "{key} is not in {failures:?}");
        }
        assert_logged(&["with a bad transform", &format!("{queue:?}/fails"), "it has no handle"]);
        running.stop().await.unwrap();
        assert_eq!(tasks::alive(), before);
    }
}

/// No deletion would find the object under another key.
// contract: S-16d
#[tokio::test(start_paused = true)]
async fn transform_must_not_change_the_key() {
    for queue in common::QUEUES {
        let source = FakeSource::new();
        source.apply(Item::of(&format!("{queue:?}/good"), 0, 1));
        source.apply(Item::of(&format!("{queue:?}/renamed"), 0, 1));
        let transform = Transform::in_place(|item: &mut Item| {
            if item.name == "renamed" {
                item.name.make_ascii_uppercase();
            }
            Ok(())
        });
        let informer =
            builder(&source, "with a renaming transform").queue(queue).transform(transform).build().unwrap();
        let seen = well_behaved(&informer);
        let running = Running::start(informer.clone()).await;
        seen.wait(|view| view.map.len() == 1).await;
        let last = source.apply(Item::of(&format!("{queue:?}/renamed"), 0, 2));
        informer.wait_for(PartId::ONLY, &last.into()).until(soon()).await.unwrap();
        let left: Vec<_> = informer.store().keys().iter().map(ToString::to_string).collect();
        assert_eq!(left, [format!("{queue:?}/good")]);
        assert_eq!(seen.texts(), [format!("add {queue:?}/good 1 initial")]);
        assert_logged(&["with a renaming transform", &format!("{queue:?}/renamed"), "changed the key"]);
        running.stop().await.unwrap();
    }
}

// contract: S-07
#[tokio::test(start_paused = true)]
async fn panicking_index_function_skips_one_object() {
    for queue in common::QUEUES {
        let source = FakeSource::new();
        source.apply(Item::of(&format!("{queue:?}/bad"), 0, 1));
        source.apply(Item::of(&format!("{queue:?}/good"), 0, 1));
        let names = IndexFunction::new(|item: &Arc<Item>, values: &mut IndexValues| {
            assert!(item.name != "bad", "no such name");
            values.push(&item.name);
        });
        let informer =
            builder(&source, "with a bad index").queue(queue).index("names", names).build().unwrap();
        let seen = well_behaved(&informer);
        let running = Running::start(informer.clone()).await;
        seen.wait(|view| view.map.len() == 2).await;
        assert_eq!(informer.snapshot().len(), 2);
        assert_eq!(informer.store().by_index("names", "good").unwrap().len(), 1);
        assert_eq!(informer.store().by_index("names", "bad").unwrap().len(), 0);
        assert_logged(&["with a bad index", &format!("{queue:?}/bad"), "names", "no such name"]);
        running.stop().await.unwrap();
    }
}

// contract: I-08b
#[tokio::test(start_paused = true)]
async fn source_that_is_down_at_start_is_retried() {
    let source = FakeSource::new().without_watch_list();
    source.apply(Item::of("kettle", 0, 1));
    for _ in 0..20 {
        source.fail_next_list(SourceError::ConnectionRefused { source: "no listener".into() });
    }
    let informer = builder(&source, "of a server that is down").build().unwrap();
    let seen = well_behaved(&informer);
    let running = Running::start_only(informer.clone());
    let text = informer.wait_for_sync().until(soon()).await.unwrap_err().to_string();
    assert!(text.contains("of a server that is down") && text.contains("no listener"), "{text}");
    assert_logged(&["of a server that is down", "no listener"]);
    informer.wait_for_sync().until(Instant::now() + HOUR).await.unwrap();
    seen.wait(|view| view.map.len() == 1).await;
    running.stop().await.unwrap();
}

// contract: I-08b, R-10a, R-10b
#[tokio::test(start_paused = true)]
async fn forbidden_list_is_reported_to_waits() {
    let before = tasks::alive();
    let source = FakeSource::<Item>::new().without_watch_list();
    for _ in 0..1000 {
        source.fail_next_list(ApiStatus::new(403, "Forbidden", "you may not list kettles").into());
    }
    let failures = Arc::new(Mutex::new(Vec::new()));
    let hook = failures.clone();
    let informer = builder(&source, "without permission")
        .queue(QueueKind::DeltaFifo)
        .on_error(move |failure| hook.lock().push(failure.reflector.to_owned()))
        .build()
        .unwrap();
    let running = Running::start_only(informer.clone());
    let error = informer.wait_for_sync().until(soon()).await.unwrap_err();
    let Error::NotSynced(why) = &error else { panic!("{error}") };
    assert_eq!(why.last_error.as_ref().and_then(|error| error.status()).map(|status| status.code), Some(403));
    let text = error.to_string();
    assert!(text.contains("without permission") && text.contains("you may not list kettles"), "{text}");
    assert!(failures.lock().iter().all(|name| name == "without permission") && failures.lock().len() > 1);
    assert_logged(&["without permission", "you may not list kettles"]);
    running.stop().await.unwrap();
    assert_eq!(tasks::alive(), before);
}
