//! Parsed requests.

use std::collections::BTreeMap;
use std::ops::Range;

use http::{Method, Request, header};
use kinformer_controller::kinformer_ring::fnv1a64;
use kube_client::client::Body;
use serde_json::{Value, json};

use super::encoding::Encoding;
use super::faults::Verb;
use super::history::Key;
use super::status::Status;
use crate::state::field;

/// The served resources: group and version, plural, kind.
const RESOURCES: [(&str, &str, &str); 5] = [
    ("v1", "configmaps", "ConfigMap"),
    ("v1", "secrets", "Secret"),
    ("v1", "pods", "Pod"),
    ("coordination.k8s.io/v1", "leases", "Lease"),
    ("simulation.example/v1", "widgets", "Widget"),
];

/// The path of discovery. It has no faults.
pub(crate) const DISCOVERY: &str = "/api/v1";

/// The response of discovery.
pub(crate) fn resources() -> Value {
    let core = RESOURCES.into_iter().filter(|(api_version, ..)| *api_version == "v1");
    let resources = core.map(|(_, plural, kind)| {
        json!({"name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "list", "watch"]})
    });
    json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources.collect::<Vec<_>>()})
}

/// A list or a watch.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    api_version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespace: Option<String>,
    /// The name in a field selector.
    name: Option<String>,
    labels: Vec<(String, String)>,
    /// The shard, unless the server ignores it.
    shard: Option<Shard>,
    metadata_only: bool,
    /// Whether protobuf is acceptable.
    protobuf: bool,
    params: BTreeMap<String, String>,
}

/// Whether a request is for one object: a write, or a path with the name of an object.
pub(crate) fn is_of_object(request: &Request<Body>) -> bool {
    request.method() != Method::GET || Query::split(request.uri().path()).1.is_some()
}

impl Query {
    pub(crate) fn of(request: &Request<Body>) -> Result<Self, Status> {
        let (path, _) = Self::split(request.uri().path());
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let (api_version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return Err(Status::of_code(404)),
        };
        let (namespace, plural) = match rest {
            [plural] => (None, *plural),
            ["namespaces", namespace, plural] => (Some((*namespace).to_owned()), *plural),
            _ => return Err(Status::of_code(404)),
        };
        let served = RESOURCES.into_iter().find(|served| served.0 == api_version && served.1 == plural);
        let (api_version, plural, kind) = served.ok_or_else(|| Status::of_code(404))?;
        let query = request.uri().query().unwrap_or_default();
        let params: BTreeMap<String, String> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let selector = params.get("labelSelector").map_or("", String::as_str);
        let labels = selector.split(',').filter(|part| !part.is_empty()).map(|part| {
            let (name, value) = part.split_once('=').ok_or_else(|| Status::of_code(400))?;
            Ok((name.to_owned(), value.trim_start_matches('=').to_owned()))
        });
        let labels = labels.collect::<Result<_, Status>>()?;
        let name = params.get("fieldSelector").map(|selector| {
            let name = selector.strip_prefix("metadata.name=");
            name.map(str::to_owned)
                .ok_or_else(|| Status::new(400, "BadRequest", "the model has no other field selectors"))
        });
        let name = name.transpose()?;
        let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let metadata_only = accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata"));
        let protobuf = accept.is_some_and(|accept| accept.contains("protobuf"));
        let shard = params.get("shardSelector").map(|selector| Shard::parse(selector));
        let shard = shard.map(|shard| shard.ok_or_else(|| Status::of_code(400))).transpose()?;
        Ok(Self {
            api_version,
            plural,
            kind,
            namespace,
            name,
            labels,
            shard,
            metadata_only,
            protobuf,
            params,
        })
    }

    /// Splits a path into that of the resource in a namespace and the name of an object.
    pub(crate) fn split(path: &str) -> (&str, Option<&str>) {
        let after = path.find("/namespaces/").map_or(0, |start| start + "/namespaces/".len());
        let mut slashes = path.match_indices('/').map(|(index, _)| index).filter(|index| *index >= after);
        match (after, slashes.nth(1).and_then(|end| path.split_at_checked(end))) {
            (1.., Some((resource, name))) => (resource, Some(name.trim_start_matches('/'))),
            _ => (path, None),
        }
    }

