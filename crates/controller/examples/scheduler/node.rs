//! A node: which pods it accepts, and how well they fit.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

use crate::pod::PodInfo;
use crate::resources::Resources;

/// A node with the pods on it.
#[derive(Default)]
pub(crate) struct NodeInfo {
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    allocatable: Resources,
    /// The sum over the pods of the node, including assumed ones, so that a decision does not iterate over pods.
    pub(crate) requested: Resources,
    /// Whether the node exists. Pods of a node may be known before it, or for longer: they come from another watch.
    pub(crate) exists: bool,
}

impl NodeInfo {
    /// Replaces the node. Its pods stay.
    pub(crate) fn set(&mut self, node: &Node) {
        self.labels = node.metadata.labels.clone().unwrap_or_default();
        self.allocatable = Resources::of(node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
        let spec = node.spec.clone().unwrap_or_default();
        self.taints = spec.taints.unwrap_or_default();
        if spec.unschedulable == Some(true) {
            // A cordoned node; kube-controller-manager adds the same taint a moment later.
            let (key, effect) = ("node.kubernetes.io/unschedulable".to_owned(), "NoSchedule".to_owned());
            self.taints.push(Taint { key, effect, ..Taint::default() });
        }
        self.exists = true;
    }

    /// Removes the node. Its pods stay until they are deleted.
    pub(crate) fn unset(&mut self) {
        *self = Self { requested: self.requested, ..Self::default() };
    }

    /// Filters, as kube-scheduler's plugins `NodeResourcesFit`, `TaintToleration`, `NodeUnschedulable` and, for node
    /// selectors, `NodeAffinity`.
    pub(crate) fn accepts(&self, pod: &PodInfo) -> bool {
        let is_tolerated = |taint: &Taint| {
            taint.effect == "PreferNoSchedule" || pod.tolerations.iter().any(|it| tolerates(it, taint))
        };
        self.exists
            && pod.requests.fits(self.requested, self.allocatable)
            && pod.selector.iter().all(|(key, value)| self.labels.get(key) == Some(value))
            && self.taints.iter().all(is_tolerated)
    }

    /// Scores, as `LeastAllocated` of `NodeResourcesFit`: the share of CPU and memory that is allocated with the pod, in
    /// thousandths. Lower is better.
    pub(crate) fn allocated_with(&self, pod: &PodInfo) -> i64 {
        let mut total = self.requested;
        total.add(pod.requests, 1);
        let share = |used: i64, all: i64| 1000 * used / all.max(1);
        let cpu = share(total.milli_cpu, self.allocatable.milli_cpu);
        (cpu + share(total.memory, self.allocatable.memory)) / 2
    }
}

/// Follows Kubernetes 1.37 (`ToleratesTaint`).
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_unset_or = |field: &Option<String>, value: &str| {
        field.as_deref().is_none_or(|field| field.is_empty() || field == value)
    };
    let value = || toleration.value.as_deref().unwrap_or_default();
    is_unset_or(&toleration.effect, &taint.effect)
        && is_unset_or(&toleration.key, &taint.key)
        && match toleration.operator.as_deref() {
            Some("Exists") => true,
            None | Some("" | "Equal") => value() == taint.value.as_deref().unwrap_or_default(),
            Some(_) => false,
        }
}
