//! A custom queue in an informer loop and in an informer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use kinformer_core::{
    Delta, Deltas, Error as SinkError, KeyRef, Object, PartId, PartialErrors, ReadyFuture, ResourceVersion,
    Sink, Tombstone, Transform, VersionUpdate,
};
use kinformer_delta_fifo::{Bound, BoxFuture, DeltaFifo, DeltaQueueMetrics, Error, OnReplace, Popped, Queue};
use kinformer_processor::Event;
use kinformer_shared_informer::{InformerLoop, QueueParts, SharedIndexInformer};
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A queue of operations. Each pop returns one operation, independent of the maximum.
struct Plain<T> {
    transform: Option<Transform<T>>,
    state: Arc<Mutex<State<T>>>,
    changed: Arc<watch::Sender<()>>,
}

struct State<T> {
    operations: VecDeque<Deltas<T>>,
    limit: usize,
    listed: bool,
    initial: Option<usize>,
    closed: bool,
    popped: u64,
}

impl<T: Object> Plain<T> {
    fn new(transform: Option<Transform<T>>, limit: usize) -> Self {
        let state = State {
            operations: VecDeque::new(),
            limit,
            listed: false,
            initial: None,
            closed: false,
            popped: 0,
        };
        Self { transform, state: Arc::new(Mutex::new(state)), changed: Arc::default() }
    }

    /// Transforms the objects of the source.
    fn transformed(&self, delta: Delta<T>) -> Result<Delta<T>, SinkError> {
        let Some(transform) = &self.transform else { return Ok(delta) };
        Ok(match delta {
            Delta::Added(object) => Delta::Added(transform.apply(object)?),
            Delta::Updated(object) => Delta::Updated(transform.apply(object)?),
            Delta::Deleted(Tombstone::FinalState(object)) => Delta::Deleted(transform.apply(object)?.into()),
            Delta::ReplacedAll(mut list) => {
                for object in &mut list.objects {
                    *object = transform.apply(object.clone())?;
                }
                Delta::ReplacedAll(list)
            }
            delta => delta,
        })
    }

    async fn until<R>(&self, mut ready: impl FnMut() -> Option<R>) -> R {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(result) = ready() {
                return result;
            }
            _ = changed.changed().await;
        }
    }
}

fn version<T: Object>(delta: &Delta<T>) -> VersionUpdate {
    match delta {
        Delta::ReplacedAll(list) => VersionUpdate::of_list(list),
        Delta::Bookmark { resource_version: version, .. } => VersionUpdate::Advance(version.clone()),
        delta => delta
            .object()
            .map_or(VersionUpdate::NONE, |object| VersionUpdate::Advance(object.resource_version())),
    }
}

impl<T: Object> Sink<T> for Plain<T> {
    fn apply(&self, deltas: Deltas<T>) -> Result<PartialErrors, SinkError> {
        let mut errors = PartialErrors::default();
        let mut operation = Deltas::new();
        for (index, delta) in deltas.into_iter().enumerate() {
            match self.transformed(delta) {
                Ok(delta) => operation.push(delta),
                Err(error) => errors.push(error.with_index(index)),
            }
        }
        let mut state = self.state.lock();
        if state.closed {
            return Err(SinkError::Closed);
        }
        if state.operations.len() >= state.limit {
            return Err(SinkError::Full { key: None, limit: state.limit });
        }
        state.operations.push_back(operation);
        drop(state);
        self.changed.send_replace(());
        Ok(errors)
    }

    fn is_ready(&self) -> bool {
        let state = self.state.lock();
        state.closed || state.operations.len() < state.limit
    }

    fn ready(&self) -> ReadyFuture<'_> {
        Box::pin(self.until(|| self.is_ready().then_some(())))
    }
}

impl<T: Object> Queue<T> for Plain<T> {
    fn try_pop_batch(&self, _: usize) -> Result<Option<Popped<T>>, Error> {
        let mut state = self.state.lock();
        let Some(deltas) = state.operations.pop_front() else {
            return if state.closed { Err(Error::Closed) } else { Ok(None) };
        };
        state.popped += 1;
        let reached = deltas.iter().map(version).fold(VersionUpdate::NONE, |mut reached, next| {
            reached.append(next);
            reached
        });
        let lists = deltas.iter().any(|delta| matches!(delta, Delta::ReplacedAll(_)));
        let mut popped = Popped::of(deltas, reached);
        if lists && !std::mem::replace(&mut state.listed, true) {
            state.initial = Some(1);
            let (state, changed) = (self.state.clone(), self.changed.clone());
            popped = popped.as_initial_list().on_processed(move || {
                state.lock().initial = Some(0);
                changed.send_replace(());
            });
        }
        drop(state);
        self.changed.send_replace(());
        Ok(Some(popped))
    }

    fn pop_batch(&self, max: usize) -> BoxFuture<'_, Result<Popped<T>, Error>> {
        Box::pin(self.until(move || self.try_pop_batch(max).transpose()))
    }

    fn has_synced(&self) -> bool {
        self.state.lock().initial == Some(0)
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.until(|| match self.has_synced() {
            true => Some(Ok(())),
            false => self.is_closed().then_some(Err(Error::Closed)),
        }))
    }

    fn close(&self) -> bool {
        let was_open = !std::mem::replace(&mut self.state.lock().closed, true);
        self.changed.send_replace(());
        was_open
    }

    fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn depth(&self) -> usize {
        self.state.lock().operations.len()
    }

    fn metrics(&self) -> DeltaQueueMetrics {
        let mut metrics = DeltaQueueMetrics::default();
        (metrics.depth, metrics.popped) = (self.depth(), self.state.lock().popped);
        metrics
    }
}

