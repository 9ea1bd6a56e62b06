//! Random definitions, and random objects of their kinds, which are valid or not.

mod random;
mod rules;

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::Options;
use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};

use super::super::kubectl::compare;
use super::{Call, Found, Servers, report};
use crate::differential::seeds;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The least number of definitions.
const LEAST: u64 = 100;
/// The objects of a definition, and the writes to each.
const OBJECTS: usize = 6;
const WRITES: usize = 3;

/// Whether a write of a status has an effect depends on the second in which it is made: a manager of other fields gets a new
/// time, though these stay as they are.
const OWN: &[&str] = &["lastTransitionTime", "conditions", "resourceVersion"];

// contract: E-23a, E-23b, E-23d, E-26a, E-26b, E-26c, E-26d
#[tokio::test(flavor = "multi_thread")]
async fn schemas_and_their_objects_have_equal_answers() {
    let (running, servers) = Servers::start(Options::new()).await;
    let mut run = Run { servers, counts: BTreeMap::new(), problems: Vec::new() };
    let seeds = seeds();
    for seed in seeds.start..seeds.end.max(seeds.start + LEAST) {
        run.definition(seed).await;
    }
    println!("requests by kind and code: {:?}", run.counts);
    report(&run.problems);
    let count = |what: &str, code: u16| run.counts.get(&(what, code)).copied().unwrap_or_default();
    for (what, code) in
        [("definition", 201), ("definition", 422), ("create", 201), ("create", 422), ("update", 200)]
    {
        assert!(count(what, code) > 10, "too few of a kind: {:?}", run.counts);
    }
    running.shutdown().await;
}

struct Run {
    servers: Servers,
    counts: BTreeMap<(&'static str, u16), usize>,
    problems: Vec<String>,
}

impl Run {
    /// Sends a request to both servers. Returns the code if the answers are equal.
    async fn send(&mut self, seed: u64, what: &'static str, call: &Call) -> Option<u16> {
        let ignored = compare::Ignored { own: OWN, defaults: &[] };
        let (code, found) = self.servers.send(call, &ignored).await;
        *self.counts.entry((what, code)).or_default() += 1;
        if let Found::Differences(mut found) = found {
            // costs are not estimated
            if found.iter().any(|difference| difference.contains("estimated rule cost")) {
                return None;
            }
            found.retain(|difference| !is_random(what, code, difference));
            if found.is_empty() {
                return Some(code);
            }
            self.problems.push(format!("seed {seed}: {what}: {call}\n    {}", found.join("\n    ")));
            return None;
        }
        Some(code)
    }

    async fn definition(&mut self, seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let mut schema = json!({"type": "object", "properties": {
            "x": random::schema(&mut rng, 3), "y": random::schema(&mut rng, 2),
            "status": {"type": "object", "properties": {"a": random::schema(&mut rng, 2)}}}});
        if rng.u8(..4) == 0 {
            random::spoil(&mut rng, &mut schema);
        }
        let mut of_rules = Rng::with_seed(seed ^ 0xce1);
        if of_rules.u8(..5) > 0 {
            rules::add(&mut of_rules, &mut schema, true);
        }
        let has_status = rng.bool();
        let mut definition = definition(seed, &schema, has_status);
        // objects are written in one version, and read in both
        let has_versions = rng.u8(..3) == 0;
        if has_versions {
            add_version(&mut rng, &mut definition, &schema);
        }
        self.servers.real.forget_numbers();
        self.servers.ours.forget_numbers();
        let known = self.problems.len();
        let call = Call::new(Method::POST, DEFINITIONS, definition.clone());
        let made = self.send(seed, "definition", &call).await;
        if made == Some(201) {
            self.wait_until_served(seed).await;
            for number in 0..OBJECTS {
                self.object(&mut rng, seed, &schema, has_status, number).await;
            }
            if has_versions {
                let list = Call::new(Method::GET, all(seed).replace("/v1/", "/v2/"), Value::Null);
                self.send(seed, "other version", &list).await;
            }
        }
        if let Some(problem) = self.problems.get_mut(known..).and_then(<[String]>::first_mut) {
            problem.push_str(&format!("\n    versions: {}", definition["spec"]["versions"]));
        }
        let path = format!("{DEFINITIONS}/s{seed}s.schemas.example.com");
        for server in [&self.servers.real, &self.servers.ours] {
            server.raw(&Method::DELETE, &path, "application/json", &Value::Null).await;
        }
    }

