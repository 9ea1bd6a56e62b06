//! Events of both groups. Follows Kubernetes 1.37 (`ValidateEventCreate`, `ValidateEventUpdate`).

use serde_json::Value;

use super::super::check::{Check, Fields, Object};
use super::super::event_fields::new_event_field;
use super::super::names;

/// An event; its fields are named as in the core group.
#[derive(Clone, Copy)]
struct Event<'a> {
    object: &'a Object,
    is_core: bool,
}

impl<'a> Event<'a> {
    fn of(self, field: &str) -> &'a Value {
        self.object.of(if self.is_core { field } else { new_event_field(field) })
    }

    fn text(self, field: &str) -> &'a str {
        self.of(field).as_str().unwrap_or("")
    }
}

pub(super) fn core_event(c: &mut Check, object: &Object, _: Option<&Object>) {
    any_event(c, Event { object, is_core: true });
}

pub(super) fn event(c: &mut Check, object: &Object, before: Option<&Object>) {
    let event = Event { object, is_core: false };
    any_event(c, event);
    match before {
        None => new_event(c, event),
        Some(before) => changes(c, Event { object: before, is_core: false }, event),
    }
}

fn any_event(c: &mut Check, event: Event<'_>) {
    let (own, of) =
        (event.object.of("metadata").text("namespace"), event.of("involvedObject").text("namespace"));
    let is_old = event.of("eventTime").is_null();
    let is_of_namespace = match (is_old, of) {
        (true, "") => own == "default",
        (true, of) => own == of,
        (false, of) => !of.is_empty() || ["default", "kube-system"].contains(&own),
    };
    if !is_of_namespace {
        c.invalid("involvedObject.namespace", of, "does not match event.namespace");
    }
    if is_old {
        return;
    }
    let (field, controller) = ("reportingComponent", event.text("reportingComponent"));
    let field = if event.is_core { field } else { new_event_field(field) };
    if controller.is_empty() {
        c.required(field, "");
    }
    c.rules(field, controller, names::qualified_name(controller));
    for field in ["reportingInstance", "action", "reason"] {
        if event.text(field).is_empty() {
            c.required(field, "");
        }
        at_most(c, event, field, 128);
    }
    at_most(c, event, "message", 1024);
}

fn at_most(c: &mut Check, event: Event<'_>, field: &str, max: usize) {
    if event.text(field).len() > max {
        c.invalid(field, "", &format!("can have at most {max} characters"));
    }
}

fn new_event(c: &mut Check, event: Event<'_>) {
    series(c, event);
    if event.of("eventTime").is_null() {
        c.required("eventTime", "");
    }
    let kind = event.text("type");
    if !["Normal", "Warning"].contains(&kind) {
        c.invalid("type", "", &format!("has invalid value: {kind}"));
    }
    let source = event.of("source");
    let has_source = !source.text("component").is_empty() || !source.text("host").is_empty();
    let has_count = event.of("count").as_i64().is_some_and(|count| count != 0);
    for (field, is_set) in [
        ("firstTimestamp", !event.of("firstTimestamp").is_null()),
        ("lastTimestamp", !event.of("lastTimestamp").is_null()),
        ("count", has_count),
        ("source", has_source),
    ] {
        if is_set {
            c.invalid(field, "", "needs to be unset");
        }
    }
}

fn series(c: &mut Check, event: Event<'_>) {
    let series = event.of("series");
    if series.is_null() {
        return;
    }
    if series.int("count").unwrap_or(0) < 2 {
        c.invalid("series.count", "", "should be at least 2");
    }
    if !series.has("lastObservedTime") {
        c.required("series.lastObservedTime", "");
    }
}

fn changes(c: &mut Check, before: Event<'_>, after: Event<'_>) {
    if before.of("series") != after.of("series") {
        series(c, after);
    }
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
    ] {
        c.immutable(field, before.of(field), after.of(field));
    }
    for field in ["reportingComponent", "reportingInstance"] {
        let name = if field == "reportingComponent" { "reportingController" } else { field };
        c.immutable(name, before.of(field), after.of(field));
    }
}
