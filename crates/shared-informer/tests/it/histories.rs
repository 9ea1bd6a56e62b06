//! Random histories: every handler, whenever it was added, ends up with the objects of the server.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kinformer_core::{Object as _, ObjectKey};
use kinformer_processor::{Added, Buffer, Event, Registration, Updated};
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_store::IndexFunction;
use kinformer_testing::fake_source::Change;
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
enum Step {
    Change(Change),
    /// Milliseconds.
    Pass(u16),
    Join(Kind),
}

/// The kinds of handlers.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Blocking,
    Inline,
    Async,
    Stream,
    Coalesced,
    SlowCoalesced,
    BackPressure,
    Filtered,
    FilteredCoalesced,
    Resynced,
}

/// The features of the server.
#[derive(Clone, Copy, Debug)]
enum Server {
    Everything,
    NoWatchList,
    NoBookmarks,
}

const KINDS: [Kind; 10] = [
    Kind::Blocking,
    Kind::Inline,
    Kind::Async,
    Kind::Stream,
    Kind::Coalesced,
    Kind::SlowCoalesced,
    Kind::BackPressure,
    Kind::Filtered,
    Kind::FilteredCoalesced,
    Kind::Resynced,
];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => Change::any().prop_map(Step::Change),
        6 => any::<u16>().prop_map(Step::Pass),
        2 => prop::sample::select(KINDS.as_slice()).prop_map(Step::Join),
    ]
}

fn even(item: &Arc<Item>) -> bool {
    item.value.is_multiple_of(2)
}

/// The objects of one handler, and the faults in its events.
#[derive(Default)]
struct Received {
    objects: BTreeMap<String, Arc<Item>>,
    newest: BTreeMap<String, u64>,
    errors: Vec<String>,
    resyncs: usize,
}

impl Received {
    fn receive(&mut self, event: &Event<Arc<Item>>) {
        let key = event.key().to_string();
        if let Some(object) = event.object() {
            let newest = self.newest.entry(key.clone()).or_default();
            if object.version < *newest {
                self.errors.push(format!("{key} goes back from {newest} to {}", object.version));
            }
            *newest = object.version;
        }
        match event {
            Event::Added(Added { object, .. }) => {
                if self.objects.insert(key.clone(), object.clone()).is_some() {
                    self.errors.push(format!("{key} was added twice"));
                }
            }
            Event::Updated(Updated { old, new, .. }) => {
                let known = self.objects.insert(key.clone(), new.clone());
                if known.as_ref() != Some(old) {
                    self.errors.push(format!("{key} was {known:?} and not {old:?}"));
                }
                self.resyncs += usize::from(old.version == new.version);
            }
            Event::Deleted(_) => {
                if self.objects.remove(&key).is_none() {
                    self.errors.push(format!("{key} was deleted and not known"));
                }
            }
            _ => unreachable!("not known to this test"),
        }
    }
}

struct Handler {
    kind: Kind,
    received: Arc<Mutex<Received>>,
    registration: Registration,
}

fn join(informer: &SharedIndexInformer<Item>, kind: Kind) -> Handler {
    let received = Arc::new(Mutex::new(Received::default()));
    let seen = received.clone();
    let receive = move |event: &Event<Arc<Item>>| seen.lock().receive(event);
    let seen = received.clone();
    let slowly = move |wait: Duration| {
        move |event: Event<Arc<Item>>| {
            let seen = seen.clone();
            async move {
                tokio::time::sleep(wait).await;
                seen.lock().receive(&event);
            }
        }
    };
    let handler = informer.handler().name(format!("{kind:?}"));
    let registration = match kind {
        Kind::Blocking => handler.for_each(receive),
        Kind::Inline => handler.inline().for_each(receive),
        Kind::Async => handler.add_async(slowly(Duration::ZERO)),
        Kind::Stream => {
            let mut stream = handler.stream().unwrap();
            let registration = stream.registration().clone();
            tokio::spawn(async move {
                while let Some(event) = stream.next().await {
                    receive(&event);
                }
            });
            Ok(registration)
        }
        Kind::Coalesced => handler.buffer(Buffer::Coalesced).for_each(receive),
        Kind::SlowCoalesced => handler.buffer(Buffer::Coalesced).add_async(slowly(Duration::from_secs(3))),
        Kind::BackPressure => {
            handler.buffer(Buffer::BackPressure(2)).add_async(slowly(Duration::from_millis(100)))
        }
        Kind::Filtered => handler.filter(even).for_each(receive),
        Kind::FilteredCoalesced => {
            handler.filter(even).buffer(Buffer::Coalesced).add_async(slowly(Duration::from_secs(3)))
        }
        Kind::Resynced => handler.resync(Duration::from_secs(20)).for_each(receive),
    };
    Handler { kind, received, registration: registration.unwrap() }
}

