//! Parsing requests: path, query, body.

use std::num::{IntErrorKind, ParseIntError};
use std::sync::Arc;

use ::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::protobuf;
use crate::registry::{Registry, Resource};
use crate::status::Status;

/// The limit of Kubernetes.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;

/// The parts of a path below `/api/VERSION/` or `/apis/GROUP/VERSION/`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
    /// Whether the path starts with `watch/`, the deprecated form of a watch.
    pub(super) watch: bool,
}

impl Target {
    /// Returns `None` for paths without a resource. Follows Kubernetes 1.37 (`RequestInfoFactory`).
    pub(super) fn parse(path: &str) -> Option<Self> {
        let decoded: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let mut parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let mut target = Self::default();
        match parts.as_slice() {
            ["api", version, _, ..] => {
                target.version = (*version).to_owned();
                parts.drain(..2);
            }
            ["apis", group, version, _, ..] => {
                (target.group, target.version) = ((*group).to_owned(), (*version).to_owned());
                parts.drain(..3);
            }
            _ => return None,
        }
        if parts.first() == Some(&"watch") && parts.len() > 1 {
            target.watch = true;
            parts.remove(0);
        }
        let (plural, rest) = match parts.as_slice() {
            // A resource in a namespace, unless it is a subresource of the namespace.
            ["namespaces", namespace, parts @ ..] if !matches!(parts, [] | ["status" | "finalize"]) => {
                target.namespace = Some((*namespace).to_owned());
                parts.split_first()?
            }
            parts => parts.split_first()?,
        };
        target.plural = (*plural).to_owned();
        if let Some((name, rest)) = rest.split_first() {
            target.name = Some((*name).to_owned());
            target.subresource = (!rest.is_empty()).then(|| rest.join("/"));
        }
        Some(target)
    }

    pub(super) fn resource(&self, registry: &Registry) -> Option<Arc<Resource>> {
        registry.get(&self.group, &self.version, &self.plural).cloned()
    }

    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("")
    }
}

/// The query parameters of a request. Unknown parameters are ignored, as in Kubernetes.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let decode =
            |part: &str| percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
        Self(
            text.split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decode(name), decode(value)))
                .collect(),
        )
    }

    /// Returns all values of a parameter.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or("")
    }

    /// Whether a parameter is present and not false. Follows Kubernetes 1.37
    /// (`runtime.Convert_Slice_string_To_bool`).
    pub(super) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    pub(super) fn optional_flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// # Errors
    /// 400 for a value that is not a number.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.get(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error: ParseIntError| {
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {}", why_no_number(&error)))
            }),
        }
    }
}

/// Returns why a text is no number, in the words of Go.
pub(super) fn why_no_number(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// Reads a body.
///
/// # Errors
/// 413 for more than [`MAX_BODY`], 400 if the connection breaks.
pub(super) async fn read_body(body: Incoming) -> Result<Bytes, Status> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Status::body_too_large(MAX_BODY)),
        Err(error) => Err(Status::bad_request(format!("unable to read the body: {error}"))),
    }
}

/// Returns the media type of a body in lower case without parameters; `application/json` if there is none.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let bare = value.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if bare.is_empty() { "application/json".into() } else { bare }
}

const ACCEPTED: &str = if cfg!(feature = "yaml") {
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
} else {
    "application/json, application/vnd.kubernetes.protobuf"
};

/// Parses an object in the format of the media type.
///
/// # Errors
/// 415 for an unsupported format, 400 for a body that does not parse or is not an object.
pub(super) fn decode_object(media_type: &str, body: &[u8]) -> Result<Map<String, Value>, Status> {
    let value: Value = match media_type {
        "application/json" => serde_json::from_slice(body).map_err(|error| {
            Status::bad_request(format!("the object provided is unrecognized: json parse error: {error}"))
        })?,
        protobuf::MEDIA_TYPE => {
            return protobuf::decode(body).map_err(|error| {
                Status::bad_request(format!("the object provided is unrecognized: {error}"))
            });
        }
        #[cfg(feature = "yaml")]
        "application/yaml" | "text/yaml" | "application/x-yaml" => {
            let text = std::str::from_utf8(body)
                .map_err(|error| Status::bad_request(format!("yaml parse error: {error}")))?;
            serde_saphyr::from_str(text).map_err(|error| {
                Status::bad_request(format!("the object provided is unrecognized: yaml parse error: {error}"))
            })?
        }
        _ => return Err(Status::unsupported_media_type(ACCEPTED)),
    };
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(Status::bad_request("the object provided is unrecognized: it is not a JSON object")),
    }
}

/// Parses an applied object, which is YAML. Without the feature `yaml` it has to be JSON, which is also YAML.
///
/// # Errors
/// 400 for a body that does not parse or is not an object.
pub(super) fn decode_applied(body: &[u8]) -> Result<Value, Status> {
    let bad = |error: &dyn std::fmt::Display| Status::bad_request(format!("error decoding patch: {error}"));
    let value = match serde_json::from_slice(body) {
        Ok(value) => value,
        #[cfg(feature = "yaml")]
        Err(_) => {
            let text = std::str::from_utf8(body).map_err(|error| bad(&error))?;
            serde_saphyr::from_str(text).map_err(|error| bad(&error))?
        }
        #[cfg(not(feature = "yaml"))]
        Err(error) => return Err(bad(&error)),
    };
    match value {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(value),
        _ => Err(bad(&"an applied object is a map")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(path: &str) -> Target {
        Target::parse(path).unwrap()
    }

    #[test]
    fn paths_are_parsed() {
        let pod = target("/api/v1/namespaces/a/pods/b/status");
        assert_eq!(
            (pod.namespace(), pod.name.as_deref(), pod.subresource.as_deref()),
            ("a", Some("b"), Some("status"))
        );
        let namespace = target("/api/v1/namespaces/a/status");
        assert_eq!((namespace.plural.as_str(), namespace.name.as_deref()), ("namespaces", Some("a")));
        let group = target("/apis/apps/v1/watch/deployments");
        assert_eq!((group.group.as_str(), group.plural.as_str(), group.watch), ("apps", "deployments", true));
        assert_eq!(target("/apis/a.b/v1/xs/a%2Fb").name.as_deref(), Some("a/b"));
        for path in ["/", "", "/api", "/api/v1", "/apis/apps/v1", "/version", "/openapi/v3/api/v1"] {
            assert_eq!(Target::parse(path), None, "{path}");
        }
    }

    #[test]
    fn flags_are_parsed_as_by_kubernetes() {
        let query = Query::parse("a=true&b=0&c=False&d&e=x&f=%41+b");
        let flags = ["a", "b", "c", "d", "e", "missing"].map(|name| query.flag(name));
        assert_eq!(flags, [true, false, false, true, true, false]);
        assert_eq!(query.text("f"), "A b");
        assert_eq!(query.number("f").unwrap_err().code(), 400);
    }

    proptest! {
        #[test]
        fn arbitrary_paths_and_queries_never_panic(path in "[/%a-z0-9.\\PC]{0,40}", query in "\\PC{0,40}") {
            let _ = Target::parse(&path);
            let _ = Query::parse(&query);
        }
    }
}
