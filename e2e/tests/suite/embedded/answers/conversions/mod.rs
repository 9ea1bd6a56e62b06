//! Conversion webhooks: objects of a definition with two versions have equal answers in both, whatever the webhook does.
//!
//! Each behaviour of the webhook has its definition. Its objects are written in the stored version, so that the first
//! conversion is that of a read.

mod converter;

use std::collections::BTreeMap;

use e2e::Options;
use futures::StreamExt;
use http::Method;
use serde_json::{Value, json};

use super::super::kubectl::compare;
use super::admission::hooks::Hooks;
use super::matrix::cases::TABLE;
use super::{Answer, Call, Found, Row, Server, Servers, neutral, report};
use crate::differential::seeds;
use crate::recorder::{check, eventually};
use converter::{BAD, GOOD};

const IGNORED: compare::Ignored<'_> = compare::Ignored {
    // the managers of other versions are a documented difference; the version of a list depends on other writes
    own: &["lastTransitionTime", "managedFields", "resourceVersion", "description", "continue"],
    defaults: &[],
};
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "conversions.example.com";
const JSON: &str = "application/json";

/// The behaviours after which objects are stored in the other version.
const LOSSLESS: [&str; 3] = ["ok", "no-managers", "managers"];
const STORED_IN_V2: &str = ", stored in v2";
/// Every so many failing behaviours are compared in the stored version, whose objects need no conversion. The first seed
/// chooses which.
const STORED: usize = 9;
/// How many definitions are compared at the same time.
const DEFINITIONS_AT_ONCE: usize = 12;

/// The comparison of the objects of one definition.
struct Run<'a> {
    servers: Servers,
    hooks: &'a Hooks,
    plural: String,
    behaviour: &'static str,
    versions: &'static [&'static str],
    found: Findings,
}

/// The answers that were compared.
#[derive(Default)]
struct Findings {
    codes: BTreeMap<u16, usize>,
    rows: BTreeMap<&'static str, usize>,
    problems: Vec<String>,
}

impl Findings {
    fn add(&mut self, other: Self) {
        for (code, count) in other.codes {
            *self.codes.entry(code).or_default() += count;
        }
        for (row, count) in other.rows {
            *self.rows.entry(row).or_default() += count;
        }
        self.problems.extend(other.problems);
    }
}

