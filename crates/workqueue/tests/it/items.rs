//! The ends of runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kinformer_workqueue::{Add, ItemExponential, LOW_PRIORITY, RateLimiter, WorkQueue};

use crate::common::{MS, SECOND, advance, queue, take};

// contract: W-05a, W-05d
#[tokio::test(start_paused = true)]
async fn dropped_item_is_finished_and_keeps_its_failures() {
    let queue = queue();
    queue.add_rate_limited("a");
    advance(5 * MS).await;
    drop(take(&queue));
    assert_eq!((queue.metrics().in_flight, queue.depth(), queue.metrics().delayed), (0, 0, 0));
    assert_eq!(queue.retries(&"a"), 1);
    queue.add("a");
    take(&queue).done();
    assert_eq!(queue.retries(&"a"), 0);
}

// contract: W-05b
#[tokio::test(start_paused = true)]
async fn panic_adds_the_key_again_with_backoff() {
    let queue = queue();
    queue.add_with("a", Add::new().priority(7));
    for failures in 1..=3 {
        let item = take(&queue);
        assert_eq!(item.retries(), failures - 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _item = item;
            panic!("in a worker");
        }));
        assert!(panicked.is_err());
        assert_eq!((queue.retries(&"a"), queue.metrics().in_flight), (failures, 0));
        let delay = 5 * MS * (1 << (failures - 1));
        advance(delay - MS).await;
        assert!(queue.try_next().is_none());
        advance(MS).await;
        assert_eq!(queue.depths(), [(7, 1)]);
    }
}

// contract: W-05b
#[tokio::test(start_paused = true)]
async fn panicking_task_adds_its_key_again() {
    let queue = queue();
    queue.add("a");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.next().await;
            tokio::task::yield_now().await;
            panic!("in a worker");
        }
    });
    assert!(worker.await.unwrap_err().is_panic());
    assert_eq!(*queue.next().await.unwrap().key(), "a");
}

// contract: W-05c
#[tokio::test(start_paused = true)]
async fn retry_has_backoff_and_priority() {
    let queue = queue();
    queue.add_with("a", Add::new().priority(LOW_PRIORITY));
    for delay in [5 * MS, 10 * MS, 20 * MS] {
        take(&queue).retry();
        advance(delay - MS).await;
        assert!(queue.try_next().is_none());
        advance(MS).await;
        assert_eq!(queue.depths(), [(LOW_PRIORITY, 1)]);
    }
    let mut item = take(&queue);
    item.set_priority(7);
    item.retry_after(MS);
    advance(MS).await;
    assert_eq!(queue.depths(), [(7, 1)]);
    take(&queue).done();
    queue.add("a");
    take(&queue).retry();
    advance(5 * MS).await;
    take(&queue).done();
}

// contract: W-02b, W-05c
#[tokio::test(start_paused = true)]
async fn key_added_during_a_failed_run_is_not_delayed() {
    let queue = queue();
    queue.add("a");
    let item = take(&queue);
    queue.add("a");
    item.retry();
    assert_eq!((queue.depth(), queue.metrics().delayed), (1, 0));
    assert_eq!(queue.retries(&"a"), 1);
}

// contract: W-05e
#[tokio::test(start_paused = true)]
async fn retry_after_forgets_failures() {
    let queue = queue();
    queue.add("a");
    take(&queue).retry();
    advance(5 * MS).await;
    take(&queue).retry_after(SECOND);
    assert_eq!(queue.retries(&"a"), 0);
    advance(999 * MS).await;
    assert!(queue.try_next().is_none());
    advance(MS).await;
    take(&queue).retry_after(std::time::Duration::ZERO);
    assert_eq!(queue.depth(), 1);
}

