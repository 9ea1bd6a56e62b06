//! Every resource, every verb and every parameter: both servers give equal answers, or the difference is documented.

pub(super) mod cases;

use std::collections::{BTreeMap, BTreeSet};

use e2e::Options;
use http::Method;
use kube_client::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::super::kubectl::compare;
use super::objects::widgets;
use super::{Answer, Call, Content, Found, Row, Server, Servers, report};
use crate::recorder::eventually;

const NAMESPACE: &str = "matrix";
const JSON: &str = "application/json";
const PATCHES: [(&str, &str); 4] = [
    ("application/json-patch+json", "[]"),
    ("application/merge-patch+json", "{}"),
    ("application/strategic-merge-patch+json", "{}"),
    ("application/apply-patch+yaml", ""),
];
const REFUSED: &str = "kinformer-apiserver does not simulate ";

/// The resources and subresources of a server by their paths without namespaces.
type Resources = BTreeMap<String, Value>;

/// What the requests have found.
#[derive(Default)]
struct Results {
    requests: usize,
    problems: Vec<String>,
    /// The differences that are documented.
    rows: BTreeSet<&'static str>,
    /// The resources that the embedded server refuses.
    refused: BTreeSet<String>,
}

/// Both servers, for tasks that send requests at the same time.
#[derive(Clone)]
struct Clients {
    real: Client,
    ours: Client,
}

impl Clients {
    fn servers(&self) -> Servers {
        Servers { real: Server::new(self.real.clone()), ours: Server::new(self.ours.clone()) }
    }

    /// Sends requests one after another.
    async fn send(self, calls: Vec<Call>, ignored: &'static compare::Ignored<'static>) -> Results {
        let mut results = Results { requests: calls.len(), ..Results::default() };
        for call in calls {
            let (real, ours) = self.servers().both(&call).await;
            let message = ours.body["message"].as_str().unwrap_or_default();
            if let (501, Some(refused)) = (ours.code, message.strip_prefix(REFUSED)) {
                results.refused.extend(refused.split_once(": ").map(|(name, _)| name.to_owned()));
                continue;
            }
            match Found::of(&call, &real, &ours, ignored, cases::ROWS) {
                Found::Same => {}
                Found::Known(row) => drop(results.rows.insert(row)),
                Found::Differences(found) => {
                    results.problems.push(format!("{call}\n    {}", found.join("\n    ")));
                }
            }
        }
        results
    }
}

impl Results {
    async fn of(tasks: JoinSet<Self>) -> Self {
        tasks.join_all().await.into_iter().fold(Self::default(), |mut all, one| {
            all.requests += one.requests;
            all.problems.extend(one.problems);
            all.rows.extend(one.rows);
            all.refused.extend(one.refused);
            all
        })
    }
}

// contract: E-22a, E-22b
#[tokio::test(flavor = "multi_thread")]
async fn matrix_of_resources_verbs_and_parameters() {
    let (running, servers) = Servers::start(Options::new()).await;
    let clients = Clients { real: servers.real.client, ours: servers.ours.client };
    begin(&clients).await;

    let (real, ours) = (
        resources(&Server::new(clients.real.clone())).await,
        resources(&Server::new(clients.ours.clone())).await,
    );
    let mut problems = discovery(&real, &ours);
    let mut tasks = JoinSet::new();
    for (path, resource) in &real {
        tasks.spawn(clients.clone().send(requests(path, resource), &cases::ALL));
    }
    for (calls, ignored) in cases::parameters(NAMESPACE) {
        tasks.spawn(clients.clone().send(calls, ignored));
    }
    let results = Results::of(tasks).await;
    println!("{} requests, {} resources; documented: {:?}", results.requests, real.len(), results.rows);
    problems.extend(results.problems);
    problems.sort();
    report(&problems);

    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/testing.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    assert_eq!(results.refused, refused(&docs), "resources that the documentation calls refused");
    for row in cases::ROWS {
        assert!(results.rows.contains(row.why), "this difference no longer exists: {}", row.why);
        assert!(docs.contains(row.why), "docs/testing.md has no such difference: {}", row.why);
    }
    running.shutdown().await;
}

