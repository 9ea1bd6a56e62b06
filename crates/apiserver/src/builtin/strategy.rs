//! What the storage of a kind sets when an object is created or updated.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::check::{Fields, Object};
use super::quantity::Quantity;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Sets the fields of a new object, which has a name, a UID and its defaults. Those that are given stay.
pub(crate) fn created(api_version: &str, kind: &str, object: &mut Object, now: &str) {
    match (api_version, kind) {
        ("v1", "Pod") => pod(object),
        ("v1", "Service") => service(object),
        ("v1", "PersistentVolume") => {
            member(object, "status").entry("lastPhaseTransitionTime").or_insert_with(|| now.into());
        }
        ("v1", "PersistentVolumeClaim") => sources(object),
        ("batch/v1", "Job") => {
            generated_selector(object);
            template_labels(object);
        }
        ("apps/v1", "DaemonSet") => {
            member(member(object, "metadata"), "annotations")
                .entry(TEMPLATE_GENERATION)
                .or_insert_with(|| "1".into());
        }
        _ => {}
    }
}

/// Sets the fields of an object that an update leaves out and that its storage keeps.
pub(crate) fn updated(api_version: &str, kind: &str, before: &Object, object: &mut Object) {
    match (api_version, kind) {
        ("v1", "Pod") => kept_priority(before, object),
        ("v1", "Service") => kept_addresses(before, object),
        ("v1", "PersistentVolumeClaim") => sources(object),
        ("v1", "Namespace") => copy(before, object, "spec"),
        ("certificates.k8s.io/v1", "CertificateSigningRequest") => copy(before, object, "spec"),
        ("apps/v1", "DaemonSet") => template_generation(before, object),
        ("storage.k8s.io/v1", "CSIDriver") => generation(before, object),
        _ => {}
    }
}

/// Sets the fields of the status that an update leaves out and that the storage keeps.
pub(crate) fn status_updated(api_version: &str, kind: &str, before: &Object, object: &mut Object) {
    let class = before.of("status").of("qosClass");
    if (api_version, kind) == ("v1", "Pod") && class.is_string() {
        member(object, "status").entry("qosClass").or_insert_with(|| class.clone());
    }
}

fn kept_priority(before: &Object, pod: &mut Object) {
    let (old, spec) = (before.of("spec"), member(pod, "spec"));
    for field in ["priority", "preemptionPolicy", "resources"] {
        if !spec.has(field) && old.has(field) {
            spec.insert(field.into(), old.of(field).clone());
        }
    }
}

fn copy(before: &Object, object: &mut Object, field: &str) {
    match before.get(field) {
        Some(value) => object.insert(field.to_owned(), value.clone()),
        None => object.remove(field),
    };
}

/// Counts the changes of the spec.
fn generation(before: &Object, object: &mut Object) {
    if before.of("spec") != object.of("spec") {
        let generation = before.of("metadata").int("generation").unwrap_or(0);
        member(object, "metadata").insert("generation".into(), generation.saturating_add(1).into());
    }
}

fn template_labels(job: &mut Object) {
    let labels = job.of("spec").of("template").of("metadata").of("labels").clone();
    let metadata = member(job, "metadata");
    if metadata.members("labels").next().is_none() && !labels.is_null() {
        metadata.insert("labels".into(), labels);
    }
}

fn member<'a>(object: &'a mut Object, name: &str) -> &'a mut Object {
    let member = object.entry(name).or_insert_with(|| json!({}));
    if !member.is_object() {
        *member = json!({});
    }
    match member {
        Value::Object(member) => member,
        _ => unreachable!("it was set to an object above"),
    }
}

fn pod(pod: &mut Object) {
    let class = quality(pod.of("spec"));
    let is_gated = !pod.of("spec").items("schedulingGates").is_empty();
    let status = member(pod, "status");
    status.entry("phase").or_insert_with(|| "Pending".into());
    status.entry("qosClass").or_insert_with(|| class.into());
    if is_gated && !status.contains_key("conditions") {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
            "lastTransitionTime": null, "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        status.insert("conditions".into(), json!([condition]));
    }
    let spec = member(pod, "spec");
    if spec.text("priorityClassName").is_empty() {
        spec.entry("priority").or_insert_with(|| 0.into());
        spec.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
    }
}

