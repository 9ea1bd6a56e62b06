//! Every public type is Send and Sync, and the traits are object-safe.

use kinformer_core::{KnownObjects, Sink};
use kinformer_delta_fifo::*;
use static_assertions::{assert_impl_all, assert_obj_safe};

type Pod = kinformer_core::Keyed<u32>;

assert_impl_all!(DeltaFifo<Pod>: Send, Sync, Clone, Unpin, Sink<Pod>, Queue<Pod>);
assert_impl_all!(DeltaFifoBuilder<Pod>: Send, Sync);
assert_impl_all!(RealFifo<Pod>: Send, Sync, Clone, Unpin, Sink<Pod>, Queue<Pod>);
assert_impl_all!(RealFifoBuilder<Pod>: Send, Sync);
assert_impl_all!(Fifo<Pod>: Send, Sync, Clone, Unpin, Sink<Pod>);
assert_impl_all!(Heap<Pod, u32>: Send, Sync, Clone, Unpin);
assert_impl_all!(Popped<Pod>: Send, Sync, Unpin);
assert_impl_all!(Bound: Send, Sync, Copy);
assert_impl_all!(OnReplace: Send, Sync, Copy);
assert_impl_all!(DeltaQueueMetrics: Send, Sync, Copy);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_impl_all!(BoxFuture<'static, ()>: Send);
assert_obj_safe!(Queue<Pod>, Sink<Pod>, KnownObjects<Pod>);

/// All futures of the crate can be spawned.
#[test]
fn futures_are_send() {
    fn spawnable<F: std::future::Future + Send>(_: F) {}
    let (delta, real, fifo) = (DeltaFifo::<Pod>::new(), RealFifo::<Pod>::new(), Fifo::<Pod>::new());
    let heap = Heap::new(|pod: &Pod| **pod);
    spawnable(delta.pop());
    spawnable(delta.ready());
    spawnable(delta.synced());
    spawnable(real.pop_batch(10));
    spawnable(fifo.pop());
    spawnable(heap.pop());
    assert!(!delta.has_synced());
}
