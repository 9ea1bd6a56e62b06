//! The columns of the most common kinds. Follows Kubernetes 1.37 (`printersinternal`).

use serde_json::{Value, json};

use crate::registry::Resource;

use super::cluster;
use super::layout::{I, Layout, S, layout};
use super::view::View;

static PODS: Layout = layout!(
    [
        ("Ready", S, 0),
        ("Status", S, 0),
        ("Restarts", S, 0),
        ("Age", S, 0),
        ("IP", S, 1),
        ("Node", S, 1),
        ("Nominated Node", S, 1),
        ("Readiness Gates", S, 1)
    ],
    pod
);
static NODES: Layout = layout!(
    [
        ("Status", S, 0),
        ("Roles", S, 0),
        ("Age", S, 0),
        ("Version", S, 0),
        ("Internal-IP", S, 1),
        ("External-IP", S, 1),
        ("OS-Image", S, 1),
        ("Kernel-Version", S, 1),
        ("Container-Runtime", S, 1)
    ],
    node
);
static NAMESPACES: Layout = layout!([("Status", S, 0), ("Age", S, 0)], |v| {
    vec![v.name(), v.text("/status/phase").into(), v.age()]
});
static SERVICES: Layout = layout!(
    [
        ("Type", S, 0),
        ("Cluster-IP", S, 0),
        ("External-IP", S, 0),
        ("Port(s)", S, 0),
        ("Age", S, 0),
        ("Selector", S, 1)
    ],
    service
);
static DEPLOYMENTS: Layout = layout!(
    [
        ("Ready", S, 0),
        ("Up-to-date", S, 0),
        ("Available", S, 0),
        ("Age", S, 0),
        ("Containers", S, 1),
        ("Images", S, 1),
        ("Selector", S, 1)
    ],
    |v| {
        let ready = format!("{}/{}", v.number("/status/readyReplicas"), v.number("/spec/replicas"));
        vec![
            v.name(),
            ready.into(),
            v.number("/status/updatedReplicas").into(),
            v.number("/status/availableReplicas").into(),
            v.age(),
            containers(v, "name"),
            containers(v, "image"),
            selector(v, "/spec/selector/matchLabels"),
        ]
    }
);
static REPLICA_SETS: Layout = layout!(
    [
        ("Desired", I, 0),
        ("Current", I, 0),
        ("Ready", I, 0),
        ("Age", S, 0),
        ("Containers", S, 1),
        ("Images", S, 1),
        ("Selector", S, 1)
    ],
    |v| {
        vec![
            v.name(),
            v.number("/spec/replicas").into(),
            v.number("/status/replicas").into(),
            v.number("/status/readyReplicas").into(),
            v.age(),
            containers(v, "name"),
            containers(v, "image"),
            selector(v, "/spec/selector/matchLabels"),
        ]
    }
);
static STATEFUL_SETS: Layout =
    layout!([("Ready", S, 0), ("Age", S, 0), ("Containers", S, 1), ("Images", S, 1)], |v| {
        let ready = format!("{}/{}", v.number("/status/readyReplicas"), v.number("/spec/replicas"));
        vec![v.name(), ready.into(), v.age(), containers(v, "name"), containers(v, "image")]
    });
