//! The defaults that depend on the kind.

use serde_json::{Map, Value, json};

use super::super::check::{Fields, Object, member};
use super::table::{set, set_text};

/// Sets the defaults of a kind. Follows Kubernetes 1.37 (`SetDefaults_Pod` and others).
pub(super) fn set_defaults(api_version: &str, kind: &str, object: &mut Object, metadata: Option<&mut Value>) {
    let metadata = metadata.and_then(Value::as_object_mut);
    match (api_version, kind) {
        ("v1", "Pod") => spec(object, pod),
        ("v1", "Namespace") => metadata.into_iter().for_each(name_label),
        ("v1", "Service") => {
            spec(object, service);
            load_balancer(object);
        }
        ("v1", "ReplicationController") => spec_with_labels(object, metadata, |spec, labels| {
            if spec.members("selector").next().is_none() {
                spec.insert("selector".into(), labels.clone());
            }
        }),
        ("batch/v1", "Job") => {
            spec(object, job);
            spec_with_labels(object, metadata, |_, _| {});
        }
        ("autoscaling/v2", "HorizontalPodAutoscaler") => spec(object, autoscaler),
        ("discovery.k8s.io/v1", "EndpointSlice") => {
            for port in objects(object, "ports") {
                port.entry("name").or_insert_with(|| "".into());
            }
        }
        _ => {}
    }
}

/// As [`set_defaults`], of the status only.
pub(super) fn set_status_defaults(api_version: &str, kind: &str, object: &mut Object) {
    if (api_version, kind) == ("v1", "Service") {
        load_balancer(object);
    }
}

fn name_label(metadata: &mut Object) {
    let name = metadata.of("name").clone();
    if name.as_str().is_some_and(|name| !name.is_empty()) {
        member(metadata, "labels").insert("kubernetes.io/metadata.name".into(), name);
    }
}

fn spec(object: &mut Object, set: impl FnOnce(&mut Object)) {
    if let Value::Object(spec) = object.entry("spec").or_insert_with(|| json!({})) {
        set(spec);
    }
}

fn objects<'a>(object: &'a mut Object, list: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = object.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets the labels of an object that has none from its template.
fn spec_with_labels(
    object: &mut Object,
    metadata: Option<&mut Object>,
    more: impl FnOnce(&mut Object, &Value),
) {
    spec(object, |spec| {
        let labels = spec.of("template").of("metadata").of("labels").clone();
        if labels.as_object().is_none_or(Map::is_empty) {
            return;
        }
        more(spec, &labels);
        if let Some(metadata) = metadata
            && metadata.members("labels").next().is_none()
        {
            metadata.insert("labels".into(), labels);
        }
    });
}

fn pod(spec: &mut Object) {
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    set(spec, "enableServiceLinks", true);
    let has_host_network = spec.flag("hostNetwork");
    for list in ["containers", "initContainers"] {
        for container in objects(spec, list) {
            if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
                requests(resources);
            }
            for port in objects(container, "ports").filter(|_| has_host_network) {
                if port.int("hostPort").unwrap_or(0) == 0 {
                    let own = port.of("containerPort").clone();
                    port.insert("hostPort".into(), own);
                }
            }
        }
    }
}

/// Sets the requests that are not given to the limits.
fn requests(resources: &mut Object) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if let Value::Object(requests) = resources.entry("requests").or_insert_with(|| json!({})) {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

fn service(spec: &mut Object) {
    set_text(spec, "sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" if !spec.of("sessionAffinityConfig").of("clientIP").has("timeoutSeconds") => {
            spec.insert("sessionAffinityConfig".into(), json!({"clientIP": {"timeoutSeconds": 10800}}));
        }
        _ => {}
    }
    set_text(spec, "type", "ClusterIP");
    let kind = spec.text("type").to_owned();
    let has_addresses = kind == "ClusterIP" && !spec.items("externalIPs").is_empty();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || has_addresses {
        set_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP")
        && !spec.has("internalTrafficPolicy")
    {
        spec.insert("internalTrafficPolicy".into(), "Cluster".into());
    }
    // dropped when it is read
    if kind == "ExternalName" && matches!(spec.text("internalTrafficPolicy"), "Cluster" | "Local") {
        spec.remove("internalTrafficPolicy");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn load_balancer(service: &mut Object) {
    if service.of("spec").text("type") != "LoadBalancer" {
        return;
    }
    let status = service.get_mut("status").and_then(|status| status.get_mut("loadBalancer"));
    let Some(balancer) = status.and_then(Value::as_object_mut) else { return };
    for ingress in objects(balancer, "ingress") {
        if !ingress.text("ip").is_empty() {
            set(ingress, "ipMode", "VIP");
        }
    }
}

fn job(spec: &mut Object) {
    if !spec.has("completions") && !spec.has("parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    set(spec, "parallelism", 1);
    let limit = if spec.has("backoffLimitPerIndex") { i32::MAX } else { 6 };
    set(spec, "backoffLimit", limit);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    let policy = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    set(spec, "podReplacementPolicy", policy);
    set(spec, "manualSelector", false);
}

fn autoscaler(spec: &mut Object) {
    if spec.items("metrics").is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec.insert(
            "metrics".into(),
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
        );
    }
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, window, policies) in
        [("scaleUp", Some(0), json!([pods, percent])), ("scaleDown", None, json!([percent]))]
    {
        if let Value::Object(rules) = behavior.entry(direction).or_insert_with(|| json!({})) {
            if let Some(window) = window {
                set(rules, "stabilizationWindowSeconds", window);
            }
            set(rules, "selectPolicy", "Max");
            if rules.items("policies").is_empty() && !rules.of("policies").is_array() {
                rules.insert("policies".into(), policies);
            }
        }
    }
}
