//! The cache: the state received from the cluster, and the decisions of the scheduler since then.
//!
//! Follows kube-scheduler's cache (`pkg/scheduler/backend/cache`), without its snapshots.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::generic::Snapshot;
use kinformer::{Added, Deleted, Event, KeyRef, KubeObject, Object, Updated};
use serde_json::{Value, json};

use crate::resources::{Resources, allocatable, requests};

/// The state of one node.
#[derive(Default)]
struct NodeInfo {
    /// `None` if there are pods on a node that is not in the cache yet or was deleted: nodes and pods come from
    /// different watches.
    node: Option<Arc<KubeObject<Node>>>,
    allocatable: Resources,
    /// The sum over the pods of the node, including assumed ones, so that a decision does not iterate over pods.
    requested: Resources,
}

/// A pod on a node.
struct Placed {
    pod: Arc<KubeObject<Pod>>,
    node: String,
    requests: Resources,
    /// Whether the placement is a decision that the cluster has not confirmed yet.
    assumed: bool,
}

/// The cache of nodes and pods. Pods are identified by UID: a pod that is recreated under its old name is another pod.
#[derive(Default)]
pub(crate) struct Cache {
    nodes: BTreeMap<String, NodeInfo>,
    pods: HashMap<String, Placed>,
    /// The number of missed deletions.
    pub(crate) missed: usize,
}

impl Cache {
    /// Places a pod on a node before the cluster confirms it, so that the next decision does not take the same room.
    /// [`on_pod_event`](Self::on_pod_event) confirms the placement; if binding fails, call [`forget`](Self::forget).
    /// Returns `false`, without any effect, if the pod is on a node already.
    pub(crate) fn assume(&mut self, pod: &Arc<KubeObject<Pod>>, node: &str) -> bool {
        let possible = !self.knows(pod);
        if possible {
            self.place(pod, node, true);
        }
        possible
    }

    /// Removes an assumed placement. A placement that the cluster has confirmed stays.
    pub(crate) fn forget(&mut self, pod: &KubeObject<Pod>) {
        if self.is_assumed(pod) {
            self.remove(pod);
        }
    }

    pub(crate) fn on_pod_event(&mut self, event: &Event<Arc<KubeObject<Pod>>>) {
        if let Event::Updated(Updated { old, new, .. }) = event
            && old.uid() != new.uid()
        {
            self.remove(old);
        }
        match event {
            Event::Added(Added { object: pod, .. }) | Event::Updated(Updated { new: pod, .. }) => {
                match node_of(pod) {
                    // Confirms or corrects the assumed placement.
                    Some(node) => {
                        self.remove(pod);
                        self.place(pod, node, false);
                    }
                    // In this event the pod is still pending, so its assumed placement stays.
                    None if self.is_assumed(pod) && !is_finished(pod) => {}
                    None => self.remove(pod),
                }
            }
            Event::Deleted(Deleted { tombstone, .. }) => {
                self.missed += usize::from(tombstone.is_final_state_unknown());
                // Also if the last known state has no node: the event of its binding may have been missed too.
                if let Some(pod) = tombstone.object() {
                    self.remove(pod);
                }
            }
            Event::Left(left) => self.remove(&left.object),
        }
    }

    pub(crate) fn on_node_event(&mut self, event: &Event<Arc<KubeObject<Node>>>) {
        let name = event.key().to_string();
        match event {
            Event::Added(Added { object: node, .. }) | Event::Updated(Updated { new: node, .. }) => {
                let info = self.nodes.entry(name).or_default();
                info.allocatable = allocatable(node);
                info.node = Some(node.clone());
            }
            Event::Deleted(_) | Event::Left(_) => {
                if let Some(info) = self.nodes.get_mut(&name) {
                    *info = NodeInfo { requested: info.requested, ..NodeInfo::default() };
                }
                self.drop_if_empty(&name);
            }
        }
    }

    /// Returns the node with the most free CPU among those that have room for the pod.
    pub(crate) fn best_node(&self, pod: &Pod) -> Option<String> {
        let requests = requests(pod);
        let fits = |(_, info): &(&String, &NodeInfo)| requests.fit(info.requested, info.allocatable);
        let free_cpu =
            |(_, info): &(&String, &NodeInfo)| info.allocatable.milli_cpu - info.requested.milli_cpu;
        // Of nodes with equal free CPU, the first by name.
        self.nodes.iter().rev().filter(fits).max_by_key(free_cpu).map(|(name, _)| name.clone())
    }

    /// The number of pods whose placement the cluster has confirmed.
    pub(crate) fn bound(&self) -> usize {
        self.pods.values().filter(|placed| !placed.assumed).count()
    }

