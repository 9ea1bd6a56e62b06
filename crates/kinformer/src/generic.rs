//! Types of [custom informers](crate::SharedInformerFactory::informer_with), whose objects are not packed.

pub use kinformer_processor::{EventStream, HandlerBuilder};
pub use kinformer_store::{Reader, Snapshot};
