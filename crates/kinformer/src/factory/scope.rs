//! Changes of the scope of all informers.

use futures::future::join_all;

use crate::error::Error;
use crate::factory::SharedInformerFactory;
use crate::scope::Scope;

impl SharedInformerFactory {
    /// Changes the scope of all informers, also of those that are requested later: see
    /// [`Informer::set_scope`](crate::Informer::set_scope). The informers of cluster-scoped resources stay as they are, and so
    /// do those with sources of the program.
    ///
    /// # Errors
    /// The first error of an informer that has not stopped; the others have changed.
    ///
    /// # Cancel safety
    /// Informers that are requested later have the scope. Of the others, those that wait for an earlier change may keep
    /// their scope if the future is dropped.
    pub async fn set_scope(&self, scope: &Scope) -> Result<(), Error> {
        *self.inner.options.scope.lock() = Some(scope.clone());
        let informers = self.entries().into_iter().filter_map(|entry| entry.kube_informer().cloned());
        let changing = informers.filter(|informer| !informer.has_fixed_scope());
        let changes = changing.map(|informer| async move {
            match informer.set_scope(scope).await {
                Err(Error::Informer(kinformer_shared_informer::Error::Stopped { .. })) => Ok(()),
                changed => changed,
            }
        });
        join_all(changes).await.into_iter().collect()
    }
}