impl Run<'_> {
    /// Compares the answers to all requests.
    async fn all(mut self) -> Findings {
        self.define().await;
        self.wait().await;
        for (name, color) in [("a", "red"), ("b", "red"), ("c", "blue")] {
            assert_eq!(self.create("", name, color).await, 201);
        }
        for version in self.versions {
            self.requests(version, "").await;
        }
        // appliers of both versions see what a conversion has changed
        if LOSSLESS.contains(&self.behaviour) {
            self.store("v2").await;
            for (name, color) in [("d", "red"), ("e", "blue")] {
                self.create(STORED_IN_V2, name, color).await;
            }
            for version in ["v1", "v2"] {
                self.requests(version, STORED_IN_V2).await;
            }
        }
        self.found
    }

    fn each(&self) -> [(&'static str, &Server); 2] {
        [("real", &self.servers.real), ("ours", &self.servers.ours)]
    }

    async fn requests(&mut self, version: &str, about: &str) {
        for call in requests(version, &self.plural) {
            self.compare(&format!("{version}{about}"), &call).await;
        }
    }

    async fn create(&mut self, about: &str, name: &str, color: &str) -> u16 {
        let object = thing("v1", &self.plural, name, color);
        self.compare(about, &Call::new(Method::POST, all("v1", &self.plural), object)).await
    }

    async fn compare(&mut self, about: &str, call: &Call) -> u16 {
        let (mut real, mut ours) = self.servers.both(call).await;
        neutral(&mut real.body, &OF_ONE_RUN);
        neutral(&mut ours.body, &OF_ONE_RUN);
        *self.found.codes.entry(real.code).or_default() += 1;
        match Found::of(call, &real, &ours, &IGNORED, ROWS) {
            Found::Same => {}
            Found::Known(row) => *self.found.rows.entry(row).or_default() += 1,
            Found::Differences(found) => {
                let behaviour = self.behaviour;
                self.found
                    .problems
                    .push(format!("{behaviour} {about}: {call}\n    {}", found.join("\n    ")));
            }
        }
        real.code
    }

    async fn define(&self) {
        for (name, server) in self.each() {
            let url = format!("{}/{name}/convert/{}", self.hooks.server.url, self.behaviour);
            let object = definition(&self.plural, self.behaviour, &url, &self.hooks.server.bundle);
            let (code, body) = server.raw(&Method::POST, DEFINITIONS, JSON, &object).await;
            assert_eq!(code, 201, "{body}");
        }
    }

    /// Waits until both servers serve the definition.
    async fn wait(&self) {
        for (name, server) in self.each() {
            for version in ["v1", "v2"] {
                // the other version is asked for a missing name, which needs no conversion
                let path = format!("{}/none", all(version, &self.plural));
                eventually(&format!("{name}: {path}"), async || {
                    let (code, body) = server.raw(&Method::GET, &path, JSON, &Value::Null).await;
                    if code == 404 && body["reason"] == "NotFound" && body["details"]["name"] == "none" {
                        Ok(())
                    } else {
                        Err(body.to_string())
                    }
                })
                .await;
            }
        }
    }

    /// Stores objects in another version from now on.
    async fn store(&self, storage: &str) {
        let path = format!("{DEFINITIONS}/{}.{GROUP}", self.plural);
        let one = format!("{}/a", all("v1", &self.plural));
        for (name, server) in self.each() {
            let (_, mut object) = server.raw(&Method::GET, &path, JSON, &Value::Null).await;
            for version in object["spec"]["versions"].as_array_mut().unwrap() {
                version["storage"] = (version["name"] == storage).into();
                // the columns of a table show that the change counts
                version["additionalPrinterColumns"][0]["name"] = storage.into();
            }
            let (code, body) = server.raw(&Method::PUT, &path, JSON, &object).await;
            assert_eq!(code, 200, "{body}");
            eventually(&format!("{name} stores {storage}"), async || {
                let table = Call { accept: TABLE, ..get(&one) };
                let body = server.clone().send(&table).await.body;
                check(body["columnDefinitions"][1]["name"] == storage, &body)
            })
            .await;
        }
    }
}

/// What differs in every run in messages: versions, UIDs and times.
const OF_ONE_RUN: [(&str, &str); 6] = [
    ("revision=", ""),
    ("expected response.uid=\"", "-"),
    ("must have the same UID: ", "-"),
    ("\"uid\":\"", "-"),
    ("\"creationTimestamp\":\"", "-:"),
    ("\"time\":\"", "-:"),
];

fn all(version: &str, plural: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/{plural}")
}

fn definition(plural: &str, behaviour: &str, url: &str, authority: &str) -> Value {
    let version = |name: &str, spec: Value, column: &str| {
        json!({"name": name, "served": true, "storage": name == "v1",
            "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": column}],
            "selectableFields": [{"jsonPath": column}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec},
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}}}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}})
    };
    let fields =
        json!({"color": {"type": "string", "maxLength": 8}, "size": {"type": "integer", "default": 1}});
    let mut first = fields.clone();
    first["replicas"] = json!({"type": "integer"});
    let second = json!({"replicas": {"type": "integer"}, "paint": {"type": "object", "properties": fields}});
    let reviews = if behaviour == "v2-only" { json!(["v2", "v1beta1"]) } else { json!(["v1"]) };
    json!({"metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": kind(plural)},
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": reviews,
                "clientConfig": {"url": url, "caBundle": authority}}},
            "versions": [version("v1", first, ".spec.color"), version("v2", second, ".spec.paint.color")]}})
}

