//! User code runs without the lock of the queue: it may call the queue.

use std::future::Future;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake};
use std::time::Duration;

use kinformer_workqueue::{Add, RateLimiter, WorkQueue};

use crate::common::take;

/// Reads the metrics of a queue whenever its code runs.
#[derive(Clone)]
struct Key(u32, Arc<Calls>);

#[derive(Default)]
struct Calls {
    queue: parking_lot::Mutex<Option<WorkQueue<Key>>>,
    count: AtomicUsize,
}

impl Calls {
    fn call(&self) {
        let queue = self.queue.lock().clone();
        if let Some(queue) = queue {
            queue.metrics();
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count(&self) -> usize {
        self.count.swap(0, Ordering::Relaxed)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 // the documented exception
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.1.call();
        self.0.hash(state);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.1.call();
    }
}

struct Limiter(Arc<Calls>);

impl RateLimiter<Key> for Limiter {
    fn when(&self, _: &Key) -> Duration {
        self.0.call();
        Duration::ZERO
    }

    fn forget(&self, _: &Key) {
        self.0.call();
    }

    fn retries(&self, _: &Key) -> u32 {
        0
    }

    fn failing(&self) -> usize {
        0
    }
}

struct Waker(Arc<Calls>);

impl Wake for Waker {
    fn wake(self: Arc<Self>) {
        self.0.call();
    }
}

// contract: W-10a
#[test]
fn user_code_may_call_the_queue() {
    let calls = Arc::new(Calls::default());
    let queue = WorkQueue::builder().rate_limiter(Limiter(calls.clone())).build();
    *calls.queue.lock() = Some(queue.clone());
    let key = |number| Key(number, calls.clone());

    queue.add(key(1));
    assert_eq!(calls.count(), 1, "hash");
    queue.add(key(1));
    assert_eq!(calls.count(), 2, "hash, and the drop of the second key");
    queue.add_rate_limited(key(2));
    assert_eq!(calls.count(), 2, "limiter, hash");
    take(&queue).retry();
    take(&queue).done();
    assert!(calls.count() >= 3, "limiter twice, drop");

    let reading = calls.clone();
    queue.admit(move |_| {
        reading.call();
        true
    });
    queue.add(key(3));
    assert!(calls.count() >= 2, "predicate, hash");
    queue.retain(|_| {
        calls.call();
        false
    });
    assert!(calls.count() >= 2, "predicate, drop");

    let dropped = key(9);
    queue.admit(move |key| *key == dropped);
    calls.count();
    queue.admit_all();
    assert_eq!(calls.count(), 1, "drop of the predicate");

    let waker = Arc::new(Waker(calls.clone())).into();
    let mut next = Box::pin(queue.next());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    queue.add(key(4));
    assert!(calls.count() >= 2, "hash, waker");
    drop(next);
    queue.add_after(key(5), Duration::from_secs(1));
    calls.count();
    queue.shut_down();
    assert!(calls.count() >= 1, "drop of the delayed key");
    *calls.queue.lock() = None;
}

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("in a waker");
    }
}

/// The run has ended when the waker panics. It does not end again when the panic drops the item.
// contract: W-05a, W-05f
#[test]
fn panicking_waker_does_not_end_a_run_twice() {
    let queue = crate::common::queue();
    queue.add("a");
    queue.add("b");
    let [a, b] = [take(&queue), take(&queue)];
    let waker = Arc::new(PanickingWaker).into();
    let mut waiting = Box::pin(queue.in_flight(|_| true));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.done())).is_err());
    assert_eq!((queue.metrics().in_flight, queue.metrics().delayed), (1, 0));
    // The crate event-listener does not expect a waker that panics.
    std::mem::forget((waiting, b));
}

struct ReadsOnDrop(WorkQueue<u32>);

impl Drop for ReadsOnDrop {
    fn drop(&mut self) {
        self.0.metrics();
    }
}

/// A predicate that was removed while it ran is dropped without the lock.
// contract: W-10a
#[test]
fn removed_predicate_is_dropped_without_the_lock() {
    let queue = WorkQueue::new();
    let captured = ReadsOnDrop(queue.clone());
    queue.admit(move |_| {
        captured.0.admit_all();
        true
    });
    assert!(queue.add(1));
    assert_eq!(queue.depth(), 1);
}

/// A cause whose drop adds to its queue.
struct Cause(Arc<AtomicUsize>, WorkQueue<u32, Cause>);

impl Drop for Cause {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.metrics();
    }
}

// contract: W-10a
#[tokio::test(start_paused = true)]
async fn causes_are_dropped_without_the_lock() {
    let queue = WorkQueue::builder().build_with_causes();
    let drops = Arc::new(AtomicUsize::new(0));
    let add = |key, options| queue.add_caused(key, options, Cause(drops.clone(), queue.clone()));
    let dropped = || drops.swap(0, Ordering::Relaxed);
    add(1, Add::new());
    add(1, Add::new());
    assert_eq!(dropped(), 1, "replaced");
    queue.retain(|_| false);
    assert_eq!(dropped(), 1, "removed");
    add(1, Add::new());
    let item = queue.try_next().unwrap();
    add(1, Add::new());
    queue.retain(|_| false);
    assert_eq!(dropped(), 1, "removed while the key is in flight");
    item.done();
    assert_eq!(dropped(), 1, "done");
    add(1, Add::new().after(Duration::from_secs(1)));
    queue.shut_down();
    assert_eq!(dropped(), 1, "delayed at the shutdown");
    assert!(!add(1, Add::new()));
    assert_eq!(dropped(), 1, "not accepted");
}
