//! The lifecycle of an informer, which leaves nothing behind when it stops.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::{HOUR, Running, Seen};
use futures::{FutureExt as _, StreamExt as _};
use kinformer_core::{KeyRef, PartId};
use kinformer_processor::{Buffer, Event};
use kinformer_shared_informer::{Error, Phase, SharedIndexInformer};
use kinformer_store::Error as StoreError;
use kinformer_testing::{FakeSource, Item, tasks};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn informer(source: &FakeSource<Item>) -> SharedIndexInformer<Item> {
    SharedIndexInformer::builder(source.clone()).name("items").build().unwrap()
}

fn refuses_handlers(informer: &SharedIndexInformer<Item>) {
    let ignore = |_: &Event<Arc<Item>>| {};
    assert!(informer.add_handler(ignore).is_err());
    assert!(informer.handler().inline().for_each(ignore).is_err());
    assert!(informer.handler().add_async(|_: Event<Arc<Item>>| async {}).is_err());
    assert!(informer.stream().is_err());
}

// contract: I-05b, I-05c, I-08c
#[tokio::test(start_paused = true)]
async fn discard_ends_an_informer_without_a_run() {
    let informer = informer(&FakeSource::new());
    let registration = informer.add_handler(|_: &Event<Arc<Item>>| {}).unwrap();
    let mut stream = informer.stream().unwrap();
    let waiting = informer.clone();
    let waiting = tokio::spawn(async move { waiting.wait_for_sync().await });
    tokio::task::yield_now().await;

    assert!(informer.discard());
    assert!(matches!(waiting.await.unwrap(), Err(Error::NotSynced(_))));
    assert!(stream.next().await.is_none());
    assert!(registration.is_removed() && registration.synced().await.is_err());
    assert_eq!(informer.phase(), Phase::Stopped);
    assert!(matches!(informer.run(CancellationToken::new()).await, Err(Error::Stopped { .. })));
    refuses_handlers(&informer);
    assert!(!informer.discard(), "it has stopped");
}

// contract: I-05a, I-08a
#[tokio::test(start_paused = true)]
async fn dropped_waits_lose_nothing() {
    let source = FakeSource::new();
    source.apply(Item::of("kitchen/kettle", 0, 0));
    let informer = informer(&source);
    let registration = informer.handler().inline().for_each(|_| ()).unwrap();
    assert!(informer.wait_for_sync().now_or_never().is_none());
    assert!(informer.wait_for(PartId::ONLY, &1.into()).now_or_never().is_none());
    assert!(registration.synced().now_or_never().is_none());
    assert!(informer.stopped().now_or_never().is_none());

    let cancel = CancellationToken::new();
    let running = informer.spawn(cancel.clone());
    informer.wait_for_sync().await.unwrap();
    informer.wait_for(PartId::ONLY, &1.into()).await.unwrap();
    registration.synced().await.unwrap();
    cancel.cancel();
    running.await.unwrap().unwrap();
    informer.stopped().now_or_never().unwrap();
}

// contract: I-05a
#[tokio::test(start_paused = true)]
async fn running_informer_is_not_discarded() {
    let informer = informer(&FakeSource::new());
    let running = Running::start(informer.clone()).await;
    assert!(!informer.discard());
    assert_eq!(informer.phase(), Phase::Running);
    running.stop().await.unwrap();
}

// contract: I-05a, I-05b, I-05c, I-05d
#[tokio::test(start_paused = true)]
async fn informer_reports_start_sync_and_stop() {
    let source = FakeSource::new();
    source.apply(Item::of("kettle", 0, 1));
    let informer = informer(&source);
    assert_eq!((informer.phase(), informer.has_synced()), (Phase::NotStarted, false));
    let parts = informer.parts();
    let [part] = &*parts else { panic!("one source") };
    assert_eq!(
        (part.id(), part.name(), part.reflector().state()),
        (PartId::ONLY, "", kinformer_reflector::ReflectorState::Idle)
    );
    let registration = informer.add_handler(|_: &Event<Arc<Item>>| {}).unwrap();

    let running = Running::start(informer.clone()).await;
    assert_eq!((informer.phase(), informer.has_synced()), (Phase::Running, true));
    assert!(part.reflector().is_synced());
    let second = informer.run(CancellationToken::new()).await;
    assert!(matches!(&second, Err(Error::Running { informer }) if &**informer == "items"), "{second:?}");
    assert_eq!(informer.phase(), Phase::Running, "the second run has no effect");

    running.stop().await.unwrap();
    informer.stopped().await;
    assert_eq!((informer.phase(), informer.is_stopped()), (Phase::Stopped, true));
    let again = informer.run(CancellationToken::new()).await;
    assert!(matches!(&again, Err(Error::Stopped { informer }) if &**informer == "items"), "{again:?}");
    refuses_handlers(&informer);
    assert!(informer.get(KeyRef::named("kettle")).is_some(), "the store can still be read");
    assert!(
        informer.wait_for(PartId::ONLY, &9999.into()).await.is_err(),
        "no version is reached after the stop"
    );
    assert!(registration.is_removed());
    registration.remove().await;
    informer.wait_for_sync().await.unwrap();
}

