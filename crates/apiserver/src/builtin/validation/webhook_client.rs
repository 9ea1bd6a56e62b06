//! Where a webhook is, of admission or of a conversion: its URL or its service.
//!
//! Follows Kubernetes 1.37 (`ValidateWebhookURL`, `ValidateWebhookService`).

use serde_json::Value;

use super::super::check::Fields;
use super::super::names;
use crate::causes::{invalid, required};
use crate::go_url::Url;
use crate::status::Cause;

/// Returns what is wrong with the URL and the service of a `clientConfig` at this path.
pub(crate) fn webhook_client_faults(config: &impl Fields, path: &str) -> Vec<Cause> {
    match (config.of("url"), config.of("service")) {
        (Value::String(url), Value::Null) => url_faults(url, &format!("{path}.url")),
        (Value::Null, service @ Value::Object(_)) => service_faults(service, &format!("{path}.service")),
        _ => vec![required(path, "exactly one of url or service is required")],
    }
}

fn url_faults(text: &str, path: &str) -> Vec<Cause> {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(why) => return vec![required(path, &format!("url must be a valid URL: {why}{FORM}"))],
    };
    let mut found = Vec::new();
    let mut fault = |part: &str, rule: &str| found.push(invalid(path, &part.into(), rule));
    if url.scheme != "https" {
        fault(&url.scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        fault("", &format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        fault(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        fault(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        fault(url.query, "query parameters are not permitted in the URL");
    }
    found
}

fn service_faults(service: &Value, path: &str) -> Vec<Cause> {
    let mut found = Vec::new();
    // the fields change places in Kubernetes 1.37
    for (field, named) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(field).is_empty() {
            found.push(required(&format!("{path}.{named}"), ""));
        }
    }
    let port = service.int("port").unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let rule = "port is not valid: must be between 1 and 65535, inclusive";
        found.push(invalid(&format!("{path}.port"), &port.into(), rule));
    }
    let text = service.text("path");
    let mut fault = |rule: &str| found.push(invalid(&format!("{path}.path"), &text.into(), rule));
    match text {
        "" | "/" => return found,
        "//" => {
            fault("segment[0] may not be empty");
            return found;
        }
        _ => {}
    }
    if !text.starts_with('/') {
        fault("must start with a '/'");
    }
    let mut rest = text.chars();
    // the first character is not checked further
    rest.next();
    let rest = rest.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            fault(&format!("segment[{index}] may not be empty"));
            continue;
        }
        for broken in names::subdomain(segment) {
            fault(&format!("segment[{index}]: {broken}"));
        }
    }
    found
}