async fn history(queue: QueueKind, server: Server, steps: Vec<Step>) {
    let server = match server {
        Server::Everything => FakeSource::new(),
        Server::NoWatchList => FakeSource::new().without_watch_list(),
        Server::NoBookmarks => FakeSource::new().without_bookmarks(),
    };
    let informer = SharedIndexInformer::builder(server.clone())
        .name("random")
        .queue(queue)
        .index("namespace", IndexFunction::by_namespace())
        .build()
        .unwrap();
    let mut handlers: Vec<Handler> = KINDS.iter().map(|kind| join(&informer, *kind)).collect();
    let cancel = CancellationToken::new();
    let running = informer.spawn(cancel.clone());
    for (value, step) in (1_u64..).zip(steps) {
        match step {
            Step::Change(change) => change.make(&server, value),
            // The paused clock advances only while no task can run.
            Step::Pass(ms) => tokio::time::sleep(Duration::from_millis(ms.into())).await,
            Step::Join(kind) => handlers.push(join(&informer, kind)),
        }
    }
    // From here on the server does not change. The wait is longer than all delays and deadlines.
    let end = Instant::now() + Duration::from_secs(3600);
    informer.wait_for_sync().until(end).await.unwrap();
    tokio::time::sleep_until(end).await;

    let stored: BTreeMap<ObjectKey, Arc<Item>> =
        informer.snapshot().iter().map(|item| (item.key().try_into().unwrap(), item.clone())).collect();
    for (key, item) in &server.decodable() {
        assert_eq!(stored.get(key), Some(item), "{key}");
    }
    // An undecodable object keeps its previous state or is missing.
    for key in stored.keys() {
        assert!(server.exists(key), "{key} is deleted at the server");
    }
    for handler in &handlers {
        let Handler { kind, received, registration } = handler;
        registration.synced().until(end + Duration::from_secs(60)).await.unwrap();
        let received = received.lock();
        assert!(received.errors.is_empty(), "{kind:?}: {:?}", received.errors);
        let mut expected: BTreeMap<String, _> =
            stored.iter().map(|(key, item)| (key.to_string(), item.clone())).collect();
        if matches!(kind, Kind::Filtered | Kind::FilteredCoalesced) {
            expected.retain(|_, item| even(item));
        }
        assert_eq!(received.objects, expected, "{kind:?}, {:?}", registration.metrics());
        assert_eq!(registration.metrics().depth, 0, "{kind:?}");
        match kind {
            Kind::Resynced => assert!(received.resyncs > 0 || stored.is_empty(), "no resync in an hour"),
            _ => assert_eq!(received.resyncs, 0, "{kind:?} did not request resyncs"),
        }
    }
    cancel.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(server.open_watches(), 0);
}

fn run(future: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future);
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "a task is left");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    // contract: I-02, I-03, I-06a, I-06b, P-01a, P-02a, P-03a, P-04a, P-04b, P-05a, P-05b, P-10a, P-10c, P-10f, P-11a, P-12, P-14a, Q-18a
    #[test]
    fn every_handler_ends_up_equal_to_the_server(
        server in prop::sample::select(vec![Server::Everything, Server::NoWatchList, Server::NoBookmarks]),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        for queue in crate::common::QUEUES {
            run(history(queue, server, steps.clone()));
        }
    }
}