/// Panics for one key.
struct Panicking(ItemExponential<&'static str>);

impl RateLimiter<&'static str> for Panicking {
    fn when(&self, key: &&'static str) -> std::time::Duration {
        assert_ne!(*key, "a");
        self.0.when(key)
    }

    fn forget(&self, key: &&'static str) {
        assert_ne!(*key, "b");
        self.0.forget(key);
    }

    fn retries(&self, key: &&'static str) -> u32 {
        self.0.retries(key)
    }

    fn failing(&self) -> usize {
        self.0.failing()
    }
}

// contract: W-05f
#[tokio::test(start_paused = true)]
async fn panicking_rate_limiter_ends_the_run() {
    let queue = WorkQueue::builder().rate_limiter(Arc::new(Panicking(ItemExponential::default()))).build();
    let panics = |run: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    queue.add("a");
    panics(&|| take(&queue).retry());
    assert_eq!((queue.metrics().in_flight, queue.metrics().delayed), (0, 1));
    advance(SECOND).await;
    panics(&|| {
        let _item = take(&queue);
        panic!("in a worker");
    });
    advance(999 * MS).await;
    assert!(queue.try_next().is_none());
    advance(MS).await;
    drop(take(&queue));

    queue.add("b");
    panics(&|| take(&queue).done());
    advance(5 * MS).await;
    assert_eq!(*take(&queue).key(), "b");
}

// contract: W-05f
#[tokio::test(start_paused = true)]
async fn panicking_predicate_ends_the_run() {
    let queue = queue();
    queue.add("a");
    let item = take(&queue);
    queue.admit(|_| panic!("in the predicate"));
    assert!(catch_unwind(AssertUnwindSafe(|| item.retry())).is_err());
    assert_eq!((queue.metrics().in_flight, queue.metrics().delayed), (0, 1));
    assert!(catch_unwind(AssertUnwindSafe(|| queue.add("b"))).is_err());
    queue.admit_all();
    assert!(queue.add("b"));
}

/// Also of additions while the key is in flight or delayed. The marks of a removed run are gone.
// contract: W-11a
#[tokio::test(start_paused = true)]
async fn runs_have_the_marks_of_all_additions_and_the_newest_cause() {
    let queue = WorkQueue::builder().rate_limiter(ItemExponential::default()).build_with_causes();
    let marked = |marks: u32| Add::new().marks(marks);
    let next = || queue.try_next().unwrap();
    queue.add_caused("a", marked(1), 'x');
    queue.add_caused("a", marked(2), 'y');
    queue.add_with("a", marked(8));
    let mut item = next();
    assert_eq!((item.marks(), item.cause()), (11, Some(&'y')));
    queue.add_caused("a", marked(4), 'z');
    assert_eq!((item.marks(), item.cause()), (11, Some(&'y')));
    item.mark_retry(16);
    item.retry();
    let item = next();
    assert_eq!((item.marks(), item.cause()), (20, Some(&'z')));
    item.done();
    queue.add("a");
    let item = next();
    assert_eq!((item.marks(), item.cause()), (0, None));
    item.done();

    queue.add_caused("a", marked(1).after(SECOND), 'x');
    assert_eq!(queue.retain(|_| false), 1);
    queue.add_with("a", marked(2));
    let item = next();
    assert_eq!((item.marks(), item.cause()), (2, None));
}

// contract: W-11b
#[tokio::test(start_paused = true)]
async fn items_have_the_time_in_the_queue_without_a_delay_before() {
    let queue = queue();
    queue.add_after("a", SECOND);
    advance(SECOND).await;
    assert_eq!(queue.depth(), 1);
    advance(7 * MS).await;
    let item = take(&queue);
    assert_eq!(item.queued(), 7 * MS);
    queue.add("a");
    advance(MS).await;
    item.done();
    advance(MS).await;
    assert_eq!(take(&queue).queued(), 2 * MS);
    let queue = WorkQueue::builder().without_durations().build();
    queue.add("a");
    advance(MS).await;
    assert!(queue.try_next().unwrap().queued().is_zero());
}
