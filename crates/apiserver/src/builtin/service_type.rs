//! What follows from the type of a service for its other fields. Follows Kubernetes 1.37 (`api/service`).

use super::check::Fields;

/// Whether a service has addresses; `None` is one as well.
pub(super) fn has_addresses(spec: &impl Fields) -> bool {
    spec.text("type") != "ExternalName"
}

/// Whether the ports of a service may have numbers on the nodes.
pub(super) fn has_node_ports(spec: &impl Fields) -> bool {
    matches!(spec.text("type"), "NodePort" | "LoadBalancer")
}

/// Whether ports without such a number get one.
pub(super) fn allocates_node_ports(spec: &impl Fields) -> bool {
    spec.text("type") == "NodePort" || is_balanced(spec) && spec.of("allocateLoadBalancerNodePorts") != false
}

pub(super) fn is_balanced(spec: &impl Fields) -> bool {
    spec.text("type") == "LoadBalancer"
}

pub(super) fn is_externally_accessible(spec: &impl Fields) -> bool {
    has_node_ports(spec) || spec.text("type") == "ClusterIP" && !spec.items("externalIPs").is_empty()
}

/// Whether a service has a port for the health checks of its load balancer.
pub(super) fn needs_health_port(spec: &impl Fields) -> bool {
    is_balanced(spec) && spec.text("externalTrafficPolicy") == "Local"
}

/// A number that is given; zero is none.
pub(super) fn number(object: &impl Fields, field: &str) -> Option<i64> {
    object.int(field).filter(|number| *number != 0)
}

/// The least number of a port of a node, and how many there are.
pub(super) const FIRST_NODE_PORT: i64 = 30000;
pub(super) const NODE_PORTS: i64 = 2768;

pub(super) fn is_node_port(number: i64) -> bool {
    (FIRST_NODE_PORT..FIRST_NODE_PORT + NODE_PORTS).contains(&number)
}
