//! The cached objects of one kind.

use std::fmt;
use std::sync::Arc;

use kinformer::{Informer, KeyError, KeyRef, Packed, SharedInformerFactory};
use kube_core::discovery::ApiResource;
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::error::Error;
use crate::list::{self, ListOptions, field_index};
use crate::shared::Shared;

type Request<K> = dyn Fn(&SharedInformerFactory) -> Informer<K> + Send + Sync;

/// The cached objects of one kind. Clones are independent handles to the same objects; keep one for many reads.
///
/// The first [read](Self::get), and [`Self::informer`], request the informer of the resource, which all users of the cache
/// share.
pub struct Kind<K> {
    shared: Arc<Shared>,
    resource: ApiResource,
    request: Arc<Request<K>>,
    /// The informer, from the first use on.
    informer: RwLock<Option<Informer<K>>>,
}

impl<K> Kind<K> {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        request: impl Fn(&SharedInformerFactory) -> Informer<K> + Send + Sync + 'static,
        resource: ApiResource,
    ) -> Self {
        Self { shared: shared.clone(), resource, request: Arc::new(request), informer: RwLock::new(None) }
    }

    /// The name of the resource, for errors.
    fn name(&self) -> Arc<str> {
        match self.resource.group.is_empty() {
            true => self.resource.plural.as_str().into(),
            false => format!("{}.{}", self.resource.plural, self.resource.group).into(),
        }
    }

    /// Returns the object with this key. Waits until the informer has synced. O(1) then.
    ///
    /// The namespace of the key has no effect on kinds that are not in namespaces.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the informer continues.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such object, [`Error::UnknownNamespace`] if the cache does not have its namespace,
    /// and the errors of [`Self::synced_informer`].
    pub async fn get<'k>(
        &self,
        key: impl TryInto<KeyRef<'k>, Error: Into<KeyError>>,
    ) -> Result<Packed<K>, Error> {
        let key = key.try_into().map_err(|error| kinformer::Error::from(error.into()))?;
        let informer = self.synced_informer().await?;
        let key = if informer.is_namespaced() { key } else { KeyRef::named(key.name()) };
        if let Some(namespace) = key.namespace()
            && !informer.has_namespace(namespace)
        {
            return Err(Error::UnknownNamespace { resource: self.name(), namespace: namespace.into() });
        }
        informer.lister().get(key).map_err(|error| match error {
            kinformer::Error::NotFound { resource, key } => Error::NotFound { resource, key },
            error => error.into(),
        })
    }

    /// Returns the selected objects of one state of the cache, ordered by namespace and name. Waits until the informer has
    /// synced. O(n log n) then, for n objects that match the most selective of the namespace and the fields.
    ///
    /// # Cancel safety
    /// As [`Self::get`].
    ///
    /// # Errors
    /// [`Error::NoFieldIndex`] if a field has no index, [`Error::UnknownNamespace`] if the cache does not have the namespace,
    /// and the errors of [`Self::synced_informer`].
    pub async fn list(&self, options: &ListOptions) -> Result<Vec<Packed<K>>, Error> {
        let informer = self.synced_informer().await?;
        let objects = list::list(&informer.cast(), options)?;
        Ok(objects.into_iter().map(|object| Packed::new(object.into_object())).collect())
    }

    /// Returns the informer without waiting for its sync. If the cache is started, the informer is started.
    ///
    /// # Errors
    /// [`kinformer::Error::NoRuntime`] outside a tokio runtime.
    pub fn informer(&self) -> Result<Informer<K>, Error> {
        let known = self.informer.read().clone();
        let factory = &self.shared.factory;
        if let Some(known) = known
            && (!known.is_stopped() || factory.is_shut_down())
        {
            return Ok(known);
        }
        let informer = (self.request)(factory);
        *self.informer.write() = Some(informer.clone());
        if self.shared.is_started() {
            factory.start()?;
        }
        Ok(informer)
    }

    /// Returns the informer when it has synced.
    ///
    /// # Cancel safety
    /// As [`Self::get`].
    ///
    /// # Errors
    /// [`Error::NotStarted`] if the cache was not started. [`Error::NotCached`] if reads do not start informers and none was
    /// requested. [`Error::NotSynced`] if the informer has not synced within the timeout of the cache, with its last error.
    pub async fn synced_informer(&self) -> Result<Informer<K>, Error> {
        if !self.shared.is_started() {
            return Err(Error::NotStarted { resource: self.name() });
        }
        if !self.shared.starts_on_read && !self.shared.factory.has_informer(&self.resource) {
            return Err(Error::NotCached { resource: self.name() });
        }
        let informer = self.informer()?;
        if !informer.has_synced() {
            let timeout = self.shared.sync_timeout;
            let synced = informer.wait_for_sync_until(Instant::now() + timeout).await;
            synced.map_err(|source| Error::NotSynced { timeout, source })?;
        }
        Ok(informer)
    }

    /// Adds an index of a field, by which [`ListOptions::field`] selects objects. Requests the informer; does not wait for
    /// it.
    ///
    /// ```
    /// # fn example(cache: &kinformer_cache::Cache) -> Result<(), kinformer_cache::Error> {
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// cache.kind::<Pod>().index_field("spec.nodeName", &["spec", "nodeName"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An error that names the index if the field has one already.
    pub fn index_field(&self, field: &str, path: &[&str]) -> Result<(), Error> {
        Ok(self.informer()?.index_by_field(field_index(field), path)?)
    }

    /// Stops the informer of the resource and removes it, for all its users. Waits for it end with an error. The next
    /// read requests a new one. Returns `false` if there was none.
    ///
    /// # Cancel safety
    /// As [`Informer::remove`].
    pub async fn remove_informer(&self) -> bool {
        let known = self.informer.write().take();
        let informer = match known {
            Some(informer) => informer,
            None if self.shared.factory.has_informer(&self.resource) => (self.request)(&self.shared.factory),
            None => return false,
        };
        informer.remove().await
    }
}

impl<K> Clone for Kind<K> {
    fn clone(&self) -> Self {
        let informer = RwLock::new(self.informer.read().clone());
        Self {
            shared: self.shared.clone(),
            resource: self.resource.clone(),
            request: self.request.clone(),
            informer,
        }
    }
}

impl<K> fmt::Debug for Kind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name()).finish()
    }
}
