//! The metadata of packed objects, in the types of Kubernetes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kinformer_wire::{Error, PackedObject};

/// Decodes the metadata of a [`PackedObject`], and so of a [`Packed`](crate::Packed) object of any kind, in the types of
/// `k8s-openapi`. The rest of the object is not decoded.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer_kube::{Packed, PackedMetadata as _};
///
/// let mut pod = Pod::default();
/// pod.metadata.name = Some("web-0".to_owned());
/// pod.metadata.finalizers = Some(vec!["example.com/cleanup".to_owned()]);
/// let pod = Packed::from_value(pod)?;
/// let metadata = pod.metadata()?;
/// assert_eq!(metadata.finalizers.as_deref().unwrap_or_default(), ["example.com/cleanup"]);
/// assert!(pod.owner_references()?.is_empty() && pod.deletion_timestamp()?.is_none());
/// # Ok::<(), kinformer_kube::WireError>(())
/// ```
///
/// For other types of metadata, see [`PackedObject::metadata_as`].
pub trait PackedMetadata {
    /// Decodes the metadata.
    ///
    /// # Errors
    /// The bytes are broken, or a limit is exceeded.
    fn metadata(&self) -> Result<ObjectMeta, Error>;

    /// Decodes only the owner references.
    ///
    /// # Errors
    /// The bytes are broken, or a limit is exceeded.
    fn owner_references(&self) -> Result<Vec<OwnerReference>, Error>;

    /// Decodes only the deletion timestamp. Returns `None` if the object is not being deleted.
    ///
    /// # Errors
    /// The bytes are broken, or a limit is exceeded.
    fn deletion_timestamp(&self) -> Result<Option<Time>, Error>;
}

impl PackedMetadata for PackedObject {
    fn metadata(&self) -> Result<ObjectMeta, Error> {
        Ok(self.metadata_as()?.unwrap_or_default())
    }

    fn owner_references(&self) -> Result<Vec<OwnerReference>, Error> {
        self.owner_references_as()
    }

    fn deletion_timestamp(&self) -> Result<Option<Time>, Error> {
        self.deletion_timestamp_as()
    }
}
