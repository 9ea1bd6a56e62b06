//! What follows from deletions: the garbage collector, the namespace controller, the finalizer of
//! CustomResourceDefinitions, and the kubelet's part in the deletion of pods.
//!
//! A write queues work, under the lock of its resource; [`Api::finish_deletions`](crate::api::Api::finish_deletions)
//! does it after the write, in the order of the queue, one piece after the other, and each as a write of its own.
//! Nothing waits for time. What is done depends only on the present state of the objects.

mod classify;
mod collector;
mod definitions;
mod event;
mod graph;
mod namespace_status;
mod namespaces;
mod orphan;
mod queue;

pub(crate) use graph::{Graph, SavedGraph};
pub(crate) use queue::{Node, Work};

/// Whether objects are deleted with their owners.
///
/// It decides about the dependents of deleted objects, and about objects that a client creates with an owner that does
/// not exist. Namespaces and CustomResourceDefinitions are deleted with their contents in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GarbageCollection {
    /// Dependents are deleted or orphaned as the propagation policy of the deletion says, as in Kubernetes. When a
    /// request is answered, its effects on dependents have been applied, unless the effects of a concurrent request are
    /// being applied at that moment; then they follow.
    #[default]
    On,
    /// Dependents stay, and the propagation policy has no effect: a cluster without kube-controller-manager.
    Off,
}

/// How the deletion of scheduled pods ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kubelets {
    /// Each pod ends immediately, and its kubelet then deletes it with a grace period of 0. Nodes need not exist.
    #[default]
    Simulated,
    /// There are none: a deleted pod that is scheduled keeps its `deletionTimestamp` until a client deletes it with a
    /// grace period of 0.
    Absent,
    /// Pods have no grace period: each is removed by one write, as objects of other kinds. No cluster does that; it is for
    /// tests and benchmarks that count events.
    Skipped,
}