// contract: I-19a, I-19b
#[tokio::test(start_paused = true)]
async fn errors_name_the_informer_and_the_cause() {
    fn add(informer: &SharedIndexInformer<Item>) -> Result<(), Error> {
        // Errors of a handler builder are converted as well.
        informer.handler().for_each(|_| {})?;
        Ok(())
    }
    let cause = |error: &Error| match error {
        Error::VersionNotReached { informer, source } if &**informer == "items" => match &**source {
            StoreError::Stopped { .. } => "stopped",
            StoreError::DeadlineExceeded { .. } => "deadline",
            StoreError::Incomparable { .. } => "incomparable",
            _ => "another",
        },
        Error::Stopped { informer } if &**informer == "items" => "no more handlers",
        _ => "another",
    };
    let source = FakeSource::new();
    source.apply(Item::of("kettle", 0, 1));
    let informer = informer(&source);
    let running = Running::start(informer.clone()).await;
    let soon = Instant::now() + Duration::from_secs(1);
    let late = informer.wait_for(PartId::ONLY, &9999.into()).until(soon).await.unwrap_err();
    let unknown = informer.wait_for(PartId::ONLY, &"x".into()).await.unwrap_err();
    running.stop().await.unwrap();
    let ended = informer.wait_for(PartId::ONLY, &9999.into()).await.unwrap_err();
    let errors = [late, unknown, ended];
    assert_eq!(errors.each_ref().map(cause), ["deadline", "incomparable", "stopped"]);
    assert!(errors.iter().all(|error| std::error::Error::source(error).is_some()));
    assert!(errors.iter().all(|error| error.to_string().contains("\"items\"")));

    let refused = [
        informer.add_handler(|_: &Event<Arc<Item>>| {}).unwrap_err(),
        informer.stream().map(drop).unwrap_err(),
        add(&informer).unwrap_err(),
    ];
    assert_eq!(refused.each_ref().map(cause), ["no more handlers"; 3]);
}

/// The error of a store converts into the error of the informer, with the same message.
// contract: I-19d
#[test]
fn store_error_converts() {
    let informer = informer(&FakeSource::new());
    let unknown = || informer.store().by_index("none", "a").unwrap_err();
    let error = Error::from(unknown());
    assert!(matches!(&error, Error::Store(source) if matches!(**source, StoreError::UnknownIndex { .. })));
    assert_eq!(error.to_string(), unknown().to_string());
}

