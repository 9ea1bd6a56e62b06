//! Objects of built-in kinds: valid ones are stored in equal form, and broken ones are refused for equal reasons.
//!
//! Each field of a sample is left out, gets a value of another type, and gets values of its type that may be wrong, in an
//! object that is created and in one that is updated. Both are dry runs. Other objects change step by step.

#[path = "../../../../../../crates/apiserver/tests/it/builtin/samples.rs"]
mod samples;
#[path = "../../../../../../crates/apiserver/tests/it/builtin/transitions.rs"]
mod transitions;

use std::collections::{BTreeMap, BTreeSet};

use e2e::Options;
use http::Method;
use serde_json::{Value, json};

use super::super::kubectl::compare;
use super::{Answer, Call, Row, Servers, report};

const NAMESPACE: &str = "builtin";
const JSON: &str = "application/json";

/// The differences that are in the documentation with these words. Each occurs.
const ROWS: &[Row] = &[
    Row {
        why: "the message of an error has other words, if it is about a request that cannot be parsed",
        is: |_, real, ours| real.code == 400 && ours.code == 400,
    },
    Row {
        why: "no service account, token volume and default tolerations are added",
        is: |call, real, ours| {
            let is_refused = message(real).contains("error looking up service account");
            // an update gets them again
            let of_update = call.method == Method::PUT && call.to_string().contains("tolerations");
            let fields = [
                "serviceAccount",
                "serviceAccountName",
                "tolerations",
                "volumes",
                "volumeMounts",
                "generation",
            ];
            call.path.contains("/pods") && (is_refused || of_update || is_same_without(real, ours, &fields))
        },
    },
    Row {
        why: "no default class, finalizer and taint is added",
        is: |call, real, ours| {
            let paths = ["/persistentvolumeclaims", "/persistentvolumes", "/nodes"];
            paths.iter().any(|path| call.path.contains(path))
                && is_same_without(
                    real,
                    ours,
                    &["finalizers", "taints", "generation", "lastPhaseTransitionTime"],
                )
        },
    },
    Row {
        why: "spec.username, uid, groups and extra are not set",
        is: |call, real, ours| {
            call.path.contains("/certificatesigningrequests")
                && (is_same_without(real, ours, &["username", "uid", "groups", "extra"])
                    || message(real).contains("PEM block"))
        },
    },
    Row {
        why: "addresses and node ports are derived from the name of the service",
        is: |call, real, ours| {
            call.path.contains("/services")
                && (is_same_without(
                    real,
                    ours,
                    &["nodePort", "clusterIP", "clusterIPs", "healthCheckNodePort"],
                ) || message(real).contains("provided port is already allocated"))
        },
    },
    Row { why: MACHINE, is: |_, real, ours| message(real).contains("unknown time zone") && ours.code < 300 },
    Row {
        why: "a value that is an object or a list is printed as JSON of the API",
        is: |_, real, ours| real.code == 422 && ours.code == 422 && causes(real) == causes(ours),
    },
];

/// Depends on the machine.
const MACHINE: &str = "a time zone is looked up in the database of the machine";

fn message(answer: &Answer) -> &str {
    answer.body["message"].as_str().unwrap_or_default()
}

/// Whether both answers have equal objects, apart from fields with these names.
fn is_same_without(real: &Answer, ours: &Answer, names: &[&str]) -> bool {
    fn strip(value: &mut Value, names: &[&str]) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| !names.contains(&name.as_str()));
                members.values_mut().for_each(|value| strip(value, names));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| strip(item, names)),
            _ => {}
        }
    }
    let [real, ours] = [real, ours].map(|answer| {
        let mut body = without_managers(&answer.body);
        strip(&mut body, names);
        (answer.code, body)
    });
    real.0 < 300 && real == ours
}

// contract: E-24a, E-24b, E-24c, E-24d
#[tokio::test(flavor = "multi_thread")]
async fn builtin_objects_have_equal_forms_and_faults() {
    let (running, mut servers) = Servers::start(Options::new()).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    // claims of other classes cannot be resized
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "a"},
        "provisioner": "a.example.com", "allowVolumeExpansion": true});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    for server in [&servers.real, &servers.ours] {
        server.raw(&Method::POST, "/api/v1/namespaces", JSON, &namespace).await;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        server.raw(&Method::POST, &path, JSON, &account).await;
        server.raw(&Method::POST, "/apis/storage.k8s.io/v1/storageclasses", JSON, &class).await;
    }
    let (mut results, mut kinds) = (Results::default(), BTreeMap::new());
    for sample in samples::samples(NAMESPACE) {
        let before = (results.requests, results.problems.len());
        of_sample(&mut servers, &sample, &mut results).await;
        let kind = sample.object["kind"].as_str().unwrap().to_owned();
        kinds.insert(kind, (results.requests - before.0, results.problems.len() - before.1));
    }
    for transition in transitions::transitions(NAMESPACE) {
        of_transition(&mut servers, &transition, &mut results).await;
    }
    println!(
        "{} requests; by kind, with differences: {kinds:?}; documented: {:?}",
        results.requests, results.rows
    );
    if let Ok(file) = std::env::var("KINFORMER_BUILTIN_DIFFERENCES") {
        std::fs::write(file, results.problems.join("\n")).unwrap();
    }
    report(&results.problems);

    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/testing.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for row in ROWS {
        assert!(
            results.rows.contains(row.why) || row.why == MACHINE,
            "this difference no longer exists: {}",
            row.why
        );
        assert!(docs.contains(row.why), "docs/testing.md has no such difference: {}", row.why);
    }
    running.shutdown().await;
}

