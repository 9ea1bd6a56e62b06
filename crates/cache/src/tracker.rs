//! Writes by other means than the cache's client.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kinformer::{ObjectKey, ResourceVersion};
use kube_core::discovery::ApiResource;
use parking_lot::Mutex;

use crate::shared::{Shared, lowest_version, storage_name};

/// The versions that controllers have written for their owners, for those who write by other means than the cache's
/// [client](crate::Cache::client).
///
/// A controller notes each write that it does while it reconciles an object, the owner. The next reconciliation of the owner
/// begins with [`Self::ensure_ready`], and is repeated later if the cache does not have these versions yet.
///
/// ```
/// # use kinformer::{ObjectKey, ResourceVersion};
/// # use kinformer_cache::{Cache, WriteTracker};
/// # fn example(cache: &Cache, created: k8s_openapi::api::core::v1::Pod) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_core::discovery::ApiResource;
///
/// let tracker = WriteTracker::new(cache);
/// let owner = ObjectKey::new("default", "web")?;
/// tracker.ensure_ready(&owner)?;
/// let version = created.metadata.resource_version.unwrap_or_default();
/// tracker.wrote(&owner, "owner-uid", &ApiResource::erase::<Pod>(&()), version.into());
/// # Ok(())
/// # }
/// ```
///
/// Follows Kubernetes 1.37 (`pkg/controller/util/consistency`).
#[doc(alias = "EnableReadYourWritesConsistency")]
pub struct WriteTracker {
    shared: Arc<Shared>,
    owners: Mutex<HashMap<ObjectKey, Owner>>,
}

struct Owner {
    uid: String,
    /// The newest written version of each resource.
    written: HashMap<Arc<str>, ResourceVersion>,
}

/// The cache does not have a version yet that was written for an owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "{owner} is not ready: {resource} were written at version {written}, and the cache is at version {read}"
)]
pub struct NotReady {
    /// The owner.
    pub owner: ObjectKey,
    /// The resource.
    pub resource: Arc<str>,
    /// The written version.
    pub written: ResourceVersion,
    /// The version of the cache: the lowest one if it has several namespaces or versions of the resource, and unset if its
    /// factory has no informer of the resource, or one that has not synced.
    pub read: ResourceVersion,
}

impl WriteTracker {
    /// Creates a tracker of writes that this cache will see.
    pub fn new(cache: &crate::Cache) -> Self {
        Self { shared: cache.shared().clone(), owners: Mutex::default() }
    }

    /// Notes that an object of a resource was written at a version, for an owner. Writes for an earlier owner of the same key
    /// and another UID are forgotten.
    pub fn wrote(
        &self,
        owner: &ObjectKey,
        owner_uid: &str,
        resource: &ApiResource,
        version: ResourceVersion,
    ) {
        let mut owners = self.owners.lock();
        let new = || Owner { uid: owner_uid.to_owned(), written: HashMap::new() };
        let of_owner = owners.entry(owner.clone()).or_insert_with(new);
        if of_owner.uid != owner_uid {
            *of_owner = new();
        }
        let name = storage_name(&resource.group, &resource.plural);
        of_owner.written.entry(name).or_insert_with(|| version.clone()).advance(&version);
    }

    /// Returns whether the cache has all versions that were written for an owner. Does not wait.
    ///
    /// # Errors
    /// [`NotReady`] names a resource that the cache does not have at the written version.
    pub fn ensure_ready(&self, owner: &ObjectKey) -> Result<(), NotReady> {
        let Some(written) = self.owners.lock().get(owner).map(|owner| owner.written.clone()) else {
            return Ok(());
        };
        for (resource, written) in &written {
            let read = lowest_version(&self.shared.informers(resource));
            if !read.reaches(written) {
                let (owner, resource) = (owner.clone(), resource.clone());
                return Err(NotReady { owner, resource, written: written.clone(), read });
            }
        }
        // Versions do not go back, so only what was written meanwhile is checked again.
        if let Some(owner) = self.owners.lock().get_mut(owner) {
            owner.written.retain(|resource, version| written.get(resource) != Some(version));
        }
        Ok(())
    }

    /// Forgets an owner that was deleted, unless another one with the same key has been noted since.
    pub fn clear(&self, owner: &ObjectKey, owner_uid: &str) {
        let mut owners = self.owners.lock();
        if owners.get(owner).is_some_and(|known| known.uid == owner_uid) {
            owners.remove(owner);
        }
    }
}

impl fmt::Debug for WriteTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteTracker").field("owners", &self.owners.lock().len()).finish_non_exhaustive()
    }
}
