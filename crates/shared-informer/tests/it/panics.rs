//! Unexpected panics: lost batches are listed again, and an informer whose reflector has ended reports an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{HOUR, Running, Seen};
use async_trait::async_trait;
use kinformer_core::{PartId, Transform};
use kinformer_delta_fifo::{DeltaFifo, Popped, Queue, RealFifo};
use kinformer_reflector::{
    ApiStatus, List, ListOptions, ListerWatcher, ReflectorState, SourceError, StopReason, WatchListSupport,
    WatchOptions, WatchStream,
};
use kinformer_shared_informer::{Error, InformerLoop, Phase, Process, SharedIndexInformer};
use kinformer_store::{IndexFunction, IndexValues, Indexer};
use kinformer_testing::panics::panic_twice;
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// A subscriber that panics at events of a target, a limited number of times.
struct Panics {
    target: &'static str,
    left: AtomicUsize,
}

impl Panics {
    fn on_target(target: &'static str, times: usize) -> tracing::dispatcher::DefaultGuard {
        kinformer_testing::logs::set_default(Self { target, left: AtomicUsize::new(times) })
    }
}

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(self.target)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(left.is_err(), "{} cannot be logged", event.metadata().target());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A store without an informer, which loses the batches with these numbers.
struct Store {
    indexer: Arc<Indexer<Item>>,
    lost: Vec<usize>,
    batches: usize,
    synced: Arc<Mutex<Option<Vec<String>>>>,
}

impl Process<Item> for Store {
    async fn process(&mut self, mut popped: Popped<Item>) {
        self.batches += 1;
        assert!(!self.lost.contains(&self.batches), "batch {} is lost", self.batches);
        let applied = self.indexer.apply_at(popped.take(), popped.versions());
        applied.errors.into_result().unwrap();
    }

    fn synced(&mut self) {
        let mut keys: Vec<_> = self.indexer.keys().iter().map(ToString::to_string).collect();
        keys.sort_unstable();
        *self.synced.lock() = Some(keys);
    }
}

// contract: I-12a, I-12b
#[tokio::test(start_paused = true)]
async fn lost_first_list_is_repeated_before_the_sync() {
    for kind in 0..3 {
        for lost in [vec![1], vec![2], vec![1, 2, 3]] {
            let source = FakeSource::new();
            (0..300).for_each(|n| _ = source.apply(Item::of(&format!("n{n:03}"), 0, 1)));
            let indexer = Arc::new(Indexer::new());
            let queue: Arc<dyn Queue<Item>> = match kind {
                0 => Arc::new(RealFifo::new()),
                1 => Arc::new(RealFifo::builder().known_objects(indexer.clone()).build()),
                _ => Arc::new(DeltaFifo::builder().known_objects(indexer.clone()).build()),
            };
            let synced = Arc::new(Mutex::new(None));
            let store =
                Store { indexer: indexer.clone(), lost: lost.clone(), batches: 0, synced: synced.clone() };
            let informer_loop = InformerLoop::new("loses", source.clone(), queue, store);
            let reflector = informer_loop.parts()[0].reflector().clone();
            let cancel = CancellationToken::new();
            let running = tokio::spawn(informer_loop.run(cancel.clone()));
            let last = source.apply(Item::of("later", 0, 1));
            indexer.wait_for(PartId::ONLY, &last.into()).until(Instant::now() + HOUR).await.unwrap();
            tokio::time::sleep(HOUR).await;
            assert_eq!(indexer.len(), 301, "queue {kind}, lost {lost:?}");
            let synced = synced.lock().clone().unwrap();
            assert!(synced.len() >= 300, "queue {kind}, lost {lost:?}: synced with {}", synced.len());
            let relists = reflector.metrics().relists;
            let fewest = u64::from(lost.contains(&1));
            assert!(
                (fewest..=lost.len() as u64).contains(&relists),
                "queue {kind}, lost {lost:?}: {relists}"
            );
            cancel.cancel();
            assert_eq!(running.await.unwrap(), StopReason::Cancelled);
        }
    }
}

