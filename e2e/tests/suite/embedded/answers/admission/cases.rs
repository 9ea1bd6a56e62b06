//! The webhooks and the requests of the matrix.

use http::Method;
use serde_json::{Value, json};

use super::super::Call;
use super::hooks::Hooks;

/// The webhooks of one case.
#[derive(Debug)]
pub(super) struct Case {
    hooks: Vec<Hook>,
    /// Whether only a few requests are sent, as each takes a second.
    is_slow: bool,
}

#[derive(Clone, Debug)]
struct Hook {
    kind: &'static str,
    behaviour: &'static str,
    fields: Value,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Hook { kind, behaviour, fields } in &self.hooks {
            write!(f, "{kind} {behaviour} {fields} ")?;
        }
        Ok(())
    }
}

impl Case {
    /// Returns the webhooks of a kind for a server.
    pub(super) fn hooks(&self, kind: &str, server: &str, hooks: &Hooks) -> Vec<Value> {
        let own = self.hooks.iter().filter(|hook| hook.kind == kind).enumerate();
        own.map(|(index, Hook { behaviour, fields, .. })| {
            let listener = if fields["of"] == "authority" { &hooks.authority } else { &hooks.server };
            let host = fields["host"].as_str().unwrap_or("127.0.0.1");
            let url = listener.url.replace("127.0.0.1", host);
            let url = format!("{url}/{server}/{}/{behaviour}/{index}", kind.to_lowercase());
            let bundle = fields["bundle"].as_str().unwrap_or(&listener.bundle);
            let mut hook = json!({
                "name": format!("{behaviour}-{index}.example.com"), "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": url, "caBundle": bundle},
                "namespaceSelector": {"matchExpressions": [{"key": "matrix", "operator": "Exists"}]},
                "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
            });
            let is_own = |field: &str| ["bundle", "host", "of"].contains(&field);
            for (field, value) in fields.as_object().unwrap().iter().filter(|(field, _)| !is_own(field)) {
                hook[field] = value.clone();
            }
            hook
        })
        .collect()
    }
}

fn hook(kind: &'static str, behaviour: &'static str, fields: Value) -> Hook {
    Hook { kind, behaviour, fields }
}

fn rules(groups: &[&str], versions: &[&str], resources: &[&str], operations: &[&str], scope: &str) -> Value {
    json!([{"operations": operations, "apiGroups": groups, "apiVersions": versions, "resources": resources, "scope": scope}])
}

