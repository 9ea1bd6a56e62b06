//! The statuses of controllers.

use serde_json::Value;

use super::super::check::{Check, Fields, Object};

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

pub(super) fn status(c: &mut Check, kind: &str, object: &Object, before: Option<&Object>) {
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
        if let Some(before) = before {
            collisions(c, kind, before.of("status"), status);
        }
    });
}

fn collisions(c: &mut Check, kind: &str, before: &Value, after: &Value) {
    let has_count = matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet");
    let (old, new) = (before.int("collisionCount"), after.int("collisionCount"));
    if has_count && old.is_some() && new < old {
        c.invalid("collisionCount", new.unwrap_or(0), "cannot be decremented");
    }
}
