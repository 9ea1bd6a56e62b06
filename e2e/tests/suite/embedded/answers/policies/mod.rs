//! Admission policies: both servers store the same policies and bindings, and give the same answers to the requests that
//! they concern.
//!
//! Each case has its policies and a namespace, which they select. Cases are compared in groups, as kube-apiserver reads new
//! policies once a second.

mod cases;
mod random;
mod requests;
mod written;

use std::collections::BTreeMap;

use e2e::Options;
use http::Method;
use serde_json::{Value, json};

use super::super::kubectl::compare;
use super::admission::hooks::Hooks;
use super::{Answer, Call, Found, Row, Server, Servers, neutral, report};
use crate::differential::seeds;
use crate::recorder::eventually;
use cases::Case;

const IGNORED: compare::Ignored<'_> =
    compare::Ignored { own: &["lastTransitionTime", "lastUpdateTime"], defaults: compare::DEFAULTS };
const ROOT: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const WEBHOOKS: [&str; 2] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
const JSON: &str = "application/json";

/// The cases that are compared at once.
const GROUP: usize = 20;
/// The least number of random cases.
const LEAST: u64 = 40;

/// Both servers, with the results.
struct Run {
    servers: Servers,
    hooks: Hooks,
    counts: BTreeMap<u16, usize>,
    problems: Vec<String>,
    rows: BTreeMap<&'static str, usize>,
}