pub(super) fn cases() -> Vec<Case> {
    const GOOD: [&str; 6] = ["allow", "deny", "deny-bare", "deny-full", "warn", "warn-deny"];
    const PATCHES: [&str; 14] = [
        "namespace",
        "owners",
        "fields",
        "label",
        "finalizer",
        "once",
        "identity",
        "empty-patch",
        "rename",
        "replicas",
        "invalid",
        "managers",
        "unknown-field",
        "delete-patch",
    ];
    const BROKEN: [&str; 12] = [
        "undecodable",
        "patch-type",
        "no-type",
        "no-patch",
        "absent",
        "uid",
        "untyped",
        "empty",
        "500",
        "404",
        "close",
        "status",
    ];
    const FEW: [&str; 9] = [
        "deny-reason",
        "deny-success",
        "other-version",
        "other-kind",
        "text",
        "500-json",
        "500-status",
        "400",
        "403",
    ];
    let (m, v) = ("Mutating", "Validating");
    let fail = || json!({"failurePolicy": "Fail"});
    let ignore = || json!({"failurePolicy": "Ignore"});
    let mut all = Vec::new();
    let mut case = |hooks: Vec<Hook>| all.push(Case { hooks, is_slow: false });
    for behaviour in GOOD {
        case(vec![hook(m, behaviour, fail())]);
        case(vec![hook(v, behaviour, fail())]);
    }
    for behaviour in PATCHES {
        case(vec![hook(m, behaviour, fail()), hook(v, "allow", fail())]);
    }
    for behaviour in BROKEN {
        case(vec![hook(m, behaviour, fail())]);
        case(vec![hook(m, behaviour, ignore()), hook(v, behaviour, ignore())]);
    }
    for behaviour in FEW {
        case(vec![hook(v, behaviour, fail())]);
    }
    case(vec![hook(v, "418", fail())]);
    case(vec![
        hook(m, "label", json!({"admissionReviewVersions": ["v2", "v1beta1"]})),
        hook(v, "untyped", json!({"admissionReviewVersions": ["v1beta1"]})),
    ]);
    case(vec![
        hook(m, "allow", json!({"sideEffects": "NoneOnDryRun"})),
        hook(v, "allow", json!({"sideEffects": "NoneOnDryRun"})),
    ]);
    // order and reinvocation
    let again = || json!({"reinvocationPolicy": "IfNeeded"});
    case(vec![
        hook(m, "allow", again()),
        hook(m, "label", json!({})),
        hook(v, "allow", fail()),
        hook(v, "warn", fail()),
    ]);
    // a patch without an effect
    case(vec![hook(m, "label", json!({})), hook(m, "allow", again()), hook(m, "unknown-field", json!({}))]);
    // certificates and names of hosts
    case(vec![hook(m, "label", json!({"of": "authority"})), hook(v, "allow", json!({"host": "localhost"}))]);
    case(vec![hook(v, "allow", json!({"of": "authority", "bundle": "bm8="}))]);
    case(vec![hook(v, "allow", json!({"host": "127.0.0.2"}))]);
    case(vec![hook(m, "once", again()), hook(m, "label", again()), hook(m, "allow", json!({}))]);
    case(vec![hook(m, "label", again()), hook(m, "label", again()), hook(m, "once", json!({}))]);
    case(vec![
        hook(m, "label", fail()),
        hook(m, "deny", fail()),
        hook(m, "allow", fail()),
        hook(v, "allow", fail()),
    ]);
    case(vec![
        hook(m, "500", ignore()),
        hook(m, "once", fail()),
        hook(v, "500", ignore()),
        hook(v, "deny", fail()),
    ]);
    // rules
    for fields in [
        rules(&[""], &["v1"], &["configmaps"], &["CREATE"], "*"),
        rules(&["*"], &["*"], &["*"], &["UPDATE", "DELETE"], "Namespaced"),
        rules(&["*"], &["*"], &["*/status", "*/scale"], &["*"], "*"),
        rules(&["apps", "admission.example.com"], &["v1"], &["*/*"], &["*"], "*"),
        rules(&["*"], &["*"], &["*/*"], &["CREATE"], "Cluster"),
        rules(&["*"], &["*"], &["namespaces"], &["*"], "Cluster"),
        rules(&["*"], &["v1beta1"], &["gadgets", "gadgets/scale"], &["*"], "*"),
    ] {
        for policy in ["Equivalent", "Exact"] {
            let fields = json!({"rules": fields, "matchPolicy": policy});
            case(vec![hook(m, "label", fields.clone()), hook(v, "allow", fields)]);
        }
    }
    // selectors
    for selector in [
        json!({"matchLabels": {"own": "yes"}}),
        json!({"matchExpressions": [{"key": "own", "operator": "NotIn", "values": ["yes"]}]}),
        json!({"matchExpressions": [{"key": "own", "operator": "Exists"}, {"key": "x", "operator": "DoesNotExist"}]}),
    ] {
        case(vec![
            hook(m, "label", json!({"objectSelector": selector})),
            hook(v, "allow", json!({"objectSelector": selector})),
        ]);
        case(vec![
            hook(m, "label", json!({"namespaceSelector": selector})),
            hook(v, "deny", json!({"namespaceSelector": selector})),
        ]);
    }
    for hooks in [
        vec![hook(m, "hang", json!({"timeoutSeconds": 1}))],
        vec![hook(v, "hang", json!({"timeoutSeconds": 1}))],
        vec![
            hook(m, "hang", json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"})),
            hook(v, "allow", fail()),
        ],
    ] {
        all.push(Case { hooks, is_slow: true });
    }
    all
}

pub(super) fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "color": {"type": "string", "default": "red"}, "replicas": {"type": "integer", "default": 1}}},
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}}}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.admission.example.com"},
        "spec": {"group": "admission.example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version("v1", true), version("v1beta1", false)]}})
}

fn namespace(number: usize) -> String {
    format!("admission-{number}")
}