    async fn wait_until_served(&self, seed: u64) {
        for server in [&self.servers.real, &self.servers.ours] {
            let served = async {
                while server.raw(&Method::GET, &all(seed), "application/json", &Value::Null).await.0 != 200 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), served).await.expect("the kind is served");
        }
    }

    async fn object(&mut self, rng: &mut Rng, seed: u64, schema: &Value, has_status: bool, number: usize) {
        let name = format!("o{number}");
        let wrong = random::one(rng, &[0, 0, 10, 30]);
        let validation = random::one(rng, &["Strict", "Warn", "Ignore"]);
        let create =
            |object| Call::new(Method::POST, format!("{}?fieldValidation={validation}", all(seed)), object);
        let mut made = self.send(seed, "create", &create(object(rng, seed, schema, &name, wrong))).await;
        if made.is_some_and(|code| code != 201) {
            let empty = object(rng, seed, &Value::Null, &name, 0);
            made = self.send(seed, "create an empty one", &create(empty)).await;
        }
        if made != Some(201) {
            return;
        }
        for _ in 0..WRITES {
            let wrong = random::one(rng, &[0, 10]);
            let given = object(rng, seed, schema, &name, wrong);
            let sub = if has_status && rng.bool() { "/status" } else { "" };
            let one = format!("{}/{name}", all(seed));
            let (what, call) = match rng.u8(..3) {
                0 => ("update", Call::change(format!("{one}{sub}"), given)),
                1 => {
                    ("merge patch", Call::patch(format!("{one}{sub}"), "application/merge-patch+json", given))
                }
                _ => {
                    let path = format!("{one}{sub}?fieldManager=m&force=true");
                    ("apply", Call::patch(path, "application/apply-patch+yaml", given))
                }
            };
            let get = Call::new(Method::GET, one, Value::Null);
            if self.send(seed, what, &call).await.is_none() || self.send(seed, "get", &get).await.is_none() {
                break;
            }
        }
    }
}

/// Whether answers differ because kube-apiserver walks maps in a random order, or because a text has values of this run. The
/// status of a definition is set later.
fn is_random(what: &str, code: u16, difference: &str) -> bool {
    match code {
        201 => what == "definition" && difference.starts_with(".status"),
        // the errors of the compiler have other words
        422 if difference.matches("compilation failed").count() == 2 => true,
        422 => difference.starts_with(".message: ") || difference.contains("creationTimestamp"),
        500 => difference.contains("failed to create typed patch object"),
        _ => false,
    }
}

fn all(seed: u64) -> String {
    format!("/apis/schemas.example.com/v1/s{seed}s")
}

fn definition(seed: u64, schema: &Value, has_status: bool) -> Value {
    let mut version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    if has_status {
        version["subresources"] = json!({"status": {}});
    }
    let plural = format!("s{seed}s");
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.schemas.example.com")},
        "spec": {"group": "schemas.example.com", "scope": "Cluster", "versions": [version], "names":
            {"plural": plural, "singular": format!("s{seed}"), "kind": format!("S{seed}"), "listKind": format!("S{seed}List")}}})
}

/// Adds a version with the fields of the schema and another one, and stores objects in one of both.
fn add_version(rng: &mut Rng, definition: &mut Value, schema: &Value) {
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    let mut second = versions[0].clone();
    second["name"] = "v2".into();
    let mut other = schema.clone();
    if let Some(properties) = other["properties"].as_object_mut() {
        properties.insert("w".into(), random::schema(rng, 1));
        properties.insert(random::one(rng, &["x", "y"]).into(), random::schema(rng, 2));
    }
    second["schema"]["openAPIV3Schema"] = other;
    let stored = rng.usize(..2);
    versions.push(second);
    for (index, version) in versions.iter_mut().enumerate() {
        version["storage"] = (index == stored).into();
    }
}

fn object(rng: &mut Rng, seed: u64, schema: &Value, name: &str, wrong: u8) -> Value {
    let mut object = json!({"apiVersion": "schemas.example.com/v1", "kind": format!("S{seed}"),
        "metadata": {"name": name}});
    if rng.u8(..20) == 0 {
        object["metadata"]["other"] = 1.into();
    }
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        if rng.u8(..100) < 85 {
            object[field] = random::value(rng, schema, wrong);
        }
    }
    object
}
