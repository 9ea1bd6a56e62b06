//! Kubernetes objects that are decoded when they arrive.

use std::any::Any;
use std::ops::Deref;

use kinformer_core::{KeyRef, Labels, Object, ResourceVersion};
use kube_core::{DynamicObject, Resource};
use serde::{Deserialize, Serialize};

/// An object of a type that implements kube's [`Resource`], as an [`Object`].
/// [`KubeListerWatcher<K>`](crate::KubeListerWatcher) lists and watches objects of this type.
///
/// Dereferences to the `K`, so that its fields and methods can be used directly, and those of `kube::ResourceExt` too:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kinformer_kube::KubeObject;
/// use kube_core::ResourceExt;
///
/// let mut pod = Pod::default();
/// pod.metadata.name = Some("web-0".to_owned());
/// let pod = KubeObject(pod);
/// assert_eq!((pod.name_any().as_str(), pod.labels().len()), ("web-0", 0));
/// assert_eq!(kinformer_core::Object::key(&pod).name(), "web-0");
/// ```
///
/// `KubeObject` does not implement [`Resource`], so no call is ambiguous: if [`Object`] is imported too,
/// `resource_version`, `uid` and `labels` are the methods of `Object`, and `pod.0.labels()` is kube's.
///
/// Serializes and deserializes as the `K`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KubeObject<K>(pub K);

impl<K> KubeObject<K> {
    /// Returns the wrapped object.
    pub fn into_inner(self) -> K {
        self.0
    }
}

impl<K: 'static> KubeObject<K> {
    fn as_dynamic(&self) -> Option<&DynamicObject> {
        (&self.0 as &dyn Any).downcast_ref()
    }
}

impl<K> From<K> for KubeObject<K> {
    fn from(object: K) -> Self {
        Self(object)
    }
}

impl<K> Deref for KubeObject<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K: Resource + Send + Sync + 'static> Object for KubeObject<K> {
    fn key(&self) -> KeyRef<'_> {
        let meta = self.0.meta();
        KeyRef::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    fn resource_version(&self) -> ResourceVersion {
        self.0.meta().resource_version.as_deref().map(ResourceVersion::from).unwrap_or_default()
    }

    fn uid(&self) -> Option<&str> {
        self.0.meta().uid.as_deref()
    }

    /// Compares dynamic objects and metadata. `None` for other types, since a resource need not be comparable.
    fn has_same_content(&self, other: &Self) -> Option<bool> {
        if K::metadata_api() {
            return Some(self.0.meta() == other.0.meta());
        }
        Some(self.as_dynamic()? == other.as_dynamic()?)
    }

    fn labels(&self) -> Labels<'_> {
        self.0.meta().labels.as_ref().into()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.0.meta().labels.as_ref()?.get(key).map(String::as_str)
    }
}
