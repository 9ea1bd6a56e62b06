//! Objects that are left out although their keys are known are requested once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{QUEUES, Running, server, stored};
use kinformer_core::Transform;
use kinformer_shared_informer::{QueueKind, SharedIndexInformer};
use kinformer_testing::{FakeSource, Item};
use tokio::time::sleep;

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than the first delay of the backoff.
const DELAY: Duration = Duration::from_secs(2);

/// Starts an informer whose transform fails for `b` as often as given.
async fn start(source: &FakeSource<Item>, queue: QueueKind, failures: usize) -> Running {
    let left = AtomicUsize::new(failures);
    let transform = Transform::new(move |item: Arc<Item>| {
        let fail = |left: usize| left.checked_sub(1).filter(|_| item.name == "b");
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fail) {
            Ok(_) => Err("not now".into()),
            Err(_) => Ok(item),
        }
    });
    let informer = SharedIndexInformer::builder(source.clone()).queue(queue).transform(transform);
    Running::start(informer.build().unwrap()).await
}

fn relists(running: &Running) -> u64 {
    running.informer.metrics().reflector.relists
}

/// An object whose transform failed once, in a list, a watch-list or an event, is stored without another change of it.
// contract: L-08f
#[tokio::test(start_paused = true)]
async fn object_whose_transform_failed_once_is_requested_again() {
    for queue in QUEUES {
        for source in [FakeSource::new(), FakeSource::new().without_watch_list()] {
            for is_listed in [true, false] {
                let source = source.clone();
                source.apply(Item::of("a", 0, 1));
                let apply = || source.apply(Item::of("b", 0, 1));
                if is_listed {
                    apply();
                }
                let running = start(&source, queue, 1).await;
                if !is_listed {
                    apply();
                }
                sleep(Duration::from_millis(1)).await;
                assert_eq!(stored(&running.informer).len(), 1);
                sleep(DELAY).await;
                assert_eq!(stored(&running.informer), server(&source), "{queue:?} {is_listed}");
                sleep(10 * MINUTE).await;
                assert_eq!(relists(&running), 1);
                running.stop().await.unwrap();
                source.delete(kinformer_core::KeyRef::named("b"));
            }
        }
    }
}

/// An object that fails each time is requested again once, whatever its states, until a list has had it.
// contract: L-08f, L-08g
#[tokio::test(start_paused = true)]
async fn object_that_fails_each_time_is_requested_once() {
    for queue in QUEUES {
        let source = FakeSource::new();
        source.apply(Item::of("a", 0, 1));
        source.apply_undecodable(Item::of("c", 0, 1));
        let running = start(&source, queue, usize::MAX).await;
        for value in 2..5 {
            sleep(10 * MINUTE).await;
            assert_eq!(relists(&running), 1);
            source.apply_undecodable(Item::of("c", 0, value));
        }
        source.apply(Item::of("c", 0, 9));
        sleep(MINUTE).await;
        assert_eq!(stored(&running.informer), server(&source));
        for value in 2..5 {
            source.apply(Item::of("b", 0, value));
            sleep(10 * MINUTE).await;
            assert_eq!(relists(&running), 2);
        }
        running.stop().await.unwrap();
    }
}

/// An object with a later state is not requested again, nor are more than 100 objects that were left out.
// contract: L-08f, L-08g
#[tokio::test(start_paused = true)]
async fn only_few_objects_without_a_later_state_are_requested_again() {
    for queue in QUEUES {
        let source = FakeSource::new();
        (0..101).for_each(|n| _ = source.apply_undecodable(Item::of(&format!("bad{n}"), 0, 1)));
        let running = start(&source, queue, 1).await;
        sleep(10 * MINUTE).await;
        source.apply(Item::of("b", 0, 1));
        sleep(Duration::from_millis(1)).await;
        source.apply(Item::of("b", 0, 2));
        sleep(10 * MINUTE).await;
        assert_eq!(stored(&running.informer).len(), 1);
        assert_eq!(relists(&running), 0);
        running.stop().await.unwrap();
    }
}
