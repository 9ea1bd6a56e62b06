//! What the storage of pods sets. Follows Kubernetes 1.37 (`podStrategy.PrepareForCreate`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::check::{Fields, Object, member, texts};
use super::super::quantity::Quantity;
use crate::order;

pub(super) fn created(pod: &mut Object, now: &str) {
    let labels = pod.of("metadata").of("labels").clone();
    let spec = member(pod, "spec");
    select_by_labels(spec, &labels);
    if spec.of("resources").is_object() {
        whole_resources(spec);
    }
    if spec.text("priorityClassName").is_empty() {
        spec.entry("priority").or_insert_with(|| 0.into());
        spec.entry("preemptionPolicy").or_insert_with(|| "PreemptLowerPriority".into());
    }
    let class = quality(pod.of("spec"));
    let is_gated = !pod.of("spec").items("schedulingGates").is_empty();
    let status = member(pod, "status");
    status.entry("phase").or_insert_with(|| "Pending".into());
    status.entry("qosClass").or_insert_with(|| class.into());
    if is_gated && !status.contains_key("conditions") {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
            "lastTransitionTime": now, "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        status.insert("conditions".into(), json!([condition]));
    }
}

pub(super) fn updated(before: &Object, pod: &mut Object) {
    let (old, spec) = (before.of("spec"), member(pod, "spec"));
    for field in ["priority", "preemptionPolicy", "resources"] {
        if !spec.has(field) && old.has(field) {
            spec.insert(field.into(), old.of(field).clone());
        }
    }
}

fn objects<'a>(object: Option<&'a mut Value>, list: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = object.and_then(|object| object.get_mut(list)).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Adds the labels of the pod to the selectors whose terms name their keys.
fn select_by_labels(spec: &mut Object, labels: &Value) {
    let constraints = spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten().filter_map(Value::as_object_mut) {
        select(constraint, "matchLabelKeys", "In", labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let mut affinity = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind));
        let preferred = objects(affinity.as_deref_mut(), "preferredDuringSchedulingIgnoredDuringExecution");
        for term in preferred.filter_map(|preferred| preferred.get_mut("podAffinityTerm")?.as_object_mut()) {
            select_both(term, labels);
        }
        for term in objects(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            select_both(term, labels);
        }
    }
}

fn select_both(term: &mut Object, labels: &Value) {
    select(term, "matchLabelKeys", "In", labels);
    select(term, "mismatchLabelKeys", "NotIn", labels);
}

fn select(term: &mut Object, field: &str, operator: &str, labels: &Value) {
    let has_value = |key: &&str| labels.has(key);
    let requirement = |key: &str| json!({"key": key, "operator": operator, "values": [labels.of(key)]});
    let added: Vec<Value> = texts(term.items(field)).filter(has_value).map(requirement).collect();
    if added.is_empty() || !term.of("labelSelector").is_object() {
        return;
    }
    let expressions = member(term, "labelSelector").entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(expressions) = expressions.as_array_mut() {
        expressions.extend(added);
    }
}

type Resources = BTreeMap<String, Quantity>;

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Sets the requests and limits of the whole pod that are not given from those of its containers. Follows Kubernetes 1.37
/// (`DefaultPodLevelResources`).
fn whole_resources(spec: &mut Object) {
    let whole = spec.of("resources");
    let (mut limits, mut requests) = (resources(whole.of("limits")), resources(whole.of("requests")));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    let all_limits = of_containers(spec, "limits");
    for (name, limit) in all_limits.iter().filter(|(name, _)| is_huge_page(name)) {
        if !requests.contains_key(name) {
            limits.entry(name.clone()).or_insert(*limit);
        }
    }
    let is_whole = |name: &str| matches!(name, "cpu" | "memory");
    for (name, request) in of_containers(spec, "requests").into_iter().filter(|(name, _)| is_whole(name)) {
        requests.entry(name).or_insert(request);
    }
    for (name, limit) in limits.iter().filter(|(name, _)| is_whole(name) || is_huge_page(name)) {
        requests.entry(name.clone()).or_insert(*limit);
    }
    let containers = || ["initContainers", "containers"].into_iter().flat_map(|list| spec.items(list));
    for (name, request) in requests.iter().filter(|(name, _)| is_whole(name) || is_huge_page(name)) {
        let is_limited = containers().all(|container| container.of("resources").of("limits").has(name));
        if let (true, Some(limit)) = (is_limited, all_limits.get(name)) {
            let limit = if request > limit { request } else { limit };
            limits.entry(name.clone()).or_insert(*limit);
        }
    }
    let whole = member(spec, "resources");
    for (field, values) in [("limits", limits), ("requests", requests)] {
        let given = member(whole, field);
        for (name, value) in values {
            given.entry(name).or_insert_with(|| value.to_string().into());
        }
        if given.is_empty() {
            whole.remove(field);
        }
    }
}

fn resources(list: &Value) -> Resources {
    let members = list.as_object().into_iter().flatten();
    let parsed = members.filter_map(|(name, text)| Some((name, Quantity::parse(text.as_str()?).ok()?)));
    order::map(parsed.map(|(name, quantity)| (name.clone(), quantity)))
}

/// The sum of the containers, or what an init container needs with the sidecars before it, if that is more.
fn of_containers(spec: &Object, part: &str) -> Resources {
    let of = |container: &Value| resources(container.of("resources").of(part));
    let mut sum = Resources::new();
    spec.items("containers").iter().for_each(|container| add(&mut sum, &of(container)));
    let (mut sidecars, mut most) = (Resources::new(), Resources::new());
    for container in spec.items("initContainers") {
        let mut needed = of(container);
        if container.text("restartPolicy") == "Always" {
            add(&mut sum, &needed);
            add(&mut sidecars, &needed);
            needed.clone_from(&sidecars);
        } else {
            add(&mut needed, &sidecars);
        }
        raise(&mut most, needed);
    }
    raise(&mut sum, most);
    sum
}

fn add(sum: &mut Resources, more: &Resources) {
    for (name, quantity) in more {
        let sum = sum.entry(name.clone()).or_insert(Quantity::whole(0));
        *sum = sum.plus(*quantity);
    }
}

fn raise(list: &mut Resources, other: Resources) {
    for (name, quantity) in other {
        let value = list.entry(name).or_insert(quantity);
        if quantity > *value {
            *value = quantity;
        }
    }
}

/// The class of the quality of service. Follows Kubernetes 1.37 (`ComputePodQOS`).
fn quality(spec: &Value) -> &'static str {
    const COMPUTED: [&str; 2] = ["cpu", "memory"];
    let (mut has_any, mut is_guaranteed) = (false, true);
    let containers: Vec<&Value> =
        ["containers", "initContainers"].into_iter().flat_map(|list| spec.items(list)).collect();
    let whole = spec.of("resources");
    let is_whole = ["limits", "requests"].iter().any(|part| whole.members(part).next().is_some());
    let parts: Vec<&Value> =
        if is_whole { vec![whole] } else { containers.iter().map(|of| of.of("resources")).collect() };
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
