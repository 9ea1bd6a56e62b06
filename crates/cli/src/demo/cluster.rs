//! A small believable cluster, as the objects that a server would have of it.

use serde_json::{Value, json};

/// How many nodes there are.
pub(crate) const NODES: usize = 5;
/// The namespaces with workloads.
pub(crate) const NAMESPACES: [&str; 3] = ["shop", "data", "ops"];

/// What a deployment runs.
#[derive(Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) tier: &'static str,
    pub(crate) port: u16,
    /// How many pods it begins with.
    pub(crate) replicas: usize,
}

/// Six deployments with 60 pods.
pub(crate) const WORKLOADS: [Workload; 6] = [
    Workload { namespace: "shop", name: "web", tier: "frontend", port: 8080, replicas: 16 },
    Workload { namespace: "shop", name: "cart", tier: "backend", port: 8081, replicas: 10 },
    Workload { namespace: "shop", name: "payments", tier: "backend", port: 8443, replicas: 8 },
    Workload { namespace: "data", name: "ingest", tier: "backend", port: 9000, replicas: 12 },
    Workload { namespace: "data", name: "search", tier: "backend", port: 9200, replicas: 8 },
    Workload { namespace: "ops", name: "metrics", tier: "platform", port: 9090, replicas: 6 },
];

/// How a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// On a node, and its container is being made.
    Pending,
    /// Ready.
    Running,
    /// Its container has ended and is waited with.
    Crashed,
}

/// What tells the pods of a workload apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pod {
    /// Of the form that a replica set gives: `web-5d4f8c7b9-x2x5k`.
    pub(crate) name: String,
    pub(crate) revision: u32,
    pub(crate) node: usize,
    pub(crate) ip: usize,
    pub(crate) stage: Stage,
    pub(crate) restarts: u32,
}

/// How far a deployment or replica set is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) wanted: usize,
    pub(crate) there: usize,
    pub(crate) of_this_revision: usize,
    pub(crate) ready: usize,
}

/// The hash in the names of a revision's pods.
pub(crate) fn template_hash(workload: &Workload, revision: u32) -> String {
    // Any function that spreads will do; it only has to be the same every time.
    let begin = u64::from(revision) << 16 | u64::from(workload.port);
    let mut rng = fastrand::Rng::with_seed(begin);
    letters(&mut rng, 9)
}

/// Letters as in generated names: without vowels and without what looks alike.
pub(crate) fn letters(rng: &mut fastrand::Rng, count: usize) -> String {
    let alphabet = b"bcdfghjklmnpqrstvwxz2456789";
    (0..count).filter_map(|_| rng.choice(alphabet)).map(|letter| char::from(*letter)).collect()
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}})
}

pub(crate) fn node_name(number: usize) -> String {
    format!("node-{}", number + 1)
}

pub(crate) fn node(number: usize, ready: bool) -> Value {
    let (status, reason, message) = match ready {
        true => ("True", "KubeletReady", "kubelet is posting ready status"),
        false => ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
    };
    let taints = match ready {
        true => json!([]),
        false => json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]),
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": node_name(number),
            "labels": {
                "kubernetes.io/hostname": node_name(number), "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": zone(number),
            },
        },
        "spec": {"podCIDR": format!("10.244.{number}.0/24"), "taints": taints},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "7800m", "memory": "30Gi", "pods": "110"},
            "addresses": [
                {"type": "InternalIP", "address": node_ip(number)},
                {"type": "Hostname", "address": node_name(number)},
            ],
            "conditions": [{
                "type": "Ready", "status": status, "reason": reason, "message": message, "lastHeartbeatTime": now(),
            }],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "containerRuntimeVersion": "containerd://2.2.0"},
        },
    })
}

fn zone(node: usize) -> &'static str {
    ["zone-a", "zone-b", "zone-c"].get(node % 3).copied().unwrap_or("zone-a")
}

fn node_ip(number: usize) -> String {
    format!("192.168.10.{}", 11 + number)
}