    /// Returns, for each node, the requested resources and the names of the pods.
    pub(crate) fn to_json(&self) -> Value {
        let mut pods: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for placed in self.pods.values() {
            pods.entry(&placed.node).or_default().insert(placed.pod.key().to_string());
        }
        let nodes = self.nodes.iter().map(|(name, NodeInfo { requested, allocatable, .. })| {
            let pods = pods.remove(name.as_str()).unwrap_or_default();
            (
                name.clone(),
                json!({
                    "pods": pods, "milliCpu": requested.milli_cpu, "memory": requested.memory,
                    "allocatableMilliCpu": allocatable.milli_cpu,
                }),
            )
        });
        nodes.collect()
    }

    /// The number of pods on a node, which need not be in the cache.
    pub(crate) fn pods_on(&self, node: &str) -> i64 {
        self.nodes.get(node).map_or(0, |info| info.requested.pods)
    }

    /// Whether the node itself is in the cache.
    pub(crate) fn knows_node(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|info| info.node.is_some())
    }

    /// Whether the pod has a placement, confirmed or assumed.
    pub(crate) fn knows(&self, pod: &KubeObject<Pod>) -> bool {
        self.placed(pod).is_some()
    }

    /// Whether the placement of the pod is assumed.
    pub(crate) fn is_assumed(&self, pod: &KubeObject<Pod>) -> bool {
        self.placed(pod).is_some_and(|placed| placed.assumed)
    }

    fn placed(&self, pod: &KubeObject<Pod>) -> Option<&Placed> {
        self.pods.get(pod.uid()?)
    }

    fn place(&mut self, pod: &Arc<KubeObject<Pod>>, node: &str, assumed: bool) {
        let Some(uid) = pod.uid() else { return };
        let requests = requests(pod);
        self.nodes.entry(node.into()).or_default().requested.add(requests, 1);
        self.pods.insert(uid.into(), Placed { pod: pod.clone(), node: node.into(), requests, assumed });
    }

    fn remove(&mut self, pod: &KubeObject<Pod>) {
        if let Some(placed) = pod.uid().and_then(|uid| self.pods.remove(uid)) {
            if let Some(info) = self.nodes.get_mut(&placed.node) {
                info.requested.add(placed.requests, -1);
            }
            self.drop_if_empty(&placed.node);
        }
    }

    fn drop_if_empty(&mut self, node: &str) {
        let is_empty = |info: &NodeInfo| info.node.is_none() && info.requested == Resources::default();
        if self.nodes.get(node).is_some_and(is_empty) {
            self.nodes.remove(node);
        }
    }

    /// Compares the cache with the informers' stores. Returns the number of pods and nodes whose events are still
    /// undelivered.
    ///
    /// # Errors
    /// An inconsistency. Since a store is written before events are delivered, an audit is exact at any time if the
    /// snapshots are taken while the cache is locked.
    pub(crate) fn audit(
        &self,
        nodes: &Snapshot<KubeObject<Node>>,
        pods: &Snapshot<KubeObject<Pod>>,
    ) -> Result<usize, String> {
        let mut behind = 0;
        let mut sums: BTreeMap<&str, Resources> = BTreeMap::new();
        for placed in self.pods.values() {
            sums.entry(&placed.node).or_default().add(placed.requests, 1);
            let key = placed.pod.key();
            match pods.get(key) {
                _ if placed.assumed => {}
                Some(stored) if stored.resource_version() == placed.pod.resource_version() => {
                    if node_of(stored) != Some(&placed.node) {
                        return Err(format!("{key} is not on {}", placed.node));
                    }
                }
                Some(stored) if !stored.resource_version().reaches(&placed.pod.resource_version()) => {
                    return Err(format!("{key} was delivered before it was stored"));
                }
                // Changed or deleted meanwhile.
                Some(_) | None => behind += 1,
            }
        }
        let bound = pods.iter().filter(|pod| node_of(pod).is_some());
        behind += bound.filter(|pod| self.placed(pod).is_none_or(|placed| placed.assumed)).count();
        for (name, info) in &self.nodes {
            let sum = sums.remove(name.as_str()).unwrap_or_default();
            if sum != info.requested {
                return Err(format!("the pods of {name} request {sum:?}, not {:?}", info.requested));
            }
            let version = |node: &Arc<KubeObject<Node>>| node.resource_version();
            behind +=
                usize::from(nodes.get(KeyRef::named(name)).map(version) != info.node.as_ref().map(version));
        }
        behind += nodes.iter().filter(|node| !self.nodes.contains_key(node.key().name())).count();
        if sums.is_empty() { Ok(behind) } else { Err(format!("there are no nodes for {sums:?}")) }
    }
}

/// Returns the node on which a pod takes room. A finished pod takes none.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    (!node.is_empty() && !is_finished(pod)).then_some(node)
}

pub(crate) fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
