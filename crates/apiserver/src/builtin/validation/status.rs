//! The statuses that controllers write.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::super::check::{Check, Fields, Object};
use super::super::{names, service_type};
use super::job_status::job_status;

/// The kinds whose statuses have numbers that are not negative, and the numbers.
const NUMBERS: &[(&str, &[&str])] = &[
    (
        "Deployment",
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
    ),
    (
        "ReplicaSet",
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
    ),
    (
        "ReplicationController",
        &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
    ),
    (
        "StatefulSet",
        &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
    ),
    (
        "DaemonSet",
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
    ),
    ("HorizontalPodAutoscaler", &["currentReplicas", "desiredReplicas"]),
    ("PodDisruptionBudget", &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]),
];

/// The numbers that are not greater than `status.replicas`.
const OF_REPLICAS: &[(&str, &[&str])] = &[
    ("Deployment", &["updatedReplicas", "readyReplicas", "availableReplicas"]),
    ("ReplicaSet", &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
    ("ReplicationController", &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
    ("StatefulSet", &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"]),
];

fn of<'a>(table: &[(&str, &'a [&'a str])], kind: &str) -> &'a [&'a str] {
    table.iter().find(|(of, _)| *of == kind).map_or(&[], |(_, fields)| fields)
}

pub(super) fn status(c: &mut Check, kind: &str, object: &Object, before: &Object) {
    match kind {
        "Service" => load_balancer(c, object, before),
        "Job" => job_status(c, object, before),
        _ => controller(c, kind, object, before),
    }
}

/// Follows Kubernetes 1.37 (`ValidateLoadBalancerStatus`).
fn load_balancer(c: &mut Check, service: &Object, before: &Object) {
    fn ingress(service: &Object) -> &[Value] {
        service.of("status").of("loadBalancer").items("ingress")
    }
    let field = "status.loadBalancer.ingress";
    if !service_type::is_balanced(service.of("spec")) {
        if !ingress(service).is_empty() {
            c.forbidden(field, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return;
    }
    let old: HashSet<&str> = ingress(before).iter().map(|ingress| ingress.text("ip")).collect();
    c.each(field, ingress(service), |c, ingress| {
        let (address, host) = (ingress.text("ip"), ingress.text("hostname"));
        if !address.is_empty() && !old.contains(address) {
            c.rules("ip", address, names::address(address));
        }
        match (ingress.has("ipMode"), address) {
            (false, "") => {}
            (false, _) => c.required("ipMode", "must be specified when `ip` is set"),
            (true, "") => c.forbidden("ipMode", "may not be specified when `ip` is not set"),
            (true, _) => c.supported(ingress, "ipMode", &["Proxy", "VIP"]),
        }
        if !host.is_empty() {
            c.rules("hostname", host, names::subdomain(host));
            if host.parse::<IpAddr>().is_ok() {
                c.invalid("hostname", host, "must be a DNS name, not an IP address");
            }
        }
    });
}

fn controller(c: &mut Check, kind: &str, object: &Object, before: &Object) {
    let status = object.of("status");
    c.enter("status", |c| {
        for field in of(NUMBERS, kind) {
            c.nonnegative(status, field);
        }
        let number = |field: &str| status.int(field).unwrap_or(0);
        for field in of(OF_REPLICAS, kind) {
            if number(field) > number("replicas") {
                c.invalid(field, number(field), "cannot be greater than status.replicas");
            }
        }
        if !of(OF_REPLICAS, kind).is_empty() && number("availableReplicas") > number("readyReplicas") {
            let than = if kind == "StatefulSet" { "status.readyReplicas" } else { "readyReplicas" };
            let rule = format!("cannot be greater than {than}");
            c.invalid("availableReplicas", number("availableReplicas"), &rule);
        }
        collisions(c, kind, before.of("status"), status);
    });
}

fn collisions(c: &mut Check, kind: &str, before: &Value, after: &Value) {
    let has_count = matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet");
    let (old, new) = (before.int("collisionCount"), after.int("collisionCount"));
    if has_count && old.is_some() && new < old {
        c.invalid("collisionCount", new.unwrap_or(0), "cannot be decremented");
    }
}
