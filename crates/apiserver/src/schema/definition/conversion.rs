//! The rules of the conversion between versions.
//!
//! Follows Kubernetes 1.37 (`validateCustomResourceConversion`).

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::builtin::webhook_client_faults;
use crate::causes::{forbidden, invalid, not_supported, required};
use crate::status::Cause;

use super::names::dns_1035_fault;
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
    let mut found = webhook_client_faults(config.0, path);
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
