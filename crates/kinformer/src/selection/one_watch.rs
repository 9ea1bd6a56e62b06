//! The part of several namespaces that one filtered watch of all namespaces has.

use std::collections::HashSet;
use std::sync::Arc;

use kinformer_kube::{KubeListerWatcher, NamespaceFilter, PackedObject};

/// How many namespaces have a watch of their own at least before all are listed again by one; otherwise a quarter of those that
/// the filtered watch has. So a namespace that comes costs its own list, and a fraction of the list of all on average.
pub(super) const OWN_WATCHES: usize = 16;

/// A set of namespaces with one list and one watch, which were in scope when it began, without those that have left since.
#[derive(Clone, Debug)]
pub(crate) struct SeveralNamespaces {
    pub(super) name: Arc<str>,
    /// Shared with the source.
    pub(super) filter: NamespaceFilter,
}

impl PartialEq for SeveralNamespaces {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SeveralNamespaces {}

impl SeveralNamespaces {
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn names(&self) -> Arc<HashSet<Arc<str>>> {
        self.filter.names()
    }

    pub(super) fn has(&self, namespace: &str) -> bool {
        self.names().contains(namespace)
    }

    pub(super) fn restrict(
        &self,
        source: KubeListerWatcher<PackedObject>,
    ) -> KubeListerWatcher<PackedObject> {
        source.only_namespaces(self.filter.clone())
    }
}
