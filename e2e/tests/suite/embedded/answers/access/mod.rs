//! Access control: both servers allow and refuse the same requests, with the same answers.

mod kubectl;
mod random;

use std::collections::BTreeMap;

use e2e::{ControlPlane, Options};
use fastrand::Rng;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use kinformer_apiserver::{Access, ApiServer};
use kube_client::client::Body;
use kube_client::config::AuthInfo;
use kube_client::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::kubectl::compare;
use super::{Answer, Call, Content, Found, ROWS, Server, report};
use crate::differential::seeds;
use crate::recorder::eventually;
use random::{GROUP, NAMESPACES, USERS};

const IGNORED: compare::Ignored<'_> = compare::Ignored { own: &[], defaults: &["creationTimestamp"] };
const ADMIN: &str = "admin-token";

/// Both servers with the same users.
struct Both {
    control_plane: ControlPlane,
    server: ApiServer,
    real: Server,
    ours: Server,
    folder: TempDir,
}

/// A client without credentials, which sends those of each request.
fn client(mut config: Config) -> Client {
    config.auth_info = AuthInfo::default();
    kinformer::client(config).unwrap()
}

impl Both {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut tokens = format!("{ADMIN},admin,1,system:masters\n");
        for (index, (name, groups)) in USERS.iter().enumerate() {
            let groups = if groups.is_empty() { String::new() } else { format!(",\"{groups}\"") };
            tokens.push_str(&format!("{name}-token,{name},u{index}{groups}\n"));
        }
        let path = folder.path().join("tokens.csv");
        std::fs::write(&path, &tokens).unwrap();
        let flag = format!("--token-auth-file={}", path.display());
        let control_plane = ControlPlane::start(Options::new().apiserver_flag(flag)).await.unwrap();
        let access = Access::rbac().token_file(&tokens).unwrap().without_controllers();
        let server = ApiServer::builder().token(ADMIN).access(access).tls().start().await.unwrap();
        let real = Server::new(client(control_plane.config().await.unwrap()));
        let ours = Server::new(client(server.config().unwrap()));
        Self { control_plane, server, real, ours, folder }
    }

    /// Sends a request to both, and compares the answers.
    async fn compare(&mut self, token: &str, headers: &[(&str, String)], call: &Call) -> (u16, Vec<String>) {
        self.real.forget_numbers();
        self.ours.forget_numbers();
        let (real, ours) = tokio::join!(
            send(&mut self.real, token, headers, call),
            send(&mut self.ours, token, headers, call)
        );
        let is_other = ["/api/", "/apis/"].iter().all(|root| !call.path.starts_with(root));
        let is_allowed = |answer: &Answer| !matches!(answer.code, 401 | 403);
        if (is_other || call.path.contains("/example.com/")) && is_allowed(&real) && is_allowed(&ours) {
            // The contents of these paths are no matter of access.
            return (real.code, Vec::new());
        }
        let found = match Found::of(call, &real, &ours, &IGNORED, ROWS) {
            Found::Same | Found::Known(_) => Vec::new(),
            Found::Differences(found) => {
                vec![format!("{token} {headers:?} {call}\n    {}", found.join("\n    "))]
            }
        };
        (real.code, found)
    }

    /// Creates an object on both.
    async fn create(&self, path: &str, object: &Value) {
        for server in [&self.real, &self.ours] {
            let (code, body) = raw(server, Method::POST, path, object).await;
            assert!(matches!(code, 201 | 409), "{path}: {code} {body}");
        }
    }

    /// Waits until roles and bindings that were created before count: kube-apiserver reads them from caches.
    async fn settle(&self) {
        let root = format!("/apis/{GROUP}/v1");
        let rules = json!([{"verbs": ["get"], "apiGroups": ["settled"], "resources": ["settled"]}]);
        let subjects = json!([{"kind": "User", "apiGroup": GROUP, "name": "settled"}]);
        for (path, kind) in [(root.clone(), "ClusterRole"), (format!("{root}/namespaces/default"), "Role")] {
            let name = json!({"name": "settled"});
            self.create(
                &format!("{path}/{}s", kind.to_lowercase()),
                &json!({"metadata": name, "rules": rules}),
            )
            .await;
            let binding = json!({"metadata": name, "subjects": subjects,
                "roleRef": {"apiGroup": GROUP, "kind": kind, "name": "settled"}});
            self.create(&format!("{path}/{}bindings", kind.to_lowercase()), &binding).await;
        }
        for (kind, namespace) in [("ClusterRoleBinding", ""), ("RoleBinding", "default")] {
            let attributes =
                json!({"verb": "get", "group": "settled", "resource": "settled", "namespace": namespace});
            let review = json!({"spec": {"user": "settled", "resourceAttributes": attributes}});
            eventually(kind, async || {
                let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
                let (_, body) = raw(&self.real, Method::POST, path, &review).await;
                if body["status"]["allowed"] == true { Ok(()) } else { Err(body.to_string()) }
            })
            .await;
            // One binding for the cluster hides that in the namespace.
            if namespace.is_empty() {
                let path = format!("{root}/clusterrolebindings/settled");
                for server in [&self.real, &self.ours] {
                    raw(server, Method::DELETE, &path, &Value::Null).await;
                }
            }
        }
    }
}

