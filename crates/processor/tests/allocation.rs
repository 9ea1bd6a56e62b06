//! Allocations per event and per removal. A test binary of its own, because it counts the allocations of the process.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by a panic")]

use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use kinformer_core::{Change, KeyRef, Object};
use kinformer_processor::{
    AsyncEventHandler, Buffer, Error, Event, InitialState, ListenerBuilder, SharedProcessor,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const EVENTS: usize = 1000;

struct Pod;

impl Object for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named("pod")
    }
}

fn updates(n: usize) -> Vec<Change<Pod>> {
    let pod = Arc::new(Pod);
    (0..n).map(|_| Change::updated(pod.clone(), pod.clone())).collect()
}

/// The number of allocations since the region began.
fn allocated(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.allocations + change.reallocations
}

/// The number of events, and the allocation count at the first and at the last event.
#[derive(Default)]
struct Seen {
    events: AtomicUsize,
    first: AtomicUsize,
    last: AtomicUsize,
    one: Notify,
}

impl Seen {
    fn event(&self) {
        let now = ALLOCATOR.stats();
        let now = now.allocations + now.reallocations;
        if self.events.fetch_add(1, Ordering::SeqCst) == 0 {
            self.first.store(now, Ordering::SeqCst);
        }
        self.last.store(now, Ordering::SeqCst);
        self.one.notify_one();
    }

    async fn events(&self, n: usize) {
        while self.events.load(Ordering::SeqCst) < n {
            self.one.notified().await;
        }
    }

    fn between(&self) -> usize {
        self.last.load(Ordering::SeqCst) - self.first.load(Ordering::SeqCst)
    }
}

/// A handler with events of its own type, as in the crate of a user.
struct Typed<F>(F);

