//! Queues of client-go that no informer uses: FIFO and heap.

mod fifo;
mod heap;
mod object_queue;

pub use fifo::{ByArrival, Fifo};
pub use heap::{ByPriority, Heap};
pub use object_queue::ObjectQueue;
