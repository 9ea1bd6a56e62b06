//! Changes of the scope of all informers.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kinformer_kube::LabelSelector;

use crate::error::Error;
use crate::factory::SharedInformerFactory;
use crate::scope::Scope;

impl SharedInformerFactory {
    /// Changes the scope of all informers, also of those that are requested later: see
    /// [`Informer::set_scope`](crate::Informer::set_scope). The informers of cluster-scoped resources stay as they are, and so
    /// do those with sources of the program.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = kinformer::client(kube_client::Config::new("http://localhost".parse()?))?;
    /// # let factory = kinformer::SharedInformerFactory::new(client);
    /// use kinformer::Scope;
    ///
    /// let pods = factory.core().v1().pods();
    /// factory.set_scope(&Scope::namespaces(["team-a"])).await?;
    /// let maps = factory.core().v1().config_maps(); // requested later
    /// assert!(pods.selection().has_namespace("team-a") && !pods.selection().has_namespace("team-b"));
    /// assert!(!maps.selection().has_namespace("team-b"));
    /// # Ok(())
    /// # }
    /// ```
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

impl SharedInformerFactory {
    /// Makes the scope of all informers follow the namespaces that a label selector matches: `scope` with those of its
    /// namespaces. Until the namespaces are known, the scope stays as it is, or is empty if the factory was not started. They come
    /// from the informer of the metadata of namespaces, which the factory starts as its others: a refused request is its error,
    /// and the scope stays as it is.
    ///
    /// The scope follows while the returned future is polled, so spawn it. It ends when the informer of namespaces stops.
    /// A namespace that no longer matches, or is deleted, leaves the scope; one that is being deleted stays in it until then.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// use kinformer::Scope;
    ///
    /// let maps = factory.core().v1().config_maps();
    /// tokio::spawn(factory.follow_namespaces("team=a", Scope::all_but(["kube-system"]))?);
    /// factory.start()?;
    /// # maps.wait_for_sync().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Selector`] if the selector is invalid. The future returns the first error of [`Self::set_scope`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the scope stays as it is.
    pub fn follow_namespaces(
        &self,
        selector: &str,
        scope: Scope,
    ) -> Result<impl Future<Output = Result<(), Error>> + Send + 'static, Error> {
        let selector: LabelSelector = selector.parse()?;
        let (factory, namespaces) = (self.clone(), self.metadata::<Namespace>().lease());
        if !self.is_started() {
            // Requested by the first poll.
            _ = self.set_scope(&scope.within([])).now_or_never();
        }
        Ok(async move {
            let mut revision = 0;
            while namespaces.changed(revision).await {
                let snapshot = namespaces.snapshot()?;
                revision = snapshot.revision();
                let matching =
                    snapshot.iter().filter(|namespace| selector.matches_object(&**namespace.object()));
                let names: Vec<Arc<str>> = matching.map(|namespace| namespace.key().name().into()).collect();
                factory.set_scope(&scope.within(names)).await?;
            }
            Ok(())
        })
    }
}
