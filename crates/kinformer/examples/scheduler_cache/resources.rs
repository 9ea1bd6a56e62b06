//! Resource quantities of nodes and pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The capacity of a node, or the requests of pods: thousandths of a CPU, bytes, number of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) pods: i64,
}

impl Resources {
    pub(crate) fn add(&mut self, other: Self, times: i64) {
        self.milli_cpu += other.milli_cpu * times;
        self.memory += other.memory * times;
        self.pods += other.pods * times;
    }

    pub(crate) fn fit(self, used: Self, available: Self) -> bool {
        used.milli_cpu + self.milli_cpu <= available.milli_cpu
            && used.memory + self.memory <= available.memory
            && used.pods + self.pods <= available.pods
    }
}

/// Returns the requests of a pod. Containers run at the same time, init containers one by one before them: the larger
/// amount counts.
pub(crate) fn requests(pod: &Pod) -> Resources {
    let Some(spec) = &pod.spec else { return Resources { pods: 1, ..Resources::default() } };
    let of = |resources: Option<&ResourceRequirements>, name: &str| {
        milli(resources.and_then(|resources| resources.requests.as_ref()), name)
    };
    let total = |name: &str| {
        let together: i64 = spec.containers.iter().map(|c| of(c.resources.as_ref(), name)).sum();
        let first = spec.init_containers.iter().flatten().map(|c| of(c.resources.as_ref(), name)).max();
        together.max(first.unwrap_or(0)) + milli(spec.overhead.as_ref(), name)
    };
    Resources { milli_cpu: total("cpu"), memory: total("memory") / 1000, pods: 1 }
}

pub(crate) fn allocatable(node: &Node) -> Resources {
    let amounts = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let of = |name| milli(amounts, name);
    Resources { milli_cpu: of("cpu"), memory: of("memory") / 1000, pods: of("pods") / 1000 }
}

/// The units of quantities, by suffix.
const UNITS: [(&str, f64); 11] = [
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("Ki", 1024.0),
    ("Mi", 1048576.0),
    ("Gi", 1073741824.0),
    ("Ti", 1099511627776.0),
    ("", 1.0),
];

/// Returns an amount in thousandths, rounded up; 0 if it is missing.
fn milli(amounts: Option<&BTreeMap<String, Quantity>>, name: &str) -> i64 {
    let Some(Quantity(text)) = amounts.and_then(|amounts| amounts.get(name)) else { return 0 };
    let amount = |(suffix, unit): &(&str, f64)| Some(text.strip_suffix(suffix)?.parse::<f64>().ok()? * unit);
    (UNITS.iter().find_map(amount).unwrap_or(0.0) * 1000.0).ceil() as i64
}