/// The paths of config maps, deployments and gadgets in a namespace.
fn paths(number: usize) -> [String; 4] {
    let namespace = namespace(number);
    [
        format!("/api/v1/namespaces/{namespace}/configmaps"),
        format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        format!("/apis/admission.example.com/v1/namespaces/{namespace}/gadgets"),
        format!("/api/v1/namespaces/{namespace}/pods"),
    ]
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "admission.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"color": "blue"}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"automountServiceAccountToken": false, "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
        "containers": [{"name": "c", "image": "i"}]}})
}

/// The objects that exist before the webhooks of a case.
pub(super) fn base(number: usize) -> Vec<(String, Value)> {
    let [maps, deployments, gadgets, pods] = paths(number);
    let namespace = namespace(number);
    let labels = json!({"matrix": "yes", "own": if number.is_multiple_of(2) { "yes" } else { "no" }});
    let mut objects = vec![
        ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": namespace, "labels": labels}})),
        (format!("/api/v1/namespaces/{namespace}/serviceaccounts"), json!({"metadata": {"name": "default"}})),
        (deployments, deployment("base")),
        (gadgets, gadget("base")),
    ];
    for name in ["base", "collected-1", "collected-2"] {
        let mut map = map(name);
        map["metadata"]["labels"] =
            json!({"own": if name == "base" { "yes" } else { "no" }, "set": name.split('-').next()});
        objects.push((maps.clone(), map));
    }
    for name in ["bound", "evicted", "evicted-old", "deleted"] {
        objects.push((pods.clone(), pod(name)));
    }
    objects
}

/// The requests of a case.
pub(super) fn requests(number: usize, case: &Case) -> Vec<Call> {
    let [maps, deployments, gadgets, pods] = paths(number);
    let merge = |path: String, body: Value| Call::patch(path, "application/merge-patch+json", body);
    let apply = |path: String, body: Value| Call::patch(path, "application/apply-patch+yaml", body);
    let post = |path: &str, body: Value| Call::new(Method::POST, path, body);
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"b": "1"}});
    let mut labelled = map("labelled");
    labelled["metadata"]["labels"] = json!({"own": "yes"});
    let mut calls = vec![
        post(&format!("{maps}?dryRun=All&fieldManager=m"), map("dry")),
        post(&maps, map("created")),
        merge(format!("{maps}/base"), json!({"data": {"b": "2"}})),
        Call::new(Method::DELETE, format!("{maps}/base?dryRun=All"), Value::Null),
    ];
    if case.is_slow {
        return calls;
    }
    let scale = |replicas: u32| json!({"spec": {"replicas": replicas}});
    let status = json!({"status": {"replicas": 2, "phase": "x"}});
    let binding = json!({"metadata": {"name": "bound"}, "target": {"name": "n"}});
    calls.extend([
        post(&format!("{maps}?fieldValidation=Strict"), labelled),
        post(&maps, map("created")),
        Call::change(format!("{maps}/base"), json!({"data": {"c": "3"}})),
        Call::change(format!("{maps}/base?dryRun=All"), json!({"data": {"d": "4"}, "metadata": {"resourceVersion": null}})),
        Call::change(format!("{maps}/missing"), map("missing")),
        Call::patch(format!("{maps}/base"), "application/json-patch+json", json!([{"op": "add", "path": "/data/e", "value": "5"}])),
        merge(format!("{maps}/base"), json!({})),
        apply(format!("{maps}/applied?fieldManager=a"), applied.clone()),
        apply(format!("{maps}/applied?fieldManager=a&force=true"), applied),
        post(&deployments, deployment("created")),
        post(&deployments, json!({"metadata": {"name": "invalid"}})),
        merge(format!("{deployments}/base"), json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}})),
        merge(format!("{deployments}/base/status"), json!({"status": {"replicas": 1, "observedGeneration": 1}})),
        merge(format!("{deployments}/base/scale"), scale(3)),
        Call::change(format!("{deployments}/base/scale?fieldManager=s"), scale(4)),
        Call::new(Method::DELETE, format!("{deployments}/base"), json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"})),
        post(&gadgets, gadget("created")),
        post(&gadgets.replace("/v1/", "/v1beta1/"), json!({"apiVersion": "admission.example.com/v1beta1", "kind": "Gadget", "metadata": {"name": "old"}})),
        merge(format!("{gadgets}/base"), json!({"spec": {"color": "green"}})),
        merge(format!("{}/base", gadgets.replace("/v1/", "/v1beta1/")), json!({"spec": {"replicas": 2}})),
        merge(format!("{gadgets}/base/status"), status.clone()),
        Call::change(format!("{gadgets}/base/status"), status),
        Call::new(Method::DELETE, format!("{gadgets}/base?gracePeriodSeconds=3"), Value::Null),
        post(&format!("{pods}/bound/binding"), binding),
        post(&format!("{pods}/evicted/eviction"), json!({"metadata": {"name": "evicted"}})),
        post(&format!("{pods}/evicted-old/eviction"), json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "evicted-old"}})),
        post(&format!("{pods}/deleted/eviction"), json!({"metadata": {"name": "other"}})),
        Call::new(Method::DELETE, format!("{pods}/deleted?dryRun=All"), Value::Null),
        Call::new(Method::DELETE, format!("{pods}/deleted"), Value::Null),
        Call::new(Method::DELETE, format!("{maps}?labelSelector=set%3Dcollected&dryRun=All"), Value::Null),
        Call::new(Method::DELETE, format!("{maps}?labelSelector=set%3Dcollected"), Value::Null),
        Call::new(Method::DELETE, format!("{maps}/base"), Value::Null),
        post(&format!("{maps}?timeout=4500ms&dryRun=All"), map("timed")),
        post(&format!("{maps}?timeout=5&dryRun=All"), map("timed")),
        Call::new(Method::DELETE, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.admission.example.com?dryRun=All", Value::Null),
        merge(format!("/api/v1/namespaces/{}", namespace(number)), json!({"metadata": {"annotations": {"a": "b"}}})),
        Call::new(Method::DELETE, format!("/api/v1/namespaces/{}?dryRun=All", namespace(number)), Value::Null),
    ]);
    calls
}

