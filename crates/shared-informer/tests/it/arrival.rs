//! The arrival function, which is called with each object before it is stored.

use std::sync::Arc;

use crate::common::QUEUES;
use futures::StreamExt as _;
use kinformer_core::{KeyRef, Transform};
use kinformer_processor::Event;
use kinformer_shared_informer::SharedIndexInformer;
use kinformer_testing::{FakeSource, Item};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The arrival function is called with the objects that are then stored. If it panics, the object is stored and
/// delivered.
// contract: I-07
#[tokio::test(start_paused = true)]
async fn panicking_arrival_function_loses_nothing() {
    for queue in QUEUES {
        let source = FakeSource::<Item>::new();
        source.apply(Item::of("listed", 0, 1));
        let arrived = Arc::<Mutex<Vec<(String, u64)>>>::default();
        let seen = arrived.clone();
        let informer = SharedIndexInformer::builder(source.clone())
            .queue(queue)
            .transform(Transform::in_place(|item: &mut Item| {
                item.value += 10;
                Ok(())
            }))
            .on_arrival(move |item: &Arc<Item>| {
                seen.lock().push((item.name.clone(), item.value));
                assert!(item.name != "panic", "an arrival function that panics");
                true
            })
            .build()
            .unwrap();
        let mut events = informer.stream().unwrap();
        let cancel = CancellationToken::new();
        let running = informer.spawn(cancel.clone());
        informer.wait_for_sync().await.unwrap();
        assert!(matches!(events.next().await, Some(Event::Added(_))), "{queue:?}");
        source.apply(Item::of("panic", 0, 2));
        assert!(matches!(events.next().await, Some(Event::Added(_))), "{queue:?}");
        source.delete(KeyRef::named("listed"));
        assert!(matches!(events.next().await, Some(Event::Deleted(_))), "{queue:?}");
        assert_eq!(*arrived.lock(), [("listed".to_owned(), 11), ("panic".to_owned(), 12)], "{queue:?}");
        assert_eq!(informer.parts()[0].reflector().metrics().relists, 0, "{queue:?}");
        cancel.cancel();
        running.await.unwrap().unwrap();
    }
}
