//! The graph of owners and dependents, kept up to date with each change of an object.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::storage::{CommitObserver, Key, OwnerReference, StoreId, Stored};

use super::queue::{Node, Queue, Work};

/// How many UIDs of removed owners are remembered. Follows Kubernetes 1.37 (`absentOwnerCache`).
const REMEMBERED: usize = 500;

/// The objects that have an owner with one UID.
#[derive(Clone, Default)]
struct Dependents {
    /// Those that the owner waits for when it is deleted in the foreground.
    blocking: BTreeSet<Node>,
    others: BTreeSet<Node>,
}

impl Dependents {
    fn is_empty(&self) -> bool {
        self.blocking.is_empty() && self.others.is_empty()
    }

    fn remove(&mut self, node: &Node) {
        self.blocking.remove(node);
        self.others.remove(node);
    }

    /// Returns the first dependent after a position.
    fn next(&self, after: Option<&Node>) -> Option<&Node> {
        let bounds = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let blocking = self.blocking.range::<Node, _>(bounds).next();
        let other = self.others.range::<Node, _>(bounds).next();
        blocking.into_iter().chain(other).min()
    }
}

#[derive(Clone, Default)]
struct State {
    dependents: HashMap<Arc<str>, Dependents>,
    /// The objects that are being deleted in the foreground, by UID.
    waiting: HashMap<Box<str>, Node>,
    /// Objects with an owner whose kind is not served.
    unresolved: BTreeSet<Node>,
    removed: VecDeque<Arc<str>>,
    queue: Queue,
}

/// The dependents of each owner by its UID, and the work that is to be done.
///
/// Objects without owners are not in the graph: it takes no memory for them, and no time but for a look-up when they
/// are removed. Every operation holds the lock for O(owners of one object · log n).
#[derive(Default)]
pub(crate) struct Graph {
    state: Mutex<State>,
}

impl Graph {
    pub(crate) fn push(&self, work: Work) {
        self.state.lock().queue.push(work);
    }

    pub(super) fn pop(&self) -> Option<Work> {
        self.state.lock().queue.pop()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.state.lock().queue.is_empty()
    }

    /// Returns the first dependent of an owner after a position, in the order of resources and keys.
    pub(super) fn next_dependent(&self, owner: &str, after: Option<&Node>) -> Option<Node> {
        self.state.lock().dependents.get(owner)?.next(after).cloned()
    }

    pub(super) fn has_blocking_dependents(&self, owner: &str) -> bool {
        self.state.lock().dependents.get(owner).is_some_and(|dependents| !dependents.blocking.is_empty())
    }

    /// Whether an owner with this UID was removed lately and had dependents.
    pub(super) fn was_removed(&self, owner: &str) -> bool {
        self.state.lock().removed.iter().any(|uid| **uid == *owner)
    }

    /// Keeps an object until another kind is served.
    pub(super) fn keep_unresolved(&self, node: Node) {
        self.state.lock().unresolved.insert(node);
    }

    /// Queues the objects that had an owner of a kind that was not served.
    pub(crate) fn retry_unresolved(&self) {
        let mut state = self.state.lock();
        let nodes = std::mem::take(&mut state.unresolved);
        for node in nodes {
            state.queue.push(Work::Object(node));
        }
    }
}

/// The state of a [`Graph`].
pub(crate) struct SavedGraph(State);

impl Graph {
    /// O(objects with owners).
    pub(crate) fn save(&self) -> SavedGraph {
        SavedGraph(self.state.lock().clone())
    }

    /// Replaces the state. O(objects with owners).
    pub(crate) fn load(&self, saved: &SavedGraph) {
        let state = saved.0.clone();
        let old = std::mem::replace(&mut *self.state.lock(), state);
        drop(old);
    }
}

impl CommitObserver for Graph {
    fn committed(&self, store: StoreId, before: Option<&Stored>, after: Option<&Stored>) {
        let Some(key) = after.or(before).map(Stored::key) else { return };
        let mut state = self.state.lock();
        state.move_edges(store, key, owners_of(before), owners_of(after));
        state.queue_transition(store, key, before, after);
        if let (Some(before), None) = (before, after) {
            state.forget(before.uid());
        }
    }
}

fn owners_of(state: Option<&Stored>) -> &[OwnerReference] {
    state.map_or(&[], Stored::owners)
}

impl State {
    /// Replaces the edges of an object to its owners. Owners that it no longer blocks are queued if they waited for it.
    fn move_edges(&mut self, store: StoreId, key: &Key, before: &[OwnerReference], after: &[OwnerReference]) {
        if before == after {
            return;
        }
        let node = Node { store, key: key.clone() };
        for owner in before {
            if let Some(dependents) = self.dependents.get_mut(&*owner.uid) {
                dependents.remove(&node);
            }
        }
        for owner in after {
            let dependents = match self.dependents.get_mut(&*owner.uid) {
                Some(dependents) => dependents,
                None => self.dependents.entry(Arc::from(&*owner.uid)).or_default(),
            };
            if owner.blocks_deletion {
                dependents.others.remove(&node);
                dependents.blocking.insert(node.clone());
            } else if !dependents.blocking.contains(&node) {
                dependents.others.insert(node.clone());
            }
        }
        if after.is_empty() {
            self.unresolved.remove(&node);
        }
        let blocked: HashSet<&str> =
            after.iter().filter(|owner| owner.blocks_deletion).map(|owner| &*owner.uid).collect();
        for owner in before {
            if self.dependents.get(&*owner.uid).is_some_and(Dependents::is_empty) {
                self.dependents.remove(&*owner.uid);
            }
            if owner.blocks_deletion
                && !blocked.contains(&*owner.uid)
                && let Some(waiting) = self.waiting.get(&*owner.uid)
            {
                self.queue.push(Work::Object(waiting.clone()));
            }
        }
    }

    /// Queues what the beginning of a deletion demands.
    fn queue_transition(
        &mut self,
        store: StoreId,
        key: &Key,
        before: Option<&Stored>,
        after: Option<&Stored>,
    ) {
        let starts = |holds: fn(&Stored) -> bool| after.is_some_and(holds) && !before.is_some_and(holds);
        if starts(Stored::orphans_dependents) {
            self.queue.push(Work::Orphan(Node { store, key: key.clone() }));
        }
        if let Some(after) = after
            && starts(Stored::deletes_dependents)
        {
            let node = Node { store, key: key.clone() };
            self.waiting.insert(after.uid().into(), node.clone());
            self.queue.push(Work::DependentsOf(after.uid().into()));
            self.queue.push(Work::Object(node));
        } else if let Some(before) = before
            && before.deletes_dependents()
            && !after.is_some_and(Stored::deletes_dependents)
        {
            self.waiting.remove(before.uid());
        }
    }

    /// Queues the dependents of a removed object.
    fn forget(&mut self, uid: &str) {
        let Some((uid, _)) = self.dependents.get_key_value(uid) else { return };
        let uid = uid.clone();
        self.queue.push(Work::DependentsOf(uid.clone()));
        self.removed.push_back(uid);
        if self.removed.len() > REMEMBERED {
            self.removed.pop_front();
        }
    }
}
