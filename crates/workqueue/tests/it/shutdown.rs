//! Shutting down.

use crate::common::{MS, SECOND, advance, poll, queue, settle, take};

// contract: W-06a, W-06d
#[tokio::test(start_paused = true)]
async fn shut_down_rejects_keys_and_drops_delays() {
    let queue = queue();
    queue.add_after("a", SECOND);
    assert!(!queue.is_shut_down());
    queue.shut_down();
    assert!(queue.is_shut_down());
    assert_eq!(queue.metrics().delayed, 0);
    assert!(!queue.add("b") && !queue.add_after("b", MS) && !queue.add_rate_limited("b"));
    assert_eq!(queue.metrics().rejected, 3);
    advance(2 * SECOND).await;
    assert!(queue.next().await.is_none());
}

// contract: W-06g
#[tokio::test(start_paused = true)]
async fn retries_end_with_the_queue() {
    let queue = queue();
    ["a", "b", "c", "d"].into_iter().for_each(|key| assert!(queue.add(key)));
    let [a, b, c, d] = [take(&queue), take(&queue), take(&queue), take(&queue)];
    queue.add("d");
    queue.add_after("a", SECOND);
    queue.shut_down();
    a.retry();
    b.retry_after(SECOND);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _item = c;
        panic!("in a worker");
    }));
    assert!(panicked.is_err());
    d.retry();
    assert_eq!((queue.depth(), queue.metrics().delayed), (1, 0));
    assert_eq!(*take(&queue).key(), "d", "it was added before the shutdown");
}

// contract: W-06e
#[tokio::test]
async fn drain_waits_for_queued_keys() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    let mut drained = std::pin::pin!(queue.shut_down_with_drain());
    for _ in 0..2 {
        assert!(poll(drained.as_mut()).is_pending());
        take(&queue).done();
    }
    assert!(drained.await);
}

// contract: W-06e
#[tokio::test]
async fn drain_of_an_empty_queue_is_done() {
    let queue = queue();
    queue.add_after("a", SECOND);
    assert!(queue.shut_down_with_drain().await);
}

// contract: W-06e, W-07c
#[tokio::test]
async fn drain_ends_when_the_rest_is_removed() {
    let queue = queue();
    queue.add("a");
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    settle().await;
    assert!(!drained.is_finished());
    assert_eq!(queue.retain(|_| false), 1);
    assert!(drained.await.unwrap());
}

// contract: W-06e, W-08b, W-08c
#[test]
fn blocking_drain_has_a_deadline() {
    let queue = queue();
    queue.add("a");
    let item = take(&queue);
    let now = tokio::time::Instant::now().into_std();
    assert!(queue.shut_down_with_drain_blocking_until(now).is_err());
    assert!(queue.is_shut_down());
    std::thread::scope(|scope| {
        let draining = scope.spawn(|| queue.shut_down_with_drain_blocking_until(now + 1000 * SECOND));
        item.done();
        assert_eq!(draining.join().unwrap(), Ok(true));
    });
}
