//! The functions of URLs.
//!
//! Follows Kubernetes 1.37 (`cel/library/urls.go`). Those of the crate `kube-cel` need another parser of URLs.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value as Plain;
use kube_cel::cel::objects::Opaque;
use percent_encoding::percent_decode_str;

use super::fault::{Found, error};
use crate::go_url;

/// A parsed URL.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Opaque for Url {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.URL"
    }
}

/// Calls a function of URLs; `None` for other functions.
pub(super) fn call(name: &str, target: Option<&Plain>, arguments: &[Plain]) -> Option<Found<Plain>> {
    let text = |text: &str| Plain::String(Arc::new(text.to_owned()));
    if let (Some(Plain::Opaque(value)), []) = (target, arguments) {
        let url = value.downcast_ref::<Url>()?;
        let (hostname, port) = url.name_and_port();
        return Some(Ok(match name {
            "getScheme" => text(&url.scheme),
            "getHost" => text(&url.host),
            "getHostname" => text(hostname),
            "getPort" => text(port),
            "getEscapedPath" => text(&url.path),
            "getQuery" => Plain::from(query(&url.query)),
            _ => return None,
        }));
    }
    match (name, arguments) {
        ("isURL", [Plain::String(given)]) => Some(Ok(Plain::Bool(go_url::Url::parse_request(given).is_ok()))),
        ("url", [Plain::String(given)]) => Some(match go_url::Url::parse_request(given) {
            Ok(url) => Ok(Plain::Opaque(Arc::new(Url {
                scheme: url.scheme,
                host: url.host.to_owned(),
                path: url.path.to_owned(),
                query: url.query.to_owned(),
            }))),
            Err(why) => error(format!("URL parse error during conversion from string: {why}")),
        }),
        _ => None,
    }
}

impl Url {
    fn name_and_port(&self) -> (&str, &str) {
        let host = self.host.as_str();
        match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, port)) => (name, port.strip_prefix(':').unwrap_or("")),
            None => host.split_once(':').unwrap_or((host, "")),
        }
    }
}

/// Returns the values of a query, without those that are not valid.
fn query(text: &str) -> HashMap<String, Plain> {
    let mut found: HashMap<String, Vec<Plain>> = HashMap::new();
    let decoded =
        |part: &str| Some(percent_decode_str(&part.replace('+', " ")).decode_utf8().ok()?.into_owned());
    for part in text.split('&').filter(|part| !part.is_empty() && !part.contains(';')) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if let (Some(name), Some(value)) = (decoded(name), decoded(value)) {
            found.entry(name).or_default().push(Plain::String(Arc::new(value)));
        }
    }
    found.into_iter().map(|(name, values)| (name, Plain::List(Arc::new(values)))).collect()
}
