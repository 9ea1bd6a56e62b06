//! The work that follows from deletions, in the order in which it is done.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::storage::{Key, StoreId};

/// The place of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) store: StoreId,
    pub(crate) key: Key,
}

/// One piece of work. It reads the state of its object when it is done, so doing it twice does no harm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// Deletes an object whose owners are gone, or finishes a deletion in the foreground.
    Object(Node),
    /// Does [`Work::Object`] for each dependent of the owner with this UID.
    DependentsOf(Arc<str>),
    /// Removes an owner from the metadata of its dependents, then its finalizer.
    Orphan(Node),
    /// The kubelet's part in the deletion of a pod: the key of the pod and its UID.
    Pod(Key, Box<str>),
    /// Deletes the content of a terminating namespace, and then the namespace.
    Namespace(Box<str>),
    /// Deletes the objects of a terminating CustomResourceDefinition, and then the definition.
    Definition(Box<str>),
}

/// A queue in which equal work is once at most.
#[derive(Clone, Default)]
pub(super) struct Queue {
    order: VecDeque<Work>,
    queued: HashSet<Work>,
}

impl Queue {
    pub(super) fn push(&mut self, work: Work) {
        if self.queued.insert(work.clone()) {
            self.order.push_back(work);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Work> {
        let work = self.order.pop_front()?;
        self.queued.remove(&work);
        Some(work)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