fn kind(plural: &str) -> String {
    let (first, rest) = plural.split_at(1);
    first.to_uppercase() + rest
}

fn thing(version: &str, plural: &str, name: &str, color: &str) -> Value {
    let spec = if version == "v1" {
        json!({"color": color, "size": 3, "replicas": 1})
    } else {
        json!({"paint": {"color": color, "size": 4}, "replicas": 2})
    };
    json!({"apiVersion": format!("{GROUP}/{version}"), "kind": kind(plural),
        "metadata": {"name": name, "labels": {"own": color}, "annotations": {"note": name}}, "spec": spec})
}

fn get(path: impl Into<String>) -> Call {
    Call::new(Method::GET, path, Value::Null)
}

/// Requests for objects in a version: `a`, `b` and `c`, which exist.
fn requests(version: &str, plural: &str) -> Vec<Call> {
    let all = all(version, plural);
    let other = if version == "v1" { "v2" } else { "v1" };
    let merge = |path: String, body: Value| Call::patch(path, "application/merge-patch+json", body);
    let apply = |path: String, body: Value| Call::patch(path, "application/apply-patch+yaml", body);
    let new = |name: &str, color: &str| thing(version, plural, name, color);
    let one = |name: &str| format!("{all}/{name}");
    // an applier has one version
    let applied = format!("applied-{version}");
    let paint = |color: &str| {
        if version == "v1" {
            json!({"spec": {"color": color}})
        } else {
            json!({"spec": {"paint": {"color": color}}})
        }
    };
    let (field, pointer) = if version == "v1" {
        ("spec.color", "/spec/color")
    } else {
        ("spec.paint.color", "/spec/paint/color")
    };
    let status = json!({"status": {"replicas": 2, "phase": "x"}});
    vec![
        get(one("a")),
        get(one("missing")),
        Call { accept: TABLE, ..get(one("a")) },
        get(&all),
        Call { accept: TABLE, ..get(&all) },
        get(format!("{all}?limit=1")),
        get(format!("{all}?labelSelector=own%3Dred")),
        get(format!("{all}?fieldSelector={field}%3Dred")),
        get(format!("{}?resourceVersion=0", self::all(version, plural).replace("/namespaces/default", ""))),
        Call::new(Method::POST, format!("{all}?dryRun=All"), new("dry", "blue")),
        Call::new(Method::POST, &all, new("created", "blue")),
        Call::new(Method::POST, &all, new("created", "blue")),
        Call::new(Method::POST, &all, new("invalid", "much too long")),
        Call::new(Method::POST, format!("{all}?fieldValidation=Strict"), {
            let mut object = new("strict", "blue");
            object["spec"]["other"] = 1.into();
            object
        }),
        Call::new(Method::POST, &all, thing(other, plural, "wrong", "blue")),
        Call::change(one("a"), paint("green")),
        Call::change(one("a"), json!({"metadata": {"resourceVersion": "1"}})),
        Call::change(one("created"), json!({"metadata": {"labels": {"more": "yes"}}})),
        Call::change(one("missing"), new("missing", "red")),
        merge(one("a"), paint("black")),
        merge(one("a"), json!({})),
        merge(one("a"), paint("much too long")),
        merge(one("missing"), paint("red")),
        Call::patch(
            one("b"),
            "application/json-patch+json",
            json!([{"op": "replace", "path": pointer, "value": "grey"}]),
        ),
        Call::patch(
            one("b"),
            "application/json-patch+json",
            json!([{"op": "test", "path": pointer, "value": "none"}]),
        ),
        apply(format!("{}?fieldManager=m-{version}", one(&applied)), new(&applied, "red")),
        apply(format!("{}?fieldManager=m-{version}", one(&applied)), new(&applied, "pink")),
        apply(format!("{}?fieldManager=n-{version}", one(&applied)), new(&applied, "white")),
        // kube-apiserver refuses some of these, which the answers after them must not show
        apply(format!("{}?fieldManager=n-{version}&force=true&dryRun=All", one("b")), new("b", "white")),
        get(format!("{}/status", one("a"))),
        merge(format!("{}/status", one("a")), status.clone()),
        Call::change(format!("{}/status", one("b")), status),
        apply(
            format!("{}/status?fieldManager=s-{version}&force=true&dryRun=All", one("b")),
            json!({"apiVersion": format!("{GROUP}/{version}"), "kind": kind(plural),
            "metadata": {"name": "b"}, "status": {"phase": "applied"}}),
        ),
        get(format!("{}/scale", one("a"))),
        merge(format!("{}/scale", one("a")), json!({"spec": {"replicas": 5}})),
        Call::change(format!("{}/scale", one("a")), json!({"spec": {"replicas": 6}})),
        get(format!("{all}?watch=true&resourceVersion=0&timeoutSeconds=1")),
        get(format!(
            "{all}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
        )),
        Call {
            accept: TABLE,
            ..get(format!("{all}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Db"))
        },
        Call::new(Method::DELETE, format!("{}?dryRun=All", one("a")), Value::Null),
        Call::new(Method::DELETE, format!("{}?gracePeriodSeconds=3", one("c")), Value::Null),
        Call::new(Method::DELETE, one("c"), Value::Null),
        Call::new(Method::DELETE, format!("{all}?labelSelector=own%3Dred&dryRun=All"), Value::Null),
        get(&all),
    ]
}

