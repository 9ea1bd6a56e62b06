//! The objects and the requests of a case.

use http::Method;
use serde_json::{Value, json};

use super::super::Call;

/// The group of the kinds that are defined.
pub(super) const GROUP: &str = "policies.example.com";

/// Returns the kinds of parameters.
pub(super) fn param_kinds() -> [Value; 3] {
    [
        json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        json!({"apiVersion": "policies.example.com/v1", "kind": "Limit"}),
        json!({"apiVersion": "policies.example.com/v1", "kind": "Global"}),
    ]
}

/// Returns the definitions of kinds: two of parameters, and one with two versions and subresources.
pub(super) fn definitions() -> [Value; 3] {
    let define = |plural: &str, kind: &str, scope: &str, versions: Value| {
        json!({"metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {"group": GROUP, "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": versions}})
    };
    let open = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let plain = json!([{"name": "v1", "served": true, "storage": true, "schema": open}]);
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "color": {"type": "string", "default": "red"}, "replicas": {"type": "integer", "default": 1}}},
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}}}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}}})
    };
    let both = json!([version("v1", true), version("v1beta1", false)]);
    [
        define("limits", "Limit", "Namespaced", plain.clone()),
        define("globals", "Global", "Cluster", plain),
        define("gadgets", "Gadget", "Namespaced", both),
    ]
}

/// Returns the parameters that are in no namespace of a case.
pub(super) fn params() -> Vec<(String, Value)> {
    let of = |name: &str| json!({"metadata": {"name": name, "labels": {"param": "yes"}}, "data": {"max": name, "limit": "2"}});
    let mut params = Vec::new();
    for name in ["first", "second"] {
        params.push(("/api/v1/namespaces/default/configmaps".to_owned(), of(name)));
        params
            .push((format!("/apis/{GROUP}/v1/namespaces/default/limits"), custom("Limit", "v1", &of(name))));
        params.push((format!("/apis/{GROUP}/v1/globals"), custom("Global", "v1", &of(name))));
    }
    params
}

fn custom(kind: &str, version: &str, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = format!("{GROUP}/{version}").into();
    object["kind"] = kind.into();
    object
}

pub(super) fn namespace(number: usize) -> String {
    format!("policies-{number}")
}

/// The paths of config maps, deployments, gadgets and pods in a namespace.
fn paths(number: usize) -> [String; 4] {
    let namespace = namespace(number);
    [
        format!("/api/v1/namespaces/{namespace}/configmaps"),
        format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        format!("/apis/{GROUP}/v1/namespaces/{namespace}/gadgets"),
        format!("/api/v1/namespaces/{namespace}/pods"),
    ]
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"own": "yes"}}, "data": {"a": "1"}})
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn gadget(version: &str, name: &str) -> Value {
    custom("Gadget", version, &json!({"metadata": {"name": name}, "spec": {"color": "blue"}}))
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"automountServiceAccountToken": false, "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority", "containers": [{"name": "c", "image": "i"}]}})
}

/// The objects that exist before the policies of a case.
pub(super) fn base(number: usize) -> Vec<(String, Value)> {
    let [maps, deployments, gadgets, pods] = paths(number);
    let namespace = namespace(number);
    let labels =
        json!({"case": number.to_string(), "own": if number.is_multiple_of(2) { "yes" } else { "no" }});
    let mut objects = vec![
        ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": namespace, "labels": labels}})),
        (format!("/api/v1/namespaces/{namespace}/serviceaccounts"), json!({"metadata": {"name": "default"}})),
        (deployments, deployment("base")),
        (gadgets.clone(), gadget("v1", "base")),
        (gadgets, gadget("v1", "other")),
        (
            format!("/apis/{GROUP}/v1/namespaces/{namespace}/limits"),
            custom(
                "Limit",
                "v1",
                &json!({"metadata": {"name": "first", "labels": {"param": "yes"}}, "data": {"max": "own", "limit": "1"}}),
            ),
        ),
        (
            maps.clone(),
            json!({"metadata": {"name": "first", "labels": {"param": "yes"}}, "data": {"max": "own", "limit": "1"}}),
        ),
    ];
    for name in ["base", "collected-1", "collected-2"] {
        let mut map = map(name);
        map["metadata"]["labels"] =
            json!({"own": if name == "base" { "yes" } else { "no" }, "set": name.split('-').next()});
        objects.push((maps.clone(), map));
    }
    for name in ["bound", "evicted", "deleted"] {
        objects.push((pods.clone(), pod(name)));
    }
    objects
}