static DAEMON_SETS: Layout = layout!(
    [
        ("Desired", I, 0),
        ("Current", I, 0),
        ("Ready", I, 0),
        ("Up-to-date", I, 0),
        ("Available", I, 0),
        ("Node Selector", S, 0),
        ("Age", S, 0),
        ("Containers", S, 1),
        ("Images", S, 1),
        ("Selector", S, 1)
    ],
    |v| {
        vec![
            v.name(),
            v.number("/status/desiredNumberScheduled").into(),
            v.number("/status/currentNumberScheduled").into(),
            v.number("/status/numberReady").into(),
            v.number("/status/updatedNumberScheduled").into(),
            v.number("/status/numberAvailable").into(),
            selector(v, "/spec/template/spec/nodeSelector"),
            v.age(),
            containers(v, "name"),
            containers(v, "image"),
            selector(v, "/spec/selector/matchLabels"),
        ]
    }
);
static JOBS: Layout = layout!(
    [
        ("Status", S, 0),
        ("Completions", S, 0),
        ("Duration", S, 0),
        ("Age", S, 0),
        ("Containers", S, 1),
        ("Images", S, 1),
        ("Selector", S, 1)
    ],
    |v| {
        let is = |kind: &&str| condition(v, kind) == "True";
        let status = if let Some(ended) = ["Complete", "Failed"].into_iter().find(is) {
            ended
        } else if !v.text("/metadata/deletionTimestamp").is_empty() {
            "Terminating"
        } else {
            let others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
            others.into_iter().find(is).unwrap_or("Running")
        };
        let wanted = v.value("/spec/completions").as_i64().unwrap_or(1);
        let parallel = match v.number("/spec/parallelism") {
            many if many > 1 && v.value("/spec/completions").is_null() => format!(" of {many}"),
            _ => String::new(),
        };
        vec![
            v.name(),
            status.into(),
            format!("{}/{wanted}{parallel}", v.number("/status/succeeded")).into(),
            v.between("/status/startTime", "/status/completionTime"),
            v.age(),
            containers(v, "name"),
            containers(v, "image"),
            selector(v, "/spec/selector/matchLabels"),
        ]
    }
);
static CRON_JOBS: Layout = layout!(
    [
        ("Schedule", S, 0),
        ("Timezone", S, 0),
        ("Suspend", "boolean", 0),
        ("Active", I, 0),
        ("Last Schedule", S, 0),
        ("Age", S, 0),
        ("Containers", S, 1),
        ("Images", S, 1),
        ("Selector", S, 1)
    ],
    |v| {
        let suspended = v.value("/spec/suspend").as_bool().unwrap_or(false);
        let last = match v.text("/status/lastScheduleTime") {
            "" => "<none>".into(),
            time => v.age_of(time),
        };
        vec![
            v.name(),
            v.text("/spec/schedule").into(),
            v.text_or("/spec/timeZone", "<none>"),
            if suspended { "True" } else { "False" }.into(),
            v.count("/status/active").into(),
            last,
            v.age(),
            containers_at(v, "/spec/jobTemplate/spec/template/spec/containers", "name"),
            containers_at(v, "/spec/jobTemplate/spec/template/spec/containers", "image"),
            selector(v, "/spec/jobTemplate/spec/selector/matchLabels"),
        ]
    }
);
static CONFIG_MAPS: Layout = layout!([("Data", S, 0), ("Age", S, 0)], |v| {
    vec![v.name(), (v.count("/data") + v.count("/binaryData")).into(), v.age()]
});
static SECRETS: Layout = layout!([("Type", S, 0), ("Data", S, 0), ("Age", S, 0)], |v| {
    vec![v.name(), v.text_or("/type", "Opaque"), v.count("/data").into(), v.age()]
});
static SERVICE_ACCOUNTS: Layout = layout!([("Age", S, 0)], |v| vec![v.name(), v.age()]);
static EVENTS: Layout = Layout {
    columns: &[
        ("Last Seen", S, 0),
        ("Type", S, 0),
        ("Reason", S, 0),
        ("Object", S, 0),
        ("Subobject", S, 1),
        ("Source", S, 1),
        ("Message", S, 0),
        ("First Seen", S, 1),
        ("Count", S, 1),
        ("Name", S, 1),
    ],
    cells: event,
};
static ENDPOINTS: Layout = layout!([("Endpoints", S, 0), ("Age", S, 0)], |v| {
    let mut addresses = Vec::new();
    for subset in v.list("/subsets") {
        let list = |name: &str| subset.get(name).and_then(Value::as_array).into_iter().flatten();
        for port in list("ports") {
            let port = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            addresses.extend(list("addresses").map(|address| {
                format!("{}:{port}", address.get("ip").and_then(Value::as_str).unwrap_or(""))
            }));
        }
    }
    vec![v.name(), joined(addresses), v.age()]
});
static VOLUME_CLAIMS: Layout = layout!(
    [
        ("Status", S, 0),
        ("Volume", S, 0),
        ("Capacity", S, 0),
        ("Access Modes", S, 0),
        ("StorageClass", S, 0),
        ("VolumeAttributesClass", S, 0),
        ("Age", S, 0),
        ("VolumeMode", S, 1)
    ],
    |v| {
        vec![
            v.name(),
            v.phase(),
            v.text("/spec/volumeName").into(),
            v.text("/status/capacity/storage").into(),
            access_modes(v, "/status/accessModes"),
            v.text("/spec/storageClassName").into(),
            v.text_or("/spec/volumeAttributesClassName", "<unset>"),
            v.age(),
            v.text_or("/spec/volumeMode", "Filesystem"),
        ]
    }
);
static VOLUMES: Layout = layout!(
    [
        ("Capacity", S, 0),
        ("Access Modes", S, 0),
        ("Reclaim Policy", S, 0),
        ("Status", S, 0),
        ("Claim", S, 0),
        ("StorageClass", S, 0),
        ("VolumeAttributesClass", S, 0),
        ("Reason", S, 0),
        ("Age", S, 0),
        ("VolumeMode", S, 1)
    ],
    |v| {
        let claim = match v.text("/spec/claimRef/name") {
            "" => String::new(),
            name => format!("{}/{name}", v.text("/spec/claimRef/namespace")),
        };
        vec![
            v.name(),
            v.text("/spec/capacity/storage").into(),
            access_modes(v, "/spec/accessModes"),
            v.text_or("/spec/persistentVolumeReclaimPolicy", "Retain"),
            v.phase(),
            claim.into(),
            v.text("/spec/storageClassName").into(),
            v.text_or("/spec/volumeAttributesClassName", "<unset>"),
            v.text("/status/reason").into(),
            v.age(),
            v.text_or("/spec/volumeMode", "Filesystem"),
        ]
    }
);
static INGRESSES: Layout =
    layout!([("Class", S, 0), ("Hosts", S, 0), ("Address", S, 0), ("Ports", S, 0), ("Age", S, 0)], |v| {
        let hosts: Vec<String> = v
            .list("/spec/rules")
            .iter()
            .filter_map(|rule| rule.get("host").and_then(Value::as_str).map(str::to_owned))
            .collect();
        let hosts = if hosts.is_empty() { "*".into() } else { joined(hosts) };
        let ports = if v.list("/spec/tls").is_empty() { "80" } else { "80, 443" };
        vec![
            v.name(),
            v.text_or("/spec/ingressClassName", "<none>"),
            hosts,
            balancer(v).into(),
            ports.into(),
            v.age(),
        ]
    });
