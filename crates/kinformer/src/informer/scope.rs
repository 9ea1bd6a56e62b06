//! Changes of the scope of an informer.

use kinformer_core::Wait;

use crate::Error;
use crate::informer::Informer;
use crate::scope::Scope;

impl<K> Informer<K> {
    /// Changes the namespaces whose objects the informer holds, also while it runs. Only the namespaces that are new are
    /// listed; nothing of those that stay is listed or delivered again. Objects of the others leave the store, and handlers
    /// receive [`Event::Left`](crate::Event::Left) of each, which is no deletion. [`Self::has_synced`] stays `true`.
    ///
    /// Other selectors, or other namespaces of [`Scope::all_but`], list again all that is in scope. What still matches is not
    /// delivered again, and objects that match no longer leave.
    ///
    /// Each namespace is listed and watched by a request of its own, so that the right to read it is enough, and has the
    /// selectors of the options. From all namespaces to some of them, objects that stay are not delivered again, although
    /// their namespaces are listed. An empty scope is synced and empty.
    ///
    /// Returns when what leaves has left and the new namespaces are being listed; [`Self::wait_for_scope`] waits for their
    /// lists. Before the start it returns at once. A namespace that cannot be listed is an error of its
    /// [part](crate::InformerStatus::parts), and stops no other.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # server.create(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
    /// #     "metadata": {"name": "settings", "namespace": "default"}}))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// use kinformer::Scope;
    ///
    /// let maps = factory.core().v1().config_maps();
    /// maps.set_scope(&Scope::namespaces(["team-a"])).await?;
    /// factory.start()?;
    /// maps.wait_for_sync().await?;
    /// assert!(maps.snapshot()?.is_empty());
    /// maps.set_scope(&Scope::namespaces(["team-a", "default"])).await?;
    /// maps.wait_for_scope().await?;
    /// assert_eq!(maps.snapshot()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::FixedScope`] for a cluster-scoped resource and for an informer with sources of the program.
    /// [`InformerError::Stopped`](crate::InformerError::Stopped) if the informer has stopped.
    ///
    /// # Cancel safety
    /// Changes of one informer take effect one after the other. A future that is dropped while it waits for an earlier change
    /// has no effect; later, the change takes effect without it.
    pub async fn set_scope(&self, scope: &Scope) -> Result<(), Error> {
        self.kube().set_scope(scope).await
    }

    /// Waits until the store has included the first list of every namespace in scope, also of those that were added since
    /// the start.
    ///
    /// # Errors
    /// [`InformerError::NotSynced`](crate::InformerError::NotSynced), with the namespaces that have no list and the last
    /// error, if the informer stopped or [the deadline](Wait::until) passed before.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer.
    pub fn wait_for_scope(
        &self,
    ) -> Wait<impl Future<Output = Result<(), Error>>, impl Fn() -> Result<(), Error>> {
        let informer = self.kube();
        let wait = async { Ok(informer.wait_for_parts().await?) };
        Wait::new(wait, || Ok(informer.parts_at_deadline()?))
    }

    /// Waits until the store has included the first list of the objects of a namespace. Returns at once if the namespace is
    /// not in scope.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// use kinformer::{Informer, Scope};
    ///
    /// /// Each customer of a program has a namespace. Waits for the objects of the new one only.
    /// async fn add_customer(maps: &Informer<ConfigMap>, all: &[&str], new: &str) -> Result<(), kinformer::Error> {
    ///     maps.set_scope(&Scope::namespaces(all.iter().copied().chain([new]))).await?;
    ///     maps.wait_for_namespace(new).await
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Self::wait_for_scope`].
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer.
    pub fn wait_for_namespace(
        &self,
        namespace: &str,
    ) -> Wait<impl Future<Output = Result<(), Error>>, impl Fn() -> Result<(), Error>> {
        let (informer, part) = (self.kube(), self.selection().part_of(namespace));
        let name = part.clone();
        let wait = async move {
            let Some(name) = name else { return Ok(()) };
            Ok(informer.wait_for_part(&name).await?)
        };
        Wait::new(wait, move || {
            let Some(name) = &part else { return Ok(()) };
            Ok(informer.part_at_deadline(name)?)
        })
    }
}
