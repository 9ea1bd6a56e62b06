//! Ingresses and their classes.

use std::net::IpAddr;

use serde_json::Value;

use super::super::check::{Check, Fields, NULL, Object, texts};
use super::super::names;

pub(super) fn ingress(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    c.enter("spec", |c| {
        let rules = spec.items("rules");
        if rules.is_empty() && !spec.has("defaultBackend") {
            let rule = "either `defaultBackend` or `rules` must be specified";
            c.invalid("", &NULL, rule);
        }
        if spec.has("defaultBackend") {
            c.enter("defaultBackend", |c| backend(c, spec.of("defaultBackend")));
        }
        c.each("rules", rules, rule);
        c.each("tls", spec.items("tls"), |c, tls| {
            for (index, host) in texts(tls.items("hosts")).enumerate() {
                c.rules(&format!("hosts[{index}]"), host, host_rules(host));
            }
            let secret = tls.text("secretName");
            if !secret.is_empty() {
                c.rules("secretName", secret, names::subdomain(secret));
            }
        });
        if let Some(class) = spec.of("ingressClassName").as_str() {
            c.rules("ingressClassName", class, names::subdomain(class));
        }
    });
    let annotation = "kubernetes.io/ingress.class";
    let given = object.of("metadata").of("annotations").of(annotation);
    let class = spec.of("ingressClassName");
    if before.is_none() && given.is_string() && class.is_string() && given != class {
        let rule = "must match `ingressClassName` when both are specified";
        c.invalid(&format!("annotations.{annotation}"), given, rule);
    }
}

fn host_rules(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host) }
}

fn rule(c: &mut Check, rule: &Value) {
    let host = rule.text("host");
    if !host.is_empty() {
        if host.parse::<IpAddr>().is_ok() {
            c.invalid("host", host, "must be a DNS name, not an IP address");
        }
        c.rules("host", host, host_rules(host));
    }
    if !rule.has("http") {
        return;
    }
    c.enter("http", |c| {
        let paths = rule.of("http").items("paths");
        if paths.is_empty() {
            c.required("paths", "");
        }
        c.each("paths", paths, path);
    });
}

fn path(c: &mut Check, object: &Value) {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    if !object.has("pathType") {
        return c.required("pathType", "pathType must be specified");
    }
    let (kind, path) = (object.text("pathType"), object.text("path"));
    let is_strict = matches!(kind, "Exact" | "Prefix");
    if !TYPES.contains(&kind) {
        c.not_supported("pathType", kind, &TYPES);
    } else if !path.starts_with('/') && (is_strict || !path.is_empty()) {
        c.invalid("path", path, "must be an absolute path");
    }
    if is_strict {
        for part in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|part| path.contains(**part)) {
            c.invalid("path", path, &format!("must not contain '{part}'"));
        }
        for end in ["/..", "/."].iter().filter(|end| path.ends_with(**end)) {
            c.invalid("path", path, &format!("cannot end with '{end}'"));
        }
    }
    c.enter("backend", |c| backend(c, object.of("backend")));
}

fn backend(c: &mut Check, backend: &Value) {
    let (resource, service) = (backend.of("resource"), backend.of("service"));
    match (resource.is_null(), service.is_null()) {
        (false, false) => return c.invalid("", "", "cannot set both resource and service backends"),
        (true, true) => return c.invalid("", "", "resource or service backend is required"),
        (false, true) => return c.enter("resource", |c| reference(c, resource)),
        (true, false) => {}
    }
    let name = service.text("name");
    if name.is_empty() {
        c.required("service.name", "");
    } else {
        c.rules("service.name", name, names::label(name));
    }
    let port = service.of("port");
    match (port.text("name"), port.int("number").unwrap_or(0)) {
        ("", 0) => c.required("", "port name or number is required"),
        ("", number) => c.in_range("service.port.number", number, 1, 65535),
        (name, 0) => c.rules("service.port.name", name, names::port_name(name)),
        _ => c.invalid("", "", "cannot set both port name & port number"),
    }
}

/// A reference to an object of another kind.
fn reference(c: &mut Check, reference: &Value) {
    if let Some(group) = reference.of("apiGroup").as_str() {
        c.rules("apiGroup", group, names::subdomain(group));
    }
    for field in ["kind", "name"] {
        match reference.text(field) {
            "" => c.required(field, ""),
            text => c.rules(field, text, names::path_segment(text)),
        }
    }
}

pub(super) fn ingress_class(c: &mut Check, object: &Object, before: Option<&Object>) {
    let spec = object.of("spec");
    if let Some(before) = before {
        let (old, new) = (before.of("spec").text("controller"), spec.text("controller"));
        if old != new {
            c.invalid("spec.controller", new, "field is immutable");
        }
    }
    c.enter("spec", |c| {
        let controller = spec.text("controller");
        if controller.len() > 250 {
            c.too_long("controller", 250);
        }
        if controller.is_empty() {
            c.required("controller", "");
        } else {
            for (text, rule) in names::domain_prefixed_path(controller) {
                c.invalid("controller", text, &rule);
            }
        }
        let parameters = spec.of("parameters");
        if parameters.is_null() {
            return;
        }
        c.enter("parameters", |c| {
            parameters_reference(c, parameters);
        });
    });
}

fn parameters_reference(c: &mut Check, parameters: &Value) {
    if let Some(group) = parameters.of("apiGroup").as_str() {
        c.rules("apiGroup", group, names::subdomain(group));
    }
    for field in ["kind", "name"] {
        match parameters.text(field) {
            "" => c.declared(|c| c.required(field, "")),
            text => c.rules(field, text, names::path_segment(text)),
        }
    }
    let namespace = parameters.of("namespace").as_str();
    match (parameters.text("scope"), namespace) {
        ("Namespace", None) => c.required("namespace", "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(namespace)) => c.rules("namespace", namespace, names::label(namespace)),
        ("Cluster", Some(_)) => c.forbidden("namespace", "`parameters.scope` is set to 'Cluster'"),
        ("Cluster", None) => {}
        (scope, _) => c.not_supported("scope", scope, &["Cluster", "Namespace"]),
    }
}
