//! What the scheduler reads: gates, tolerations, taints, and constraints of the spread.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::super::check::{Check, Fields, texts};
use super::super::super::names;
use super::super::labels;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn gates(c: &mut Check, spec: &Value) {
    c.each("readinessGates", spec.items("readinessGates"), |c, gate| {
        let name = gate.text("conditionType");
        c.rules("conditionType", name, names::qualified_name(name));
    });
    let mut seen = HashSet::new();
    c.each("schedulingGates", spec.items("schedulingGates"), |c, gate| {
        let name = gate.text("name");
        c.rules("", name, names::qualified_name(name));
        if !seen.insert(name) {
            c.duplicate("", name);
        }
    });
}

pub(in super::super) fn tolerations(c: &mut Check, field: &str, list: &[Value]) {
    c.each(field, list, toleration);
}

pub(super) fn toleration(c: &mut Check, toleration: &Value) {
    let (key, operator) = (toleration.text("key"), toleration.text("operator"));
    let (value, effect) = (toleration.text("value"), toleration.text("effect"));
    if !key.is_empty() {
        c.rules("key", key, names::qualified_name(key));
    }
    if key.is_empty() && operator != "Exists" {
        let rule =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        c.invalid("operator", operator, rule);
    }
    if toleration.has("tolerationSeconds") && effect != "NoExecute" {
        c.invalid("effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator {
        "Equal" | "" => {
            let broken = names::label_value(value);
            if !broken.is_empty() {
                c.invalid("operator", value, &broken.join(";"));
            }
        }
        "Exists" if !value.is_empty() => {
            c.invalid("operator", value, "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        "Lt" | "Gt" => c.not_supported("operator", operator, &["Equal", "Exists", "Lt", "Gt"]),
        operator => c.not_supported("operator", operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        c.not_supported("effect", effect, &EFFECTS);
    }
}

pub(in super::super) fn taints(c: &mut Check, field: &str, list: &[Value]) {
    let mut seen = HashSet::new();
    c.each(field, list, |c, taint| {
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        c.rules("key", key, names::qualified_name(key));
        let broken = names::label_value(value);
        if !broken.is_empty() {
            c.invalid("value", value, &broken.join(";"));
        }
        c.one_of("effect", effect, &EFFECTS);
        if !seen.insert((effect, key)) {
            c.duplicate("", taint);
        }
    });
}

pub(super) fn spread_constraints(c: &mut Check, list: &[Value]) {
    const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    fn pair(constraint: &Value) -> (&str, &str) {
        (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"))
    }
    let last: HashMap<_, usize> = list.iter().map(pair).zip(0..).collect();
    c.enter("topologySpreadConstraints", |c| {
        for (index, constraint) in list.iter().enumerate() {
            let (key, action) = pair(constraint);
            let is_repeated = last.get(&(key, action)) > Some(&index);
            c.index(index, |c| {
                c.positive(constraint, "maxSkew");
                if key.is_empty() {
                    c.required("topologyKey", "can not be empty");
                }
                if !ACTIONS.contains(&action) {
                    c.not_supported("whenUnsatisfiable", action, &ACTIONS);
                }
                if is_repeated {
                    let text = format!("{{{key}, {action}}}");
                    c.duplicate("{topologyKey, whenUnsatisfiable}", &text);
                }
                if constraint.has("minDomains") {
                    c.positive(constraint, "minDomains");
                    if action != "DoNotSchedule" {
                        let rule = format!(
                            "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                        );
                        c.invalid("minDomains", constraint.of("minDomains"), &rule);
                    }
                }
                for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
                    c.supported(constraint, policy, &["Honor", "Ignore"]);
                }
                label_keys(c, constraint);
                labels::selector(c, "labelSelector", constraint.of("labelSelector"));
            });
        }
    });
}

/// The keys of labels that a term adds to its selector.
pub(super) fn label_keys(c: &mut Check, term: &Value) {
    let selector = term.of("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.items(field);
        if keys.is_empty() {
            continue;
        }
        if selector.is_null() {
            c.forbidden(field, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in texts(keys).enumerate() {
            c.rules(&format!("{field}[{index}]"), key, names::qualified_name(key));
        }
    }
    let mismatched: HashSet<&str> = texts(term.items("mismatchLabelKeys")).collect();
    for (index, key) in texts(term.items("matchLabelKeys")).enumerate() {
        if mismatched.contains(key) {
            let rule = "exists in both matchLabelKeys and mismatchLabelKeys";
            c.invalid(&format!("matchLabelKeys[{index}]"), key, rule);
        }
    }
}