/// A stored object is delivered even if logging its missing index entry panics.
// contract: I-11e, I-12a
#[tokio::test(start_paused = true)]
async fn panicking_subscriber_loses_nothing() {
    for queue in crate::common::QUEUES {
        let _panics = Panics::on_target("kinformer_shared_informer", 3);
        let source = FakeSource::new();
        source.apply(Item::of("bad", 0, 1));
        source.apply(Item::of("good", 0, 1));
        let fails = IndexFunction::new(|item: &Arc<Item>, values: &mut IndexValues| {
            assert!(item.name != "bad", "no such name");
            values.push(&item.name);
        });
        let informer =
            SharedIndexInformer::builder(source.clone()).queue(queue).index("name", fails).build().unwrap();
        let seen = Seen::default();
        let recorder = seen.clone();
        informer.handler().inline().for_each(move |event| recorder.record(event)).unwrap();
        let running = Running::start_only(informer.clone());
        informer.wait_for_sync().until(Instant::now() + HOUR).await.unwrap();
        let last = source.apply(Item::of("bad", 0, 2));
        informer.wait_for(PartId::ONLY, &last.into()).until(Instant::now() + HOUR).await.unwrap();
        seen.wait_for_version(last).await;
        assert_eq!(crate::common::stored(&informer), crate::common::server(&source), "{queue:?}");
        assert_eq!(seen.view().map, crate::common::server(&source), "{queue:?}");
        seen.assert_no_faults();
        running.stop().await.unwrap();
    }
}

/// In a list and in the watch, only the object whose transform panics is left out.
// contract: I-11f
#[tokio::test(start_paused = true)]
async fn panicking_transform_harms_no_other_object() {
    for queue in crate::common::QUEUES {
        let source = FakeSource::new();
        ["a", "bad", "c"].iter().for_each(|name| _ = source.apply(Item::of(name, 0, 1)));
        let transform = Transform::in_place(|item: &mut Item| {
            assert!(item.name != "bad", "no bad items");
            Ok(())
        });
        let builder = SharedIndexInformer::builder(source.clone()).queue(queue).transform(transform);
        let informer = builder.build().unwrap();
        let seen = Seen::default();
        let recorder = seen.clone();
        informer.handler().inline().for_each(move |event| recorder.record(event)).unwrap();
        let running = Running::start(informer.clone()).await;
        ["bad", "d"].iter().for_each(|name| _ = source.apply(Item::of(name, 0, 2)));
        seen.wait(|view| view.texts.len() == 3).await;
        let mut seen = seen.take();
        seen.sort();
        assert_eq!(seen, ["add a 1 initial", "add c 1 initial", "add d 2"], "{queue:?}");
        let mut stored: Vec<_> = informer.snapshot().keys().iter().map(ToString::to_string).collect();
        stored.sort();
        assert_eq!(stored, ["a", "c", "d"], "{queue:?}");
        running.stop().await.unwrap();
    }
}

