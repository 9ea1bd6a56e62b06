//! The affinity of a pod to nodes and other pods.

use serde_json::Value;

use super::super::super::check::{Check, Fields, Object, texts};
use super::super::super::names;
use super::super::labels;
use super::scheduling;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(c: &mut Check, affinity: &Value) {
    c.enter("affinity", |c| {
        let node = affinity.of("nodeAffinity");
        c.enter("nodeAffinity", |c| {
            if node.has(REQUIRED) {
                node_selector(c, REQUIRED, node.of(REQUIRED));
            }
            c.each(PREFERRED, node.items(PREFERRED), |c, term| {
                weight(c, term);
                c.enter("preference", |c| node_term(c, term.of("preference"), true));
            });
        });
        for kind in ["podAffinity", "podAntiAffinity"] {
            let of = affinity.of(kind);
            c.enter(kind, |c| {
                c.each(REQUIRED, of.items(REQUIRED), pod_term);
                c.each(PREFERRED, of.items(PREFERRED), |c, term| {
                    weight(c, term);
                    c.enter("podAffinityTerm", |c| pod_term(c, term.of("podAffinityTerm")));
                });
            });
        }
    });
}

fn weight(c: &mut Check, term: &Value) {
    let weight = term.int("weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        c.invalid("weight", weight, "must be in the range 1-100");
    }
}

pub(in super::super) fn node_selector(c: &mut Check, field: &str, selector: &Value) {
    c.enter(field, |c| {
        let terms = selector.items("nodeSelectorTerms");
        if terms.is_empty() {
            return c.required("nodeSelectorTerms", "must have at least one node selector term");
        }
        c.each("nodeSelectorTerms", terms, |c, term| node_term(c, term, false));
    });
}

fn node_term(c: &mut Check, term: &Value, allows_any_value: bool) {
    c.each("matchExpressions", term.items("matchExpressions"), |c, requirement| {
        let values = requirement.items("values");
        match requirement.text("operator") {
            "In" | "NotIn" if values.is_empty() => {
                c.required("values", "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                c.forbidden("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Gt" | "Lt" if values.len() != 1 => {
                c.required("values", "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            operator => c.invalid("operator", operator, "not a valid selector operator"),
        }
        let key = requirement.text("key");
        c.rules("key", key, names::qualified_name(key));
        for (index, value) in texts(values).enumerate().filter(|_| !allows_any_value) {
            c.rules(&format!("values[{index}]"), value, names::label_value(value));
        }
    });
    c.each("matchFields", term.items("matchFields"), |c, requirement| {
        let values = requirement.items("values");
        match requirement.text("operator") {
            "In" | "NotIn" if values.len() != 1 => {
                let rule =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                c.required("values", rule);
            }
            "In" | "NotIn" => {}
            operator => c.invalid("operator", operator, "not a valid selector operator"),
        }
        match requirement.text("key") {
            "metadata.name" => {
                for (index, value) in texts(values).enumerate() {
                    c.rules(&format!("values[{index}]"), value, names::subdomain(value));
                }
            }
            key => c.invalid("key", key, "not a valid field selector key"),
        }
    });
}

fn pod_term(c: &mut Check, term: &Value) {
    labels::selector(c, "labelSelector", term.of("labelSelector"));
    labels::selector(c, "namespaceSelector", term.of("namespaceSelector"));
    for namespace in texts(term.items("namespaces")) {
        c.rules("namespace", namespace, names::label(namespace));
    }
    scheduling::label_keys(c, term);
    let key = term.text("topologyKey");
    if key.is_empty() {
        c.required("topologyKey", "can not be empty");
    }
    c.rules("topologyKey", key, names::qualified_name(key));
}

/// Removes the affinity to nodes, and the whole affinity if it has nothing else.
pub(in super::super) fn remove_node_affinity(spec: &mut Object) {
    let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) else { return };
    affinity.remove("nodeAffinity");
    if affinity.is_empty() {
        spec.remove("affinity");
    }
}

/// Checks that an update of a gated pod only adds requirements to its terms.
pub(super) fn node_affinity_update(c: &mut Check, before: &Value, after: &Value) {
    fn terms(affinity: &Value) -> &[Value] {
        affinity.of(REQUIRED).items("nodeSelectorTerms")
    }
    let (old, new) = (terms(before), terms(after));
    if old.is_empty() || before == after {
        return;
    }
    c.enter(&format!("affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"), |c| {
        if old.len() != new.len() {
            let rule = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
            return c.invalid("", after.of(REQUIRED).of("nodeSelectorTerms"), rule);
        }
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            if !has_only_additions(old, new) {
                let rule = "only additions are allowed (no mutations or deletions)";
                c.invalid(&format!("[{index}]"), new, rule);
            }
        }
    });
}

fn has_only_additions(old: &Value, new: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Value| lists.iter().all(|list| term.items(list).is_empty());
    lists.iter().all(|list| new.items(list).starts_with(old.items(list))) && (!is_empty(old) || is_empty(new))
}
