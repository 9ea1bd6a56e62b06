//! The part of a pod that scheduling needs. The informer keeps the pod itself, packed.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Toleration};

use crate::resources::Resources;

/// Identifies a pod. One that is created again under its old name is another pod.
pub(crate) type Uid = Arc<str>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodInfo {
    pub(crate) uid: Uid,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The node that the pod is bound to.
    pub(crate) node: Option<String>,
    pub(crate) scheduler: String,
    pub(crate) priority: i64,
    pub(crate) requests: Resources,
    pub(crate) selector: BTreeMap<String, String>,
    pub(crate) tolerations: Vec<Toleration>,
    /// Terminating, or blocked by a scheduling gate: the server would refuse a binding.
    pub(crate) is_held: bool,
}

impl PodInfo {
    pub(crate) fn of(pod: &Pod) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let metadata = pod.metadata.clone();
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            requests: Resources::requested(&spec),
            node: spec.node_name.filter(|name| !name.is_empty()),
            scheduler: spec.scheduler_name.unwrap_or_default(),
            priority: spec.priority.unwrap_or(0).into(),
            selector: spec.node_selector.unwrap_or_default(),
            tolerations: spec.tolerations.unwrap_or_default(),
            is_held: metadata.deletion_timestamp.is_some()
                || spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
        }
    }
}
