//! Pods and pod templates.

mod affinity;
mod containers;
mod environment;
mod probes;
mod resources;
mod scheduling;
mod security;
mod shared;
mod update;
mod volumes;

use serde_json::{Map, Value};

use super::super::check::{Check, Fields, texts};
use super::super::names;
use super::labels;
use shared::Pod;

pub(super) use affinity::{node_selector, remove_node_affinity};
pub(super) use probes::port;
pub(super) use resources::{
    container_resource_name, is_overcommitted, is_quota_resource, quantity_value, requirements, resource_name,
};
pub(super) use scheduling::{taints, tolerations};
pub(super) use update::pod_update;
pub(super) use volumes::{csi_driver_name, persistent};

pub(super) fn pod(c: &mut Check, pod: &Map<String, Value>) {
    let (metadata, spec) = (pod.of("metadata"), pod.of("spec"));
    c.enter("metadata", |c| annotations(c, metadata.of("annotations"), spec));
    c.enter("spec", |c| {
        pod_spec(c, spec, Some(metadata.text("name")));
        only_for_pods(c, spec);
    });
}

fn only_for_pods(c: &mut Check, spec: &Value) {
    c.nonnegative(spec, "terminationGracePeriodSeconds");
    for list in ["containers", "initContainers"] {
        c.each(list, spec.items(list), |c, container| {
            let image = container.text("image");
            if image.trim() != image {
                c.invalid("image", image, "must not have leading or trailing whitespace");
            }
        });
    }
}

pub(super) fn pod_create(c: &mut Check, object: &Map<String, Value>) {
    pod(c, object);
    let spec = object.of("spec");
    c.enter("spec", |c| {
        if !spec.items("ephemeralContainers").is_empty() {
            c.forbidden("ephemeralContainers", "cannot be set on create");
        }
        if !spec.text("nodeName").is_empty() && !spec.items("schedulingGates").is_empty() {
            c.forbidden("nodeName", "cannot be set until all schedulingGates have been cleared");
        }
    });
}

/// Checks a pod template.
pub(super) fn template(c: &mut Check, template: &Value) {
    let (metadata, spec) = (template.of("metadata"), template.of("spec"));
    labels::labels(c, "labels", metadata.of("labels"));
    labels::annotations(c, "annotations", metadata.of("annotations"));
    annotations(c, metadata.of("annotations"), spec);
    c.enter("spec", |c| pod_spec(c, spec, None));
    if !spec.items("ephemeralContainers").is_empty() {
        c.forbidden("spec.ephemeralContainers", "ephemeral containers not allowed in pod template");
    }
}

/// The annotations of a pod that have a meaning.
pub(super) fn annotations(c: &mut Check, annotations: &Value, spec: &Value) {
    let mirror = "kubernetes.io/config.mirror";
    if let Some(value) = annotations.of(mirror).as_str()
        && spec.text("nodeName").is_empty()
    {
        let field = format!("annotations[{mirror}]");
        c.invalid(&field, value, "must set spec.nodeName if mirror pod annotation is set");
    }
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    if let Some(value) = annotations.of(cost).as_str() {
        let is_canonical = |number: i32| number.to_string() == value;
        if !value.parse::<i32>().is_ok_and(is_canonical) {
            c.invalid(&format!("annotations[{cost}]"), value, "must be a 32bit integer");
        }
    }
}

fn pod_spec(c: &mut Check, spec: &Value, pod_name: Option<&str>) {
    let volumes = volumes::volumes(c, spec.items("volumes"), pod_name);
    let claims = spec.items("resourceClaims").iter().map(|claim| claim.text("name")).collect();
    let grace = spec.int("terminationGracePeriodSeconds");
    let pod = Pod { spec, volumes, claims, grace, is_pod: pod_name.is_some() };
    containers::containers(c, &pod);
    containers::init_containers(c, &pod);
    resources::pod_resources(c, &pod);
    host_ports(c, &pod);
    c.one_of("restartPolicy", spec.text("restartPolicy"), &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    c.one_of("dnsPolicy", spec.text("dnsPolicy"), &policies);
    labels::labels(c, "nodeSelector", spec.of("nodeSelector"));
    security::pod_context(c, spec);
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let rule = "ShareProcessNamespace and HostPID cannot both be enabled";
        c.invalid("shareProcessNamespace", spec.of("shareProcessNamespace"), rule);
    }
    affinity::affinity(c, spec.of("affinity"));
    dns(c, spec);
    scheduling::gates(c, spec);
    scheduling::spread_constraints(c, spec.items("topologySpreadConstraints"));
    host_users(c, spec);
    host_name(c, spec);
    names_of(c, spec);
    let tolerated = spec.items("tolerations");
    c.each("tolerations", tolerated, scheduling::toleration);
    c.each("hostAliases", spec.items("hostAliases"), |c, alias| {
        let address = alias.text("ip");
        c.rules("ip", address, names::address(address));
        for (index, name) in texts(alias.items("hostnames")).enumerate() {
            c.rules(&format!("hostnames[{index}]"), name, names::subdomain(name));
        }
    });
    classes(c, spec);
    environment::file_volumes(c, spec);
}

