//! Conversion between the stored version of an object and other served versions.

use serde_json::{Map, Value, json};

use crate::builtin::EVENT_FIELDS;

/// The difference between two versions of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Only `apiVersion` (a CustomResourceDefinition), unless a webhook converts the objects of clients.
    Rename,
    /// `events.k8s.io` and the core group.
    Events,
    /// `autoscaling/v1` and `autoscaling/v2`.
    Autoscalers,
}

impl Conversion {
    /// Converts from the stored version to the served version.
    pub(crate) fn to_served(self, object: &mut Map<String, Value>, api_version: &str) {
        match self {
            Self::Rename => {}
            Self::Events => EVENT_FIELDS.iter().for_each(|(core, new)| rename(object, core, new)),
            Self::Autoscalers => autoscaler_to_v1(object),
        }
        object.insert("apiVersion".into(), api_version.into());
    }

    /// Converts from the served version to the stored version.
    pub(crate) fn to_stored(self, object: &mut Map<String, Value>, api_version: &str) {
        match self {
            Self::Rename => {}
            Self::Events => EVENT_FIELDS.iter().for_each(|(core, new)| rename(object, new, core)),
            Self::Autoscalers => autoscaler_to_v2(object),
        }
        object.insert("apiVersion".into(), api_version.into());
    }
}

fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.remove(from) {
        object.insert(to.into(), value);
    }
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric.pointer("/resource/name") == Some(&json!("cpu"))
}

fn autoscaler_to_v1(object: &mut Map<String, Value>) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(Value::Array(metrics)) = spec.remove("metrics")
    {
        let target = metrics
            .iter()
            .find(|metric| is_cpu_utilization(metric))
            .and_then(|metric| metric.pointer("/resource/target/averageUtilization"));
        if let Some(target) = target {
            spec.insert("targetCPUUtilizationPercentage".into(), target.clone());
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        if let Some(Value::Array(metrics)) = status.remove("currentMetrics") {
            let current = metrics
                .iter()
                .find(|metric| is_cpu_utilization(metric))
                .and_then(|metric| metric.pointer("/resource/current/averageUtilization"));
            if let Some(current) = current {
                status.insert("currentCPUUtilizationPercentage".into(), current.clone());
            }
        }
        status.remove("conditions");
    }
}

fn autoscaler_to_v2(object: &mut Map<String, Value>) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(target) = spec.remove("targetCPUUtilizationPercentage")
    {
        let metric = json!({"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}});
        spec.insert("metrics".into(), json!([metric]));
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
        && let Some(current) = status.remove("currentCPUUtilizationPercentage")
    {
        let metric = json!({"type": "Resource", "resource": {
            "name": "cpu", "current": {"averageUtilization": current}}});
        status.insert("currentMetrics".into(), json!([metric]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_round_trip_through_both_versions() {
        let event = json!({"apiVersion": "v1", "kind": "Event", "message": "m", "count": 2,
            "involvedObject": {"kind": "Pod"}, "source": {"component": "c"}, "reason": "r"});
        let mut map = event.as_object().unwrap().clone();
        Conversion::Events.to_served(&mut map, "events.k8s.io/v1");
        assert_eq!(map["note"], "m");
        assert_eq!(map["regarding"]["kind"], "Pod");
        assert!(!map.contains_key("message"));
        Conversion::Events.to_stored(&mut map, "v1");
        assert_eq!(Value::Object(map), event);
    }

    #[test]
    fn autoscalers_carry_the_cpu_target() {
        let mut map = json!({"spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}})
            .as_object()
            .unwrap()
            .clone();
        Conversion::Autoscalers.to_stored(&mut map, "autoscaling/v2");
        assert_eq!(map["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);
        Conversion::Autoscalers.to_served(&mut map, "autoscaling/v1");
        assert_eq!(map["spec"]["targetCPUUtilizationPercentage"], 70);
    }
}