#[derive(Default)]
struct Results {
    requests: usize,
    problems: Vec<String>,
    rows: BTreeSet<&'static str>,
}

impl Results {
    async fn send(&mut self, servers: &mut Servers, what: &str, call: &Call) -> u16 {
        servers.real.forget_numbers();
        servers.ours.forget_numbers();
        self.requests += 1;
        let (real, ours) = servers.both(call).await;
        let found = differences(&real, &ours);
        match ROWS.iter().find(|row| (row.is)(call, &real, &ours)) {
            _ if found.is_empty() => {}
            Some(row) => drop(self.rows.insert(row.why)),
            None => self.problems.push(format!(
                "{} {} {what}\n    {}",
                call.method,
                call.path,
                found.join("\n    ")
            )),
        }
        real.code
    }
}

fn differences(real: &Answer, ours: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    if real.code != ours.code {
        found.push(format!(
            "code {}, ours {}: {} / {}",
            real.code, ours.code, real.body["message"], ours.body["message"]
        ));
        return found;
    }
    if real.code < 300 {
        let ignored =
            compare::Ignored { own: &["lastPhaseTransitionTime", "lastTransitionTime"], defaults: &[] };
        compare::json(&mut found, "", &without_managers(&real.body), &without_managers(&ours.body), &ignored);
        return found;
    }
    if real.body["reason"] != ours.body["reason"] {
        found.push(format!("reason {}, ours {}", real.body["reason"], ours.body["reason"]));
    }
    let (theirs, own) = (causes(real), causes(ours));
    let texts = |answer: &Answer| {
        let mut causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        causes.sort_by_key(Value::to_string);
        causes
    };
    if theirs == own && texts(real) != texts(ours) {
        found.push("the values of structs differ".to_owned());
    }
    if theirs != own {
        found.extend(
            theirs.iter().filter(|cause| !own.contains(cause)).map(|cause| format!("not ours: {cause}")),
        );
        found.extend(
            own.iter().filter(|cause| !theirs.contains(cause)).map(|cause| format!("only ours: {cause}")),
        );
        if found.is_empty() {
            found.push(format!("{} causes, ours {}", theirs.len(), own.len()));
        }
    }
    if theirs.is_empty() && real.body["message"] != ours.body["message"] {
        found.push(format!("message {}, ours {}", real.body["message"], ours.body["message"]));
    }
    found
}

