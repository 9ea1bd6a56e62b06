//! What the storage of a kind sets in the status of an object.

use std::collections::HashMap;

use serde_json::Value;

use super::super::check::{Fields, Object, member};

/// Sets the fields of the status that an update leaves out and that the storage keeps or sets.
pub(crate) fn status_updated(api_version: &str, kind: &str, before: &Object, object: &mut Object, now: &str) {
    match (api_version, kind) {
        ("v1", "Pod") => {
            let class = before.of("status").of("qosClass");
            if class.is_string() {
                member(object, "status").entry("qosClass").or_insert_with(|| class.clone());
            }
        }
        ("v1", "PersistentVolume") => phase_time(before.of("status"), object, now),
        _ => {}
    }
}

/// As [`status_updated`], of a write that changes only the status.
pub(crate) fn status_written(api_version: &str, kind: &str, before: &Object, object: &mut Object, now: &str) {
    status_updated(api_version, kind, before, object, now);
    if (api_version, kind) == ("certificates.k8s.io/v1", "CertificateSigningRequest") {
        decisions(before.of("status").items("conditions"), object, now);
    }
}

/// Follows Kubernetes 1.37 (`persistentvolumeStatusStrategy`).
fn phase_time(old: &Value, volume: &mut Object, now: &str) {
    const FIELD: &str = "lastPhaseTransitionTime";
    let status = member(volume, "status");
    let is_same_phase = old.text("phase") == status.text("phase");
    if is_same_phase && !status.has(FIELD) && old.has(FIELD) {
        status.insert(FIELD.into(), old.of(FIELD).clone());
    } else if !is_same_phase && (!status.has(FIELD) || status.of(FIELD) == old.of(FIELD)) {
        status.insert(FIELD.into(), now.into());
    }
}

/// Keeps the decisions of a request for a certificate, and sets the times of its conditions. Follows Kubernetes 1.37
/// (`csrStatusStrategy`).
fn decisions(old: &[Value], request: &mut Object, now: &str) {
    let conditions = member(request, "status").get_mut("conditions").and_then(Value::as_array_mut);
    let Some(conditions) = conditions else { return };
    for kind in ["Approved", "Denied"] {
        let former: Vec<&Value> = old.iter().filter(|condition| condition.text("type") == kind).collect();
        let count = conditions.iter().filter(|condition| condition.text("type") == kind).count();
        if count == former.len() {
            let kept = conditions.iter_mut().filter(|condition| condition.text("type") == kind);
            kept.zip(former).for_each(|(condition, former)| condition.clone_from(former));
        }
    }
    let key = |condition: &Value| (condition.text("type").to_owned(), condition.text("status").to_owned());
    let times = old.iter().rev().filter(|condition| condition.has("lastTransitionTime"));
    let times: HashMap<_, _> =
        times.map(|condition| (key(condition), condition.of("lastTransitionTime"))).collect();
    for condition in conditions {
        let time = times.get(&key(condition)).map_or_else(|| now.into(), |time| (*time).clone());
        if let Some(condition) = condition.as_object_mut() {
            for (field, value) in [("lastUpdateTime", now.into()), ("lastTransitionTime", time)] {
                if !condition.has(field) {
                    condition.insert(field.into(), value);
                }
            }
        }
    }
}
