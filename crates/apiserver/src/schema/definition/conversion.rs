//! The rules of the conversion between versions.
//!
//! Follows Kubernetes 1.37 (`validateCustomResourceConversion`).

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::causes::{forbidden, invalid, not_supported, required};
use crate::status::Cause;

use super::names::{dns_1035_fault, dns_1123_subdomain_fault};
use super::node::Node;

const PATH: &str = "spec.conversion";
/// The versions of reviews that the server sends.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// Returns what is wrong with the conversion of a `spec`. `before` is the one of a definition that is served.
pub(super) fn faults(spec: Node<'_>, before: Option<Node<'_>>, is_established: bool) -> Vec<Cause> {
    let Some(conversion) = spec.node("conversion") else { return Vec::new() };
    let (strategy, mut found) = (conversion.text("strategy"), Vec::new());
    let at = format!("{PATH}.strategy");
    if spec.flag("preserveUnknownFields") && strategy != "None" {
        found.push(invalid(&at, &strategy.into(), "must be None if spec.preserveUnknownFields is true"));
    }
    found.extend(match strategy {
        "" => Some(required(&at, "")),
        "None" | "Webhook" => None,
        _ => Some(not_supported(&at, &strategy.into(), &["None", "Webhook"])),
    });
    let webhook = conversion.node("webhook");
    let config = webhook.and_then(|webhook| webhook.node("clientConfig"));
    if strategy != "Webhook" {
        let rule = "should not be set when strategy is not set to Webhook";
        let has_versions = webhook.is_some_and(|webhook| webhook.is_filled("conversionReviewVersions"));
        let set = [("webhookClientConfig", config.is_some()), ("conversionReviewVersions", has_versions)];
        let set = set.into_iter().filter(|(_, is_set)| *is_set);
        found.extend(set.map(|(field, _)| forbidden(&format!("{PATH}.{field}"), rule)));
        return found;
    }
    let former = before.and_then(|before| before.node("conversion")).and_then(|of| of.node("webhook"));
    let former_bundle = former.and_then(|of| of.node("clientConfig")).map_or("", |of| of.text("caBundle"));
    let any_bundle = !is_established || !former_bundle.is_empty() && bundle_fault(former_bundle).is_some();
    let path = format!("{PATH}.webhookClientConfig");
    match config {
        None => found.push(required(&path, "required when strategy is set to Webhook")),
        Some(config) => found.extend(client_faults(config, &path, any_bundle)),
    }
    let versions: Vec<&str> =
        webhook.into_iter().flat_map(|webhook| webhook.texts("conversionReviewVersions")).collect();
    let mut former =
        former.into_iter().flat_map(|former| former.texts("conversionReviewVersions")).peekable();
    let any_version = former.peek().is_some() && !former.any(|version| REVIEWS.contains(&version));
    found.extend(review_faults(&versions, any_version));
    found
}

fn client_faults(config: Node<'_>, path: &str, any_bundle: bool) -> Vec<Cause> {
    let mut found = Vec::new();
    match (config.get("url"), config.node("service")) {
        (None, None) | (Some(_), Some(_)) => {
            found.push(required(path, "exactly one of url or service is required"));
        }
        (Some(url), None) => found.extend(url_faults(url.as_str().unwrap_or(""), &format!("{path}.url"))),
        (None, Some(service)) => found.extend(service_faults(service, &format!("{path}.service"))),
    }
    let bundle = config.text("caBundle");
    if !bundle.is_empty() && !any_bundle {
        let why = bundle_fault(bundle);
        found.extend(why.map(|why| invalid(&format!("{path}.caBundle"), &bundle.into(), why)));
    }
    found
}

/// Returns why a text in base64 has no certificates. The certificates are parsed when the webhook is called.
fn bundle_fault(bundle: &str) -> Option<&'static str> {
    let decoded = STANDARD.decode(bundle).unwrap_or_default();
    let has_block = String::from_utf8_lossy(&decoded).contains("-----BEGIN CERTIFICATE-----");
    (!has_block).then_some("unable to load root certificates: unable to parse bytes as PEM block")
}

/// Follows Kubernetes 1.37 (`ValidateWebhookURL`).
fn url_faults(url: &str, path: &str) -> Vec<Cause> {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut found = Vec::new();
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or("") };
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if scheme != "https" {
        let rule = format!("'https' is the only allowed URL scheme{FORM}");
        found.push(invalid(path, &scheme.into(), &rule));
    }
    if host.is_empty() {
        found.push(invalid(path, &"".into(), &format!("host must be specified{FORM}")));
    }
    if let Some(user) = user {
        found.push(invalid(path, &user.into(), "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        found.push(invalid(path, &fragment.into(), "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        found.push(invalid(path, &query.into(), "query parameters are not permitted in the URL"));
    }
    found
}

/// Follows Kubernetes 1.37 (`ValidateWebhookService`).
fn service_faults(service: Node<'_>, path: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    // the fields change places in Kubernetes 1.37
    for (field, named) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(field).is_empty() {
            found.push(required(&format!("{path}.{named}"), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let rule = "port is not valid: must be between 1 and 65535, inclusive";
        found.push(invalid(&format!("{path}.port"), &port.into(), rule));
    }
    let (text, at) = (service.text("path"), format!("{path}.path"));
    if matches!(text, "" | "/") {
        return found;
    }
    if text == "//" {
        found.push(invalid(&at, &text.into(), "segment[0] may not be empty"));
        return found;
    }
    if !text.starts_with('/') {
        found.push(invalid(&at, &text.into(), "must start with a '/'"));
    }
    let mut rest = text.chars();
    // the first character is not checked further
    rest.next();
    let rest = rest.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            found.push(invalid(&at, &text.into(), &format!("segment[{index}] may not be empty")));
        } else if let Some(why) = dns_1123_subdomain_fault(segment) {
            found.push(invalid(&at, &text.into(), &format!("segment[{index}]: {why}")));
        }
    }
    found
}

fn review_faults(versions: &[&str], any_version: bool) -> Vec<Cause> {
    let path = format!("{PATH}.conversionReviewVersions");
    if versions.is_empty() {
        return vec![required(&path, "")];
    }
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (index, version) in versions.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if !seen.insert(version) {
            found.push(invalid(&at, &json!(version), "duplicate version"));
            continue;
        }
        found.extend(dns_1035_fault(version).map(|why| invalid(&at, &json!(version), &why)));
    }
    if !any_version && !versions.iter().any(|version| REVIEWS.contains(version)) {
        let rule = format!("must include at least one of {}", REVIEWS.join(", "));
        found.push(invalid(&path, &json!(versions), &rule));
    }
    found
}
