//! Every public type is Send and Sync, and the trait is object-safe.

use kinformer_workqueue::*;
use static_assertions::{assert_impl_all, assert_obj_safe};

assert_impl_all!(WorkQueue<u32>: Send, Sync, Clone, Unpin, Default, std::fmt::Debug);
assert_impl_all!(WorkQueueBuilder<u32>: Send, Sync);
assert_impl_all!(Item<u32>: Send, Sync, Unpin);
assert_impl_all!(Add: Send, Sync, Copy);
assert_impl_all!(Fairness: Send, Sync, Copy);
assert_impl_all!(QueueMetrics: Send, Sync, Copy);
assert_impl_all!(DeadlineExceeded: Send, Sync, std::error::Error);
assert_impl_all!(Bucket: Send, Sync, RateLimiter<u32>);
assert_impl_all!(MaxOf<u32>: Send, Sync, RateLimiter<u32>);
assert_impl_all!(ItemExponential<u32>: Send, Sync, RateLimiter<u32>);
assert_impl_all!(ItemFastSlow<u32>: Send, Sync, RateLimiter<u32>);
assert_impl_all!(MaxWait<Bucket>: Send, Sync, RateLimiter<u32>);
assert_obj_safe!(RateLimiter<u32>);

/// All futures of the crate can be spawned.
#[test]
fn futures_are_send() {
    fn spawnable<F: std::future::Future + Send>(_: F) {}
    let queue = WorkQueue::<u32>::new();
    spawnable(queue.next());
    spawnable(queue.in_flight(|_| true));
    spawnable(queue.shut_down_with_drain());
    assert!(!queue.is_shut_down());
}
