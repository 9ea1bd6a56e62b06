//! User code may call the informer wherever it runs, because no lock is held there.
//!
//! All tests with `common::Running` check this. The tests here cover the remaining places.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{HOUR, QUEUES, Running};
use futures::StreamExt as _;
use kinformer_core::{KeyRef, Object, ResourceVersion};
use kinformer_processor::Event;
use kinformer_shared_informer::{Error, SharedIndexInformer};
use kinformer_store::IndexFunction;
use kinformer_testing::reentrant::{self, CheckOnDrop};
use kinformer_testing::{FakeSource, Item};
use tokio_util::sync::CancellationToken;

// contract: P-17a, P-17b
#[tokio::test(start_paused = true)]
async fn subscriber_may_call_at_a_watchdog_warning() {
    let source = FakeSource::new();
    source.apply(Item::of("ns/a", 0, 0));
    let informer = SharedIndexInformer::builder(source.clone()).build().unwrap();
    let running = Running::start(informer.clone()).await;
    let stuck =
        informer.handler().add_async(async |_: Event<Arc<Item>>| std::future::pending().await).unwrap();
    let watched = async {
        while !stuck.metrics().stuck {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
    };
    tokio::time::timeout(HOUR, watched).await.unwrap();
    assert!(matches!(running.stop().await, Err(Error::Stuck { .. })));
}

/// A refused index function may call the informer when it is dropped.
// contract: P-17a, P-17b
#[tokio::test(start_paused = true)]
async fn dropped_index_function_may_call_the_informer() {
    let source = FakeSource::<Item>::new();
    let informer = SharedIndexInformer::builder(source)
        .index("value", IndexFunction::new(|_: &Arc<Item>, _| ()))
        .build()
        .unwrap();
    let running = Running::start(informer.clone()).await;
    let dropped = CheckOnDrop("the drop of an index function");
    let function = IndexFunction::new(move |_: &Arc<Item>, _| {
        let _ = &dropped;
    });
    let refused = informer.add_indexers([("value", function)]);
    assert!(matches!(refused, Err(Error::Indexers { .. })), "{refused:?}");
    running.stop().await.unwrap();
}

/// An object that runs the checks when it is dropped.
#[derive(Clone, Debug)]
struct CheckedItem {
    item: Item,
    _dropped: CheckOnDrop,
}

impl From<Item> for CheckedItem {
    fn from(item: Item) -> Self {
        Self { item, _dropped: CheckOnDrop("the drop of an object") }
    }
}

impl Object for CheckedItem {
    fn key(&self) -> KeyRef<'_> {
        self.item.key()
    }

    fn resource_version(&self) -> ResourceVersion {
        self.item.resource_version()
    }
}

impl kinformer_testing::fake_source::Versioned for CheckedItem {
    fn set_version(&mut self, version: u64) {
        self.item.version = version;
    }
}

// contract: P-17a, P-17b
#[tokio::test(start_paused = true)]
async fn dropped_objects_may_call_the_informer() {
    for queue in QUEUES {
        let source = FakeSource::<CheckedItem>::new();
        for i in 0..20 {
            source.apply(Item::of(&format!("ns/{i}"), 0, 0).into());
        }
        let informer = SharedIndexInformer::builder(source.clone()).queue(queue).build().unwrap();
        let _checks = crate::common::check_reentrancy(&informer);
        let cancel = CancellationToken::new();
        let running = informer.spawn(cancel.clone());
        let registration = informer.handler().for_each(|_| ()).unwrap();
        tokio::time::timeout(HOUR, registration.synced()).await.unwrap().unwrap();
        for i in 0..20 {
            source.apply(Item::of(&format!("ns/{i}"), 0, 1).into());
            if i % 2 == 0 {
                source.delete(KeyRef::parse(&format!("ns/{i}")).unwrap());
            }
        }
        source.disconnect();
        let caught_up = async {
            while informer.snapshot().len() != 10 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(HOUR, caught_up).await.unwrap();
        cancel.cancel();
        running.await.unwrap().unwrap();
        drop((source, registration));
        assert_eq!(reentrant::blocked_checks(), [""; 0], "{queue:?}");
    }
}

/// If the first list has no objects, only its end wakes the stream.
// contract: P-17a, P-17b
#[tokio::test(start_paused = true)]
async fn waker_may_call_at_the_end_of_a_list() {
    let informer = SharedIndexInformer::builder(FakeSource::<Item>::new()).build().unwrap();
    let mut stream = informer.stream().unwrap();
    let checked = informer.clone();
    let _checks = reentrant::add_check(move || drop(checked.handler().for_each(|_| ())));
    let running = Running::start_only(informer.clone());
    let next = reentrant::check_on_wake(Box::pin(stream.next()));
    assert!(tokio::time::timeout(HOUR, next).await.is_err());
    assert!(informer.has_synced());
    running.stop().await.unwrap();
}