fn without_managers(body: &Value) -> Value {
    let mut body = body.clone();
    replace_uids(&mut body);
    if let Some(metadata) = body["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    body
}

/// Replaces the UIDs that labels have.
fn replace_uids(value: &mut Value) {
    match value {
        Value::String(text) if text.len() == 36 && text.matches('-').count() == 4 => "(uid)".clone_into(text),
        Value::String(text) if text.starts_with("kube-api-access-") => "(token)".clone_into(text),
        Value::Object(members) => members.values_mut().for_each(replace_uids),
        Value::Array(items) => items.iter_mut().for_each(replace_uids),
        _ => {}
    }
}

/// The causes, without the values of structs, which kube-apiserver prints as its internal types.
fn causes(answer: &Answer) -> Vec<String> {
    let causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let mut causes: Vec<String> = causes
        .iter()
        .map(|cause| {
            let message = cause["message"].as_str().unwrap_or_default();
            let message = message.split('\n').next().unwrap_or_default();
            let is_struct = |value: &str| value.starts_with(['{', '[']) || value.starts_with("null");
            let message = match message.split_once(": ") {
                Some((kind, value)) if is_struct(value) => {
                    let end = if value.starts_with("null") {
                        4
                    } else {
                        value.rfind(['}', ']']).map_or(0, |end| end + 1)
                    };
                    format!("{kind}: (struct){}", &value[end..])
                }
                _ => message.to_owned(),
            };
            format!("{} {}: {message}", cause["reason"], cause["field"])
        })
        .collect();
    causes.sort();
    causes
}

async fn of_sample(servers: &mut Servers, sample: &samples::Sample, results: &mut Results) {
    let dry = format!("{}?dryRun=All", sample.path);
    let mutations = mutations(&sample.object);
    for (what, object) in &mutations {
        results.send(servers, what, &Call::new(Method::POST, &dry, object.clone())).await;
    }
    let created = results
        .send(servers, "as it is", &Call::new(Method::POST, &sample.path, sample.object.clone()))
        .await;
    if created != 201 {
        results.problems.push(format!("{} is not valid", sample.path));
        return;
    }
    let one = format!("{}/sample", sample.path);
    for (what, object) in &mutations {
        let changes = changes(&sample.object, object);
        let call = Call::change(format!("{one}?dryRun=All"), changes);
        results.send(servers, &format!("update {what}"), &call).await;
    }
    remove(servers, &one).await;
}

/// Changes an object step by step, on both servers.
async fn of_transition(servers: &mut Servers, transition: &transitions::Transition, results: &mut Results) {
    let what = &transition.what;
    let create = Call::new(Method::POST, &transition.path, transition.object.clone());
    results.send(servers, what, &create).await;
    let one = format!("{}/sample", transition.path);
    for (index, step) in transition.steps.iter().enumerate() {
        let patch = "application/merge-patch+json";
        let call = Call::patch(format!("{one}{}", step.part), patch, step.patch.clone());
        let code = results.send(servers, &format!("{what}, step {index}"), &call).await;
        if (code >= 300) != step.refused.is_some() {
            results.problems.push(format!("{what}, step {index}: {code}"));
        }
    }
    remove(servers, &one).await;
}

/// Deletes an object at once: without the finalizers of admission plugins.
async fn remove(servers: &Servers, path: &str) {
    let merge = "application/merge-patch+json";
    let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
    for server in [&servers.real, &servers.ours] {
        server.raw(&Method::PATCH, path, merge, &json!({"metadata": {"finalizers": null}})).await;
        server.raw(&Method::DELETE, path, JSON, &options).await;
        if let Some(name) = path.strip_prefix("/api/v1/namespaces/").filter(|name| !name.contains('/')) {
            let empty = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            server.raw(&Method::PUT, &format!("{path}/finalize"), JSON, &empty).await;
        }
        server.raw(&Method::PATCH, path, merge, &json!({"metadata": {"finalizers": null}})).await;
    }
}

/// Returns the merge patch between two objects.
fn changes(before: &Value, after: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (before, after) else { return after.clone() };
    let mut changes = serde_json::Map::new();
    for (name, value) in new.iter().filter(|(name, value)| old.get(*name) != Some(value)) {
        changes.insert(name.clone(), old.get(name).map_or(value.clone(), |old| self::changes(old, value)));
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.insert(name.clone(), Value::Null);
    }
    Value::Object(changes)
}

/// Returns the variants of an object, each with what was changed.
fn mutations(object: &Value) -> Vec<(String, Value)> {
    let mut paths = Vec::new();
    collect(object, "", &mut paths);
    let mut all = Vec::new();
    for path in paths {
        let value = object.pointer(&path).unwrap();
        let (parent, name) = path.rsplit_once('/').unwrap();
        let mut without = object.clone();
        match without.pointer_mut(parent).unwrap() {
            Value::Object(members) => drop(members.remove(name)),
            Value::Array(items) => drop(items.remove(name.parse().unwrap())),
            _ => unreachable!(),
        }
        all.push((format!("without {path}"), without));
        for other in others(value) {
            let mut changed = object.clone();
            *changed.pointer_mut(&path).unwrap() = other.clone();
            all.push((format!("{path} = {other}"), changed));
        }
    }
    all
}

/// Values for a field: of another type, and of the same type.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) => {
            vec![json!(7), json!(""), json!("Bad_Value!"), json!(format!("{text}x")), json!("other")]
        }
        Value::Number(number) => {
            vec![json!("x"), json!(-1), json!(0), json!(number.as_i64().unwrap_or(1) + 1), json!(70_000)]
        }
        Value::Bool(flag) => vec![json!("x"), json!(!flag)],
        Value::Array(_) => vec![json!("x"), json!([])],
        Value::Object(_) => vec![json!("x"), json!({})],
        Value::Null => vec![],
    }
}

fn collect(value: &Value, path: &str, paths: &mut Vec<String>) {
    let is_left_out = |path: &str| ["/apiVersion", "/kind", "/metadata"].contains(&path);
    if is_left_out(path) {
        return;
    }
    if !path.is_empty() {
        paths.push(path.to_owned());
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(value, &format!("{path}/{name}"), paths);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{path}/{index}"), paths);
            }
        }
        _ => {}
    }
}
