//! Informers of any type of objects, as the registry runs them.

use std::any::Any;

use kinformer_core::Object;
use kinformer_shared_informer::{Error, Phase, SharedIndexInformer};
use tokio::time::Instant;
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
    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>>;
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

    fn wait_for_sync(&self, deadline: Option<Instant>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match deadline {
                Some(deadline) => self.wait_for_sync_until(deadline).await,
                None => self.wait_for_sync().await,
            }
        })
    }
}
