//! Leases of an informer, and its removal.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::entry::Entry;
use crate::informer::Informer;
use crate::informer::view::View;

impl<K> Informer<K> {
    /// Returns a lease, which keeps the informer running. When the last lease is released or dropped, the informer
    /// stops, and its watch and its objects are dropped. An informer that the factory keeps, because a view was used,
    /// continues to run.
    ///
    /// The lease belongs to the informer to which this view is bound, even if that has stopped; for an unbound view, to
    /// the factory's current informer.
    ///
    /// ```
    /// # use kinformer::SharedInformerFactory;
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// # async fn example(factory: &SharedInformerFactory) -> Result<(), Box<dyn std::error::Error>> {
    /// let secrets = factory.informer::<Secret>().lease();
    /// factory.start()?;
    /// secrets.wait_for_sync().await?;
    /// secrets.release().await; // ends its watch, and drops its objects
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(&self) -> InformerLease<K> {
        let lease = self.view.lease();
        InformerLease { informer: Self::of(lease.view.clone()), lease }
    }

    /// Stops the informer, regardless of its holders, and waits until it has stopped. Returns `false` if it was removed
    /// or released before, or if the factory has no such informer.
    ///
    /// Bound views and their leases stay with the stopped informer. A later request to the factory creates a new
    /// informer. If the caller [runs](Self::run) the informer, it stops when that future is polled. A handler of the
    /// informer must not await this: the informer would wait for the handler until the end of its
    /// [grace](crate::SharedInformerFactoryBuilder::grace) period.
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
    /// assert!(pods.remove().await);
    /// assert!(pods.status().is_stopped());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The first poll stops the informer and removes it from the factory. Dropping the future then only ends the wait.
    pub async fn remove(&self) -> bool {
        self.view.remove().await
    }
}

/// A lease of an informer, which stops when its last lease is released or dropped, unless the factory keeps it.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// use kinformer::{InformerLease, SharedInformerFactory};
///
/// /// A page that a user has opened: the pods are watched while at least one is open.
/// struct Page {
///     pods: InformerLease<Pod>,
/// }
///
/// fn open(factory: &SharedInformerFactory) -> Result<Page, kinformer::Error> {
///     let pods = factory.informer::<Pod>().lease();
///     factory.start()?; // starts the informer if this is the first lease
///     Ok(Page { pods })
/// }
/// ```
pub struct InformerLease<K> {
    informer: Informer<K>,
    lease: Lease,
}

/// An [`InformerLease`] without the type of its objects.
struct Lease {
    view: Arc<View>,
    entry: Arc<Entry>,
}

impl View {
    fn lease(&self) -> Lease {
        let bound = match self.bound.get() {
            Some(bound) => {
                // A removed informer stays stopped and ignores the lease.
                bound.entry.lease();
                bound.clone()
            }
            None => self.factory.bind(&self.target, Entry::lease),
        };
        let entry = bound.entry.clone();
        let view =
            Self { factory: self.factory.clone(), target: self.target.clone(), bound: OnceLock::from(bound) };
        Lease { view: Arc::new(view), entry }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(factory) = self.view.factory.upgrade() {
            factory.give_back(&self.entry);
        }
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        // This lease holds the informer, so it has not been released, unless it was removed, and then it has stopped.
        self.entry.lease();
        Self { view: self.view.clone(), entry: self.entry.clone() }
    }
}

impl<K> InformerLease<K> {
    /// Releases the lease and, if it was the last one, waits until the informer has stopped.
    ///
    /// A handler of the informer must not await this; see [`Informer::remove`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kinformer_apiserver::ApiServer::builder().start().await?;
    /// # let factory = kinformer::SharedInformerFactory::new(kinformer::client(server.config()?)?);
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let one = factory.informer::<ConfigMap>().lease();
    /// let other = one.clone();
    /// factory.start()?;
    /// one.release().await;
    /// assert_eq!(factory.informers().len(), 1, "there is another lease");
    /// other.release().await;
    /// assert!(factory.informers().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// The lease is released by the first poll, or when the future is dropped. Dropping the future then only ends the
    /// wait: the informer still stops.
    pub async fn release(self) {
        let entry = self.lease.entry.clone();
        drop(self);
        if entry.is_released() {
            entry.ended().await;
        }
    }
}

impl<K> Deref for InformerLease<K> {
    type Target = Informer<K>;

    fn deref(&self) -> &Informer<K> {
        &self.informer
    }
}

impl<K> Clone for InformerLease<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), lease: self.lease.clone() }
    }
}

impl<K> fmt::Debug for InformerLease<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerLease").field(&self.informer).finish()
    }
}