async fn raw(server: &Server, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
    let request = request.header(AUTHORIZATION, format!("Bearer {ADMIN}"));
    let answer = server.exchange(request.body(Body::from(bytes)).unwrap()).await;
    (answer.code, answer.body)
}

async fn send(server: &mut Server, token: &str, headers: &[(&str, String)], call: &Call) -> Answer {
    let body = match &call.body {
        Content::Same(Value::Null) => String::new(),
        Content::Same(body) => body.to_string(),
        Content::Text(text) => text.clone(),
        Content::Changed(_) => unreachable!("not among these requests"),
    };
    let mut request =
        Request::builder().method(&call.method).uri(&call.path).header(CONTENT_TYPE, call.content);
    if !token.is_empty() {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    if !call.accept.is_empty() {
        request = request.header(ACCEPT, call.accept);
    }
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let mut answer = server.exchange(request.body(Body::from(body.into_bytes())).unwrap()).await;
    server.replace(&mut answer.body);
    normalize(&mut answer.body);
    answer
}

/// Replaces what kube-apiserver does in any order: it reads bindings from maps.
fn normalize(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), &mut *value) {
                    ("reason", Value::String(reason)) if reason.starts_with("RBAC: allowed by ") => {
                        "(a binding)".clone_into(reason);
                    }
                    ("message" | "reason" | "evaluationError" | "error", Value::String(text)) => {
                        *text = sorted_errors(text);
                    }
                    ("resourceRules" | "nonResourceRules", Value::Array(rules)) => {
                        rules.sort_by_key(Value::to_string);
                    }
                    ("token", Value::String(token)) if token.len() > 100 => "(token)".clone_into(token),
                    ("expirationTimestamp", Value::String(time)) => "(time)".clone_into(time),
                    ("authentication.kubernetes.io/credential-id", id) => *id = json!("(id)"),
                    _ => normalize(value),
                }
            }
        }
        _ => {}
    }
}

/// Sorts the errors about roles that do not exist.
fn sorted_errors(text: &str) -> String {
    let (Some(start), Some(end)) = (text.find('['), text.rfind(']')) else { return text.to_owned() };
    if !text.contains("not found, ") || end < start {
        return text.to_owned();
    }
    let mut errors: Vec<&str> = text[start + 1..end].split(", ").collect();
    errors.sort_unstable();
    format!("{}[{}]{}", &text[..start], errors.join(", "), &text[end + 1..])
}

