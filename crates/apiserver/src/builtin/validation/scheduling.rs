//! Leases, priority classes and runtime classes.

use super::super::check::{Check, Fields, Object};
use super::super::names;
use super::{labels, pods};

const HIGHEST_PRIORITY: i64 = 1_000_000_000;

pub(super) fn lease(c: &mut Check, object: &Object, _: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        if let Some(seconds) = spec.int("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            c.invalid("leaseDurationSeconds", seconds, "must be greater than 0");
        }
        if let Some(transitions) = spec.int("leaseTransitions").filter(|transitions| *transitions < 0) {
            c.invalid("leaseTransitions", transitions, "must be greater than or equal to 0");
        }
        let strategy = spec.text("strategy");
        if spec.has("strategy") && !strategy.contains('/') && strategy != "OldestEmulationVersion" {
            c.not_supported("strategy.strategy", strategy, &["OldestEmulationVersion"]);
        } else if strategy.contains('/') {
            c.rules("strategy.strategy", strategy, names::qualified_name(strategy));
        }
        if !spec.text("preferredHolder").is_empty() && strategy.is_empty() {
            c.forbidden("preferredHolder", "may only be specified if `strategy` is defined");
        }
    });
}

pub(super) fn priority_class(c: &mut Check, object: &Object, before: Option<&Object>) {
    let (name, value) = (object.of("metadata").text("name"), object.int("value").unwrap_or(0));
    match before {
        Some(before) => {
            if before.int("value").unwrap_or(0) != value {
                c.forbidden("value", "may not be changed in an update.");
            }
            let field = "preemptionPolicy";
            c.immutable(field, before.of(field), object.of(field));
        }
        None => {
            if name.starts_with("system-") {
                system_class(c, name, value, object.flag("globalDefault"));
            } else if value > HIGHEST_PRIORITY {
                c.forbidden("value", "maximum allowed value of a user defined priority is 1000000000");
            }
            if let Some(policy) = object.of("preemptionPolicy").as_str() {
                c.one_of("preemptionPolicy", policy, &["PreemptLowerPriority", "Never"]);
            }
        }
    }
}

fn system_class(c: &mut Check, name: &str, value: i64, is_default: bool) {
    let known = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    let why = match known.iter().find(|(known, _)| *known == name) {
        None => format!("{name} is not a known system priority class"),
        Some((_, known)) if *known != value => format!("value of {name} PriorityClass must be {known}"),
        Some(_) if is_default => format!("globalDefault of {name} PriorityClass must be false"),
        Some(_) => return,
    };
    let rule =
        format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
    c.forbidden("metadata.name", &rule);
}

pub(super) fn runtime_class(c: &mut Check, object: &Object, before: Option<&Object>) {
    let handler = object.text("handler");
    if let Some(before) = before {
        c.declared_immutable("handler", before.of("handler"), object.of("handler"));
    }
    c.declared(|c| {
        if handler.is_empty() {
            c.required("handler", "");
        } else {
            c.rules("handler", handler, names::label(handler));
        }
    });
    if object.has("overhead") {
        let limits = serde_json::json!({"limits": object.of("overhead").of("podFixed")});
        c.enter("overhead", |c| pods::requirements(c, &limits, &[]));
    }
    let scheduling = object.of("scheduling");
    c.enter("scheduling", |c| {
        labels::labels(c, "nodeSelector", scheduling.of("nodeSelector"));
        pods::tolerations(c, "tolerations", scheduling.items("tolerations"));
    });
}
