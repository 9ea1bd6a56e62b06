//! Probes, and the handlers of the lifecycle of a container.

use serde_json::Value;

use super::super::super::check::{Check, Fields};
use super::super::super::names;
use super::shared::Pod;

pub(super) fn lifecycle(c: &mut Check, container: &Value, pod: &Pod<'_>) {
    let lifecycle = container.of("lifecycle");
    c.enter("lifecycle", |c| {
        for field in ["postStart", "preStop"] {
            if lifecycle.has(field) {
                c.enter(field, |c| handler(c, lifecycle.of(field), pod.grace));
            }
        }
        if lifecycle.has("stopSignal") && pod.os().is_empty() {
            c.forbidden("stopSignal", "may not be set for containers with empty `spec.os.name`");
        }
    });
}

pub(super) fn probes(c: &mut Check, container: &Value, pod: &Pod<'_>) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let checked = container.of(field);
        if checked.is_null() {
            continue;
        }
        c.enter(field, |c| {
            probe(c, checked, pod);
            if field == "readinessProbe" {
                if checked.has("terminationGracePeriodSeconds") {
                    let seconds = checked.of("terminationGracePeriodSeconds");
                    let rule = "must not be set for readinessProbes";
                    c.invalid("terminationGracePeriodSeconds", seconds, rule);
                }
            } else if checked.int("successThreshold") != Some(1) {
                c.invalid("successThreshold", checked.int("successThreshold").unwrap_or(0), "must be 1");
            }
        });
    }
}

fn probe(c: &mut Check, probe: &Value, pod: &Pod<'_>) {
    handler(c, probe, pod.grace);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        c.nonnegative(probe, field);
    }
    if let Some(seconds) = probe.int("terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0) {
        c.invalid("terminationGracePeriodSeconds", seconds, "must be greater than 0");
    }
}

fn handler(c: &mut Check, handler: &Value, grace: Option<i64>) {
    let mut given =
        ["exec", "httpGet", "tcpSocket", "grpc", "sleep"].into_iter().filter(|it| handler.has(it));
    let Some(first) = given.next() else { return c.required("", "must specify a handler type") };
    let action = handler.of(first);
    c.enter(first, |c| match first {
        "exec" if action.items("command").is_empty() => c.required("command", ""),
        "httpGet" => http_get(c, action),
        "tcpSocket" => port(c, "port", action.of("port")),
        "grpc" => {
            c.in_range("port", action.int("port").unwrap_or(0), 1, 65535);
            c.supported(action, "mode", &["Plaintext", "TLS"]);
        }
        "sleep" => {
            let seconds = action.int("seconds").unwrap_or(0);
            if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                let rule =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                c.invalid("", seconds, &rule);
            }
        }
        _ => {}
    });
    for other in given {
        c.forbidden(other, "may not specify more than 1 handler type");
    }
}

fn http_get(c: &mut Check, action: &Value) {
    if action.text("path").is_empty() {
        c.required("path", "");
    }
    port(c, "port", action.of("port"));
    let schemes = ["HTTP", "HTTPS"];
    if !schemes.contains(&action.text("scheme")) {
        c.not_supported("scheme", action.text("scheme"), &schemes);
    }
    for header in action.items("httpHeaders") {
        let name = header.text("name");
        c.rules("httpHeaders", name, names::header_name(name));
    }
}

/// A number or a name of a port.
pub(in super::super) fn port(c: &mut Check, field: &str, port: &Value) {
    match port.as_str() {
        Some(name) => c.rules(field, name, names::port_name(name)),
        None => c.in_range(field, port.as_i64().unwrap_or(0), 1, 65535),
    }
}