impl Run {
    fn each(&self) -> [(&'static str, &Server); 2] {
        [("real", &self.servers.real), ("ours", &self.servers.ours)]
    }

    async fn create(&self, path: &str, object: &Value) {
        for (name, server) in self.each() {
            eventually(path, async || match server.raw(&Method::POST, path, JSON, object).await {
                (201 | 409, _) => Ok(()),
                // definitions are served after a while
                (404, body) => Err(body.to_string()),
                (code, body) => panic!("{name}: {path}: {code} {body}"),
            })
            .await;
        }
    }

    async fn delete(&self, path: &str) {
        for (_, server) in self.each() {
            server.raw(&Method::DELETE, path, JSON, &Value::Null).await;
        }
    }

    /// Sends a request to both, and compares the answers.
    async fn compare(&mut self, about: &dyn std::fmt::Display, call: &Call) -> u16 {
        self.servers.real.forget_numbers();
        self.servers.ours.forget_numbers();
        let (mut real, mut ours) = self.servers.both(call).await;
        for answer in [&mut real, &mut ours] {
            answer.warnings.sort();
            neutral(&mut answer.body, &[("generated-", "")]);
            if answer.body.get("items").is_some() {
                // the version of a list depends on the other requests
                answer.body["metadata"]["resourceVersion"] = Value::Null;
            }
        }
        *self.counts.entry(real.code).or_default() += 1;
        match Found::of(call, &real, &ours, &IGNORED, ROWS) {
            Found::Same => {}
            Found::Known(row) => *self.rows.entry(row).or_default() += 1,
            Found::Differences(found) => {
                self.problems.push(format!("{about}: {call}\n    {}", found.join("\n    ")));
            }
        }
        real.code
    }

    /// Writes the policies of cases to both servers, and waits until they act.
    async fn configure(&mut self, number: usize, cases: &[(usize, Case)]) {
        for (own, _) in cases {
            for (path, object) in requests::base(*own) {
                self.create(&path, &object).await;
            }
        }
        for (own, case) in cases {
            for (path, object) in case.objects(*own) {
                let call = Call::new(Method::POST, path, object);
                let code = self.compare(case, &call).await;
                if code != 201 {
                    self.problems.push(format!("{case}: {call}: {code}"));
                }
            }
        }
        for kind in WEBHOOKS {
            for (server, client) in self.each() {
                let path = format!("{ROOT}/{kind}");
                let name = format!("group-{number}");
                let of_cases =
                    cases.iter().flat_map(|(own, case)| case.hooks(*own, kind, server, &self.hooks));
                let probe = std::iter::once(probe_hook(number, kind, server, &self.hooks));
                let webhooks: Vec<Value> = probe.chain(of_cases).collect();
                let object = json!({"metadata": {"name": name}, "webhooks": webhooks});
                let (code, body) = client.raw(&Method::POST, &path, JSON, &object).await;
                assert_eq!(code, 201, "{body}");
            }
            self.wait(&format!("{kind}-{number}")).await;
        }
        let probe = format!("policy-{number}");
        self.create(POLICIES, &probe_policy(&probe, None)).await;
        self.create(BINDINGS, &probe_binding(&probe, None)).await;
        self.wait(&probe).await;
    }

    /// Waits until both servers deny an object with a label.
    async fn wait(&self, probe: &str) {
        for (_, client) in self.each() {
            let object = json!({"metadata": {"name": "probe", "labels": {"probe": probe}}});
            eventually(&format!("{probe} acts"), async || {
                let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
                let (_, body) = client.raw(&Method::POST, path, JSON, &object).await;
                let message = body["message"].as_str().unwrap_or_default();
                if message.ends_with(" request: probe") { Ok(()) } else { Err(body.to_string()) }
            })
            .await;
        }
    }

    async fn clear(&self, number: usize, cases: &[(usize, Case)]) {
        for (own, case) in cases {
            for (path, object) in case.objects(*own) {
                self.delete(&format!("{path}/{}", object["metadata"]["name"].as_str().unwrap())).await;
            }
        }
        for path in [POLICIES, BINDINGS] {
            self.delete(&format!("{path}/policy-{number}")).await;
        }
        for kind in WEBHOOKS {
            self.delete(&format!("{ROOT}/{kind}/group-{number}")).await;
        }
    }

    /// Creates the kinds of parameters, and waits until policies can use them.
    async fn begin(&self) {
        for definition in requests::definitions() {
            self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
        }
        for (path, object) in requests::params() {
            self.create(&path, &object).await;
        }
        for (number, kind) in requests::param_kinds().iter().enumerate() {
            let name = format!("kind-{number}");
            self.create(POLICIES, &probe_policy(&name, Some(kind))).await;
            self.create(BINDINGS, &probe_binding(&name, Some(kind))).await;
            self.wait(&name).await;
        }
    }
}

fn probe_policy(name: &str, kind: Option<&Value>) -> Value {
    let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
    let selector = json!({"matchLabels": {"probe": name}});
    json!({"metadata": {"name": name}, "spec": {"paramKind": kind,
        "matchConstraints": {"objectSelector": selector, "resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "probe"}]}})
}

fn probe_binding(name: &str, kind: Option<&Value>) -> Value {
    let params = kind.map(|kind| {
        let namespace = if kind["kind"] == "Global" { Value::Null } else { "default".into() };
        json!({"name": "first", "namespace": namespace, "parameterNotFoundAction": "Deny"})
    });
    json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"], "paramRef": params}})
}

fn probe_hook(number: usize, kind: &str, server: &str, hooks: &Hooks) -> Value {
    let phase = if kind.starts_with("mutating") { "mutating" } else { "validating" };
    json!({"name": "probe.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "objectSelector": {"matchLabels": {"probe": format!("{kind}-{number}")}},
        "clientConfig": {"url": format!("{}/{server}/{phase}/probe", hooks.server.url), "caBundle": hooks.server.bundle},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]})
}

/// Returns which policy and binding have denied a request.
fn denier(answer: &Answer) -> Option<&str> {
    let message = answer.body["message"].as_str()?;
    let (before, _) = message.split_once(" denied request: ")?;
    before.split_once("ValidatingAdmissionPolicy '").map(|(_, name)| name)
}

/// The differences by design.
const ROWS: &[Row] = &[
    Row {
        why: "of several that deny a request, the answer names the first one by name",
        is: |_, real, ours| match (denier(real), denier(ours)) {
            (Some(a), Some(b)) => a != b && a.split('-').next() == b.split('-').next(),
            _ => false,
        },
    },
    Row {
        why: "an expression that reads `authorizer` is refused (422); errors of the compiler have other words and no line",
        is: |_, real, ours| {
            let causes = |answer: &Answer| -> Vec<(String, String, String)> {
                let causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
                let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
                let shown = |cause: &Value| {
                    let message = text(cause, "message");
                    let end = message.find("compilation failed").or_else(|| message.find(" but got "));
                    let message = message[..end.unwrap_or(message.len())].to_owned();
                    (text(cause, "field"), text(cause, "reason"), message)
                };
                causes.iter().map(shown).collect()
            };
            let is_compiler = ["compilation failed", " but got "].iter().any(|mark| real.text.contains(mark));
            let is_equal =
                real.code == 422 && ours.code == 422 && is_compiler && causes(real) == causes(ours);
            is_equal || ours.text.contains("does not evaluate 'authorizer'")
        },
    },
    Row {
        why: "webhooks and policies see a binding without `managedFields`",
        is: |call, real, ours| {
            call.path.ends_with("/binding") && real.code == 201 && ours.text.contains("managedFields")
        },
    },
    Row {
        why: "in the message of a cause, a value that is an object or a list is printed as JSON of the API",
        is: |_, real, ours| {
            let mark = "Invalid value: [{\\\"";
            real.code == 422 && ours.code == 422 && real.text.contains(mark) && ours.text.contains(mark)
        },
    },
];

// contract: E-28a, E-28b, E-28c, E-28d, E-28e
#[tokio::test(flavor = "multi_thread")]
async fn policies_and_the_requests_they_concern_have_equal_answers() {
    let (running, servers) = Servers::start(Options::new()).await;
    let hooks = Hooks::start().await;
    let mut run =
        Run { servers, hooks, counts: BTreeMap::new(), problems: Vec::new(), rows: BTreeMap::new() };
    run.begin().await;
    let seeds = seeds();
    let random = (seeds.start..seeds.end.max(seeds.start + LEAST)).map(random::case);
    let all: Vec<(usize, Case)> = cases::all().into_iter().chain(random).enumerate().collect();
    for (number, cases) in all.chunks(GROUP).enumerate() {
        run.configure(number, cases).await;
        for (own, case) in cases {
            for call in requests::requests(*own) {
                run.compare(case, &call).await;
            }
        }
        run.clear(number, cases).await;
    }
    println!("{} cases, codes {:?}; documented: {:?}", all.len(), run.counts, run.rows);
    report(&run.problems);
    for code in [200, 201, 403, 409, 413, 422] {
        assert!(run.counts.get(&code).is_some_and(|count| *count > 10), "{code}: {:?}", run.counts);
    }
    running.shutdown().await;
}
