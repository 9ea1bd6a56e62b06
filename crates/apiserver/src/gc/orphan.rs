//! Orphaning: a deleted owner is removed from its dependents, which stay.

use std::collections::BTreeSet;

use crate::api::Api;
use crate::storage::ORPHAN_DEPENDENTS;

use super::queue::Node;

impl Api {
    /// Removes an owner from the metadata of its dependents, and then its finalizer.
    ///
    /// Follows Kubernetes 1.37 (`GarbageCollector.attemptToOrphanWorker`).
    pub(super) fn orphan_dependents(&self, node: &Node) {
        let Some((resource, owner)) = self.node(node) else { return };
        if !owner.orphans_dependents() {
            return;
        }
        let uids = BTreeSet::from([owner.uid()]);
        let mut position = None;
        while let Some(node) = self.graph.next_dependent(owner.uid(), position.as_ref()) {
            if let Some((resource, dependent)) = self.node(&node) {
                // A dependent that is gone needs no change.
                let _ = self.remove_owners(&resource, &dependent, &uids);
            }
            position = Some(node);
        }
        self.remove_finalizer(&resource, &owner, ORPHAN_DEPENDENTS);
    }
}
