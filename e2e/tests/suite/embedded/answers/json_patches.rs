//! Random JSON patches: of members that exist and that do not, with good and bad indices, types and operations.

use std::collections::BTreeMap;

use e2e::Options;
use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};

use super::super::kubectl::compare;
use super::applies::serve_widgets;
use super::objects::Kind;
use super::{Answer, Call, Found, Row, Servers, report};
use crate::differential::seeds;

const NAMESPACE: &str = "json-patches";
const CONTENT: &str = "application/json-patch+json";
/// The patches of a seed.
const PATCHES: usize = 60;

/// Differences by design.
const ROWS: &[Row] = &[
    Row {
        why: "unknown fields are stored, and finalizers without a domain have no warning",
        is: |_, real, ours| {
            let is_known = |warning: &String| {
                warning.contains("prefer a domain-qualified finalizer name")
                    || warning.contains("unknown field")
            };
            real.code == ours.code && real.warnings.iter().any(is_known)
        },
    },
    Row { why: "kube-apiserver panics", is: |_, real, ours| real.code == 500 && is_refused(ours) },
    Row {
        why: "the result has values that are validated, or the message has other words",
        is: |_, real, ours| {
            let message = |answer: &Answer| answer.body["message"].as_str().unwrap_or_default().to_owned();
            real.code == 422
                && message(real).contains(" is invalid: ")
                && (is_refused(ours) || ours.code == 200)
        },
    },
];

fn is_refused(answer: &Answer) -> bool {
    matches!(answer.code, 400 | 422)
}

// contract: E-01r
#[tokio::test(flavor = "multi_thread")]
async fn json_patches_have_equal_results() {
    let (running, mut servers) = Servers::start(Options::new()).await;
    serve_widgets(&mut servers, NAMESPACE).await;

    let mut problems = Vec::new();
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    for seed in seeds() {
        let mut rng = Rng::with_seed(seed);
        for number in 0..PATCHES {
            let kind = [Kind::ConfigMap, Kind::Widget][number % 2];
            let name = format!("s{seed}-{number}");
            let path = kind.path(NAMESPACE);
            servers.real.forget_numbers();
            servers.ours.forget_numbers();
            let create = Call::new(Method::POST, path.clone(), object(kind, &name));
            let patch = Call::patch(format!("{path}/{name}"), CONTENT, patch(&mut rng, kind));
            for call in [create, patch] {
                let (real, ours) = servers.both(&call).await;
                *counts.entry(real.code).or_default() += 1;
                let ignored = compare::Ignored { own: &[], defaults: kind.defaults() };
                if let Found::Differences(found) = Found::of(&call, &real, &ours, &ignored, ROWS) {
                    problems.push(format!("seed {seed}: {call}\n    {}", found.join("\n    ")));
                }
            }
        }
    }
    println!("requests by code: {counts:?}");
    report(&problems);
    let patched = counts.get(&200).copied().unwrap_or_default();
    let refused = counts.get(&422).copied().unwrap_or_default();
    assert!(patched > 3 * seeds().count() && refused > 5 * seeds().count(), "too few of a kind: {counts:?}");
    running.shutdown().await;
}

fn object(kind: Kind, name: &str) -> Value {
    let metadata = json!({"name": name, "labels": {"a": "b"}, "annotations": {"x.io/a_b": "<&>"},
        "finalizers": ["x.io/0", "x.io/1"]});
    match kind {
        Kind::ConfigMap => json!({"metadata": metadata, "data": {"a": "1", "b.c": "2"}}),
        _ => json!({"apiVersion": kind.api_version(), "kind": "Widget", "metadata": metadata, "spec": {
            "count": 1, "args": ["x", "y", "z"], "nested": {"a": {"b": "c"}}, "free": {"n": 1.5, "l": [1, {"m": 2}]},
        }}),
    }
}

fn patch(rng: &mut Rng, kind: Kind) -> Value {
    (0..rng.usize(1..3)).map(|_| operation(rng, kind)).collect()
}

fn operation(rng: &mut Rng, kind: Kind) -> Value {
    let op = ["add", "remove", "replace", "move", "copy", "test", "test", "other"][rng.usize(..8)];
    let mut operation = json!({"op": op, "path": pointer(rng, kind)});
    if matches!(op, "move" | "copy") && rng.u8(..20) > 0 {
        operation["from"] = pointer(rng, kind).into();
    }
    if matches!(op, "add" | "replace" | "test") && rng.u8(..10) > 0 {
        operation["value"] = value(rng);
    }
    match rng.u8(..40) {
        0 => operation["more"] = json!(1),
        1 => operation["op"] = json!(1),
        2 => operation["path"] = Value::Null,
        _ => {}
    }
    operation
}

fn pointer(rng: &mut Rng, kind: Kind) -> &'static str {
    const SHARED: [&str; 17] = [
        "/metadata/labels",
        "/metadata/labels/a",
        "/metadata/labels/new",
        "/metadata/annotations/x.io~1a_b",
        "/metadata/annotations/new",
        "/metadata/finalizers",
        "/metadata/finalizers/0",
        "/metadata/finalizers/1",
        "/metadata/finalizers/2",
        "/metadata/finalizers/3",
        "/metadata/finalizers/-1",
        "/metadata/finalizers/-3",
        "/metadata/finalizers/-",
        "/metadata/ownerReferences",
        "/none",
        "/none/deeper",
        "metadata/labels/a",
    ];
    const MAPS: [&str; 8] =
        ["/data", "/data/a", "/data/b.c", "/data/new", "/data/a/deeper", "/binaryData", "x/data/a", "/data/"];
    const WIDGETS: [&str; 12] = [
        "/spec/count",
        "/spec/args",
        "/spec/args/0",
        "/spec/args/-2",
        "/spec/args/3",
        "/spec/nested/a",
        "/spec/nested/a/b",
        "/spec/nested/new",
        "/spec/free",
        "/spec/free/n",
        "/spec/free/l/1/m",
        "/spec/free/l/x",
    ];
    let own: &[&str] = if kind == Kind::Widget { &WIDGETS } else { &MAPS };
    if rng.bool() { SHARED[rng.usize(..SHARED.len())] } else { own[rng.usize(..own.len())] }
}

fn value(rng: &mut Rng) -> Value {
    [
        json!("1"),
        json!("b"),
        json!("x.io/1"),
        json!("x"),
        json!("<&>"),
        Value::Null,
        json!({"a": "b"}),
        json!({"a": "1", "b.c": "2"}),
        json!(["x.io/0", "x.io/1"]),
        json!(["x", "y", "z"]),
        json!({}),
        json!(1),
        json!(1.5),
    ][rng.usize(..13)]
    .clone()
}
