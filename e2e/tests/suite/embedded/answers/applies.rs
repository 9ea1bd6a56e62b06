//! Random requests by three managers that apply, and others that update and patch.

use std::collections::BTreeMap;

use e2e::Options;
use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};

use super::super::kubectl::compare;
use super::objects::{KINDS, Kind, status, widgets};
use super::{Call, Found, ROWS, Servers, report};
use crate::differential::seeds;

const APPLY: &str = "application/apply-patch+yaml";
const NAMESPACE: &str = "applies";

/// The objects of a seed, and the requests for each.
const OBJECTS: usize = 18;
const REQUESTS: usize = 12;

// contract: E-01n, E-01o, E-01p, E-15a, E-15b, E-15c, E-15d, E-15e, E-15g
#[tokio::test(flavor = "multi_thread")]
async fn applies_updates_and_patches_have_equal_results() {
    let (running, mut servers) = Servers::start(Options::new()).await;
    serve_widgets(&mut servers, NAMESPACE).await;

    let mut problems = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut counts: BTreeMap<(&str, u16), usize> = BTreeMap::new();
    for seed in seeds() {
        let mut rng = Rng::with_seed(seed);
        for number in 0..OBJECTS {
            let kind = KINDS[number % KINDS.len()];
            let name = format!("s{seed}-{number}");
            servers.real.forget_numbers();
            servers.ours.forget_numbers();
            let mut before = String::new();
            for _ in 0..REQUESTS {
                let (what, call) = request(&mut rng, kind, &name);
                let ignored = compare::Ignored { own: &[], defaults: kind.defaults() };
                let (code, found) = servers.send(&call, &ignored).await;
                *counts.entry((what, code)).or_default() += 1;
                match found {
                    Found::Same => {
                        before += &format!("\n    after {code} for {call}");
                        continue;
                    }
                    Found::Known(why) => *known.entry(why).or_default() += 1,
                    Found::Differences(found) => {
                        problems.push(format!("seed {seed}: {call}\n    {}{before}", found.join("\n    ")));
                    }
                }
                // What follows would differ as well.
                break;
            }
        }
    }
    println!("requests by kind and code: {counts:?}; objects with known differences: {known:?}");
    report(&problems);
    let applied: usize =
        counts.iter().filter(|((what, _), _)| what.contains("appl")).map(|(_, count)| count).sum();
    let conflicts = counts.get(&("apply", 409)).copied().unwrap_or_default();
    assert!(applied > 40 * seeds().count() && conflicts > 0, "too few of a kind: {counts:?}");
    if seeds().count() >= 50 {
        let missing: Vec<&str> =
            ROWS.iter().map(|row| row.why).filter(|why| !known.contains_key(why)).collect();
        assert!(missing.is_empty(), "these differences no longer exist: {missing:?}");
    }
    running.shutdown().await;
}

/// Creates the namespace and the definition of widgets on both servers.
pub(super) async fn serve_widgets(servers: &mut Servers, namespace: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for server in [&mut servers.real, &mut servers.ours] {
        server.raw(&Method::POST, "/api/v1/namespaces", "application/json", &object).await;
        let (code, body) = server.raw(&Method::POST, definitions, "application/json", &widgets()).await;
        assert!(matches!(code, 201 | 409), "{body}");
        let path = Kind::Widget.path(namespace);
        let served = async {
            while server.raw(&Method::GET, &path, "application/json", &Value::Null).await.0 != 200 {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), served).await.expect("widgets are served");
    }
}

/// A random request for an object, and what it does.
fn request(rng: &mut Rng, kind: Kind, name: &str) -> (&'static str, Call) {
    let (all, one) = (kind.path(NAMESPACE), format!("{}/{name}", kind.path(NAMESPACE)));
    let manager = ["alice", "bob", "carol"][rng.usize(..3)];
    let other = ["dave", "kubectl-edit"][rng.usize(..2)];
    let force = rng.u8(..3) == 0;
    match rng.u8(..100) {
        0..55 => (
            "apply",
            Call::patch(format!("{one}?fieldManager={manager}&force={force}"), APPLY, kind.object(rng, name)),
        ),
        55..60 => (
            "dry-run apply",
            Call::patch(
                format!("{one}?fieldManager={manager}&force={force}&dryRun=All"),
                APPLY,
                kind.object(rng, name),
            ),
        ),
        60..68 if kind == Kind::Widget => {
            let object = json!({"apiVersion": kind.api_version(), "kind": "Widget", "metadata": {"name": name}, "status": status(rng)});
            (
                "apply of the status",
                Call::patch(format!("{one}/status?fieldManager={manager}&force={force}"), APPLY, object),
            )
        }
        68..71 if matches!(kind, Kind::Widget | Kind::Deployment) => {
            let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": rng.u8(1..5)}});
            (
                "apply of the scale",
                Call::patch(format!("{one}/scale?fieldManager={manager}&force={force}"), APPLY, scale),
            )
        }
        60..74 => (
            "merge patch",
            Call::patch(
                format!("{one}?fieldManager={other}"),
                "application/merge-patch+json",
                kind.changes(rng),
            ),
        ),
        74..80 if kind != Kind::Widget => (
            "strategic merge patch",
            Call::patch(
                format!("{one}?fieldManager={other}"),
                "application/strategic-merge-patch+json",
                kind.changes(rng),
            ),
        ),
        // The defaults of a Service that an update creates have no manager.
        74..88 if kind != Kind::Service => ("update", {
            let mut changes = kind.changes(rng);
            changes["apiVersion"] = json!(kind.api_version());
            changes["kind"] = json!(format!("{kind:?}"));
            changes["metadata"]["name"] = json!(name);
            Call::change(format!("{one}?fieldManager={other}"), changes)
        }),
        88..91 if !kind.needs_content() => {
            ("create", Call::new(Method::POST, format!("{all}?fieldManager={other}"), kind.object(rng, name)))
        }
        91..94 => ("delete", Call::new(Method::DELETE, one, Value::Null)),
        _ => bad(rng, kind, name, &one),
    }
}

/// A request that kube-apiserver rejects.
fn bad(rng: &mut Rng, kind: Kind, name: &str, one: &str) -> (&'static str, Call) {
    let mut object = kind.object(rng, name);
    let apply = |query: &str, object: Value| Call::patch(format!("{one}?{query}"), APPLY, object);
    match rng.u8(..7) {
        0 => ("apply without a manager", apply("force=false", object)),
        1 => {
            object["metadata"]["managedFields"] =
                json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1"}]);
            ("apply with managers", apply("fieldManager=alice", object))
        }
        2 => {
            object["metadata"]["name"] = json!("other");
            ("apply with another name", apply("fieldManager=alice", object))
        }
        3 => {
            object["metadata"]["resourceVersion"] = json!("1");
            ("apply with an old version", apply("fieldManager=alice", object))
        }
        4 => {
            object["metadata"]["namespace"] = json!("elsewhere");
            ("apply with another namespace", apply("fieldManager=alice", object))
        }
        5 => {
            object.as_object_mut().unwrap().remove("kind");
            ("apply without a kind", apply("fieldManager=alice", object))
        }
        _ => (
            "patch with force",
            Call::patch(format!("{one}?force=true"), "application/merge-patch+json", kind.changes(rng)),
        ),
    }
}