/// The error of a registration converts into the error of the informer.
// contract: I-19c
#[tokio::test(start_paused = true)]
async fn registration_error_converts() {
    async fn synced(informer: &SharedIndexInformer<Item>, stops: bool) -> Result<(), Error> {
        let registration = informer.handler().name("late").add(|_: &Event<Arc<Item>>| {})?;
        if stops {
            informer.discard();
            registration.synced().await?;
        }
        registration.synced().until(Instant::now()).await?;
        Ok(())
    }
    for stops in [false, true] {
        let error = synced(&informer(&FakeSource::new()), stops).await.unwrap_err();
        assert!(matches!(error, Error::Handler(_)) && error.to_string().contains("\"late\""), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn unpolled_run_does_not_start_the_informer() {
    let informer = informer(&FakeSource::new());
    drop(informer.run(CancellationToken::new()));
    assert_eq!(informer.phase(), Phase::NotStarted);
    Running::start(informer).await.stop().await.unwrap();
}

/// A dropped run stops the informer at every stage.
// contract: I-05a, I-05b, P-14a
#[tokio::test(start_paused = true)]
async fn dropped_run_stops_the_informer() {
    for polls in 1..20 {
        let before = tasks::alive();
        let source = FakeSource::new();
        source.apply(Item::of("kettle", 0, 1));
        let informer = informer(&source);
        let registration =
            informer.handler().add_async(|_: Event<Arc<Item>>| std::future::pending()).unwrap();
        {
            let run = informer.run(CancellationToken::new());
            let mut run = std::pin::pin!(run);
            for poll in 0..polls {
                if poll > 0 {
                    tokio::task::yield_now().await;
                }
                assert!(futures::poll!(run.as_mut()).is_pending());
            }
        }
        assert_eq!(informer.phase(), Phase::Stopped);
        informer.stopped().await;
        if !informer.has_synced() {
            assert!(matches!(informer.wait_for_sync().await, Err(Error::NotSynced(_))));
        }
        tasks::fall_to(before).await;
        refuses_handlers(&informer);
        assert!(registration.is_removed(), "after {polls} polls");
        registration.remove().await;
        assert_eq!(source.open_watches(), 0);
    }
}

/// The store of an informer whose run was dropped keeps its state. Undelivered events are lost.
// contract: I-27b
#[tokio::test(start_paused = true)]
async fn dropped_run_keeps_the_store() {
    let source = FakeSource::new();
    source.apply(Item::of("kettle", 0, 1));
    let informer = informer(&source);
    let (in_callback, mut started) = tokio::sync::mpsc::channel(1);
    let handler = move |_: Event<Arc<Item>>| {
        let in_callback = in_callback.clone();
        async move {
            in_callback.send(()).await.unwrap();
            tokio::time::sleep(HOUR).await;
        }
    };
    let registration = informer.handler().add_async(handler).unwrap();
    let running = informer.spawn(CancellationToken::new());
    started.recv().await.unwrap();
    source.apply(Item::of("kettle", 0, 2));
    let newest = source.decodable().values().next().unwrap().version;
    informer.wait_for(PartId::ONLY, &newest.into()).await.unwrap();
    let before = Instant::now();
    running.abort();
    informer.stopped().await;
    assert!(started.recv().await.is_none(), "the callback was dropped, and none follows");
    assert_eq!((before.elapsed(), registration.metrics().delivered), (Duration::ZERO, 0));
    assert_eq!(informer.get(KeyRef::named("kettle")).unwrap().value, 2);
}

/// The first poll of `remove_handler` removes the handler. If the future is dropped then, only the wait for the running
/// callback ends.
// contract: I-27c
#[tokio::test(start_paused = true)]
async fn dropped_remove_handler_has_removed() {
    let source = FakeSource::new();
    let informer = informer(&source);
    let (in_callback, mut started) = tokio::sync::mpsc::channel(1);
    let (release, released) = tokio::sync::watch::channel(false);
    let handler = move |_: Event<Arc<Item>>| {
        let (in_callback, mut released) = (in_callback.clone(), released.clone());
        async move {
            in_callback.send("started").await.unwrap();
            released.wait_for(|released| *released).await.unwrap();
            in_callback.send("returned").await.unwrap();
        }
    };
    let registration = informer.handler().add_async(handler).unwrap();
    let running = Running::start(informer.clone()).await;
    source.apply(Item::of("kettle", 0, 1));
    assert_eq!(started.recv().await, Some("started"));
    drop(informer.remove_handler(&registration));
    assert!(!registration.is_removed(), "never polled");
    assert!(informer.remove_handler(&registration).now_or_never().is_none());
    assert!(registration.is_removed());
    source.apply(Item::of("pot", 0, 1));
    release.send_replace(true);
    assert_eq!(started.recv().await, Some("returned"));
    assert_eq!(started.recv().await, None, "no event follows");
    running.stop().await.unwrap();
}

// contract: I-05d
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_several_concurrent_runs_succeeds() {
    for _ in 0..50 {
        let informer = informer(&FakeSource::new());
        let cancel = CancellationToken::new();
        let runs: Vec<_> = (0..4).map(|_| informer.spawn(cancel.clone())).collect();
        informer.wait_for_sync().await.unwrap();
        let ended = futures::future::join_all(runs);
        let (ended, ()) = tokio::join!(ended, async { cancel.cancel() });
        let (ran, refused): (Vec<_>, Vec<_>) = ended.into_iter().map(Result::unwrap).partition(Result::is_ok);
        assert_eq!((ran.len(), refused.len()), (1, 3));
        for error in refused {
            assert!(matches!(error, Err(Error::Running { .. } | Error::Stopped { .. })), "{error:?}");
        }
        assert_eq!(informer.phase(), Phase::Stopped);
    }
}

// contract: I-05b, P-13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_added_during_stop_is_refused_or_ended() {
    let before = tasks::alive();
    for _ in 0..50 {
        let source = FakeSource::new();
        source.apply(Item::of("kettle", 0, 1));
        let running = Running::start(informer(&source)).await;
        let start = Arc::new(Barrier::new(3));
        let adders: Vec<_> = (0..2)
            .map(|_| {
                let (informer, start) = (running.informer.clone(), start.clone());
                let runtime = tokio::runtime::Handle::current();
                std::thread::spawn(move || {
                    start.wait();
                    let mut added = Vec::new();
                    for _ in 0..1_000_000 {
                        match informer.add_handler(|_: &Event<Arc<Item>>| {}) {
                            Ok(registration) if added.len() < 20 => added.push(registration),
                            Ok(registration) => runtime.block_on(registration.remove()),
                            Err(_) => return added,
                        }
                    }
                    panic!("the informer never stopped");
                })
            })
            .collect();
        start.wait();
        let informer = running.informer.clone();
        running.stop().await.unwrap();
        for adder in adders {
            let added = tokio::task::spawn_blocking(move || adder.join().unwrap()).await.unwrap();
            for registration in added {
                registration.remove().await;
                assert!(registration.is_removed());
            }
        }
        refuses_handlers(&informer);
    }
    tasks::fall_to(before).await;
}

/// Many informers with handlers of every kind leave no task behind.
// contract: P-14a
#[tokio::test(start_paused = true)]
async fn many_stopped_informers_leave_no_task() {
    let before = tasks::alive();
    let mut all = Vec::new();
    for _ in 0..20 {
        let source = FakeSource::new();
        source.apply(Item::of("kettle", 0, 1));
        let informer = informer(&source);
        let ignore = |_: &Event<Arc<Item>>| {};
        let stream = informer.stream().unwrap();
        let registrations = [
            informer.add_handler(ignore).unwrap(),
            informer.handler().inline().for_each(ignore).unwrap(),
            informer.handler().add_async(|_: Event<Arc<Item>>| async {}).unwrap(),
            informer.handler().buffer(Buffer::Coalesced).for_each(ignore).unwrap(),
            informer.handler().buffer(Buffer::BackPressure(1)).for_each(ignore).unwrap(),
        ];
        let running = Running::start(informer).await;
        for registration in &registrations {
            registration.synced().await.unwrap();
        }
        all.push((running, stream, source));
    }
    assert!(tasks::alive() > before + 20 * 6);
    for (running, _stream, source) in all {
        running.stop().await.unwrap();
        assert_eq!(source.open_watches(), 0);
    }
    assert_eq!(tasks::alive(), before, "no task is left when run has returned");
}

/// A stuck handler is named in the error, and dropped after the grace period.
// contract: P-14a
#[tokio::test(start_paused = true)]
async fn stuck_handler_is_dropped_after_grace_period() {
    for buffer in [Buffer::EveryEvent, Buffer::Coalesced, Buffer::BackPressure(1)] {
        stuck(buffer).await;
    }
}

async fn stuck(buffer: Buffer) {
    let before = tasks::alive();
    let source = FakeSource::new();
    source.apply(Item::of("kettle", 0, 1));
    let grace = Duration::from_secs(3);
    let informer = SharedIndexInformer::builder(source).name("items").grace(grace).build().unwrap();
    let (start_sender, mut started) = tokio::sync::mpsc::channel(1);
    informer
        .handler()
        .name("never returns")
        .buffer(buffer)
        .add_async(move |_: Event<Arc<Item>>| {
            start_sender.try_send(()).unwrap();
            std::future::pending::<()>()
        })
        .unwrap();
    let seen = Seen::default();
    let recorder = seen.clone();
    informer.handler().name("returns").for_each(move |event| recorder.record(event)).unwrap();
    let running = Running::start(informer.clone()).await;
    started.recv().await.unwrap();
    seen.wait(|view| view.map.len() == 1).await;
    let error = running.stop().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"items\"") && text.contains("never returns") && text.contains("3s"), "{text}");
    let Error::Stuck { handlers, .. } = error else { panic!("{error}") };
    assert_eq!(handlers, ["never returns".into()]);
    assert_eq!(informer.phase(), Phase::Stopped);
    assert_eq!(tasks::alive(), before);
}
