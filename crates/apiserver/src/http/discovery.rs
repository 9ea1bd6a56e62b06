//! Discovery: groups, resources, version, health.

use std::collections::BTreeMap;

use ::http::{HeaderMap, Method, Request, StatusCode};
use base64::Engine;
use hyper::body::Incoming;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::registry::{Kind, Registry, Resource};
use crate::status::Status;

use super::answer::{self, Answer};
use super::context::Context;
use super::reviews::{REVIEWS, Review};
use super::sha256::sha256;
use super::{negotiate, openapi};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of namespaces.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// The verbs of a resource whose definition is being deleted. Follows Kubernetes 1.37.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

pub(super) fn answer(context: &Context, request: &Request<Incoming>) -> Result<Answer, Status> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }
    let api = &context.api;
    let registry = api.registry();
    let parts: Vec<&str> = request.uri().path().split('/').filter(|part| !part.is_empty()).collect();
    let ok = |value: Value| Ok(answer::json(StatusCode::OK, &value));
    match parts.as_slice() {
        ["healthz" | "readyz" | "livez", ..] => Ok(answer::text(StatusCode::OK, "ok")),
        ["version"] => ok(version(context.kubernetes)),
        [] => ok(paths(&registry)),
        ["api"] if takes_aggregated(request.headers()) => Ok(aggregated(api, &registry, Part::Core)),
        ["apis"] if takes_aggregated(request.headers()) => Ok(aggregated(api, &registry, Part::Groups)),
        ["api"] => ok(json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]})),
        ["apis"] => {
            let groups: Vec<Value> =
                groups(&registry).iter().map(|(name, versions)| group(name, versions)).collect();
            ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["api", version] => {
            resources(api, &registry, "", version).map(|list| answer::json(StatusCode::OK, &list))
        }
        ["apis", name] => match groups(&registry).get(name) {
            Some(versions) => {
                let mut group = group(name, versions);
                if let Some(map) = group.as_object_mut() {
                    map.insert("kind".into(), "APIGroup".into());
                    map.insert("apiVersion".into(), "v1".into());
                }
                ok(group)
            }
            None => Err(Status::no_such_path()),
        },
        ["apis", group, version] => {
            resources(api, &registry, group, version).map(|list| answer::json(StatusCode::OK, &list))
        }
        ["openapi", rest @ ..] => openapi::answer(&registry, request.headers(), rest),
        _ => Err(Status::no_such_path()),
    }
}

/// The response to `/version`.
fn version(minor: u32) -> Value {
    json!({"major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0+kinformer"), "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH)})
}

fn paths(registry: &Registry) -> Value {
    let mut paths: Vec<String> = ["/api", "/api/v1", "/apis"].map(str::to_owned).to_vec();
    for (group, versions) in groups(registry) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
    );
    json!({"paths": paths})
}

/// The groups with their versions, also those that have nothing but reviews.
fn groups(registry: &Registry) -> BTreeMap<&str, Vec<&str>> {
    let mut groups = registry.groups();
    for review in &REVIEWS {
        groups.entry(review.group).or_insert_with(|| vec!["v1"]);
    }
    groups
}

fn reviews_of<'a>(group: &'a str, version: &str) -> impl Iterator<Item = &'static Review> + use<'a> {
    let is_served = version == "v1";
    REVIEWS.iter().filter(move |review| is_served && review.group == group)
}

fn group(name: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version)})
}

/// A subresource: its name, kind and verbs.
struct Subresource {
    name: &'static str,
    group: String,
    version: String,
    kind: String,
    verbs: &'static [&'static str],
}

fn subresources(kind: &Kind) -> Vec<Subresource> {
    let own = |name, verbs| Subresource {
        name,
        group: kind.group.clone(),
        version: kind.version.clone(),
        kind: kind.kind.clone(),
        verbs,
    };
    let other = |name, group: &str, kind: &str, verbs| Subresource {
        name,
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        verbs,
    };
    let mut all = Vec::new();
    if kind.is("", "pods") {
        all.push(other("binding", "", "Binding", &["create"]));
        all.push(other("eviction", "policy", "Eviction", &["create"]));
    }
    if kind.is("", "serviceaccounts") {
        all.push(other("token", "authentication.k8s.io", "TokenRequest", &["create"]));
    }
    if kind.is("", "namespaces") {
        all.push(own("finalize", &["update"]));
    }
    if kind.scale.is_some() {
        all.push(other("scale", "autoscaling", "Scale", &["get", "patch", "update"]));
    }
    if kind.has_status {
        // In the order of Kubernetes: by name for built-in kinds; the main resource first for defined kinds.
        let place = if kind.custom { 0 } else { all.len() };
        all.insert(place, own("status", &["get", "patch", "update"]));
    }
    all
}

fn verbs(api: &Api, resource: &Resource) -> &'static [&'static str] {
    if api.is_definition_terminating(resource) {
        TERMINATING_VERBS
    } else if resource.kind.is("", "namespaces") {
        NAMESPACE_VERBS
    } else {
        ALL_VERBS
    }
}