/// Configurations. Most are refused.
pub(super) fn configurations() -> Vec<Call> {
    let url = |url: &str| json!({"clientConfig": {"url": url}});
    let service =
        |path: &str| json!({"clientConfig": {"service": {"namespace": "a", "name": "b", "path": path}}});
    let resources = |resources: &[&str]| json!({"rules": rules(&["", "authorization.k8s.io"], &["*"], resources, &["*"], "*")});
    let mut changes: Vec<Value> = [
        "://x",
        "",
        "http://a",
        "https://",
        "https:a",
        "https://u:p@a/b?c#d",
        "https://a:b",
        "https://a:1:2",
        "https://a b",
        "https://a/%zz",
        "https://[::1",
        "https://a\n",
        "//a/b",
        "a:b/c",
        "a b:c",
        "///a",
    ]
    .map(url)
    .into();
    changes.extend(["//", "/", "a/b", "/a//b", "/A_b", "/a/"].map(service));
    changes.extend([
        json!({"clientConfig": {}}),
        json!({"clientConfig": {"service": {"namespace": "", "name": "", "port": 0}}}),
        json!({"clientConfig": {"url": "https://a", "service": {"namespace": "a", "name": "b"}}}),
        resources(&["pods", "pods/*", "pods/log"]),
        resources(&["*", "pods"]),
        resources(&["*/*", "pods"]),
        resources(&["pods", "subjectaccessreviews", "selfsubjectrulesreviews"]),
        json!({"admissionReviewVersions": ["v1", "v1", "V2"]}),
        json!({"admissionReviewVersions": ["v2"]}),
        json!({"name": "short", "sideEffects": "Some", "timeoutSeconds": 31, "failurePolicy": "No"}),
        json!({"metadata": "c.static.k8s.io"}),
    ]);
    let call = |changes: &Value| {
        let mut hook = json!({"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://a"}});
        let mut name = "c";
        for (field, value) in changes.as_object().unwrap() {
            match value.as_str().filter(|_| field == "metadata") {
                Some(other) => name = other,
                None => hook[field] = value.clone(),
            }
        }
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations?dryRun=All";
        Call::new(Method::POST, path, json!({"metadata": {"name": name}, "webhooks": [hook]}))
    };
    changes.iter().map(call).collect()
}
