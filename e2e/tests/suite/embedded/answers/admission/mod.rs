//! Admission webhooks: both servers call the same webhooks with the same reviews, and give the same answers.

mod cases;
pub(super) mod hooks;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use e2e::Options;
use http::Method;
use kinformer_apiserver::ApiServer;
use serde_json::{Value, json};

use super::super::kubectl::compare;
use super::{Answer, Call, Found, Row, Server, neutral, report};
use crate::planes;
use crate::recorder::eventually;
use cases::{Case, base, cases, configurations, definition, requests};
use hooks::Hooks;

const IGNORED: compare::Ignored<'_> =
    compare::Ignored { own: &["lastTransitionTime", "lastUpdateTime"], defaults: compare::DEFAULTS };
const ROOT: &str = "/apis/admissionregistration.k8s.io/v1";
const KINDS: [&str; 2] = ["Mutating", "Validating"];

/// Both servers, with their names in the paths of webhooks.
struct Both {
    servers: [(&'static str, Server); 2],
    hooks: Hooks,
}

impl Both {
    async fn raw(&self, method: Method, path: &str, body: &Value) -> [(u16, Value); 2] {
        let [(_, real), (_, ours)] = &self.servers;
        let (real, ours) = tokio::join!(
            real.raw(&method, path, "application/json", body),
            ours.raw(&method, path, "application/json", body)
        );
        [real, ours]
    }

    async fn create(&self, path: &str, object: &Value) {
        for (code, body) in self.raw(Method::POST, path, object).await {
            assert!(code == 201 || code == 409, "{path}: {code} {body}");
        }
    }

    /// Replaces the webhooks of both servers, and waits until they count.
    async fn configure(&self, number: usize, case: &Case) {
        for (server, client) in &self.servers {
            for kind in KINDS {
                let mut webhooks: Vec<Value> = case.hooks(kind, server, &self.hooks);
                webhooks.insert(0, probe(kind, number, server, &self.hooks));
                let path = format!("{ROOT}/{}webhookconfigurations/matrix", kind.to_lowercase());
                let object = json!({"webhooks": webhooks});
                let (code, body) =
                    client.raw(&Method::PATCH, &path, "application/merge-patch+json", &object).await;
                assert_eq!(code, 200, "{body}");
            }
            for kind in KINDS {
                let labels = json!({"probe": format!("{kind}-{number}")});
                let object = json!({"metadata": {"name": "probe", "labels": labels}});
                eventually("a configuration counts", async || {
                    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
                    let (_, body) = client.raw(&Method::POST, path, "application/json", &object).await;
                    let message = body["message"].as_str().unwrap_or_default();
                    if message.contains("denied the request: probe") { Ok(()) } else { Err(body.to_string()) }
                })
                .await;
            }
        }
    }

    /// Sends a request to both, and compares the answers and the reviews.
    async fn compare(&mut self, call: &Call) -> (u16, usize, Vec<String>) {
        let [(_, real), (_, ours)] = &mut self.servers;
        real.forget_numbers();
        ours.forget_numbers();
        let (mut real, mut ours) = tokio::join!(real.send(call), ours.send(call));
        for answer in [&mut real, &mut ours] {
            neutral(&mut answer.body, &[("expected response.uid=\"", "-")]);
            answer.warnings.iter_mut().for_each(neutral_warning);
        }
        let mut found = match Found::of(call, &real, &ours, &IGNORED, ROWS) {
            Found::Same | Found::Known(_) => Vec::new(),
            Found::Differences(found) => found,
        };
        let [mut real_reviews, mut our_reviews] = [self.reviews(0), self.reviews(1)];
        if call.path.ends_with("/pods/bound/binding") {
            // documented: webhooks see a binding without managers
            for (_, review) in &mut real_reviews {
                if let Some(metadata) = review["request"]["object"]["metadata"].as_object_mut() {
                    metadata.remove("managedFields");
                }
            }
        }
        if call.path.ends_with("/pods/deleted") {
            // kube-apiserver asks again if its cache has not seen the update before the removal
            for reviews in [&mut real_reviews, &mut our_reviews] {
                let mut seen = BTreeSet::new();
                reviews.retain(|(path, _)| seen.insert(path.clone()));
            }
        }
        let paths = |reviews: &[(String, Value)]| -> Vec<String> {
            let of = |(path, review): &(String, Value)| {
                format!("{path} {} {}", review["request"]["operation"], review["request"]["name"])
            };
            reviews.iter().map(of).collect()
        };
        let count = real_reviews.len();
        if paths(&real_reviews) == paths(&our_reviews) {
            for ((path, real), (_, ours)) in real_reviews.iter().zip(&our_reviews) {
                compare::json(&mut found, path, real, ours, &IGNORED);
            }
        } else {
            found.push(format!("reviews {:?}, ours {:?}", paths(&real_reviews), paths(&our_reviews)));
        }
        // documented: a write of a status changes no annotations and finalizers; causes are listed once
        let is_status = call.path.ends_with("/deployments/base/status");
        found.retain(|what| {
            let of_status = what.contains(".metadata.annotations") || what.contains(".metadata.finalizers");
            // documented: the status of a definition has no manager
            let of_definition =
                call.path.contains("/customresourcedefinitions/") && what.contains(".managedFields: ");
            let of_labels = what.starts_with(".details.causes: ") && what.contains("metadata.labels");
            !(is_status && of_status || of_definition || of_labels && call.path.contains("/gadgets/"))
        });
        (real.code, count, found)
    }

    /// Returns the reviews of a server: those of mutating webhooks in their order, then the others by their paths.
    fn reviews(&mut self, index: usize) -> Vec<(String, Value)> {
        let (name, server) = &mut self.servers[index];
        let mut reviews = self.hooks.take(name);
        // kube-apiserver renews its own Lease in between
        reviews.retain(|(_, review)| review["request"]["resource"]["resource"] != "leases");
        retain_last_attempts(&mut reviews);
        let (mut all, mut validating): (Vec<_>, Vec<_>) =
            reviews.into_iter().partition(|(path, _)| path.starts_with("mutating/"));
        validating.sort_by(|(a, _), (b, _)| a.cmp(b));
        all.extend(validating);
        for (_, review) in &mut all {
            let request = review["request"].as_object_mut().unwrap();
            request.remove("uid");
            request.remove("userInfo");
            server.replace(review);
        }
        all
    }
}

/// Removes the reviews of attempts that kube-apiserver has repeated, because its cache had an old version of the object.
fn retain_last_attempts(reviews: &mut Vec<(String, Value)>) {
    let old = |review: &Value| {
        let metadata = &review["request"]["oldObject"]["metadata"];
        // a pod that is marked and then removed has reviews of both writes
        let object = [metadata["uid"].clone(), metadata["deletionTimestamp"].clone()];
        Some((object, metadata["resourceVersion"].as_str()?.parse::<u64>().ok()?))
    };
    let mut last = HashMap::<[Value; 2], u64>::new();
    for (object, version) in reviews.iter().filter_map(|(_, review)| old(review)) {
        last.entry(object).and_modify(|last| *last = version.max(*last)).or_insert(version);
    }
    reviews.retain(|(_, review)| old(review).is_none_or(|(object, version)| last[&object] == version));
}

/// A webhook that denies an object by which it is seen that the configuration counts.
fn probe(kind: &str, number: usize, server: &str, hooks: &Hooks) -> Value {
    let selector = json!({"matchLabels": {"probe": format!("{kind}-{number}")}});
    let kind = kind.to_lowercase();
    json!({"name": "probe.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "objectSelector": selector,
        "clientConfig": {"url": format!("{}/{server}/{kind}/probe", hooks.server.url), "caBundle": hooks.server.bundle},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]})
}

/// Replaces the time in a warning about managers, and removes the words of the parser after it.
fn neutral_warning(warning: &mut String) {
    const REASON: &str = "error decoding set: ";
    if let (Some(zone), Some(reason)) = (warning.find(" +0000 UTC"), warning.find(REASON)) {
        warning.truncate(reason + REASON.len());
        warning.replace_range(zone - "2026-01-01 00:00:00".len()..zone, "(time)");
    }
}

/// The differences by design.
const ROWS: &[Row] = &[
    Row {
        why: "webhooks and policies see a binding without `managedFields`",
        is: |call, real, ours| {
            let of_managers =
                real.warnings.iter().any(|warning| warning.contains("managedFields was in an invalid state"));
            call.path.ends_with("/binding") && of_managers && real.code == ours.code
        },
    },
    Row {
        why: "the message has other words, if a webhook answers with JSON of another form, or with a patch that cannot be applied or leaves managers that cannot be parsed",
        is: |_, real, ours| {
            let text = |answer: &Answer| answer.body["message"].as_str().unwrap_or_default().to_owned();
            let (a, b) = (text(real), text(ours));
            let is_internal = |text: &str| text.starts_with("Internal error occurred: ");
            let is_other = a != b && is_internal(&a) && is_internal(&b);
            let marks = [
                "json",
                "couldn't get version/kind",
                "jsonpatch",
                "unknown conversion",
                "no kind",
                "strict decoding",
            ];
            real.code == ours.code && is_other && marks.iter().any(|mark| a.contains(mark))
        },
    },
];

// contract: E-27a, E-27b, E-27d, E-27e, E-27f, E-27h, E-27i, E-27j, E-27l, E-27m
#[tokio::test(flavor = "multi_thread")]
async fn admission_matrix_of_webhooks_and_requests() {
    let control_plane = planes::take(Options::new()).await;
    let server = ApiServer::builder().start().await.unwrap();
    let real = Server::new(control_plane.client().await.unwrap());
    let ours = Server::new(kinformer::client(server.config().unwrap()).unwrap());
    let mut both = Both { servers: [("real", real), ("ours", ours)], hooks: Hooks::start().await };
    both.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await;
    let widgets = "/apis/admission.example.com/v1/namespaces/default/gadgets";
    eventually("gadgets are served", async || match both.raw(Method::GET, widgets, &Value::Null).await {
        [(200, _), (200, _)] => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    for kind in KINDS {
        let path = format!("{ROOT}/{}webhookconfigurations", kind.to_lowercase());
        both.create(&path, &json!({"metadata": {"name": "matrix"}, "webhooks": []})).await;
    }
    let cases = cases();
    for number in 0..cases.len() {
        for (path, object) in base(number) {
            both.create(&path, &object).await;
        }
    }

    let (mut problems, mut codes, mut sent, mut seen) = (Vec::new(), BTreeMap::<u16, usize>::new(), 0, 0);
    for (number, case) in cases.iter().enumerate() {
        both.configure(number, case).await;
        both.reviews(0);
        both.reviews(1);
        for call in requests(number, case) {
            let (code, reviews, found) = both.compare(&call).await;
            *codes.entry(code).or_default() += 1;
            (sent, seen) = (sent + 1, seen + reviews);
            if !found.is_empty() {
                problems.push(format!("{case}: {call}\n    {}", found.join("\n    ")));
            }
        }
    }
    for call in configurations() {
        let (_, _, found) = both.compare(&call).await;
        if !found.is_empty() {
            problems.push(format!("{call}\n    {}", found.join("\n    ")));
        }
    }
    println!("{} cases, {sent} requests, {seen} reviews, codes {codes:?}", cases.len());
    for kind in KINDS {
        let path = format!("{ROOT}/{}webhookconfigurations/matrix", kind.to_lowercase());
        both.raw(Method::DELETE, &path, &Value::Null).await;
    }
    report(&problems);
    assert!([200, 201, 400, 422, 500].iter().all(|code| codes.contains_key(code)), "{codes:?}");
    assert!(seen > 500, "{seen}");
    server.shutdown().await;
}