static LEASES: Layout = layout!([("Holder", S, 0), ("Age", S, 0)], |v| {
    vec![v.name(), v.text("/spec/holderIdentity").into(), v.age()]
});
static AUTOSCALERS: Layout = layout!(
    [
        ("Reference", S, 0),
        ("Targets", S, 0),
        ("MinPods", S, 0),
        ("MaxPods", S, 0),
        ("Replicas", S, 0),
        ("Age", S, 0)
    ],
    |v| {
        let of = format!("{}/{}", v.text("/spec/scaleTargetRef/kind"), v.text("/spec/scaleTargetRef/name"));
        let least = v.value("/spec/minReplicas").as_i64().map_or_else(|| "<unset>".into(), |n| n.to_string());
        vec![
            v.name(),
            of.into(),
            targets(v).into(),
            least.into(),
            v.number("/spec/maxReplicas").into(),
            v.number("/status/currentReplicas").into(),
            v.age(),
        ]
    }
);

/// Returns the columns of a built-in kind with columns of its own; all others have name and creation time.
pub(super) fn layout_of(resource: &Resource) -> Option<&'static Layout> {
    let kind = &resource.kind;
    Some(match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => &PODS,
        ("", "nodes") => &NODES,
        ("", "namespaces") => &NAMESPACES,
        ("", "services") => &SERVICES,
        ("", "configmaps") => &CONFIG_MAPS,
        ("", "secrets") => &SECRETS,
        ("", "serviceaccounts") => &SERVICE_ACCOUNTS,
        ("" | "events.k8s.io", "events") => &EVENTS,
        ("", "endpoints") => &ENDPOINTS,
        ("", "persistentvolumeclaims") => &VOLUME_CLAIMS,
        ("", "persistentvolumes") => &VOLUMES,
        ("", "replicationcontrollers") | ("apps", "replicasets") => &REPLICA_SETS,
        ("apps", "deployments") => &DEPLOYMENTS,
        ("apps", "statefulsets") => &STATEFUL_SETS,
        ("apps", "daemonsets") => &DAEMON_SETS,
        ("batch", "jobs") => &JOBS,
        ("batch", "cronjobs") => &CRON_JOBS,
        ("networking.k8s.io", "ingresses") => &INGRESSES,
        ("coordination.k8s.io", "leases") => &LEASES,
        ("autoscaling", "horizontalpodautoscalers") => &AUTOSCALERS,
        (group, plural) => return cluster::layout_of(group, plural),
    })
}

