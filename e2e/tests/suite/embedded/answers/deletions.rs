//! Deletions of owners and dependents with each propagation policy, with kube-controller-manager on the real server.

use std::time::Duration;

use e2e::Options;
use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};

use super::super::kubectl::compare;
use super::{Call, Found, Server, Servers, report};
use crate::differential::seeds;

/// How long kube-controller-manager may need.
const PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "deletions";

/// kube-controller-manager needs another number of writes, and they have its name as their manager.
const IGNORED: compare::Ignored<'_> =
    compare::Ignored { own: &["resourceVersion", "managedFields"], defaults: &[] };

/// The objects of a seed, and the deletions.
const OBJECTS: usize = 8;
const DELETIONS: usize = 5;

// contract: E-14b, E-14c, E-14d, E-14e, E-14k
#[tokio::test(flavor = "multi_thread")]
async fn deletions_have_equal_effects() {
    let (running, mut servers) = Servers::start(Options::new().controllers()).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    for server in [&servers.real, &servers.ours] {
        server.raw(&Method::POST, "/api/v1/namespaces", "application/json", &namespace).await;
    }
    let mut problems = Vec::new();
    for seed in seeds() {
        problems.extend(graph(&mut servers, seed).await.err().map(|why| format!("seed {seed}: {why}")));
    }
    report(&problems);
    running.shutdown().await;
}

/// Creates objects that own each other, deletes some of them, and compares the answers, and the objects after each.
async fn graph(servers: &mut Servers, seed: u64) -> Result<(), String> {
    servers.real.forget_numbers();
    servers.ours.forget_numbers();
    let mut rng = Rng::with_seed(seed);
    let mut uids: Vec<[Value; 2]> = Vec::new();
    for number in 0..OBJECTS {
        let owners: Vec<usize> = (0..number).filter(|_| rng.u8(..3) == 0).collect();
        let blocks = rng.bool();
        let finalizers = if rng.u8(..6) == 0 { json!(["example.com/hold"]) } else { json!([]) };
        let (mut created, mut answers) = ([Value::Null, Value::Null], [Value::Null, Value::Null]);
        for (side, server) in [&mut servers.real, &mut servers.ours].into_iter().enumerate() {
            let owners: Vec<Value> = owners
                .iter()
                .map(|owner| {
                    json!({
                        "apiVersion": "v1", "kind": kind(*owner), "name": name(seed, *owner),
                        "uid": uids[*owner][side], "blockOwnerDeletion": blocks,
                    })
                })
                .collect();
            let object = json!({
                "apiVersion": "v1", "kind": kind(number), "metadata": {
                    "name": name(seed, number), "labels": {"seed": seed.to_string()},
                    "ownerReferences": owners, "finalizers": finalizers,
                },
            });
            let (code, mut body) =
                server.raw(&Method::POST, &path(number), "application/json", &object).await;
            if code != 201 {
                return Err(format!("create: {code} {body}"));
            }
            created[side] = body["metadata"]["uid"].clone();
            // The numbers of UIDs are in the order of creation.
            server.replace(&mut body);
            answers[side] = body;
        }
        uids.push(created);
        if answers[0] != answers[1] {
            return Err(format!("create: {}\n    ours {}", answers[0], answers[1]));
        }
    }
    let mut text = String::new();
    for _ in 0..DELETIONS {
        let call = deletion(&mut rng, seed);
        text += &format!("\n    {call}");
        match servers.send(&call, &IGNORED).await.1 {
            Found::Same => {}
            Found::Known(why) => return Err(format!("{text}\n    {why}")),
            Found::Differences(found) => return Err(format!("{text}\n    {}", found.join("\n    "))),
        }
        settled(servers, seed).await.map_err(|why| format!("{text}\n    {why}"))?;
    }
    Ok(())
}

fn kind(number: usize) -> &'static str {
    if number.is_multiple_of(2) { "ConfigMap" } else { "Secret" }
}

fn name(seed: u64, number: usize) -> String {
    format!("s{seed}-{number}")
}

fn path(number: usize) -> String {
    let plural = if number.is_multiple_of(2) { "configmaps" } else { "secrets" };
    format!("/api/v1/namespaces/{NAMESPACE}/{plural}")
}

/// A random deletion.
fn deletion(rng: &mut Rng, seed: u64) -> Call {
    let number = rng.usize(..OBJECTS);
    let one = format!("{}/{}", path(number), name(seed, number));
    let policy = ["Background", "Foreground", "Orphan"][rng.usize(..3)];
    match rng.u8(..20) {
        0 => Call::new(Method::DELETE, one, Value::Null),
        1 => Call::new(Method::DELETE, format!("{one}?propagationPolicy={policy}"), Value::Null),
        2 => Call::new(Method::DELETE, format!("{one}?dryRun=All&propagationPolicy={policy}"), Value::Null),
        3 => options(one, json!({"propagationPolicy": "Sideways"})),
        4 => options(one, json!({"orphanDependents": rng.bool()})),
        5 => options(one, json!({"orphanDependents": true, "propagationPolicy": policy})),
        6 => options(one, json!({"preconditions": {"uid": "another"}, "propagationPolicy": policy})),
        7 => options(one, json!({"preconditions": {"resourceVersion": "1"}, "propagationPolicy": policy})),
        8 | 9 => {
            let changes = json!({"metadata": {"finalizers": null}});
            Call::patch(one, "application/merge-patch+json", changes)
        }
        _ => options(one, json!({"propagationPolicy": policy})),
    }
}

fn options(path: String, mut options: Value) -> Call {
    options["apiVersion"] = json!("v1");
    options["kind"] = json!("DeleteOptions");
    Call::new(Method::DELETE, path, options)
}

/// Waits until both servers have the same objects.
async fn settled(servers: &mut Servers, seed: u64) -> Result<(), String> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let (real, ours) = (objects(&mut servers.real, seed).await, objects(&mut servers.ours, seed).await);
        let mut found = Vec::new();
        compare::json(&mut found, "", &real, &ours, &IGNORED);
        if found.is_empty() {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            return Err(format!("after {PATIENCE:?}: {}\n    ours {}", summary(&real), summary(&ours)));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The objects of a seed, without references to owners that are gone or being deleted: whether kube-controller-manager
/// removes one depends on which of its workers is first.
async fn objects(server: &mut Server, seed: u64) -> Value {
    let mut objects = Vec::new();
    for number in 0..2 {
        let list = format!("{}?labelSelector=seed={seed}", path(number));
        let mut answer = server.send(&Call::new(Method::GET, list, Value::Null)).await;
        objects.append(answer.body["items"].as_array_mut().unwrap());
    }
    let staying = objects.iter().filter(|object| object["metadata"]["deletionTimestamp"].is_null());
    let uids: Vec<Value> = staying.map(|object| object["metadata"]["uid"].clone()).collect();
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
            owners.retain(|owner| uids.contains(&owner["uid"]));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
    }
    Value::Array(objects)
}

/// The names, owners, finalizers and deletions of objects.
fn summary(objects: &Value) -> String {
    let items = objects.as_array().into_iter().flatten().map(|item| {
        let metadata = &item["metadata"];
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owners: Vec<String> =
            owners.map(|owner| format!("{}{}", owner["name"], owner["blockOwnerDeletion"])).collect();
        let is_deleted = !metadata["deletionTimestamp"].is_null();
        format!("{} of {owners:?}, {}, deleted {is_deleted}", metadata["name"], metadata["finalizers"])
    });
    items.collect::<Vec<_>>().join("; ")
}