/// Creates the objects that the requests name.
async fn begin(clients: &Clients) {
    let servers = clients.servers();
    let widgets = [("/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(), widgets())];
    for (path, object) in widgets.into_iter().chain(cases::objects(NAMESPACE)) {
        for server in [&servers.real, &servers.ours] {
            eventually(&path, async || match server.raw(&Method::POST, &path, JSON, &object).await {
                (201 | 409, _) => Ok(()),
                // Definitions are served after a while.
                (404, body) => Err(body.to_string()),
                (code, body) => panic!("{path}: {code} {body}"),
            })
            .await;
        }
    }
}

/// Reads the discovery of a server.
async fn resources(server: &Server) -> Resources {
    let (_, groups) = server.raw(&Method::GET, "/apis", JSON, &Value::Null).await;
    let versions = groups["groups"].as_array().unwrap().iter().flat_map(|group| {
        let versions = group["versions"].as_array().unwrap();
        versions.iter().map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap()))
    });
    let mut all = Resources::new();
    for root in std::iter::once("/api/v1".to_owned()).chain(versions) {
        let (_, list) = server.raw(&Method::GET, &root, JSON, &Value::Null).await;
        for resource in list["resources"].as_array().unwrap() {
            all.insert(format!("{root}/{}", resource["name"].as_str().unwrap()), resource.clone());
        }
    }
    all
}

/// Compares what both servers serve. Requests show whether resources that are missing are refused.
fn discovery(real: &Resources, ours: &Resources) -> Vec<String> {
    let mut found = Vec::new();
    let ignored = compare::Ignored { own: &[], defaults: &["storageVersionHash"] };
    for (path, resource) in ours {
        let real = real.get(path).unwrap_or(&Value::Null);
        compare::json(&mut found, path, real, resource, &ignored);
    }
    found
}

/// Requests by each verb, for an object that does not exist.
fn requests(path: &str, resource: &Value) -> Vec<Call> {
    let mut parts: Vec<&str> = path.split('/').collect();
    let place = if parts[1] == "api" { 3 } else { 4 };
    if resource["namespaced"] == true {
        parts.splice(place..place, ["namespaces", NAMESPACE]);
    }
    let is_sub = resource["name"].as_str().unwrap().contains('/');
    let end = parts.len() - usize::from(is_sub);
    let (all, mut one) = (parts[..end].join("/"), parts);
    one.insert(end, "missing");
    let one = one.join("/");

    let group_version = match (&resource["group"], &resource["version"]) {
        (Value::String(group), Value::String(version)) if !group.is_empty() => format!("{group}/{version}"),
        _ => path.split('/').skip(2).take(place - 2).collect::<Vec<_>>().join("/"),
    };
    let named =
        json!({"apiVersion": group_version, "kind": resource["kind"], "metadata": {"name": "missing"}});
    let mut calls = objects_of(&one, &named);
    if is_sub {
        calls.push(Call::new(Method::POST, one, json!({})));
        return calls;
    }
    let mut elsewhere = named.clone();
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    let mut of_other_kind = named.clone();
    of_other_kind["kind"] = json!("Other");
    let of_other_version = json!({"apiVersion": "other/v9", "kind": "Other"});
    for body in [json!({}), named, elsewhere, of_other_kind, of_other_version] {
        calls.push(Call::new(Method::POST, format!("{all}?dryRun=All"), body));
    }
    let none = format!("{all}?labelSelector=matrix=none");
    for (method, path) in [
        (Method::GET, format!("{none}&limit=1")),
        (Method::GET, format!("{none}&fieldSelector=metadata.name=a")),
        (Method::GET, format!("{none}&fieldSelector=no.field=a")),
        (Method::GET, format!("{none}&watch=true&resourceVersion=x")),
        (Method::DELETE, none.clone()),
        (Method::PUT, all.clone()),
        (Method::PATCH, all),
        (Method::POST, one),
    ] {
        calls.push(Call::new(method, path, Value::Null));
    }
    calls.push(Call { accept: cases::TABLE, ..Call::new(Method::GET, none, Value::Null) });
    calls
}

/// Requests for one object, which does not exist, or for its subresource.
fn objects_of(one: &str, named: &Value) -> Vec<Call> {
    let mut calls = vec![
        Call::new(Method::GET, one, Value::Null),
        Call { accept: cases::TABLE, ..Call::new(Method::GET, one, Value::Null) },
        Call::new(Method::DELETE, one, Value::Null),
        Call::new(Method::PUT, format!("{one}?dryRun=All"), json!({})),
        Call::new(Method::PUT, format!("{one}?dryRun=All"), named.clone()),
    ];
    for (content, body) in PATCHES {
        let path = format!("{one}?dryRun=All&fieldManager=m");
        let body = if body.is_empty() { named.to_string() } else { body.to_owned() };
        calls.push(Call {
            content,
            body: Content::Text(body),
            ..Call::new(Method::PATCH, path, Value::Null)
        });
    }
    calls
}

/// The resources in the table of the documentation.
fn refused(docs: &str) -> BTreeSet<String> {
    let table = docs.split("### Refused with 501").nth(1).and_then(|rest| rest.split("###").next()).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let names =
        rows.flat_map(|line| line.split('|').nth(1).unwrap().split(" of ").next().unwrap().split(','));
    names.map(|name| name.trim().trim_matches('`').to_owned()).collect()
}