/// The metrics of an autoscaler, such as `cpu: 40%/80%`.
fn targets(v: &View<'_>) -> String {
    const SHOWN: usize = 2;
    // `autoscaling/v2` lists the metrics; `autoscaling/v1` has only one.
    let metrics = v.list("/spec/metrics");
    if metrics.is_empty() {
        return match v.value("/spec/targetCPUUtilizationPercentage").as_i64() {
            Some(target) => format!("cpu: <unknown>/{target}%"),
            None => "<none>".into(),
        };
    }
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let shown = metrics.iter().enumerate().take(SHOWN).map(|(index, metric)| {
        let kind = metric.get("type").and_then(Value::as_str).unwrap_or("");
        let mut member = kind.to_owned();
        if let Some(first) = member.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        let (spec, status) = (metric.get(&member), v.list("/status/currentMetrics").get(index));
        let target = |field: &str| text(spec.and_then(|spec| spec.get("target")?.get(field)));
        let current = |field: &str| {
            text(status.and_then(|status| status.get(&member)?.get("current")?.get(field)))
                .unwrap_or_else(|| "<unknown>".into())
        };
        let amounts = match (target("averageValue"), target("averageUtilization"), target("value")) {
            (Some(target), ..) => {
                let note = if matches!(kind, "External" | "Object") { " (avg)" } else { "" };
                format!("{}/{target}{note}", current("averageValue"))
            }
            (None, Some(target), _) => match current("averageUtilization") {
                unknown if unknown.starts_with('<') => format!("{unknown}/{target}%"),
                current => format!("{current}%/{target}%"),
            },
            (None, None, Some(target)) => format!("{}/{target}", current("value")),
            (None, None, None) => "<unknown>/<auto>".into(),
        };
        match spec.and_then(|spec| spec.get("name")?.as_str()) {
            Some(name) => format!("{name}: {amounts}"),
            None => amounts,
        }
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match metrics.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn joined(parts: Vec<String>) -> Value {
    if parts.is_empty() { "<none>".into() } else { parts.join(",").into() }
}

/// A map of labels as `a=b,c=d`.
fn selector(v: &View<'_>, pointer: &str) -> Value {
    let labels = v.value(pointer).as_object().into_iter().flatten();
    joined(labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or(""))).collect())
}

fn containers(v: &View<'_>, member: &str) -> Value {
    containers_at(v, "/spec/template/spec/containers", member)
}

fn containers_at(v: &View<'_>, pointer: &str, member: &str) -> Value {
    let containers = v.list(pointer).iter();
    let parts: Vec<&str> = containers.filter_map(|container| container.get(member)?.as_str()).collect();
    parts.join(",").into()
}

fn access_modes(v: &View<'_>, pointer: &str) -> Value {
    let short = |mode: &str| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        _ => "RWOP",
    };
    v.list(pointer).iter().filter_map(Value::as_str).map(short).collect::<Vec<_>>().join(",").into()
}

/// The status of a condition; empty if missing.
fn condition<'a>(v: &'a View<'_>, kind: &str) -> &'a str {
    let found =
        v.list("/status/conditions").iter().find(|c| c.get("type").and_then(Value::as_str) == Some(kind));
    found.and_then(|condition| condition.get("status")?.as_str()).unwrap_or("")
}

fn balancer(v: &View<'_>) -> String {
    let address = |entry: &Value| {
        let text = |member: &str| entry.get(member).and_then(Value::as_str);
        text("ip").or_else(|| text("hostname")).map(str::to_owned)
    };
    v.list("/status/loadBalancer/ingress").iter().filter_map(address).collect::<Vec<_>>().join(",")
}

