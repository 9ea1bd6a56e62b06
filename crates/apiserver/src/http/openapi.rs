//! OpenAPI, to the extent that kubectl uses it: the kinds, the schemas of custom resources, and that the server validates
//! fields itself.
//!
//! The schemas of built-in kinds only say "an object"; nothing is validated against them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use ::http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use crate::registry::{FieldPath, Kind, Registry};
use crate::schema::{VersionSchema, meta_definitions, published_list};
use crate::status::Status;

use super::answer::{self, Answer};
use super::negotiate;
use super::reviews::{REVIEWS, Review};

/// With a dot in place of the `@` of requests, which is not allowed in a media type. Follows kube-openapi
/// (`handler`).
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

pub(super) fn answer(registry: &Registry, headers: &HeaderMap, parts: &[&str]) -> Result<Answer, Status> {
    match parts {
        ["v2"] => Ok(v2(registry, headers)),
        ["v3"] => Ok(answer::json(StatusCode::OK, &index(registry))),
        ["v3", "api", version] => v3(registry, "", version),
        ["v3", "apis", group, version] => v3(registry, group, version),
        _ => Err(Status::no_such_path()),
    }
}

fn v2(registry: &Registry, headers: &HeaderMap) -> Answer {
    let first = negotiate::media_ranges(headers).into_iter().next();
    if first.is_some_and(|media_range| media_range.media_type.ends_with("protobuf")) {
        // The message `Document` with `swagger: "2.0"` and `info { title: "Kubernetes" version: "v1.37" }`. It
        // defines no types, so clients fall back to their own.
        let document = b"\x0a\x032.0\x12\x13\x0a\x0aKubernetes\x12\x05v1.37";
        return answer::bytes_as(V2_PROTOBUF, document.as_slice());
    }
    let definitions: Map<String, Value> =
        kinds(registry).map(|kind| (definition_name(&kind), schema(&kind))).collect();
    let document = json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.37"}, "paths": {},
        "definitions": definitions});
    answer::json(StatusCode::OK, &document)
}

/// All kinds, also those of reviews.
fn kinds(registry: &Registry) -> impl Iterator<Item = Cow<'_, Kind>> {
    let stored = registry.iter().map(|resource| Cow::Borrowed(&resource.kind));
    stored.chain(REVIEWS.iter().map(|review| Cow::Owned(review.kind())))
}

fn index(registry: &Registry) -> Value {
    // the hashes identify the contents
    let mut hashers: BTreeMap<String, DefaultHasher> = BTreeMap::new();
    for kind in kinds(registry) {
        let hasher = hashers.entry(root(&kind)).or_default();
        kind.kind.hash(hasher);
        if let Some(schema) = &kind.checks {
            schema.hash(hasher);
        }
    }
    let paths: Map<String, Value> = hashers
        .into_iter()
        .map(|(path, hasher)| {
            let url = format!("/openapi/v3/{path}?hash={:016X}", hasher.finish());
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// `api/v1`, `apis/apps/v1`.
fn root(kind: &Kind) -> String {
    let prefix = if kind.group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", kind.api_version())
}

fn v3(registry: &Registry, group: &str, version: &str) -> Result<Answer, Status> {
    let found = registry.of_version(group, version);
    let reviews =
        REVIEWS.iter().map(Review::kind).filter(|kind| kind.group == group && kind.version == version);
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    schemas.extend(reviews.map(|kind| (definition_name(&kind), schema(&kind))));
    if found.is_empty() && schemas.is_empty() {
        return Err(Status::no_such_path());
    }
    for resource in found {
        let kind = &resource.kind;
        let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let path = format!("/{}{scope}/{}/{{name}}", root(kind), kind.plural);
        let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
        let operation = json!({"x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "parameters": [query("dryRun"), query("fieldManager"), query("fieldValidation")],
            "responses": {"200": {"description": "OK"}}});
        paths.insert(path, json!({"patch": operation}));
        match &kind.checks {
            Some(checks) => publish(kind, checks, &mut schemas),
            None => drop(schemas.insert(definition_name(kind), schema(kind))),
        }
    }
    let document = json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.37"}, "paths": paths,
        "components": {"schemas": schemas}});
    Ok(answer::json(StatusCode::OK, &document))
}

/// Adds the schemas of a custom resource and its lists. Follows Kubernetes 1.37 (`pkg/controller/openapi/builder`).
fn publish(kind: &Kind, checks: &VersionSchema, schemas: &mut Map<String, Value>) {
    let group: Vec<&str> = kind.group.rsplit('.').collect();
    let name = |kind_name: &str| format!("{}.{}.{kind_name}", group.join("."), kind.version);
    let common = FieldPath::common(kind.namespaced).count();
    let selectable: Vec<Value> =
        kind.fields.iter().skip(common).map(|field| json!({"fieldPath": field.name})).collect();
    let list = published_list(&kind.kind, &kind.list_kind, &kind.plural, &name(&kind.kind));
    for (kind_name, mut schema) in [(&kind.kind, checks.published()), (&kind.list_kind, list)] {
        let gvk = json!([{"group": kind.group, "version": kind.version, "kind": kind_name}]);
        schema.insert("x-kubernetes-group-version-kind".into(), gvk);
        if !selectable.is_empty() {
            schema.insert("x-kubernetes-selectable-fields".into(), json!(selectable));
        }
        schemas.insert(name(kind_name), Value::Object(schema));
    }
    schemas.extend(meta_definitions());
}

fn definition_name(kind: &Kind) -> String {
    let group = if kind.group.is_empty() { "core" } else { kind.group.as_str() };
    format!("io.k8s.api.{group}.{}.{}", kind.version, kind.kind)
}

fn schema(kind: &Kind) -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-group-version-kind": [{"group": kind.group, "version": kind.version, "kind": kind.kind}],
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "metadata": {"type": "object"}}})
}