pub(crate) fn deployment(workload: &Workload, revision: u32, counts: Counts) -> Value {
    let labels = json!({"app": workload.name, "tier": workload.tier});
    let available = if counts.ready >= counts.wanted { "True" } else { "False" };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": workload.name, "namespace": workload.namespace, "labels": labels,
            "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
        },
        "spec": {
            "replicas": counts.wanted, "selector": {"matchLabels": {"app": workload.name}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container(workload, revision)]}},
        },
        "status": {
            "replicas": counts.there, "updatedReplicas": counts.of_this_revision,
            "readyReplicas": counts.ready, "availableReplicas": counts.ready,
            "unavailableReplicas": counts.there.saturating_sub(counts.ready),
            "conditions": [{"type": "Available", "status": available}],
        },
    })
}

pub(crate) fn replica_set_name(workload: &Workload, revision: u32) -> String {
    format!("{}-{}", workload.name, template_hash(workload, revision))
}

pub(crate) fn replica_set(workload: &Workload, revision: u32, counts: Counts) -> Value {
    let labels = json!({
        "app": workload.name, "tier": workload.tier, "pod-template-hash": template_hash(workload, revision),
    });
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": replica_set_name(workload, revision), "namespace": workload.namespace, "labels": labels,
            "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
            "ownerReferences": [owner("Deployment", workload.name)],
        },
        "spec": {
            "replicas": counts.wanted, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container(workload, revision)]}},
        },
        "status": {"replicas": counts.there, "readyReplicas": counts.ready},
    })
}

fn owner(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uuid_of(kind, name),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A stand-in for the owner's uid, the same every time.
fn uuid_of(kind: &str, name: &str) -> String {
    let sum = kind
        .bytes()
        .chain(name.bytes())
        .fold(0_u64, |sum, byte| sum.wrapping_mul(0x100_0000_01b3).wrapping_add(u64::from(byte)));
    format!("{:08x}-0000-4000-8000-{:012x}", sum >> 32, sum & 0xffff_ffff_ffff)
}

fn image(workload: &Workload, revision: u32) -> String {
    format!("registry.example.com/{}/{}:1.{revision}.0", workload.namespace, workload.name)
}

fn container(workload: &Workload, revision: u32) -> Value {
    json!({
        "name": workload.name, "image": image(workload, revision),
        "ports": [{"containerPort": workload.port, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
    })
}

pub(crate) fn pod(workload: &Workload, pod: &Pod) -> Value {
    let ready = pod.stage == Stage::Running;
    let now = now();
    let condition = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": now});
    let state = match pod.stage {
        Stage::Pending => json!({"waiting": {"reason": "ContainerCreating"}}),
        Stage::Running => json!({"running": {"startedAt": now}}),
        Stage::Crashed => json!({"waiting": {"reason": "CrashLoopBackOff"}}),
    };
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod.name, "namespace": workload.namespace,
            "labels": {
                "app": workload.name, "tier": workload.tier,
                "pod-template-hash": template_hash(workload, pod.revision),
            },
            "ownerReferences": [owner("ReplicaSet", &replica_set_name(workload, pod.revision))],
        },
        "spec": {
            "nodeName": node_name(pod.node), "serviceAccountName": "default", "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "containers": [container(workload, pod.revision)],
        },
        "status": {
            "phase": if pod.stage == Stage::Pending { "Pending" } else { "Running" },
            "hostIP": node_ip(pod.node), "startTime": now,
            "conditions": [condition("PodScheduled", true), condition("Ready", ready)],
            "containerStatuses": [{
                "name": workload.name, "ready": ready, "started": ready, "restartCount": pod.restarts,
                "image": image(workload, pod.revision), "state": state,
            }],
        },
    });
    if pod.stage != Stage::Pending
        && let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
    {
        let ip = format!("10.244.{}.{}", pod.node, 2 + pod.ip % 250);
        status.insert("podIP".into(), ip.into());
    }
    object
}

/// One of many pods of namespace `default`, spread over 100 nodes.
pub(crate) fn plain_pod(number: usize) -> Value {
    const LOAD: Workload =
        Workload { namespace: "default", name: "load", tier: "backend", port: 8080, replicas: 0 };
    let name = format!("load-{number:06}");
    let stage = Stage::Running;
    pod(&LOAD, &Pod { name, revision: 1, node: number % 100, ip: number / 100, stage, restarts: 0 })
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
