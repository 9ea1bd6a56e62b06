//! Every `kube_core::Resource` is an object.

use std::any::Any;

use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, Resource};

use crate::{KeyRef, Labels, Object, ResourceVersion};

impl<K: Resource + Send + Sync + 'static> Object for K {
    fn key(&self) -> KeyRef<'_> {
        let meta = self.meta();
        KeyRef::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    fn resource_version(&self) -> ResourceVersion {
        self.meta().resource_version.as_deref().map(ResourceVersion::from).unwrap_or_default()
    }

    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref()
    }

    /// Known of dynamic objects and of metadata. Of other types it is not, since a resource need not be comparable.
    fn has_same_content(&self, other: &Self) -> Option<bool> {
        fn both<'a, T: 'static>(a: &'a dyn Any, b: &'a dyn Any) -> Option<(&'a T, &'a T)> {
            a.downcast_ref().zip(b.downcast_ref())
        }
        if let Some((a, b)) = both::<DynamicObject>(self, other) {
            return Some(a == b);
        }
        let (a, b) = both::<PartialObjectMeta<DynamicObject>>(self, other)?;
        Some(a.metadata == b.metadata)
    }

    fn labels(&self) -> Labels<'_> {
        self.meta().labels.as_ref().into()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }
}
