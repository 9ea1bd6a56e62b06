//! Amounts of resources: what pods request and what nodes have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Thousandths of a CPU, bytes of memory, a number of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) pods: i64,
}

impl Resources {
    /// Returns the requests of a pod. Containers run at the same time, init containers one by one before them: the larger
    /// amount counts.
    pub(crate) fn requested(spec: &PodSpec) -> Self {
        let requests = |resources: Option<&ResourceRequirements>| {
            Self::of(resources.and_then(|resources| resources.requests.as_ref()))
        };
        let mut total = Self::default();
        spec.containers.iter().for_each(|container| total.add(requests(container.resources.as_ref()), 1));
        for container in spec.init_containers.iter().flatten() {
            let first = requests(container.resources.as_ref());
            total.milli_cpu = total.milli_cpu.max(first.milli_cpu);
            total.memory = total.memory.max(first.memory);
        }
        total.add(Self::of(spec.overhead.as_ref()), 1);
        Self { pods: 1, ..total }
    }

    /// Returns the amounts of a list of quantities. Missing ones are 0.
    pub(crate) fn of(quantities: Option<&BTreeMap<String, Quantity>>) -> Self {
        let milli = |name| quantities.and_then(|quantities| quantities.get(name)).map_or(0, milli);
        Self { milli_cpu: milli("cpu"), memory: milli("memory") / 1000, pods: milli("pods") / 1000 }
    }

    /// Adds an amount, or subtracts it (`-1`).
    pub(crate) fn add(&mut self, other: Self, times: i64) {
        self.milli_cpu += other.milli_cpu * times;
        self.memory += other.memory * times;
        self.pods += other.pods * times;
    }

    /// Whether this amount can be added to what is used without exceeding what there is.
    pub(crate) fn fits(self, used: Self, all: Self) -> bool {
        used.milli_cpu + self.milli_cpu <= all.milli_cpu
            && used.memory + self.memory <= all.memory
            && used.pods + self.pods <= all.pods
    }
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

/// Returns a quantity in thousandths, rounded up.
fn milli(Quantity(text): &Quantity) -> i64 {
    let amount = |(suffix, unit): &(&str, f64)| Some(text.strip_suffix(suffix)?.parse::<f64>().ok()? * unit);
    (UNITS.iter().find_map(amount).unwrap_or(0.0) * 1000.0).ceil() as i64
}
