//! The fields of a pod that an update may change.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::super::check::{Check, Fields, NULL};
use super::{affinity, scheduling};

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(in super::super) fn pod_update(c: &mut Check, before: &Map<String, Value>, after: &Map<String, Value>) {
    super::pod(c, after);
    let (before, after) = (before.of("spec"), after.of("spec"));
    c.enter("spec", |c| {
        for list in ["containers", "initContainers"] {
            if before.items(list).len() != after.items(list).len() {
                return c.forbidden(list, "pod updates may not add or remove containers");
            }
            images(c, list, after.items(list));
        }
        if !deadline(c, before, after) {
            return;
        }
        tolerations(c, before.items("tolerations"), after.items("tolerations"));
        gates(c, before.items("schedulingGates"), after.items("schedulingGates"));
        if before == after {
            return;
        }
        let is_gated = !before.items("schedulingGates").is_empty();
        if is_gated {
            placement(c, before, after);
        }
        let unchangeable = if is_gated { without_placement } else { unchangeable };
        if unchangeable(before) != unchangeable(after) {
            c.forbidden("", UPDATABLE);
        }
    });
}

fn images(c: &mut Check, list: &str, containers: &[Value]) {
    c.each(list, containers, |c, container| {
        let image = container.text("image");
        if image.is_empty() {
            c.required("image", "");
        }
        if image.trim() != image {
            c.invalid("image", image, "must not have leading or trailing whitespace");
        }
    });
}

/// Whether the checks go on.
fn deadline(c: &mut Check, before: &Value, after: &Value) -> bool {
    let field = "activeDeadlineSeconds";
    match (before.int(field), after.int(field)) {
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            c.in_range(field, new, 0, i64::from(i32::MAX));
            false
        }
        (Some(old), Some(new)) if old < new => {
            c.invalid(field, new, "must be less than or equal to previous value");
            false
        }
        (Some(_), None) => {
            c.invalid(field, &NULL, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn tolerations(c: &mut Check, before: &[Value], after: &[Value]) {
    fn without_seconds(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|field| toleration.text(field))
    }
    let new: HashSet<_> = after.iter().map(without_seconds).collect();
    if !before.iter().all(|old| new.contains(&without_seconds(old))) {
        let rule = "existing toleration can not be modified except its tolerationSeconds";
        return c.forbidden("tolerations", rule);
    }
    c.each("tolerations", after, scheduling::toleration);
}

fn gates(c: &mut Check, before: &[Value], after: &[Value]) {
    let old: HashSet<&str> = before.iter().map(|gate| gate.text("name")).collect();
    c.each("schedulingGates", after, |c, gate| {
        let name = gate.text("name");
        if !old.contains(name) {
            let rule = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            c.forbidden("name", &rule);
        }
    });
}

/// Returns what an update must not change.
fn unchangeable(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Value::Object(fields) = &mut spec {
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            fields.remove(field);
        }
        for list in ["containers", "initContainers"] {
            let containers = fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            for container in containers.filter_map(Value::as_object_mut) {
                container.remove("image");
            }
        }
    }
    spec
}

fn without_placement(spec: &Value) -> Value {
    let mut spec = unchangeable(spec);
    if let Value::Object(fields) = &mut spec {
        fields.remove("nodeSelector");
        affinity::remove_node_affinity(fields);
    }
    spec
}

/// What an update adds to the placement of a gated pod.
fn placement(c: &mut Check, before: &Value, after: &Value) {
    let new = after.of("nodeSelector");
    if before.members("nodeSelector").any(|(key, value)| new.of(key) != value) {
        let rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        c.invalid("nodeSelector", new, rule);
    }
    let (old, new) = (before.of("affinity"), after.of("affinity"));
    affinity::node_affinity_update(c, old.of("nodeAffinity"), new.of("nodeAffinity"));
}
