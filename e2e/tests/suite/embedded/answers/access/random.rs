//! Random roles, bindings and requests.

use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};

use super::super::{Call, Content};

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";
pub(super) const NAMESPACES: [&str; 3] = ["access-a", "access-b", "access-c"];
/// The users of the token file, their tokens and groups.
pub(super) const USERS: [(&str, &str); 6] =
    [("alice", "dev"), ("bob", "dev,ops"), ("carol", ""), ("dave", ""), ("erin", "ops"), ("writer", "")];
const RESOURCES: [(&str, &str); 9] = [
    ("", "pods"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "services"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
    ("coordination.k8s.io", "leases"),
    ("example.com", "things"),
];
const CLUSTER_RESOURCES: [(&str, &str); 3] =
    [("", "nodes"), ("", "persistentvolumes"), ("storage.k8s.io", "storageclasses")];
const NAMES: [&str; 3] = ["x", "y", "z"];
const VERBS: [&str; 9] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"];
const URLS: [&str; 7] = ["/healthz", "/version", "/api", "/apis/*", "/openapi/v2", "/logs*", "/access/x"];

pub(super) fn pick<T: Copy>(random: &mut Rng, all: &[T]) -> T {
    all[random.usize(..all.len())]
}

fn some<T: Clone>(random: &mut Rng, all: &[T], most: usize) -> Vec<T> {
    let count = random.usize(1..=most.min(all.len()));
    random.choose_multiple(all.iter(), count).into_iter().cloned().collect()
}

/// A rule for resources.
pub(super) fn rule(random: &mut Rng) -> Value {
    let mut resources: Vec<&str> =
        some(random, &RESOURCES, 3).into_iter().map(|(_, plural)| plural).collect();
    resources.extend(match random.u8(..8) {
        0 => Some("*"),
        1 => Some("*/status"),
        2 => Some("pods/status"),
        3 => Some("deployments/scale"),
        4 => Some("nodes"),
        _ => None,
    });
    let groups = ["", "apps", "batch", "*", "example.com", "coordination.k8s.io"];
    let mut rule = json!({"verbs": some(random, &VERBS, 3), "apiGroups": some(random, &groups, 2), "resources": resources});
    if random.u8(..4) == 0 {
        rule["resourceNames"] = json!(some(random, &NAMES, 2));
    }
    rule
}

fn rules(random: &mut Rng) -> Vec<Value> {
    (0..random.usize(1..4)).map(|_| rule(random)).collect()
}

fn subjects(random: &mut Rng) -> Vec<Value> {
    (0..random.usize(1..3))
        .map(|_| match random.u8(..5) {
            0 => json!({"kind": "Group", "apiGroup": GROUP, "name": pick(random, &["dev", "ops", "system:serviceaccounts:access-a"])}),
            1 => json!({"kind": "ServiceAccount", "namespace": pick(random, &NAMESPACES), "name": "op"}),
            _ => json!({"kind": "User", "apiGroup": GROUP, "name": USERS[random.usize(..5)].0}),
        })
        .collect()
}

/// Paths and objects, in an order in which they can be created.
pub(super) fn policy(random: &mut Rng) -> Vec<(String, Value)> {
    let root = format!("/apis/{GROUP}/v1");
    let mut objects = Vec::new();
    for number in 0..8 {
        let mut rules = rules(random);
        if number < 3 {
            rules.push(json!({"verbs": some(random, &["get", "post", "*"], 2), "nonResourceURLs": some(random, &URLS, 3)}));
        }
        objects.push((
            format!("{root}/clusterroles"),
            json!({"metadata": {"name": format!("access-{number}")}, "rules": rules}),
        ));
    }
    for namespace in NAMESPACES {
        for number in 0..3 {
            objects.push((
                format!("{root}/namespaces/{namespace}/roles"),
                json!({"metadata": {"name": format!("access-{number}")}, "rules": rules(random)}),
            ));
        }
    }
    for number in 0..7 {
        let role = format!("access-{}", random.usize(..9));
        objects.push((
            format!("{root}/clusterrolebindings"),
            json!({"metadata": {"name": format!("access-{number}")}, "subjects": subjects(random),
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}}),
        ));
    }
    for namespace in NAMESPACES {
        for number in 0..4 {
            let (kind, most) = pick(random, &[("ClusterRole", 9), ("Role", 4)]);
            let role = format!("access-{}", random.usize(..most));
            objects.push((
                format!("{root}/namespaces/{namespace}/rolebindings"),
                json!({"metadata": {"name": format!("access-{number}")}, "subjects": subjects(random),
                    "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}}),
            ));
        }
    }
    objects
}

/// The path of a resource in a random place, with its group and whether it has a name.
fn place(random: &mut Rng) -> (String, bool) {
    let is_namespaced = random.u8(..5) > 0;
    let (group, plural) =
        if is_namespaced { pick(random, &RESOURCES) } else { pick(random, &CLUSTER_RESOURCES) };
    let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
    let namespace = match random.u8(..6) {
        _ if !is_namespaced => String::new(),
        0 => String::new(),
        _ => format!("/namespaces/{}", pick(random, &NAMESPACES)),
    };
    let is_named = random.bool() && (!namespace.is_empty() || !is_namespaced);
    let mut path = format!("{root}{namespace}/{plural}");
    if is_named {
        path = format!("{path}/{}", pick(random, &NAMES));
        let sub = match plural {
            _ if random.u8(..3) > 0 => "",
            "deployments" | "statefulsets" => "/scale",
            "pods" => "/eviction",
            "nodes" => "/status",
            _ => "",
        };
        path.push_str(sub);
    }
    (path, is_named)
}

/// A random request, which changes nothing.
pub(super) fn request(random: &mut Rng) -> Call {
    if random.u8(..8) == 0 {
        let path = pick(random, &["/healthz", "/version", "/api", "/apis", "/access/x", "/", "/openapi/v2"]);
        let method = if random.u8(..4) == 0 { Method::POST } else { Method::GET };
        return Call::new(method, path, Value::Null);
    }
    let (path, is_named) = place(random);
    let dry = format!("{path}?dryRun=All&fieldManager=m");
    match (random.u8(..8), is_named) {
        // Which objects are valid is no matter of access.
        (0, false) if path.contains("/namespaces/") => {
            Call::new(Method::POST, dry, json!({"metadata": {"name": "x", "namespace": "elsewhere"}}))
        }
        (1, false) => Call::new(Method::DELETE, format!("{dry}&labelSelector=access=none"), Value::Null),
        (2, false) => Call::new(Method::GET, format!("{path}?watch=true&resourceVersion=x"), Value::Null),
        (3, false) => {
            let name = pick(random, &NAMES);
            Call::new(Method::GET, format!("{path}?fieldSelector=metadata.name%3D{name}"), Value::Null)
        }
        (4, false) => Call::new(Method::from_bytes(b"OPTIONS").unwrap(), path, Value::Null),
        (_, false) => Call::new(Method::GET, format!("{path}?labelSelector=access%3Dnone"), Value::Null),
        (0, true) => Call::new(Method::PUT, dry, json!({})),
        (1, true) => Call::patch(dry, "application/merge-patch+json", json!({})),
        (2, true) => Call::new(Method::DELETE, dry, Value::Null),
        (3, true) => Call::new(Method::POST, path, json!({})),
        (_, true) => Call::new(Method::GET, path, Value::Null),
    }
}

/// A random review of access by the user who sends it, or by another one.
pub(super) fn review(random: &mut Rng) -> Call {
    let (group, plural) = pick(random, &RESOURCES);
    let mut attributes = json!({"verb": pick(random, &VERBS), "group": group, "resource": plural});
    for (field, value) in [
        ("namespace", pick(random, &NAMESPACES)),
        ("name", pick(random, &NAMES)),
        ("subresource", pick(random, &["status", "scale"])),
        ("version", "v1"),
    ] {
        if random.u8(..3) > 0 || field == "namespace" && random.bool() {
            attributes[field] = json!(value);
        }
    }
    let mut spec = match random.u8(..6) {
        0 => json!({"nonResourceAttributes": {"verb": "get", "path": pick(random, &URLS)}}),
        _ => json!({"resourceAttributes": attributes}),
    };
    let root = "/apis/authorization.k8s.io/v1";
    if random.bool() {
        return Call::new(Method::POST, format!("{root}/selfsubjectaccessreviews"), json!({"spec": spec}));
    }
    let (name, groups) = pick(random, &USERS[..5]);
    spec["user"] = json!(name);
    let groups: Vec<&str> = groups.split(',').filter(|group| !group.is_empty()).collect();
    if !groups.is_empty() {
        spec["groups"] = json!(groups);
    }
    if random.bool() {
        return Call::new(Method::POST, format!("{root}/subjectaccessreviews"), json!({"spec": spec}));
    }
    let path = format!("{root}/namespaces/{}/localsubjectaccessreviews", pick(random, &NAMESPACES));
    Call::new(Method::POST, path, json!({"spec": spec}))
}

/// A write of a role or a binding, which changes nothing.
pub(super) fn grant(random: &mut Rng) -> Call {
    let root = format!("/apis/{GROUP}/v1");
    let namespace = pick(random, &NAMESPACES);
    let kind = pick(random, &["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"]);
    let is_binding = kind.ends_with("Binding");
    let all = match kind {
        "ClusterRole" => format!("{root}/clusterroles"),
        "Role" => format!("{root}/namespaces/{namespace}/roles"),
        "ClusterRoleBinding" => format!("{root}/clusterrolebindings"),
        _ => format!("{root}/namespaces/{namespace}/rolebindings"),
    };
    let mut object =
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": "granted"}});
    if is_binding {
        let role = match random.u8(..4) {
            0 => "missing".to_owned(),
            1 => "system:discovery".to_owned(),
            2 => "bindable".to_owned(),
            _ => format!("access-{}", random.usize(..4)),
        };
        let of = if kind == "RoleBinding" && random.bool() { "Role" } else { "ClusterRole" };
        object["roleRef"] = json!({"apiGroup": GROUP, "kind": of, "name": role});
        object["subjects"] = json!(subjects(random));
    } else {
        object["rules"] = json!(rules(random));
        if kind == "ClusterRole" && random.u8(..5) == 0 {
            object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
        }
    }
    let one = |name: &str| format!("{all}/{name}?dryRun=All&fieldManager=m");
    match random.u8(..5) {
        0 => Call::new(Method::PUT, one("granted"), object),
        1 if !is_binding => {
            object["metadata"]["name"] = json!("access-0");
            Call::patch(one("access-0"), "application/merge-patch+json", json!({"rules": object["rules"]}))
        }
        2 => Call {
            body: Content::Text(object.to_string()),
            ..Call::patch(one("granted"), "application/apply-patch+yaml", Value::Null)
        },
        3 if !is_binding => Call::patch(
            one("access-0"),
            "application/merge-patch+json",
            json!({"metadata": {"finalizers": ["a.b/c"]}}),
        ),
        _ => Call::new(Method::POST, format!("{all}?dryRun=All&fieldManager=m"), object),
    }
}

/// Headers that impersonate another user.
pub(super) fn impersonation(random: &mut Rng) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if random.u8(..10) > 0 {
        let users = [
            "alice",
            "bob",
            "system:serviceaccount:access-a:op",
            "system:node:n1",
            "system:anonymous",
            "frank",
        ];
        headers.push(("Impersonate-User", pick(random, &users).to_owned()));
    }
    if random.u8(..3) == 0 {
        let groups = ["dev", "ops", "system:masters", "system:unauthenticated", "a", "b"];
        let groups = some(random, &groups, 5);
        headers.extend(groups.into_iter().map(|group| ("Impersonate-Group", group.to_owned())));
    }
    if random.u8(..6) == 0 {
        headers.push(("Impersonate-Uid", "u1".to_owned()));
    }
    if random.u8(..6) == 0 {
        let key = pick(random, &["Impersonate-Extra-Scope", "Impersonate-Extra-Acme.io%2fscope"]);
        headers.push((key, "v".to_owned()));
    }
    headers
}