/// The differences by design.
const ROWS: &[Row] = &[
    Row {
        why: "the message of an error has other words, if it is about a request that cannot be parsed",
        is: |_, real, ours| {
            let is_unparsed = real.text.contains("the object provided is unrecognized");
            is_unparsed && (real.code, ours.code) == (400, 400)
        },
    },
    Row {
        why: "the message has other words, if a webhook answers with JSON of another form",
        is: |_, real, ours| {
            let is_unparsed = real.text.contains("couldn't get version/kind; json parse error");
            let has_failed = |answer: &Answer| answer.text.contains("conversion webhook for ");
            is_unparsed && has_failed(ours) && real.code == ours.code
        },
    },
    Row {
        why: "an apply ignores fields that a conversion webhook adds and the schema does not have",
        is: |call, real, _| {
            real.code == 500
                && call.path.contains("fieldManager=")
                && real.text.contains("field not declared in schema")
        },
    },
];

// contract: E-29a, E-29b, E-29c, E-29d, E-29e
#[tokio::test(flavor = "multi_thread")]
async fn objects_that_a_webhook_converts_have_equal_answers() {
    // with watch caches, the answers about objects that cannot be converted depend on the time
    let (running, servers) = Servers::start(Options::new().apiserver_flag("--watch-cache=false")).await;
    let hooks = Hooks::answering(converter::answer).await;
    let behaviours = GOOD.iter().chain(&BAD).enumerate();
    let chosen = usize::try_from(seeds().start).unwrap();
    let runs = behaviours.map(|(number, behaviour)| {
        let (servers, plural) = (servers.clone(), format!("t{number}s"));
        let in_both = GOOD.contains(behaviour) || (number + chosen).is_multiple_of(STORED);
        let versions: &[&str] = if in_both { &["v2", "v1"] } else { &["v2"] };
        Run { servers, hooks: &hooks, plural, behaviour, versions, found: Findings::default() }.all()
    });
    let mut found = Findings::default();
    let mut all = futures::stream::iter(runs).buffer_unordered(DEFINITIONS_AT_ONCE);
    while let Some(of_one) = all.next().await {
        found.add(of_one);
    }
    println!("codes {:?}; documented: {:?}", found.codes, found.rows);
    report(&found.problems);
    running.shutdown().await;
}