/// Roles of the user `writer`, and of `alice` to be others.
fn special() -> Vec<(String, Value)> {
    let root = format!("/apis/{GROUP}/v1");
    let role = |name: &str, rules: Value| {
        (format!("{root}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules}))
    };
    let binding = |role: &str, user: &str| {
        let subjects = json!([{"kind": "User", "apiGroup": GROUP, "name": user}]);
        let reference = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": role});
        let name = json!({"name": format!("{role}-{user}")});
        let object = json!({"metadata": name, "subjects": subjects, "roleRef": reference});
        (format!("{root}/clusterrolebindings"), object)
    };
    let written = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];
    let writes = ["create", "update", "patch", "get"];
    let users = ["users", "groups", "serviceaccounts", "uids", "userextras/scope"];
    vec![
        role("bindable", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])),
        role(
            "writes",
            json!([
                {"verbs": writes, "apiGroups": [GROUP], "resources": written},
                {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["bindable"]},
                {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["access-0"]},
                {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods", "configmaps", "*/status"]},
            ]),
        ),
        role(
            "reviews",
            json!([{"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["*"]}]),
        ),
        role(
            "impersonates",
            json!([{"verbs": ["impersonate"], "apiGroups": ["", "authentication.k8s.io"], "resources": users}]),
        ),
        role(
            "impersonates-some",
            json!([
                {"verbs": ["impersonate-on:user-info:list", "impersonate-on:serviceaccount:*", "impersonate-on:arbitrary-node:get"],
                    "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["impersonate:user-info", "impersonate:serviceaccount", "impersonate:arbitrary-node"],
                    "apiGroups": ["authentication.k8s.io"], "resources": ["users", "groups", "serviceaccounts", "nodes"]},
            ]),
        ),
        binding("writes", "writer"),
        binding("reviews", "dave"),
        binding("impersonates", "alice"),
        binding("impersonates-some", "bob"),
    ]
}

// contract: E-25a, E-25b, E-25c, E-25d, E-25e, E-25f
#[tokio::test(flavor = "multi_thread")]
async fn rbac_matrix_of_users_and_requests() {
    let mut both = Both::start().await;
    let seed = seeds().start;
    let mut random = Rng::with_seed(seed);
    for namespace in NAMESPACES {
        both.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        both.create(&path, &json!({"metadata": {"name": "op"}})).await;
    }
    for (path, object) in random::policy(&mut random).into_iter().chain(special()) {
        both.create(&path, &object).await;
    }
    both.settle().await;

    let (mut problems, mut codes) = (Vec::new(), BTreeMap::<u16, usize>::new());
    let token = |user: &str| if user.is_empty() { String::new() } else { format!("{user}-token") };
    let anyone: Vec<&str> = USERS.iter().map(|(name, _)| *name).chain(["", "admin", "unknown"]).collect();
    for number in 0..2_600 {
        let user = random::pick(&mut random, &anyone);
        let (user, headers, call) = match number % 13 {
            0..=5 => (user, Vec::new(), random::request(&mut random)),
            6 => (user, Vec::new(), random::review(&mut random)),
            7 => (random::pick(&mut random, &["admin", "dave"]), Vec::new(), random::review(&mut random)),
            8 | 9 => ("writer", Vec::new(), random::grant(&mut random)),
            10 => (
                random::pick(&mut random, &["alice", "bob", "carol"]),
                random::impersonation(&mut random),
                whoami(),
            ),
            _ => {
                let user = random::pick(&mut random, &["alice", "bob", "carol", "admin"]);
                (user, random::impersonation(&mut random), random::request(&mut random))
            }
        };
        let (code, found) = both.compare(&token(user), &headers, &call).await;
        *codes.entry(code).or_default() += 1;
        problems.extend(found);
    }
    println!("seed {seed}: {} requests, codes {codes:?}", codes.values().sum::<usize>());
    report(&problems);
    assert!([200, 201, 400, 401, 403, 404].iter().all(|code| codes.contains_key(code)), "{codes:?}");
    both.server.shutdown().await;
}

fn whoami() -> Call {
    Call::new(Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({}))
}

/// Each review, also of invalid input, and tokens of service accounts.
// contract: E-25d, E-25g, E-25h
#[tokio::test(flavor = "multi_thread")]
async fn reviews_and_tokens_are_answered_as_by_kube_apiserver() {
    let mut both = Both::start().await;
    both.create("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "op"}})).await;
    let mut problems = Vec::new();
    let mut count = 0;
    for call in review_calls().into_iter().chain(token_calls()) {
        let (_, found) = both.compare(ADMIN, &[], &call).await;
        problems.extend(found);
        count += 1;
    }
    for user in ["admin-token", "alice-token", "carol-token", ""] {
        for path in
            ["authentication.k8s.io/v1/selfsubjectreviews", "authorization.k8s.io/v1/selfsubjectrulesreviews"]
        {
            let call =
                Call::new(Method::POST, format!("/apis/{path}"), json!({"spec": {"namespace": "default"}}));
            problems.extend(both.compare(user, &[], &call).await.1);
            count += 1;
        }
    }

    // Both servers accept the tokens that they have issued.
    let path = "/api/v1/namespaces/default/serviceaccounts/op/token";
    let mut tokens = Vec::new();
    for server in [&both.real, &both.ours] {
        let (code, body) = raw(server, Method::POST, path, &json!({})).await;
        assert_eq!(code, 201, "{body}");
        tokens.push(body["status"]["token"].as_str().unwrap().to_owned());
    }
    let review = |token: &str, spec: Value| {
        let mut spec = spec;
        spec["token"] = json!(token);
        Call::new(Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": spec}))
    };
    for spec in [
        json!({}),
        json!({"audiences": ["other"]}),
        json!({"audiences": ["other", "https://kubernetes.default.svc"]}),
    ] {
        let real = send(&mut both.real, ADMIN, &[], &review(&tokens[0], spec.clone())).await;
        let ours = send(&mut both.ours, ADMIN, &[], &review(&tokens[1], spec.clone())).await;
        problems.extend(difference(&spec.to_string(), &real, &ours));
        count += 1;
    }
    for call in [whoami(), Call::new(Method::GET, "/api/v1/namespaces/default/pods", Value::Null)] {
        let real = send(&mut both.real, &tokens[0], &[], &call).await;
        let ours = send(&mut both.ours, &tokens[1], &[], &call).await;
        problems.extend(difference(&call.to_string(), &real, &ours));
        count += 1;
    }
    println!("{count} requests");
    report(&problems);
    both.server.shutdown().await;
}

fn difference(what: &str, real: &Answer, ours: &Answer) -> Option<String> {
    let call = Call::new(Method::POST, what, Value::Null);
    match Found::of(&call, real, ours, &IGNORED, ROWS) {
        Found::Differences(found) => Some(format!("{what}\n    {}", found.join("\n    "))),
        Found::Same | Found::Known(_) => None,
    }
}

fn review_calls() -> Vec<Call> {
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": ""});
    let path = json!({"verb": "get", "path": "/healthz"});
    let selector = |field: Value, label: Value| json!({"verb": "list", "resource": "pods", "fieldSelector": field, "labelSelector": label});
    let mut specs = vec![
        json!({"spec": {"resourceAttributes": attributes}}),
        json!({"spec": {"nonResourceAttributes": path}}),
        json!({"spec": {"nonResourceAttributes": path, "resourceAttributes": attributes}}),
        json!({"spec": {}}),
        json!({}),
        json!({"spec": {"resourceAttributes": attributes, "unknown": 1}, "other": {}}),
        json!({"spec": {"resourceAttributes": {"verb": 7}}}),
        json!({"spec": {"namespace": "access-a"}}),
        json!({"spec": {"token": "alice-token"}}),
        json!({"spec": {"token": "alice-token", "audiences": ["other"]}}),
        json!({"spec": {"token": "unknown"}}),
        json!({"metadata": {"creationTimestamp": null}, "spec": {"resourceAttributes": attributes}, "status": {"allowed": true}}),
    ];
    for (field, label) in [
        (json!({"rawSelector": "a=b"}), json!({"rawSelector": "a=b"})),
        (json!({"rawSelector": "a"}), json!({"rawSelector": "=="})),
        (json!({}), json!({})),
        (
            json!({"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}),
            json!({"requirements": [{"key": "a", "operator": "Exists"}]}),
        ),
        (
            json!({"requirements": [{"key": "", "operator": "In"}]}),
            json!({"requirements": [{"key": "a", "operator": "In"}]}),
        ),
        (
            json!({"requirements": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
            json!({"requirements": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
        ),
        (
            json!({"requirements": [{"key": "a", "operator": "Other"}]}),
            json!({"requirements": [{"key": "a", "operator": "Other"}, {"key": "a", "operator": "Exists"}]}),
        ),
        (
            json!({"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}),
            json!({"rawSelector": "a", "requirements": [{"key": "a", "operator": "DoesNotExist"}]}),
        ),
    ] {
        specs.push(json!({"spec": {"resourceAttributes": selector(field, label)}}));
    }
    let mut calls = Vec::new();
    let reviews = [
        ("authorization.k8s.io/v1", "selfsubjectaccessreviews"),
        ("authorization.k8s.io/v1", "subjectaccessreviews"),
        ("authorization.k8s.io/v1/namespaces/access-a", "localsubjectaccessreviews"),
        ("authorization.k8s.io/v1", "selfsubjectrulesreviews"),
        ("authentication.k8s.io/v1", "selfsubjectreviews"),
        ("authentication.k8s.io/v1", "tokenreviews"),
    ];
    for (root, plural) in reviews {
        let path = format!("/apis/{root}/{plural}");
        for spec in &specs {
            calls.push(Call::new(Method::POST, path.clone(), spec.clone()));
            if spec["spec"]["resourceAttributes"].is_object() {
                let mut named = spec.clone();
                named["spec"]["user"] = json!("alice");
                named["spec"]["resourceAttributes"]["namespace"] = json!("access-a");
                calls.push(Call::new(Method::POST, path.clone(), named));
            }
        }
        for query in ["?dryRun=All", "?dryRun=x", "?fieldValidation=Strict", "?fieldManager=m"] {
            calls.push(Call::new(Method::POST, format!("{path}{query}"), specs[5].clone()));
        }
        for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
            calls.push(Call::new(method.clone(), path.clone(), Value::Null));
            calls.push(Call::new(method, format!("{path}/x"), Value::Null));
        }
        let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        calls.push(Call { accept, ..Call::new(Method::POST, path.clone(), specs[0].clone()) });
        let elsewhere = match path.contains("/namespaces/") {
            true => format!("/apis/authorization.k8s.io/v1/{plural}"),
            false => path.replace("/v1/", "/v1/namespaces/access-a/"),
        };
        calls.push(Call::new(Method::POST, elsewhere, specs[0].clone()));
    }
    calls
}

fn token_calls() -> Vec<Call> {
    let path = |account: &str| format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
    let bound = |kind: &str, version: &str, uid: &str| json!({"spec": {"audiences": ["a"], "boundObjectRef": {"kind": kind, "apiVersion": version, "name": "missing", "uid": uid}}});
    let bodies = [
        json!({}),
        json!({"spec": {"audiences": ["a", "b"], "expirationSeconds": 700}}),
        json!({"spec": {"audiences": null, "expirationSeconds": null}, "status": {"token": "x"}}),
        json!({"spec": {"expirationSeconds": 5}}),
        json!({"spec": {"expirationSeconds": 5_000_000_000_i64}}),
        json!({"spec": {"attestations": {"a": ["b"]}}}),
        json!({"metadata": {"name": "other"}}),
        json!({"metadata": {"namespace": "other"}}),
        json!({"metadata": {"name": "op", "namespace": "default", "labels": {"a": "b"}}}),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "unknown": 1}),
        bound("Pod", "v1", ""),
        bound("Secret", "v1", ""),
        bound("Node", "v1", "x"),
        bound("ConfigMap", "v1", ""),
        bound("Deployment", "apps/v1", ""),
    ];
    let mut calls: Vec<Call> =
        bodies.iter().map(|body| Call::new(Method::POST, path("op"), body.clone())).collect();
    calls.push(Call::new(Method::POST, path("missing"), json!({})));
    calls.push(Call::new(Method::POST, path("op").replace("/default/", "/missing/"), json!({})));
    calls.push(Call::new(Method::POST, format!("{}?dryRun=All", path("op")), json!({})));
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        calls.push(Call::new(method, path("op"), Value::Null));
    }
    calls
}

/// The roles and bindings with which a server starts are those of kube-apiserver.
// contract: E-25c
#[tokio::test(flavor = "multi_thread")]
async fn roles_at_the_start_are_those_of_kube_apiserver() {
    let both = Both::start().await;
    let mut problems = Vec::new();
    for plural in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        let path = format!("/apis/{GROUP}/v1/{plural}");
        let read = async |server: &Server| {
            let (_, body) = raw(server, Method::GET, &path, &Value::Null).await;
            let mut items = body["items"].clone();
            for item in items.as_array_mut().unwrap() {
                if item["rules"].is_null() {
                    // One of the fields that kube-apiserver sets by default.
                    item.as_object_mut().unwrap().remove("rules");
                }
                let metadata = item["metadata"].as_object_mut().unwrap();
                for field in ["uid", "resourceVersion", "creationTimestamp"] {
                    metadata.remove(field);
                }
                for entry in metadata["managedFields"].as_array_mut().unwrap() {
                    entry["time"] = Value::Null;
                }
            }
            items
        };
        let (real, ours) = (read(&both.real).await, read(&both.ours).await);
        compare::json(&mut problems, plural, &real, &ours, &compare::Ignored { own: &[], defaults: &[] });
    }
    report(&problems);
    both.server.shutdown().await;
}