fn host_ports(c: &mut Check, pod: &Pod<'_>) {
    if !pod.spec.flag("hostNetwork") {
        return;
    }
    c.each("containers", pod.spec.items("containers"), |c, container| {
        c.each("ports", container.items("ports"), |c, port| {
            let (host, own) = (port.int("hostPort").unwrap_or(0), port.int("containerPort").unwrap_or(0));
            if (pod.is_pod || host != 0) && host != own {
                c.invalid("hostPort", host, "must match `containerPort` when `hostNetwork` is true");
            }
        });
    });
}

fn dns(c: &mut Check, spec: &Value) {
    let config = spec.of("dnsConfig");
    let servers = config.items("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            return c.required("dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            let rule = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return c.required("dnsConfig.nameservers", rule);
        }
    }
    c.enter("dnsConfig", |c| {
        if servers.len() > 3 {
            c.invalid("nameservers", config.of("nameservers"), "must not have more than 3 nameservers");
        }
        for (index, server) in texts(servers).enumerate() {
            c.rules(&format!("nameservers[{index}]"), server, names::address(server));
        }
        let searches = config.items("searches");
        if searches.len() > 32 {
            c.invalid("searches", config.of("searches"), "must not have more than 32 search paths");
        }
        for (index, search) in texts(searches).enumerate().filter(|(_, search)| *search != ".") {
            let search = search.strip_suffix('.').unwrap_or(search);
            c.rules(&format!("searches[{index}]"), search, names::subdomain_with_underscores(search));
        }
        c.each("options", config.items("options"), |c, option| {
            if option.text("name").is_empty() {
                c.required("", "must not be empty");
            }
        });
    });
}

fn host_users(c: &mut Check, spec: &Value) {
    if spec.of("hostUsers") != false {
        return;
    }
    for (flag, field) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.flag(flag) {
            c.forbidden(field, "when `hostUsers` is false");
        }
    }
    for list in ["initContainers", "containers"] {
        c.each(list, spec.items(list), |c, container| {
            if !container.items("volumeDevices").is_empty() {
                c.forbidden("volumeDevices", "when `hostUsers` is false");
            }
        });
    }
}

fn host_name(c: &mut Check, spec: &Value) {
    let Some(name) = spec.of("hostnameOverride").as_str() else { return };
    for flag in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.flag(flag) {
            c.forbidden("hostnameOverride", &format!("may not be specified when {flag} is true"));
        }
    }
    if name.len() > 64 {
        c.too_long("hostnameOverride", 64);
    }
    c.rules("hostnameOverride", name, names::subdomain(name));
}

/// The names of other objects and of hosts.
fn names_of(c: &mut Check, spec: &Value) {
    for field in ["serviceAccountName", "nodeName"] {
        let name = spec.text(field);
        if !name.is_empty() {
            c.rules(field, name, names::subdomain(name));
        }
    }
    if let Some(seconds) = spec.int("activeDeadlineSeconds") {
        c.in_range("activeDeadlineSeconds", seconds, 1, i64::from(i32::MAX));
    }
    for field in ["hostname", "subdomain"] {
        let name = spec.text(field);
        if !name.is_empty() {
            c.rules(field, name, names::label(name));
        }
    }
}

fn classes(c: &mut Check, spec: &Value) {
    let class = spec.text("priorityClassName");
    if !class.is_empty() {
        c.rules("priorityClassName", class, names::subdomain(class));
    }
    if let Some(class) = spec.of("runtimeClassName").as_str() {
        c.rules("runtimeClassName", class, names::subdomain(class));
    }
    if let Some(policy) = spec.of("preemptionPolicy").as_str() {
        c.one_of("preemptionPolicy", policy, &["PreemptLowerPriority", "Never"]);
    }
    if spec.has("overhead") {
        c.enter("overhead", |c| {
            resources::requirements(c, &serde_json::json!({"limits": spec.of("overhead")}), &[])
        });
    }
    if spec.has("os") {
        match spec.of("os").text("name") {
            "" => c.required("os.name", ""),
            "linux" | "windows" => {}
            name => c.not_supported("os", name, &["linux", "windows"]),
        }
    }
}