    /// Returns the key of an object in the namespace of the query.
    pub(crate) fn key(&self, name: &str) -> Result<Key, Status> {
        let namespace = self.namespace.as_deref().ok_or_else(|| Status::of_code(404))?;
        Ok(Key::new(self.plural, namespace, name))
    }

    /// The encoding of objects by a server with or without protobuf.
    pub(crate) fn encoding(&self, has_protobuf: bool) -> Encoding {
        match has_protobuf && self.protobuf && (self.metadata_only || self.plural == "configmaps") {
            true => Encoding::Protobuf,
            false => Encoding::Json,
        }
    }

    /// The resource and the namespace; `None` for all.
    pub(crate) fn scope(&self) -> (String, Option<String>) {
        (self.plural.to_owned(), self.namespace.clone())
    }

    pub(crate) fn verb(&self) -> Verb {
        if self.flag("watch") { Verb::Watch } else { Verb::List }
    }

    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.param(name), "1" | "true")
    }

    /// Returns a number; `None` if there is none.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        match self.param(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| Status::of_code(400)),
        }
    }

    pub(crate) fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Whether the query is for objects with this key.
    pub(crate) fn has_key(&self, key: &Key) -> bool {
        key.plural == self.plural
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.name.as_ref().is_none_or(|name| *name == key.name)
    }

    /// The same query at a server without shard selectors.
    pub(crate) fn without_shard(self) -> Self {
        Self { shard: None, ..self }
    }

    /// Whether the labels of an object match, and it is in the shard.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        if self.shard.as_ref().is_some_and(|shard| !shard.matches(object)) {
            return false;
        }
        let labels = field(object, ["metadata", "labels"]);
        self.labels.iter().all(|(name, value)| {
            labels.and_then(|labels| labels.get(name)).and_then(Value::as_str) == Some(value)
        })
    }

    /// Returns an item of a list. Those of built-in kinds have no kind.
    pub(crate) fn item(&self, object: &Value) -> Value {
        if !self.metadata_only && self.api_version == "v1" { object.clone() } else { self.object(object) }
    }

    /// Returns an object with its kind.
    pub(crate) fn object(&self, object: &Value) -> Value {
        let (api_version, kind) = self.type_of("");
        let mut object =
            if self.metadata_only { json!({"metadata": object["metadata"]}) } else { object.clone() };
        if let Some(members) = object.as_object_mut() {
            members.insert("kind".into(), json!(kind));
            members.insert("apiVersion".into(), json!(api_version));
        }
        object
    }

    /// Returns a list of items.
    pub(crate) fn list(&self, metadata: &Value, items: &[Value]) -> Value {
        let (api_version, kind) = self.type_of("List");
        json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})
    }

    fn type_of(&self, suffix: &str) -> (&'static str, String) {
        match self.metadata_only {
            true => ("meta.k8s.io/v1", format!("PartialObjectMetadata{suffix}")),
            false => (self.api_version, format!("{}{suffix}", self.kind)),
        }
    }
}

/// A shard selector. Follows kube-apiserver 1.37.
#[derive(Clone, Debug)]
struct Shard {
    field: &'static str,
    ranges: Vec<Range<u128>>,
}

impl Shard {
    fn parse(selector: &str) -> Option<Self> {
        let field = if selector.contains("object.metadata.uid") { "uid" } else { "namespace" };
        let ranges = selector.split("||").map(|range| {
            let (_, bounds) = range.trim().strip_suffix(')')?.split_once(", ")?;
            let (start, end) = bounds.split_once(", ")?;
            let number =
                |text: &str| u128::from_str_radix(text.trim_matches('\'').strip_prefix("0x")?, 16).ok();
            Some(number(start)?..number(end)?)
        });
        Some(Self { field, ranges: ranges.collect::<Option<_>>()? })
    }

    fn matches(&self, object: &Value) -> bool {
        let value = field(object, ["metadata", self.field]).and_then(Value::as_str).unwrap_or_default();
        let hash = u128::from(fnv1a64(value));
        self.ranges.iter().any(|range| range.contains(&hash))
    }
}
