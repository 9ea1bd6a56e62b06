//! Helpers of several modules.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kinformer_workqueue::{Item, ItemExponential, WorkQueue};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// A queue whose rate limiter has only client-go's delay for each key.
pub fn queue() -> WorkQueue<&'static str> {
    WorkQueue::builder().rate_limiter(ItemExponential::default()).build()
}

/// Hands out the next key, which must be there.
pub fn take<K>(queue: &WorkQueue<K>) -> Item<K> {
    queue.try_next().unwrap()
}

/// Hands out all keys, and ends their runs at once.
pub fn drain<K: Copy>(queue: &WorkQueue<K>) -> Vec<K> {
    std::iter::from_fn(|| queue.try_next()).map(|item| *item.key()).collect()
}

/// Polls a future once.
pub fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets all other tasks run until they wait.
pub async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Moves the paused clock, and lets all other tasks run.
pub async fn advance(by: Duration) {
    tokio::time::advance(by).await;
    settle().await;
}
