//! Waits for the sync of an informer, for versions and for changes.

use kinformer_core::{PartOrKey, ResourceVersion, Wait};
use kinformer_shared_informer::Error as InformerError;

use crate::Error;
use crate::informer::Informer;
use crate::kube_informer::KubeInformer;

/// Waits, and logs a warning if the informer is still not started after 10 s.
async fn started(
    informer: &KubeInformer,
    wait: impl Future<Output = Result<(), InformerError>>,
) -> Result<(), Error> {
    Ok(informer.started().check_wait(informer.name(), wait).await?)
}

impl<K> Informer<K> {
    /// Whether all objects of the first list have been stored.
    #[doc(alias("InformerSynced", "IsDone"))]
    pub fn has_synced(&self) -> bool {
        self.kube().has_synced()
    }

    /// Waits until all objects of the first list have been stored. Any number of callers may wait. If the informer is
    /// still not started after 10 s, a warning is logged, and the wait goes on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
    /// # server.create(pod("web-0"))?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// # let pods = factory.core().v1().pods();
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    ///
    /// factory.start()?;
    /// pods.wait_for_sync().until(Instant::now() + Duration::from_secs(60)).await?;
    /// pods.wait_for_sync().await?; // without a deadline
    /// assert_eq!(pods.snapshot()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer, and a later call returns at once if it has synced.
    ///
    /// # Errors
    /// [`InformerError::NotSynced`] if the informer stopped or [the deadline](Wait::until) passed before, with its progress and
    /// its last error.
    #[doc(alias(
        "DoneChecker",
        "HasSyncedChecker",
        "wait_until_ready",
        "WaitForCacheSync",
        "WaitForNamedCacheSync",
        "WaitForNamedCacheSyncWithContext"
    ))]
    pub fn wait_for_sync(
        &self,
    ) -> Wait<impl Future<Output = Result<(), Error>>, impl Fn() -> Result<(), Error>> {
        let informer = self.kube();
        Wait::new(started(informer, informer.wait_for_sync()), || Ok(informer.sync_at_deadline()?))
    }

    /// Waits until the store reflects at least this version, for example the version that a write returned.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let pod = |name| serde_json::json!({"apiVersion": "v1", "kind": "Pod",
    /// #     "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
    /// #     "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "web:1"}]}});
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
    /// [`InformerError::VersionNotReached`] if the informer stopped or [the deadline](Wait::until) passed before, or if the
    /// versions cannot be compared; at once if the part does not exist, the informer does not have the namespace of the key, or it
    /// has a shard by UID in several ranges and no object with the key.
    #[doc(alias = "watch_object")]
    pub fn wait_for<'k>(
        &self,
        place: impl Into<PartOrKey<'k>>,
        version: &ResourceVersion,
    ) -> Wait<impl Future<Output = Result<(), Error>>, impl Fn() -> Result<(), Error>> {
        let (informer, place) = (self.kube(), place.into());
        let wait = async move { started(informer, informer.wait_for(place, version)).await };
        Wait::new(wait, move || Ok(informer.version_at_deadline(place, version)?))
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
        self.kube().changed(revision).await
    }

    /// Waits until the informer has stopped.
    ///
    /// # Cancel safety
    /// Nothing is lost: the wait only observes the informer, and a later call returns at once after its end.
    pub async fn stopped(&self) {
        self.kube().stopped().await;
    }
}
