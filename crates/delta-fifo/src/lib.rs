//! Queues.
mod bound;
mod delta_fifo;
mod error;
mod fifo;
mod heap;
mod in_flight;
mod incoming;
mod initial;
mod known;
mod methods;
mod popped;
mod queue;
mod real_fifo;
mod shared;
mod sync;
mod waiting;

pub use bound::Bound;
pub use delta_fifo::{DeltaFifo, DeltaFifoBuilder, OnReplace};
pub use error::Error;
pub use fifo::Fifo;
pub use heap::Heap;
pub use popped::Popped;
pub use queue::{BoxFuture, Queue};
pub use real_fifo::{RealFifo, RealFifoBuilder};

/// Capacity that a queue keeps when it has been drained.
const KEPT: usize = 1024;

/// Gives back what a burst has left of an emptied map.
fn shrink<V>(map: &mut in_flight::KeyMap<V>) {
    if map.is_empty() && map.capacity() > KEPT {
        map.shrink_to(KEPT);
    }
}