fn resources(api: &Api, registry: &Registry, group: &str, version: &str) -> Result<Value, Status> {
    let found = registry.of_version(group, version);
    let mut resources: Vec<Value> = reviews_of(group, version).map(review_entry).collect();
    if found.is_empty() && resources.is_empty() {
        return Err(Status::no_such_path());
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    for resource in &found {
        let kind = &resource.kind;
        let mut entry = Map::new();
        entry.insert("name".into(), kind.plural.as_str().into());
        entry.insert("singularName".into(), kind.singular.as_str().into());
        entry.insert("namespaced".into(), kind.namespaced.into());
        entry.insert("kind".into(), kind.kind.as_str().into());
        entry.insert("verbs".into(), json!(verbs(api, resource)));
        for (member, words) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
            if !words.is_empty() {
                entry.insert(member.into(), json!(words));
            }
        }
        entry.insert("storageVersionHash".into(), storage_version_hash(resource).into());
        resources.push(Value::Object(entry));
        for sub in subresources(kind) {
            let mut entry = json!({"name": format!("{}/{}", kind.plural, sub.name), "singularName": "",
                "namespaced": kind.namespaced, "kind": sub.kind, "verbs": sub.verbs});
            if (&sub.group, &sub.version) != (&kind.group, &kind.version)
                && let Some(map) = entry.as_object_mut()
            {
                map.insert("group".into(), sub.group.into());
                map.insert("version".into(), sub.version.into());
            }
            resources.push(entry);
        }
    }
    Ok(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": resources}))
}

/// Follows Kubernetes 1.37 (`discovery.StorageVersionHash`).
fn storage_version_hash(resource: &Resource) -> String {
    let kind = &resource.kind;
    let (group, version) = match &kind.forms {
        Some(forms) => (kind.group.as_str(), forms.storage.as_str()),
        None if kind.is("autoscaling", "horizontalpodautoscalers") => ("autoscaling", "v2"),
        None if kind.is("events.k8s.io", "events") => ("", "v1"),
        None if kind.is("apiextensions.k8s.io", "customresourcedefinitions") => {
            (kind.group.as_str(), "v1beta1")
        }
        None => (kind.group.as_str(), kind.version.as_str()),
    };
    let hash = sha256(&format!("{group}/{version}/{}", kind.kind));
    base64::engine::general_purpose::STANDARD.encode(hash.get(..8).unwrap_or_default())
}

fn review_entry(review: &Review) -> Value {
    json!({"name": review.plural, "singularName": review.kind.to_lowercase(), "namespaced": review.namespaced,
        "kind": review.kind, "verbs": ["create"]})
}

fn takes_aggregated(headers: &HeaderMap) -> bool {
    for media_range in negotiate::media_ranges(headers) {
        let parameters =
            (media_range.parameter("as"), media_range.parameter("g"), media_range.parameter("v"));
        if !media_range.includes("application/json") {
            continue;
        }
        match parameters {
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => return true,
            ("", _, _) => return false,
            _ => {}
        }
    }
    false
}

#[derive(PartialEq, Eq)]
enum Part {
    Core,
    Groups,
}

fn aggregated(api: &Api, registry: &Registry, part: Part) -> Answer {
    let versions = |group: &str, versions: &[&str]| -> Vec<Value> {
        let version = |version: &&str| {
            let found = registry.of_version(group, version);
            let resources = found.iter().map(|resource| aggregated_resource(api, resource));
            let resources: Vec<Value> =
                resources.chain(reviews_of(group, version).map(aggregated_review)).collect();
            json!({"version": version, "freshness": "Current", "resources": resources})
        };
        versions.iter().map(version).collect()
    };
    let items: Vec<Value> = if part == Part::Core {
        // The core group has no name.
        vec![json!({"metadata": {"name": "", "creationTimestamp": null}, "versions": versions("", &["v1"])})]
    } else {
        let groups = groups(registry);
        let group = |(name, of): (&&str, &Vec<&str>)| json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions(name, of)});
        groups.iter().map(group).collect()
    };
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items});
    answer::bytes_as(AGGREGATED, list.to_string())
}

fn aggregated_review(review: &Review) -> Value {
    json!({"resource": review.plural, "singularResource": review.kind.to_lowercase(), "verbs": ["create"],
        "scope": if review.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": {"group": review.group, "version": "v1", "kind": review.kind}})
}

fn aggregated_resource(api: &Api, resource: &Resource) -> Value {
    let kind = &resource.kind;
    let gvk =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let subresources: Vec<Value> = subresources(kind)
        .into_iter()
        .map(|sub| {
            json!({"subresource": sub.name, "verbs": sub.verbs,
                "responseKind": gvk(&sub.group, &sub.version, &sub.kind)})
        })
        .collect();
    let mut entry = json!({"resource": kind.plural, "singularResource": kind.singular, "verbs": verbs(api, resource),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": gvk(&kind.group, &kind.version, &kind.kind)});
    if let Some(map) = entry.as_object_mut() {
        for (member, words) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
            if !words.is_empty() {
                map.insert(member.into(), json!(words));
            }
        }
        if !subresources.is_empty() {
            map.insert("subresources".into(), subresources.into());
        }
    }
    entry
}