/// A handle of a user's own.
struct Handle(#[expect(dead_code, reason = "it holds the object")] Arc<Pod>);

impl<F, Fut> AsyncEventHandler<Arc<Pod>> for Typed<F>
where
    F: FnMut(Event<Handle>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    fn on_event(&mut self, event: Event<Arc<Pod>>) -> impl Future<Output = ()> + Send {
        (self.0)(event.map(Handle))
    }
}

type Add = fn(ListenerBuilder<'_, Pod>, Arc<Seen>);

const KINDS: [(&str, Add); 4] = [
    ("inline", |handler, seen| drop(handler.inline().for_each(move |_| seen.event()).unwrap())),
    ("blocking", |handler, seen| drop(handler.for_each(move |_| seen.event()).unwrap())),
    ("async", |handler, seen| {
        let call = move |event: Event<Arc<Pod>>| {
            let seen = seen.clone();
            async move {
                drop(event);
                tokio::task::yield_now().await;
                seen.event();
            }
        };
        drop(handler.add_async(call).unwrap());
    }),
    ("async with other handles", |handler, seen| {
        let call = Typed(move |event: Event<Handle>| {
            let seen = seen.clone();
            async move {
                drop(event);
                seen.event();
            }
        });
        drop(handler.add_async(call).unwrap());
    }),
];

/// A processor that runs until it is stopped.
struct Running {
    processor: SharedProcessor<Pod>,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    fn new(processor: SharedProcessor<Pod>) -> Self {
        let cancel = CancellationToken::new();
        let (run, token) = (processor.clone(), cancel.clone());
        Self { processor, cancel, task: tokio::spawn(async move { run.run(token).await }) }
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// All events are published before the handler starts, so that it never waits.
async fn backlog_of_handler(add: Add, buffer: Buffer) -> usize {
    let (processor, seen) = (SharedProcessor::new("test"), Arc::new(Seen::default()));
    add(processor.handler().buffer(buffer), seen.clone());
    updates(EVENTS).into_iter().for_each(|update| processor.publish([update]));
    let running = Running::new(processor);
    seen.events(EVENTS).await;
    running.stop().await;
    seen.between()
}

async fn backlog_of_stream(buffer: Buffer) -> usize {
    let processor = SharedProcessor::new("test");
    let mut stream = processor.handler().buffer(buffer).stream().unwrap();
    updates(EVENTS).into_iter().for_each(|update| processor.publish([update]));
    let region = Region::new(ALLOCATOR);
    for _ in 0..EVENTS {
        drop(stream.next().await.unwrap());
    }
    allocated(&region)
}

/// The number of allocations of the publisher for single events.
fn publisher() -> usize {
    let processor = SharedProcessor::new("test");
    let mut changes = updates(EVENTS);
    let region = Region::new(ALLOCATOR);
    changes.drain(..).for_each(|update| processor.publish([update]));
    allocated(&region)
}

/// Whether a handler with back-pressure was added beside the others.
#[derive(Clone, Copy, Debug)]
enum BackPressure {
    None,
    Present,
    Left,
}

/// The number of allocations of the publisher, and of the references to the object, with this number of handlers.
fn publisher_beside(handlers: usize, back_pressure: BackPressure) -> (usize, usize) {
    let processor = SharedProcessor::<Pod>::new("test");
    for number in 0..handlers {
        let buffer = if number % 2 == 0 { Buffer::EveryEvent } else { Buffer::Coalesced };
        processor.handler().buffer(buffer).inline().for_each(|_| ()).unwrap();
    }
    if !matches!(back_pressure, BackPressure::None) {
        let buffer = Buffer::BackPressure(2 * EVENTS);
        let registration = processor.handler().buffer(buffer).inline().for_each(|_| ()).unwrap();
        if matches!(back_pressure, BackPressure::Left) {
            drop(registration.remove());
        }
    }
    let pod = Arc::new(Pod);
    let mut changes: Vec<_> = (0..EVENTS).map(|_| Change::added(pod.clone())).collect();
    let region = Region::new(ALLOCATOR);
    changes.drain(..).for_each(|added| processor.publish([added]));
    (allocated(&region), Arc::strong_count(&pod))
}

/// The bytes allocated by all removals of this number of handlers, half of them with back-pressure.
async fn removals(handlers: usize) -> usize {
    let running = Running::new(SharedProcessor::<Pod>::new("test"));
    let add = |number: usize| {
        let buffer = if number.is_multiple_of(2) { Buffer::BackPressure(9) } else { Buffer::EveryEvent };
        let handler = running.processor.handler().buffer(buffer).resync(Duration::from_secs(60));
        handler.inline().for_each(|_| ()).unwrap()
    };
    let registrations: Vec<_> = (0..handlers).map(add).collect();
    running.processor.publish(updates(1));
    for registration in &registrations {
        while registration.metrics().delivered == 0 {
            tokio::task::yield_now().await;
        }
    }
    let region = Region::new(ALLOCATOR);
    for registration in &registrations {
        registration.remove().await;
    }
    let allocated = region.change().bytes_allocated;
    assert!(running.processor.handler_metrics().is_empty());
    running.stop().await;
    allocated
}

/// Each event is published after the previous one was delivered, so that the handler sleeps in between. The first
/// events allocate memory that later ones reuse.
async fn single_events_of_handler(add: Add) -> usize {
    let (processor, seen) = (SharedProcessor::new("test"), Arc::new(Seen::default()));
    add(processor.handler(), seen.clone());
    let running = Running::new(processor);
    let mut changes = updates(10 + EVENTS);
    let mut region = Region::new(ALLOCATOR);
    for (i, update) in changes.drain(..).enumerate() {
        if i == 10 {
            region.reset();
        }
        running.processor.publish([update]);
        seen.events(i + 1).await;
    }
    let allocated = allocated(&region);
    running.stop().await;
    allocated
}

async fn single_events_of_stream() -> usize {
    let running = Running::new(SharedProcessor::new("test"));
    let mut stream = running.processor.stream().unwrap();
    let mut changes = updates(10 + EVENTS);
    let mut region = Region::new(ALLOCATOR);
    for (i, update) in changes.drain(..).enumerate() {
        if i == 10 {
            region.reset();
        }
        // The stream is already waiting when the event is published.
        let (event, ()) = futures::join!(stream.next(), async { running.processor.publish([update]) });
        drop(event.unwrap());
    }
    let allocated = allocated(&region);
    running.stop().await;
    allocated
}

struct Named(String);

impl Object for Named {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::named(&self.0)
    }
}

/// The bytes that a coalescing handler holds while it receives the initial list, and after it was far behind.
async fn coalesced() -> [isize; 2] {
    const OBJECTS: usize = 10_000;
    let objects: Arc<Vec<_>> = Arc::new((0..OBJECTS).map(|i| Arc::new(Named(format!("o{i}")))).collect());
    let stored = objects.clone();
    let initial_state = move || {
        let stored = stored.clone();
        InitialState::new(1, (0..OBJECTS).map(move |i| stored.get(i).unwrap().clone()))
    };
    let processor = SharedProcessor::<Named>::builder("test").initial_state(initial_state).build();
    let region = Region::new(ALLOCATOR);
    let held = || {
        let change = region.change();
        change.bytes_allocated as isize - change.bytes_deallocated as isize
    };
    let mut stream = processor.handler().buffer(Buffer::Coalesced).stream().unwrap();
    let cancel = CancellationToken::new();
    let (run, token) = (processor.clone(), cancel.clone());
    let running = tokio::spawn(async move { run.run(token).await });
    let idle = async || {
        for _ in 0..OBJECTS {
            tokio::task::yield_now().await;
        }
    };
    // The stream is not polled at first.
    idle().await;
    let mut initial = held();
    for _ in 0..OBJECTS {
        drop(stream.next().await.unwrap());
        initial = initial.max(held());
    }
    for object in objects.iter() {
        processor.publish([Change::updated(object.clone(), object.clone()).at_revision(2)]);
    }
    // Until all events are coalesced.
    idle().await;
    for _ in 0..OBJECTS {
        drop(stream.next().await.unwrap());
    }
    let after = held();
    cancel.cancel();
    running.await.unwrap().unwrap();
    [initial, after]
}

/// The minimum of some runs: other threads of the test harness allocate occasionally, an event would in each run.
async fn least<F: Future<Output = usize>>(mut run: impl FnMut() -> F) -> usize {
    let mut least = usize::MAX;
    for _ in 0..5 {
        least = least.min(run().await);
    }
    least
}

async fn check() {
    // The runtime allocates when a task yields for the first time.
    tokio::task::yield_now().await;
    for buffer in [Buffer::EveryEvent, Buffer::BackPressure(EVENTS)] {
        for (kind, add) in KINDS {
            let allocated = least(|| backlog_of_handler(add, buffer)).await;
            assert_eq!(allocated, 0, "{kind}, {buffer:?}: in {EVENTS} events");
        }
        let allocated = least(|| backlog_of_stream(buffer)).await;
        assert_eq!(allocated, 0, "stream, {buffer:?}: in {EVENTS} events");
    }
    let publisher = least(|| std::future::ready(publisher())).await;
    for back_pressure in [BackPressure::None, BackPressure::Present, BackPressure::Left] {
        let beside = |handlers| (0..5).map(move |_| publisher_beside(handlers, back_pressure)).min();
        assert_eq!(beside(1000), beside(2), "{back_pressure:?}");
    }
    for (kind, add) in KINDS.into_iter().filter(|(kind, _)| *kind != "blocking") {
        let allocated = least(|| single_events_of_handler(add)).await;
        assert_eq!(allocated, publisher, "{kind}: in {EVENTS} single events");
    }
    let allocated = least(single_events_of_stream).await;
    assert_eq!(allocated, publisher, "stream: in {EVENTS} single events");
    let (two, many) = (least(|| removals(2)).await, least(|| removals(1000)).await);
    assert_eq!(many, 500 * two, "bytes of 1000 removals");
    let held = coalesced().await;
    assert!(held.iter().all(|held| *held < 64 << 10), "bytes of a coalescing handler: {held:?}");
}

// The only test of this binary, because allocations are counted for the whole program.
// contract: P-22a, P-22b, P-10h, P-10i
#[test]
fn allocations_are_independent_of_events_and_handlers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    // One timeout for all runs, because it allocates.
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(100), check()).await }).unwrap();
}