/// The class of the quality of service. Follows Kubernetes 1.37 (`ComputePodQOS`).
fn quality(spec: &Value) -> &'static str {
    const COMPUTED: [&str; 2] = ["cpu", "memory"];
    let (mut has_any, mut is_guaranteed) = (false, true);
    let containers: Vec<&Value> =
        ["containers", "initContainers"].into_iter().flat_map(|list| spec.items(list)).collect();
    let whole = spec.of("resources");
    let parts: Vec<&Value> = if whole.is_object() {
        vec![whole]
    } else {
        containers.iter().map(|of| of.of("resources")).collect()
    };
    for resources in parts {
        for name in COMPUTED {
            let of = |part: &str| {
                Quantity::parse(resources.of(part).text(name)).ok().filter(|value| value.signum() > 0)
            };
            let (limit, request) = (of("limits"), of("requests"));
            has_any |= limit.is_some() || request.is_some();
            is_guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (has_any, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Sets the selector of a job, and the labels that it selects.
fn generated_selector(job: &mut Object) {
    if job.of("spec").flag("manualSelector") {
        return;
    }
    let (name, uid) = (job.of("metadata").of("name").clone(), job.of("metadata").of("uid").clone());
    let spec = member(job, "spec");
    let labels = member(member(member(spec, "template"), "metadata"), "labels");
    for (label, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(label).or_insert_with(|| value.clone());
    }
    let selected = member(member(spec, "selector"), "matchLabels");
    selected.entry("batch.kubernetes.io/controller-uid").or_insert(uid);
}

/// Keeps both sources of a claim equal.
fn sources(claim: &mut Object) {
    let spec = member(claim, "spec");
    let (source, reference) = (spec.of("dataSource").clone(), spec.of("dataSourceRef").clone());
    if reference.is_null() && !source.is_null() {
        spec.insert("dataSourceRef".into(), source);
    } else if source.is_null() && !reference.is_null() && reference.text("namespace").is_empty() {
        spec.insert("dataSource".into(), reference);
    }
}

fn template_generation(before: &Object, object: &mut Object) {
    let number = before.of("metadata").of("annotations").text(TEMPLATE_GENERATION).parse().unwrap_or(1_i64);
    let is_changed = before.of("spec").of("template") != object.of("spec").of("template");
    let number = number.saturating_add(i64::from(is_changed));
    member(member(object, "metadata"), "annotations")
        .insert(TEMPLATE_GENERATION.into(), number.to_string().into());
}

/// Allocates the addresses and the ports of a service. They follow from its name, so that they are the same in each run.
fn service(service: &mut Object) {
    let metadata = service.of("metadata");
    let key = format!("{}/{}", metadata.text("namespace"), metadata.text("name"));
    let spec = member(service, "spec");
    if spec.text("type") == "ExternalName" {
        return;
    }
    synchronize(spec);
    if spec.text("clusterIP").is_empty() && spec.items("clusterIPs").is_empty() {
        let address = allocated_address(&key);
        spec.insert("clusterIP".into(), address.clone().into());
        spec.insert("clusterIPs".into(), json!([address]));
    }
    families(spec);
    ports(spec, &key);
}

/// The first of the addresses is the address.
fn synchronize(spec: &mut Object) {
    let address = spec.text("clusterIP").to_owned();
    if !address.is_empty() && spec.items("clusterIPs").is_empty() {
        spec.insert("clusterIPs".into(), json!([address]));
    }
}

fn families(spec: &mut Object) {
    let is_headless = spec.text("clusterIP") == "None";
    if spec.items("ipFamilies").is_empty() {
        let is_v6 = spec.text("clusterIP").parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
        spec.insert("ipFamilies".into(), json!([if is_v6 { "IPv6" } else { "IPv4" }]));
    }
    let has_selector = spec.members("selector").next().is_some();
    let policy = if is_headless && !has_selector { "RequireDualStack" } else { "SingleStack" };
    spec.entry("ipFamilyPolicy").or_insert_with(|| policy.into());
    if spec.text("ipFamilyPolicy") == "RequireDualStack" && is_headless && !has_selector {
        spec.insert("ipFamilies".into(), json!(["IPv4", "IPv6"]));
    }
}

fn ports(spec: &mut Object, key: &str) {
    let is_balanced =
        spec.text("type") == "LoadBalancer" && spec.of("allocateLoadBalancerNodePorts") != false;
    if spec.text("type") != "NodePort" && !is_balanced {
        return;
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        if port.int("nodePort").unwrap_or(0) == 0 {
            let key = format!("{key}:{}", port.int("port").unwrap_or(0));
            port.insert("nodePort".into(), (30000 + hash(&key) % 2768).into());
        }
    }
    if spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local" {
        let number = 30000 + hash(&format!("{key}:health")) % 2768;
        spec.entry("healthCheckNodePort").or_insert_with(|| number.into());
    }
}

/// An address of 10.96.0.0/12, above those that kube-apiserver keeps for static addresses.
fn allocated_address(key: &str) -> String {
    let offset = 0x0200 + hash(key) % (0x10_0000 - 0x0400);
    let address = 0x0a60_0000_u64 + offset;
    let byte = |shift: u32| (address >> shift) & 0xff;
    format!("{}.{}.{}.{}", byte(24), byte(16), byte(8), byte(0))
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Keeps the addresses and the ports of a service that an update leaves out.
fn kept_addresses(before: &Object, service: &mut Object) {
    let old = before.of("spec");
    let metadata = service.of("metadata");
    let key = format!("{}/{}", metadata.text("namespace"), metadata.text("name"));
    let spec = member(service, "spec");
    normalize(old, spec);
    let has_addresses = |kind: &str| matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer");
    let (was, is) = (old.text("type").to_owned(), spec.text("type").to_owned());
    if has_addresses(&was) && has_addresses(&is) {
        if spec.text("clusterIP").is_empty() && spec.items("clusterIPs").is_empty() {
            for field in ["clusterIP", "clusterIPs"] {
                if old.has(field) {
                    spec.insert(field.into(), old.of(field).clone());
                }
            }
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if !spec.has(field) && old.has(field) {
                spec.insert(field.into(), old.of(field).clone());
            }
        }
    } else if has_addresses(&was) && is == "ExternalName" {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if spec.of(field) == old.of(field) {
                spec.remove(field);
            }
        }
    }
    drop_unused(old, spec);
    kept_ports(old, spec);
    if has_addresses(&is) {
        synchronize(spec);
        if spec.text("clusterIP").is_empty() {
            let address = allocated_address(&key);
            spec.insert("clusterIP".into(), address.clone().into());
            spec.insert("clusterIPs".into(), json!([address]));
        }
        families(spec);
        ports(spec, &key);
    }
}

/// An update of only one of the address and the addresses changes the other one.
fn normalize(old: &Value, spec: &mut Object) {
    let (was, now) = (old.text("clusterIP").to_owned(), spec.text("clusterIP").to_owned());
    let same_list = old.of("clusterIPs") == spec.of("clusterIPs");
    if was != now && same_list {
        if now.is_empty() {
            spec.remove("clusterIPs");
        } else if let Some(first) =
            spec.get_mut("clusterIPs").and_then(Value::as_array_mut).and_then(|list| list.first_mut())
        {
            *first = now.into();
        }
    } else if was == now && !same_list && spec.items("clusterIPs").is_empty() {
        spec.remove("clusterIP");
    }
}

/// Drops the fields that another type of service does not have, if they are those of the old one.
fn drop_unused(old: &Value, spec: &mut Object) {
    let is_external = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    let (was, is) = (old.text("type"), spec.text("type").to_owned());
    let mut drop = |field: &str, is_dropped: bool| {
        if is_dropped && spec.of(field) == old.of(field) {
            spec.remove(field);
        }
    };
    drop("externalTrafficPolicy", is_external(was) && !is_external(&is));
    let was_balanced = was == "LoadBalancer" && is != "LoadBalancer";
    for field in ["healthCheckNodePort", "allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        drop(field, was_balanced);
    }
}

fn kept_ports(old: &Value, spec: &mut Object) {
    let needs = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    let (needed, needs) = (needs(old.text("type")), needs(spec.text("type")));
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        let same = |other: &&Value| {
            other.of("port") == port.of("port") && other.of("protocol") == port.of("protocol")
        };
        let number = old.items("ports").iter().find(same).and_then(|port| port.int("nodePort"));
        let own = port.int("nodePort").filter(|own| *own != 0);
        match (needed, needs, number) {
            (true, true, Some(number)) if own.is_none() => {
                port.insert("nodePort".into(), number.into());
            }
            (true, false, number) if own.is_some() && own == number => {
                port.remove("nodePort");
            }
            _ => {}
        }
    }
}
