//! Types of [custom informers](crate::SharedInformerFactory::informer_with), whose objects are not packed, and of custom
//! sources, queues and stores.

pub use kinformer_core::{
    Change, Delta, DeltaType, Deltas, IntoDeltas, KnownObjects, ObjectError, PartialErrors, Partition, Parts,
    ReadyFuture, Replacement, Sink, VersionUpdate, VersionUpdates,
};
pub use kinformer_kube::FromWire;
pub use kinformer_processor::{InlineListenerBuilder, ListenerBuilder, ListenerStream};
pub use kinformer_reflector::{
    EventType, Exchange, List, ListOptions, ListerWatcher, Pager, ProbeBudget, RetryWatcher, VersionMatch,
    WatchEvent, WatchListSupport, WatchOptions, WatchStream,
};
pub use kinformer_shared_informer::{BoxFuture, Popped, QueueError};
pub use kinformer_store::{Cursor, Lazy, ObjectDifference, Page, Reader, Snapshot};
