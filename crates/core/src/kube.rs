//! Every `kube_core::Resource` is an object.

use kube_core::Resource;

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

    fn labels(&self) -> Labels<'_> {
        self.meta().labels.as_ref().into()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }
}