/// Panics whose payload panics when it is dropped are contained as all others are: those of transforms, index functions,
/// error hooks and sources.
// contract: P-09d, I-11e, I-11f, I-13a
#[tokio::test(start_paused = true)]
async fn panicking_payload_harms_no_other_object() {
    for queue in crate::common::QUEUES {
        let source = FakeSource::new();
        ["a", "index", "transform"].iter().for_each(|name| _ = source.apply(Item::of(name, 0, 1)));
        let bad = |item: &Item, name| {
            if item.name == name {
                panic_twice()
            }
        };
        let transform = Transform::in_place(move |item: &mut Item| {
            bad(item, "transform");
            Ok(())
        });
        let index = IndexFunction::new(move |item: &Arc<Item>, values: &mut IndexValues| {
            bad(item, "index");
            values.push(&item.name);
        });
        let panicking =
            PanicsAtFirst { source: source.clone(), calls: AtomicUsize::new(0), panic: panic_twice };
        let informer = SharedIndexInformer::builder(panicking)
            .queue(queue)
            .transform(transform)
            .index("name", index)
            .on_error(|_| panic_twice())
            .build()
            .unwrap();
        let running = Running::start_only(informer.clone());
        informer.wait_for_sync().until(Instant::now() + HOUR).await.unwrap();
        let last = source.apply(Item::of("b", 0, 1));
        informer.wait_for(PartId::ONLY, &last.into()).until(Instant::now() + HOUR).await.unwrap();
        let mut stored: Vec<_> = informer.snapshot().keys().iter().map(ToString::to_string).collect();
        stored.sort();
        assert_eq!(stored, ["a", "b", "index"], "{queue:?}");
        running.stop().await.unwrap();
    }
}

// contract: I-13b, I-13d
#[tokio::test(start_paused = true)]
async fn informer_reports_an_ended_reflector() {
    for queue in crate::common::QUEUES {
        let source = FakeSource::<Item>::new().without_watch_list();
        source.fail_next_list(ApiStatus::new(403, "Forbidden", "you may not list kettles").into());
        let informer = SharedIndexInformer::builder(source).name("left alone").queue(queue).build().unwrap();
        let panics = Panics::on_target("kinformer_reflector", usize::MAX);
        let running = Running::start_only(informer.clone());
        let waited = tokio::time::timeout(HOUR, informer.wait_for_sync()).await;
        let Ok(Err(Error::NotSynced(why))) = waited else { panic!("{queue:?}: {waited:?}") };
        assert!(why.to_string().contains("it was stopped"), "{why}");
        let ended = tokio::time::timeout(HOUR, running.task).await.unwrap().unwrap();
        drop(panics);
        let Err(error @ Error::ReflectorEnded { .. }) = ended else { panic!("{queue:?}: {ended:?}") };
        assert!(error.to_string().contains("left alone"), "{error}");
        assert_eq!(informer.phase(), Phase::Stopped);
        let state = informer.parts()[0].reflector().state();
        assert_eq!(state, ReflectorState::Stopped(StopReason::Dropped));
    }
}

/// A source with one method that panics at its first calls.
struct PanicsAtFirst {
    source: FakeSource<Item>,
    calls: AtomicUsize,
    panic: fn() -> !,
}

#[async_trait]
impl ListerWatcher<Item> for PanicsAtFirst {
    async fn list(&self, options: ListOptions<Item>) -> Result<List<Item>, SourceError> {
        self.source.list(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Item>, SourceError> {
        self.source.watch(options).await
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        if self.calls.fetch_add(1, Ordering::Relaxed) <= 1 {
            (self.panic)();
        }
        self.source.watch_list_support()
    }
}

// contract: I-13a
#[tokio::test(start_paused = true)]
async fn panic_in_the_reflector_fails_its_list() {
    for queue in crate::common::QUEUES {
        let source = FakeSource::new();
        source.apply(Item::of("kettle", 0, 1));
        let errors = Arc::new(Mutex::new(Vec::new()));
        let hook = errors.clone();
        let panic = || panic!("no support yet");
        let panicking = PanicsAtFirst { source: source.clone(), calls: AtomicUsize::new(0), panic };
        let informer = SharedIndexInformer::builder(panicking)
            .queue(queue)
            .on_error(move |failure| hook.lock().push(failure.error.to_string()))
            .build()
            .unwrap();
        let running = Running::start_only(informer.clone());
        informer.wait_for_sync().until(Instant::now() + HOUR).await.unwrap();
        assert_eq!(crate::common::stored(&informer), crate::common::server(&source));
        let errors = errors.lock().clone();
        assert!(
            errors.len() == 2 && errors.iter().all(|error| error.contains("no support yet")),
            "{errors:?}"
        );
        running.stop().await.unwrap();
    }
}
