//! Filters of objects, before they are decoded.

use std::collections::HashSet;
use std::sync::Arc;

use kinformer_wire::ObjectDecoder;
use parking_lot::RwLock;

use crate::shard::Shard;

/// The namespaces whose objects a [`KubeListerWatcher`](crate::KubeListerWatcher) of all namespaces delivers. They can change while
/// it watches. Clones share them.
#[derive(Clone, Debug)]
pub struct NamespaceFilter(Arc<RwLock<Arc<HashSet<Arc<str>>>>>);

impl NamespaceFilter {
    /// Creates a filter that admits the objects of these namespaces.
    pub fn new(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(names.into_iter().collect()))))
    }

    /// Returns the namespaces.
    #[must_use]
    pub fn names(&self) -> Arc<HashSet<Arc<str>>> {
        self.0.read().clone()
    }

    /// Admits only those of the namespaces that are among these, from the next object that arrives on. To admit more, list them
    /// first, by another lister-watcher.
    pub fn narrow(&self, names: &HashSet<Arc<str>>) {
        let mut admitted = self.0.write();
        *admitted = Arc::new(admitted.intersection(names).cloned().collect());
    }
}

/// The filters of a lister-watcher.
#[derive(Clone, Default)]
pub(crate) struct Filter {
    pub(crate) shard: Option<Shard>,
    pub(crate) namespaces: Option<NamespaceFilter>,
}

impl Filter {
    /// Whether an object, given by its bytes, is delivered. One whose key cannot be read is: its error names it.
    pub(crate) fn admits(&self, decoder: &ObjectDecoder, object: &[u8]) -> bool {
        let has_namespace = |filter: &NamespaceFilter| {
            let key = decoder.identify(object).key;
            key.is_none_or(|key| filter.names().contains(key.as_key().namespace().unwrap_or_default()))
        };
        self.shard.as_ref().is_none_or(|shard| shard.admits(decoder, object))
            && self.namespaces.as_ref().is_none_or(has_namespace)
    }

    /// Whether it admits everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.shard.is_none() && self.namespaces.is_none()
    }
}