/// The requests of a case.
pub(super) fn requests(number: usize) -> Vec<Call> {
    let [maps, deployments, gadgets, pods] = paths(number);
    let merge = |path: String, body: Value| Call::patch(path, "application/merge-patch+json", body);
    let apply = |path: String, body: Value| Call::patch(path, "application/apply-patch+yaml", body);
    let post = |path: &str, body: Value| Call::new(Method::POST, path, body);
    let get = |path: String| Call::new(Method::GET, path, Value::Null);
    let delete = |path: String| Call::new(Method::DELETE, path, Value::Null);
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"b": "1"}});
    let plain = json!({"metadata": {"name": "plain"}, "data": {"a": "2", "b": "long text"}});
    let role = json!({"metadata": {"name": namespace(number), "labels": {"case": number.to_string()}}});
    let older = gadgets.replace("/v1/", "/v1beta1/");
    let scale = |replicas: u32| json!({"spec": {"replicas": replicas}});
    let status = json!({"status": {"replicas": 2, "phase": "x"}});
    let mut calls = vec![
        post(&format!("{maps}?dryRun=All&fieldManager=m"), map("dry")),
        post(&maps, map("created")),
        post(&format!("{maps}?fieldValidation=Strict"), plain),
        post(&maps, json!({"metadata": {"generateName": "generated-"}, "data": {"a": "x"}})),
        post(&maps, map("created")),
        merge(format!("{maps}/base"), json!({"data": {"b": "2"}})),
        Call::change(format!("{maps}/base"), json!({"data": {"a": "5"}})),
        merge(format!("{maps}/base"), json!({})),
        merge(format!("{maps}/base"), json!({"data": {"a": null}, "metadata": {"labels": {"own": null}}})),
        Call::change(format!("{maps}/missing"), map("missing")),
        apply(format!("{maps}/applied?fieldManager=a"), applied.clone()),
        apply(format!("{maps}/applied?fieldManager=a&force=true"), applied),
        get(format!("{maps}/base")),
        merge(format!("{deployments}/base"), json!({"spec": {"replicas": 5}})),
        merge(format!("{deployments}/base/scale"), scale(3)),
        merge(format!("{gadgets}/base/status"), status.clone()),
        merge(format!("{older}/base"), json!({"spec": {"replicas": 7}})),
        post("/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All", role),
        merge(
            format!("/api/v1/namespaces/{}", namespace(number)),
            json!({"metadata": {"annotations": {"a": "b"}}}),
        ),
        delete(format!("{maps}?labelSelector=set%3Dcollected&dryRun=All")),
        delete(format!("{maps}/base?dryRun=All")),
    ];
    if !number.is_multiple_of(3) {
        return calls;
    }
    calls.extend([
        post(&deployments, deployment("created")),
        post(&deployments, json!({"metadata": {"name": "invalid"}})),
        merge(format!("{deployments}/base"), json!({"spec": {"replicas": 5}})),
        merge(
            format!("{deployments}/base/status"),
            json!({"status": {"replicas": 1, "observedGeneration": 1}}),
        ),
        merge(format!("{deployments}/base/scale"), scale(3)),
        Call::change(format!("{deployments}/base/scale?fieldManager=s"), scale(4)),
        get(format!("{deployments}/base/scale")),
        post(&gadgets, gadget("v1", "created")),
        post(&older, gadget("v1beta1", "older")),
        merge(format!("{gadgets}/base"), json!({"spec": {"color": "green"}})),
        merge(format!("{older}/base"), json!({"spec": {"replicas": 7}})),
        merge(format!("{gadgets}/base/status"), status.clone()),
        merge(format!("{older}/base/status"), status),
        merge(format!("{gadgets}/base/scale"), scale(2)),
        delete(format!("{gadgets}/other?gracePeriodSeconds=3")),
        post(
            &format!("{pods}/bound/binding"),
            json!({"metadata": {"name": "bound"}, "target": {"name": "n"}}),
        ),
        post(&format!("{pods}/evicted/eviction"), json!({"metadata": {"name": "evicted"}})),
        delete(format!("{pods}/deleted?dryRun=All")),
        delete(format!("{pods}/deleted?gracePeriodSeconds=0")),
        delete(format!("{maps}?labelSelector=set%3Dcollected&dryRun=All")),
        delete(format!("{maps}/base?dryRun=All")),
        delete(format!("{maps}/base")),
        get(maps),
        merge(
            format!("/api/v1/namespaces/{}", namespace(number)),
            json!({"metadata": {"annotations": {"a": "b"}}}),
        ),
        delete(format!("/api/v1/namespaces/{}?dryRun=All", namespace(number))),
    ]);
    calls
}
