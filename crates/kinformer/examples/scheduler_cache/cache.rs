//! The cache: what the cluster has said, and what the scheduler has decided since.
//!
//! As kube-scheduler's (`pkg/scheduler/backend/cache`), without its snapshots.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::generic::Snapshot;
use kinformer::{Added, Deleted, Event, KeyRef, KubeObject, Object, Updated};
use serde_json::{Value, json};

use crate::resources::{Resources, allocatable, requests};

/// One node as the scheduler sees it.
#[derive(Default)]
struct NodeInfo {
    /// `None` while pods were heard of on a node that was not, or is not any more: the two come by different watches.
    node: Option<Arc<KubeObject<Node>>>,
    allocatable: Resources,
    /// The sum over its pods, assumed ones too: so that a decision need not look at them.
    requested: Resources,
}

/// A pod on a node.
struct Placed {
    pod: Arc<KubeObject<Pod>>,
    node: String,
    requests: Resources,
    /// Decided by us, and not yet heard back from the cluster.
    assumed: bool,
}

/// Pods are known by their UIDs: one that is made anew under its old name is another one.
#[derive(Default)]
pub(crate) struct Cache {
    nodes: BTreeMap<String, NodeInfo>,
    pods: HashMap<String, Placed>,
    /// How many deletions were not seen.
    pub(crate) missed: usize,
}

impl Cache {
    /// Counts a pod as on a node from now on, before the cluster knows: the next decision must not take the same
    /// room. [`hear_pod`](Self::hear_pod) confirms it; if the pod could not be bound, [`forget`](Self::forget) it.
    /// Says whether this was possible: not for a pod that is on a node.
    pub(crate) fn assume(&mut self, pod: &Arc<KubeObject<Pod>>, node: &str) -> bool {
        let possible = !self.knows(pod);
        if possible {
            self.place(pod, node, true);
        }
        possible
    }

    /// Takes an assumption back. What the cluster has said since stands.
    pub(crate) fn forget(&mut self, pod: &KubeObject<Pod>) {
        if self.is_assumed(pod) {
            self.remove(pod);
        }
    }

    pub(crate) fn hear_pod(&mut self, event: &Event<Arc<KubeObject<Pod>>>) {
        if let Event::Updated(Updated { old, new, .. }) = event
            && old.uid() != new.uid()
        {
            self.remove(old);
        }
        match event {
            Event::Added(Added { object: pod, .. }) | Event::Updated(Updated { new: pod, .. }) => {
                match node_of(pod) {
                    // Confirms what was assumed, or corrects it: the cluster is right.
                    Some(node) => {
                        self.remove(pod);
                        self.place(pod, node, false);
                    }
                    // It still waits as far as this event goes, so what we have assumed about it stands.
                    None if self.is_assumed(pod) && !is_finished(pod) => {}
                    None => self.remove(pod),
                }
            }
            Event::Deleted(Deleted { tombstone, .. }) => {
                self.missed += usize::from(tombstone.is_final_state_unknown());
                // Even if it was on no node by its last known state: that it was bound may have been missed too.
                if let Some(pod) = tombstone.object() {
                    self.remove(pod);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn hear_node(&mut self, event: &Event<Arc<KubeObject<Node>>>) {
        let name = event.key().to_string();
        match event {
            Event::Added(Added { object: node, .. }) | Event::Updated(Updated { new: node, .. }) => {
                let info = self.nodes.entry(name).or_default();
                info.allocatable = allocatable(node);
                info.node = Some(node.clone());
            }
            Event::Deleted(_) => {
                if let Some(info) = self.nodes.get_mut(&name) {
                    *info = NodeInfo { requested: info.requested, ..NodeInfo::default() };
                }
                self.drop_if_empty(&name);
            }
            _ => {}
        }
    }

    /// The node with the most CPU left that has room for the pod.
    pub(crate) fn best_node(&self, pod: &Pod) -> Option<String> {
        let wants = requests(pod);
        let fits = |(_, info): &(&String, &NodeInfo)| wants.fit(info.requested, info.allocatable);
        let left = |(_, info): &(&String, &NodeInfo)| info.allocatable.milli_cpu - info.requested.milli_cpu;
        // Of equals the first by name.
        self.nodes.iter().rev().filter(fits).max_by_key(left).map(|(name, _)| name.clone())
    }

    /// How many pods are on nodes by what the cluster has said.
    pub(crate) fn bound(&self) -> usize {
        self.pods.values().filter(|placed| !placed.assumed).count()
    }

    /// Per node what is asked of it, and by which pods.
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

    /// How many pods are on a node, whether it is known or not.
    pub(crate) fn pods_on(&self, node: &str) -> i64 {
        self.nodes.get(node).map_or(0, |info| info.requested.pods)
    }

    /// Whether the node itself was heard of.
    pub(crate) fn knows_node(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|info| info.node.is_some())
    }

    /// Whether the pod is on a node, by what was heard or decided.
    pub(crate) fn knows(&self, pod: &KubeObject<Pod>) -> bool {
        self.placed(pod).is_some()
    }

    /// Whether it is so by what was decided only.
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

    /// Compares the cache with the informers' stores: gives how many pods and nodes it is still to hear of, or what
    /// should never be. A store is written before handlers are told, so with snapshots that are taken while the cache
    /// is held still this is right at any moment, however much is going on.
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
                    return Err(format!("{key} was heard of before it was stored"));
                }
                // Changed or gone meanwhile.
                Some(_) | None => behind += 1,
            }
        }
        let bound = pods.iter().filter(|pod| node_of(pod).is_some());
        behind += bound.filter(|pod| self.placed(pod).is_none_or(|placed| placed.assumed)).count();
        for (name, info) in &self.nodes {
            let sum = sums.remove(name.as_str()).unwrap_or_default();
            if sum != info.requested {
                return Err(format!("the pods of {name} ask for {sum:?}, not for {:?}", info.requested));
            }
            let version = |node: &Arc<KubeObject<Node>>| node.resource_version();
            behind +=
                usize::from(nodes.get(KeyRef::named(name)).map(version) != info.node.as_ref().map(version));
        }
        behind += nodes.iter().filter(|node| !self.nodes.contains_key(node.key().name())).count();
        if sums.is_empty() { Ok(behind) } else { Err(format!("there are no nodes for {sums:?}")) }
    }
}

/// The node that a pod takes room on. One that has finished takes none.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    (!node.is_empty() && !is_finished(pod)).then_some(node)
}

pub(crate) fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
