//! Helpers for the tests of the informer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use kinformer_core::{Object, Tombstone};
use kinformer_processor::{Added, Deleted, Event, Left, Updated};
use kinformer_reflector::{
    List, ListOptions, ListerWatcher, SourceError, WatchEvent, WatchListSupport, WatchOptions, WatchStream,
};
use kinformer_shared_informer::{Error, QueueKind, SharedIndexInformer};
use kinformer_testing::{FakeSource, Item, reentrant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const QUEUES: [QueueKind; 3] =
    [QueueKind::RealFifo, QueueKind::RealFifoByObject, QueueKind::DeltaFifo];

/// A source whose objects are made of the items of a `FakeSource`.
pub(crate) trait OfItems: Clone + Send + Sync + 'static {
    type Thing: Object;

    fn items(&self) -> &FakeSource<Item>;

    /// Returns the object that a list or watch contains for this item.
    fn thing(&self, item: &Item) -> Arc<Self::Thing>;
}

/// [`OfItems`] as a source of an informer.
#[derive(Clone)]
pub(crate) struct Mapped<S>(pub(crate) S);

#[async_trait]
impl<S: OfItems> ListerWatcher<S::Thing> for Mapped<S> {
    async fn list(&self, options: ListOptions<S::Thing>) -> Result<List<S::Thing>, SourceError> {
        let list = self.0.items().list(options.retyped()).await?;
        let objects: Vec<_> = list.objects.iter().map(|item| options.exchange(self.0.thing(item))).collect();
        Ok(List::new(objects, list.resource_version))
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<S::Thing>, SourceError> {
        let (events, source) = (self.0.items().watch(options).await?, self.0.clone());
        let events = events.map(move |event| {
            Ok(match event? {
                WatchEvent::Added(item) => WatchEvent::Added(source.thing(&item)),
                WatchEvent::Modified(item) => WatchEvent::Modified(source.thing(&item)),
                WatchEvent::Deleted(item) => WatchEvent::Deleted(source.thing(&item)),
                WatchEvent::Bookmark { version, initial_events_end: true } => {
                    WatchEvent::initial_events_end(version)
                }
                WatchEvent::Bookmark { version, .. } => WatchEvent::bookmark(version),
                other => panic!("{other:?}"),
            })
        });
        Ok(events.boxed())
    }

    fn watch_list_support(&self) -> Option<&WatchListSupport> {
        self.0.items().watch_list_support()
    }
}

pub(crate) type Map = BTreeMap<String, Item>;

/// Events applied in order to an empty map, and the faults found in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) map: Map,
    pub(crate) texts: Vec<String>,
    pub(crate) faults: Vec<String>,
    /// The newest version of each key, including deleted objects.
    newest: BTreeMap<String, u64>,
}

impl View {
    pub(crate) fn record(&mut self, event: &Event<Arc<Item>>) {
        let key = event.key().to_string();
        let mut check = |good: bool, what: &str| {
            if !good {
                self.faults.push(format!("{what}: {event:?}"));
            }
        };
        if let Some(object) = event.object() {
            let newest = self.newest.entry(key.clone()).or_default();
            check(object.version >= *newest, "the version went back");
            *newest = object.version;
        }
        let text = match event {
            Event::Added(Added { object, in_initial_list, .. }) => {
                check(!self.map.contains_key(&key), "added twice");
                self.map.insert(key.clone(), (**object).clone());
                format!("add {key} {}{}", object.value, if *in_initial_list { " initial" } else { "" })
            }
            Event::Updated(Updated { old, new, .. }) => {
                check(self.map.get(&key) == Some(&**old), "old is not the last known state");
                self.map.insert(key.clone(), (**new).clone());
                format!("update {key} {} {}", old.value, new.value)
            }
            Event::Deleted(Deleted { tombstone, .. }) => {
                check(self.map.remove(&key).is_some(), "unknown object deleted");
                let unknown = matches!(tombstone, Tombstone::FinalStateUnknown(_));
                format!("delete {key}{}", if unknown { " unknown" } else { "" })
            }
            Event::Left(Left { object, .. }) => {
                check(self.map.remove(&key).is_some(), "unknown object left");
                format!("left {key} {}", object.value)
            }
        };
        self.texts.push(text);
    }
}

/// A [`View`] that can be waited for.
#[derive(Clone, Debug)]
pub(crate) struct Seen(Arc<watch::Sender<View>>);

impl Default for Seen {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(View::default())))
    }
}

impl Seen {
    pub(crate) fn record(&self, event: &Event<Arc<Item>>) {
        self.0.send_modify(|view| view.record(event));
    }

    /// Waits for a view. Panics with the current view after an hour.
    pub(crate) async fn wait(&self, what: impl FnMut(&View) -> bool) {
        let mut changes = self.0.subscribe();
        let found = tokio::time::timeout(HOUR, changes.wait_for(what)).await.is_ok();
        assert!(found, "timed out with {:#?}", self.view());
    }

    pub(crate) async fn wait_for_version(&self, version: u64) {
        self.wait(|view| view.map.values().any(|item| item.version >= version)).await;
    }

    pub(crate) fn view(&self) -> View {
        self.0.borrow().clone()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.view().texts
    }

    /// Returns the events since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut texts = Vec::new();
        self.0.send_modify(|view| texts = std::mem::take(&mut view.texts));
        texts
    }

    pub(crate) fn assert_no_faults(&self) {
        assert_eq!(self.view().faults, Vec::<String>::new());
    }
}

/// Longer than all waits. The tests' time is paused, so it costs nothing.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn server(source: &FakeSource<Item>) -> Map {
    source.decodable().into_iter().map(|(key, item)| (key.to_string(), (*item).clone())).collect()
}

pub(crate) fn stored(informer: &SharedIndexInformer<Item>) -> Map {
    informer.snapshot().iter().map(|item| (item.key().to_string(), (**item).clone())).collect()
}

/// Reads all metrics of an informer wherever user code runs, until the guard is dropped.
pub(crate) fn check_reentrancy<T: Object>(informer: &SharedIndexInformer<T>) -> reentrant::CheckGuard {
    reentrant::install();
    let informer = informer.clone();
    reentrant::add_check(move || {
        drop(format!("{informer:?}"));
        drop((
            informer.metrics(),
            informer.phase(),
            informer.has_synced(),
            informer.snapshot().resource_versions().lowest(),
        ));
        for reflector in informer.parts().iter().map(|part| part.reflector()) {
            drop((reflector.metrics(), reflector.state(), reflector.last_error(), reflector.last_version()));
        }
    })
}

/// A running informer and its cancellation token.
pub(crate) struct Running {
    _checks: reentrant::CheckGuard,
    pub(crate) informer: SharedIndexInformer<Item>,
    pub(crate) cancel: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(crate) async fn start(informer: SharedIndexInformer<Item>) -> Self {
        let running = Self::start_only(informer);
        reentrant::check_on_wake(Box::pin(running.informer.wait_for_sync())).await.unwrap();
        running
    }

    pub(crate) fn start_only(informer: SharedIndexInformer<Item>) -> Self {
        let cancel = CancellationToken::new();
        let _checks = check_reentrancy(&informer);
        let task = informer.spawn(cancel.clone());
        Self { _checks, informer, cancel, task }
    }

    pub(crate) async fn stop(self) -> Result<(), Error> {
        self.cancel.cancel();
        let ended = reentrant::check_on_wake(self.task).await.unwrap();
        assert_eq!(reentrant::blocked_checks(), [""; 0]);
        ended
    }
}