fn pod(v: &View<'_>) -> Vec<Value> {
    let statuses = v.list("/status/containerStatuses");
    let is_ready = |status: &&Value| status.get("ready").and_then(Value::as_bool).unwrap_or(false);
    let ready = statuses.iter().filter(is_ready).count();
    let total = v.list("/spec/containers").len();
    let restarts: i64 =
        statuses.iter().filter_map(|status| status.get("restartCount").and_then(Value::as_i64)).sum();
    let mut reason = match v.text("/status/reason") {
        "" => v.text("/status/phase"),
        reason => reason,
    };
    for status in statuses {
        for state in ["/state/waiting/reason", "/state/terminated/reason"] {
            if let Some(text) = status.pointer(state).and_then(Value::as_str).filter(|text| !text.is_empty())
            {
                reason = text;
            }
        }
    }
    if !v.text("/metadata/deletionTimestamp").is_empty() {
        reason = "Terminating";
    }
    vec![
        v.name(),
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.to_string().into(),
        v.age(),
        v.text_or("/status/podIP", "<none>"),
        v.text_or("/spec/nodeName", "<none>"),
        v.text_or("/status/nominatedNodeName", "<none>"),
        "<none>".into(),
    ]
}

fn node(v: &View<'_>) -> Vec<Value> {
    let mut status = match condition(v, "Ready") {
        "True" => "Ready".to_owned(),
        "" => "Unknown".to_owned(),
        _ => "NotReady".to_owned(),
    };
    if v.value("/spec/unschedulable") == &json!(true) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = v.value("/metadata/labels").as_object().into_iter().flatten();
    let roles: Vec<String> = labels
        .filter_map(|(name, _)| name.strip_prefix("node-role.kubernetes.io/").map(str::to_owned))
        .collect();
    let address = |kind: &str| -> Value {
        let found =
            v.list("/status/addresses").iter().find(|a| a.get("type").and_then(Value::as_str) == Some(kind));
        found.and_then(|a| a.get("address")?.as_str()).unwrap_or("<none>").into()
    };
    let info = |member: &str| v.text_or(&format!("/status/nodeInfo/{member}"), "<unknown>");
    vec![
        v.name(),
        status.into(),
        joined(roles),
        v.age(),
        v.text("/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn service(v: &View<'_>) -> Vec<Value> {
    let ports: Vec<String> = v
        .list("/spec/ports")
        .iter()
        .map(|port| {
            let number = |member: &str| port.get(member).and_then(Value::as_i64);
            let node = number("nodePort").map(|node| format!(":{node}")).unwrap_or_default();
            let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
            format!("{}{node}/{protocol}", number("port").unwrap_or(0))
        })
        .collect();
    let external = match (v.text("/spec/type"), balancer(v)) {
        ("LoadBalancer", address) if address.is_empty() => "<pending>".to_owned(),
        ("LoadBalancer", address) => address,
        ("ExternalName", _) => v.text("/spec/externalName").to_owned(),
        _ => "<none>".to_owned(),
    };
    vec![
        v.name(),
        v.text("/spec/type").into(),
        v.text_or("/spec/clusterIP", "<none>"),
        external.into(),
        joined(ports),
        v.age(),
        selector(v, "/spec/selector"),
    ]
}

fn event(v: &View<'_>) -> Vec<Value> {
    let either = |core: &'static str, new: &'static str| match v.text(core) {
        "" => v.text(new),
        text => text,
    };
    let first = match either("/firstTimestamp", "/deprecatedFirstTimestamp") {
        "" => v.text("/eventTime"),
        time => time,
    };
    let last = match either("/lastTimestamp", "/deprecatedLastTimestamp") {
        "" => first,
        time => time,
    };
    let last = match v.text("/series/lastObservedTime") {
        "" => last,
        time => time,
    };
    let series = v.number("/series/count").max(v.number("/count")).max(v.number("/deprecatedCount"));
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let object = match either("/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source =
        match (either("/source/component", "/deprecatedSource/component"), v.text("/reportingComponent")) {
            ("", "") => v.text("/reportingController"),
            ("", component) | (component, _) => component,
        };
    let by = match either("/source/host", "/deprecatedSource/host") {
        "" => v.text("/reportingInstance"),
        host => host,
    };
    let source = if by.is_empty() { source.to_owned() } else { format!("{source}, {by}") };
    vec![
        v.age_of(last),
        v.text("/type").into(),
        v.text("/reason").into(),
        object.into(),
        either("/involvedObject/fieldPath", "/regarding/fieldPath").into(),
        source.into(),
        either("/message", "/note").trim().into(),
        v.age_of(first),
        series.max(1).into(),
        v.name(),
    ]
}