// contract: I-17
#[tokio::test(start_paused = true)]
async fn informer_works_with_a_custom_queue() {
    let source = FakeSource::new();
    for name in ["a", "b", "gone"] {
        source.apply(Item::of(name, 0, 1));
    }
    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let transform = Transform::in_place(|item: &mut Item| {
        item.value += 100;
        Ok(())
    });
    let informer = SharedIndexInformer::builder(source.clone())
        .transform(transform)
        .queue_bound(Bound::Deltas(2))
        .queue_with(move |parts: QueueParts<Item>| {
            counted.fetch_add(1, Ordering::Relaxed);
            assert!(parts.known_objects.keys().is_empty());
            let Bound::Deltas(limit) = parts.bound else { return Arc::new(Plain::new(None, 1)) };
            Arc::new(Plain::new(parts.transform, limit))
        })
        .build()
        .unwrap();
    let mut events = informer.stream().unwrap();
    let cancel = CancellationToken::new();
    let running = informer.spawn(cancel.clone());
    informer.wait_for_sync().await.unwrap();
    source.delete(KeyRef::named("gone"));
    for value in 2..20 {
        source.apply(Item::of("a", 0, value));
    }
    let last = source.apply(Item::of("c", 0, 7));
    informer.wait_for(PartId::ONLY, &last.into()).await.unwrap();

    let mut kinds = Vec::new();
    while let Some(event) = events.next().await {
        kinds.push(match event {
            Event::Added(_) => 'a',
            Event::Updated(_) => 'u',
            _ => 'd',
        });
        if event.key() == KeyRef::named("c") {
            break;
        }
    }
    assert_eq!(kinds.into_iter().collect::<String>(), format!("aaad{}a", "u".repeat(18)));
    let mut items: Vec<_> = informer.snapshot().iter().map(|item| (item.name.clone(), item.value)).collect();
    items.sort();
    assert_eq!(items, [("a".into(), 119), ("b".into(), 101), ("c".into(), 107)]);
    assert_eq!(informer.store().resource_versions().lowest(), ResourceVersion::from(last));
    assert_eq!((made.load(Ordering::Relaxed), informer.metrics().queue.depth), (1, 0));
    assert!(informer.metrics().queue.popped > 0);
    cancel.cancel();
    running.await.unwrap().unwrap();
}

fn is_resync(event: &Event<Arc<Item>>) -> bool {
    matches!(event, Event::Updated(update) if Arc::ptr_eq(&update.old, &update.new))
}

/// A queue may deliver the objects of a list as `Sync`, as client-go's DeltaFIFO does by default.
// contract: I-17, I-29
#[tokio::test(start_paused = true)]
async fn listed_objects_may_arrive_as_sync() {
    let source = FakeSource::new();
    for name in ["a", "b", "gone"] {
        source.apply(Item::of(name, 0, 1));
    }
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let arrivals = arrived.clone();
    let informer = SharedIndexInformer::builder(source.clone())
        .on_arrival(move |item| {
            arrivals.lock().push(item.name.clone());
            true
        })
        .queue_with(|QueueParts { known_objects, parts, .. }| {
            let queue = DeltaFifo::builder().known_objects(known_objects).parts(parts);
            Arc::new(queue.on_replace(OnReplace::Sync).build())
        })
        .build()
        .unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let log = events.clone();
    let handler = informer
        .handler()
        .resync(Duration::from_secs(60))
        .for_each(move |event| log.lock().push((event.key().to_string(), is_resync(event))))
        .unwrap();
    let cancel = CancellationToken::new();
    let running = informer.spawn(cancel.clone());
    handler.synced().await.unwrap();
    let added = std::mem::take(&mut *events.lock());
    assert_eq!(added, ["a", "b", "gone"].map(|name| (name.to_owned(), false)));

    // Changes from the watch, and a resync of everything.
    source.delete(KeyRef::named("gone"));
    let last = source.apply(Item::of("b", 0, 2));
    informer.wait_for(PartId::ONLY, &last.into()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    let later = std::mem::take(&mut *events.lock());
    let expected = [("gone", false), ("b", false), ("a", true), ("b", true)];
    assert_eq!(later, expected.map(|(name, resync)| (name.to_owned(), resync)));
    assert_eq!(*arrived.lock(), ["a", "b", "gone", "b"], "resyncs of stored objects are no arrivals");
    cancel.cancel();
    running.await.unwrap().unwrap();
}

// contract: I-17
#[tokio::test(start_paused = true)]
async fn controller_works_with_a_custom_queue() {
    let source = FakeSource::new();
    source.apply(Item::of("a", 0, 1));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let process = move |popped: Popped<Item>| {
        log.lock().extend(popped.iter().map(|delta| delta.delta_type().to_string()));
        async {}
    };
    let queue = Arc::new(Plain::new(None, 10));
    let informer_loop = InformerLoop::new("items", source.clone(), queue.clone(), process);
    let running = tokio::spawn(informer_loop.run(CancellationToken::new()));
    queue.synced().await.unwrap();
    source.apply(Item::of("a", 0, 2));
    source.delete(KeyRef::named("a"));
    tokio::time::timeout(Duration::from_secs(60), queue.until(|| (seen.lock().len() == 3).then_some(())))
        .await
        .unwrap();
    assert_eq!(*seen.lock(), ["ReplacedAll", "Updated", "Deleted"]);
    queue.close();
    running.await.unwrap();
}
