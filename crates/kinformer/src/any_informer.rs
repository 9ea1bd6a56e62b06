//! Informers of any type of objects, as the registry runs them.

use std::any::Any;

use kinformer_core::Object;
use kinformer_shared_informer::{Error, Phase, SharedIndexInformer};
use tokio_util::sync::CancellationToken;

use crate::callbacks::BoxFuture;

/// An informer of any type of objects: of Kubernetes objects, or one of
/// [`informer_with`](crate::SharedInformerFactory::informer_with).
pub(crate) trait AnyInformer: Any + Send + Sync {
    fn name(&self) -> &str;
    fn phase(&self) -> Phase;
    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>>;
    /// Ends an informer that was never run.
    fn discard(&self);
    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), Error>>;
    /// Returns the outcome of `wait_for_sync` at a deadline that passes now.
    fn sync_at_deadline(&self) -> Result<(), Error>;
}

impl<T: Object> AnyInformer for SharedIndexInformer<T> {
    fn name(&self) -> &str {
        self.name()
    }

    fn phase(&self) -> Phase {
        self.phase()
    }

    fn run(&self, cancel: CancellationToken) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.run(cancel))
    }

    fn discard(&self) {
        self.discard();
    }

    fn wait_for_sync(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.wait_for_sync())
    }

    fn sync_at_deadline(&self) -> Result<(), Error> {
        self.wait_for_sync().at_deadline()
    }
}
