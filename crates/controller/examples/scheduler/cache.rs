//! The cache of nodes and of the pods on them: the state that the informers have delivered, and the decisions since then.
//!
//! Follows kube-scheduler's cache (`pkg/scheduler/backend/cache`). A pod is *assumed* on its node before its binding is
//! written, so that the next decision does not take the same room; *confirmed* when the informer delivers the bound pod;
//! *forgotten* when its binding has failed. An assumption without a confirmation *expires*.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use tokio::time::Instant;

use crate::node::NodeInfo;
use crate::pod::{PodInfo, Uid};

#[derive(Default)]
pub(crate) struct Cache {
    nodes: BTreeMap<String, NodeInfo>,
    /// All pods on nodes, with the names of their nodes.
    pods: HashMap<Uid, (Arc<PodInfo>, String)>,
    /// Those that are only assumed there, and until when.
    assumed: HashMap<Uid, Instant>,
}

impl Cache {
    pub(crate) fn set_node(&mut self, name: &str, node: &Node) {
        self.nodes.entry(name.to_owned()).or_default().set(node);
    }

    pub(crate) fn remove_node(&mut self, name: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.unset();
        }
        self.drop_if_unused(name);
    }

    /// Returns the node with the lowest allocation among those that accept the pod; of equal ones, the first by name.
    pub(crate) fn best_node(&self, pod: &PodInfo) -> Option<String> {
        let accepting = self.nodes.iter().filter(|(_, node)| node.accepts(pod));
        accepting.min_by_key(|(_, node)| node.allocated_with(pod)).map(|(name, _)| name.clone())
    }

    pub(crate) fn accepts(&self, node: &str, pod: &PodInfo) -> bool {
        self.nodes.get(node).is_some_and(|node| node.accepts(pod))
    }

    pub(crate) fn assume(&mut self, pod: Arc<PodInfo>, node: &str, until: Instant) {
        self.assumed.insert(pod.uid.clone(), until);
        self.place(pod, node);
    }

    /// Places a pod where the server has it, which need not be where it was assumed. Returns its node until now.
    pub(crate) fn confirm(&mut self, pod: Arc<PodInfo>, node: &str) -> Option<String> {
        let before = self.remove(&pod.uid);
        self.place(pod, node);
        before
    }

    /// Removes a pod that is only assumed on its node. Returns the node.
    pub(crate) fn forget(&mut self, uid: &Uid) -> Option<String> {
        if self.is_assumed(uid) { self.remove(uid) } else { None }
    }

    /// Removes a pod. Returns its node.
    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<String> {
        self.assumed.remove(uid);
        let (pod, name) = self.pods.remove(uid)?;
        if let Some(node) = self.nodes.get_mut(&name) {
            node.requested.add(pod.requests, -1);
        }
        self.drop_if_unused(&name);
        Some(name)
    }

    /// Returns some of the pods whose assumption has expired. It is extended, for the time until the pod has been read.
    pub(crate) fn expired(&mut self, now: Instant, until: Instant, limit: usize) -> Vec<Arc<PodInfo>> {
        let expired = self.assumed.iter_mut().filter(|(_, end)| **end <= now).take(limit);
        expired
            .filter_map(|(uid, end)| {
                *end = until;
                self.pods.get(uid).map(|(pod, _)| pod.clone())
            })
            .collect()
    }

    pub(crate) fn is_assumed(&self, uid: &Uid) -> bool {
        self.assumed.contains_key(uid)
    }

    /// The number of pods that are assumed on a node.
    pub(crate) fn assumed(&self) -> usize {
        self.assumed.len()
    }

    /// The number of pods that are bound to a node.
    pub(crate) fn bound(&self) -> usize {
        self.pods.len() - self.assumed.len()
    }

    fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.nodes.entry(node.to_owned()).or_default().requested.add(pod.requests, 1);
        self.pods.insert(pod.uid.clone(), (pod, node.to_owned()));
    }

    fn drop_if_unused(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(|node| !node.exists && node.requested.pods == 0) {
            self.nodes.remove(name);
        }
    }
}
