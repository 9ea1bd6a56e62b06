//! Waits for the sync of an informer, for versions and for changes.

use kinformer_core::{PartOrKey, ResourceVersion};
use kinformer_shared_informer::Error as InformerError;
use tokio::time::Instant;

use crate::Error;
use crate::informer::Informer;

impl<K> Informer<K> {
    /// Whether all objects of the first list have been stored.
    pub fn has_synced(&self) -> bool {
        self.shared().has_synced()
    }

    /// Waits, and logs a warning if the informer is still not started after 10 s.
    async fn wait(&self, wait: impl Future<Output = Result<(), InformerError>>) -> Result<(), Error> {
        let informer = self.shared();
        Ok(informer.started().check_wait(informer.name(), wait).await?)
    }

    /// Waits until all objects of the first list have been stored. Any number of callers may wait. If the informer is
    /// still not started after 10 s, a warning is logged, and the wait goes on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// factory.start()?;
    /// pods.wait_for_sync().await?;
    /// assert_eq!(pods.snapshot()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer, and a later call returns at once if it has synced.
    ///
    /// # Errors
    /// [`InformerError::NotSynced`] if the informer stopped before, with its last error.
    pub async fn wait_for_sync(&self) -> Result<(), Error> {
        self.wait(self.shared().wait_for_sync(None)).await
    }

    /// As [`Self::wait_for_sync`], until a deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    ///
    /// factory.start()?;
    /// pods.wait_for_sync_until(Instant::now() + Duration::from_secs(60)).await?;
    /// assert!(pods.has_synced());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// As [`Self::wait_for_sync`].
    ///
    /// # Errors
    /// [`InformerError::NotSynced`] if the informer stopped or the deadline passed before, with its progress and its last
    /// error.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a timer.
    pub async fn wait_for_sync_until(&self, deadline: Instant) -> Result<(), Error> {
        self.wait(self.shared().wait_for_sync(Some(deadline))).await
    }

    /// Waits until the store reflects at least this version, for example the version that a write returned.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": {"nodeName": "node-1"}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// # factory.start()?;
    /// # pods.wait_for_sync().await?;
    /// let written = server.create(pod("web-1"))?;
    /// let version = written["metadata"]["resourceVersion"].as_str().ok_or("no version")?;
    /// pods.wait_for(("default", "web-1"), &version.into()).await?;
    /// assert!(pods.lister().get(("default", "web-1")).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future removes its wait. A later call returns at once if the store still has the version: a list may
    /// have set it back since.
    ///
    /// # Errors
    /// [`InformerError::VersionNotReached`] if the informer stopped before, or if the versions cannot be compared; at once if
    /// the part does not exist or the informer does not have the namespace of the key.
    pub async fn wait_for<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
    ) -> Result<(), Error> {
        self.wait(self.shared().wait_for(place.into(), version, None)).await
    }

    /// As [`Self::wait_for`], until a deadline.
    ///
    /// # Cancel safety
    /// As [`Self::wait_for`].
    ///
    /// # Errors
    /// As [`Self::wait_for`], and [`InformerError::VersionNotReached`] at the deadline.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a timer.
    pub async fn wait_for_until<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
        deadline: Instant,
    ) -> Result<(), Error> {
        self.wait(self.shared().wait_for(place.into(), version, Some(deadline))).await
    }

    /// Waits until the store has a state after this [revision](crate::Snapshot::revision). Returns `false` if the informer stops
    /// first. States in between may be missed: [`Self::wait_for_condition`] is called for each.
    ///
    /// ```
    /// # use kinformer::Informer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(pods: Informer<Pod>) -> Result<(), kinformer::Error> {
    /// let pods_before = pods.snapshot()?;
    /// if pods.changed(pods_before.revision()).await {
    ///     let pods_now = pods.snapshot()?;
    ///     println!("{} pods differ", pods_now.changes_since(&pods_before).count());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future removes its wait. A later call returns at once if there is a later state.
    pub async fn changed(&self, revision: u64) -> bool {
        self.shared().changed(revision).await
    }

    /// Waits until the informer has stopped.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer, and a later call returns at once after its end.
    pub async fn stopped(&self) {
        self.shared().stopped().await;
    }
}
