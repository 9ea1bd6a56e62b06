//! Which requests webhooks receive.

use http::Method;
use kinformer_apiserver::{Access, AccessUser, ApiServer};
use serde_json::{Value, json};

use super::{CONFIGURATIONS, Reply, WebhookServer, configure};
use crate::access;
use crate::common::{Client, config_map, pod, server, widget, widget_definition};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn rule(resources: &[&str], operations: &[&str]) -> Value {
    json!([{"operations": operations, "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}])
}

/// Operation, resource with subresource, and name of reviews.
fn described(reviews: &[Value]) -> Vec<String> {
    let described = |review: &Value| {
        let text = |field: &str| review[field].as_str().unwrap_or("").to_owned();
        let resource = review["resource"]["resource"].as_str().unwrap();
        let sub =
            if review["subResource"].is_null() { String::new() } else { format!("/{}", text("subResource")) };
        format!("{} {resource}{sub} {}", text("operation"), text("name"))
    };
    reviews.iter().map(described).collect()
}

// contract: E-27a
#[tokio::test]
async fn each_write_of_a_client_is_reviewed() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    server.create(widget_definition()).unwrap();
    server.create(config_map("old", "1")).unwrap();
    let all = webhooks.hook("all", &json!({"rules": rule(&["*/*"], &["*"])}));
    configure(&server, "Validating", "all", json!([all]));

    client.post(MAPS, &config_map("a", "1")).await.ok();
    client.post(MAPS, &json!({"metadata": {"generateName": "g-"}})).await.ok();
    let reviews = webhooks.take();
    assert_eq!(described(&reviews[..1]), ["CREATE configmaps a"]);
    assert!(described(&reviews)[1].starts_with("CREATE configmaps g-"), "{:?}", described(&reviews));
    assert_eq!(reviews[0]["oldObject"], Value::Null);
    assert_eq!(reviews[0]["options"], json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}));
    assert_eq!(reviews[0]["userInfo"]["username"], "kinformer");

    let path = format!("{MAPS}/a");
    client.put(&format!("{path}?fieldManager=m&dryRun=All"), &config_map("a", "2")).await.ok();
    client.patch(&path, "merge-patch", &json!({"data": {"b": "1"}})).await.ok();
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}});
    let headers = [("content-type", "application/apply-patch+yaml")];
    let apply = format!("{MAPS}/applied?fieldManager=m");
    client.send(Method::PATCH, &apply, &headers, applied.to_string()).await.ok();
    client.send(Method::PATCH, &apply, &headers, applied.to_string()).await.ok();
    let reviews = webhooks.take();
    let expected = [
        "UPDATE configmaps a",
        "UPDATE configmaps a",
        "CREATE configmaps applied",
        "UPDATE configmaps applied",
    ];
    assert_eq!(described(&reviews), expected);
    assert_eq!(
        reviews[0]["options"],
        json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "m", "dryRun": ["All"]})
    );
    assert_eq!(reviews[0]["dryRun"], true);
    assert_eq!(
        (&reviews[0]["oldObject"]["data"]["key"], &reviews[0]["object"]["data"]["key"]),
        (&json!("1"), &json!("2"))
    );
    assert_eq!(reviews[2]["options"]["kind"], "CreateOptions");

    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    client.send(Method::DELETE, &path, &[], options.to_string()).await.ok();
    client.delete(MAPS).await.ok();
    let reviews = webhooks.take();
    assert_eq!(described(&reviews[..1]), ["DELETE configmaps a"]);
    assert_eq!(reviews[0]["object"], Value::Null);
    assert_eq!(reviews[0]["oldObject"]["metadata"]["name"], "a");
    assert_eq!(reviews[0]["options"]["propagationPolicy"], "Background");
    // One for each object, which has no name in the request.
    assert_eq!(described(&reviews[1..]), ["DELETE configmaps "; 3]);
    let left = client.get(MAPS).await.ok();
    assert_eq!(left["items"], json!([]));

    client.post("/apis/example.com/v1/namespaces/default/widgets", &widget("w")).await.ok();
    let path = "/apis/example.com/v1/namespaces/default/widgets/w";
    client.patch(&format!("{path}/status"), "merge-patch", &json!({"status": {"replicas": 1}})).await.ok();
    client.patch(&format!("{path}/scale"), "merge-patch", &json!({"spec": {"replicas": 3}})).await.ok();
    let reviews = webhooks.take();
    assert_eq!(
        described(&reviews),
        ["CREATE widgets w", "UPDATE widgets/status w", "UPDATE widgets/scale w"]
    );
    assert_eq!(reviews[2]["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    let replicas = |field: &str| reviews[2][field]["spec"]["replicas"].clone();
    assert_eq!((replicas("oldObject"), replicas("object")), (json!(1), json!(3)));

    client.get(path).await.ok();
    client.get(MAPS).await.ok();
    server.create(config_map("own", "1")).unwrap();
    assert_eq!(described(&webhooks.take()), Vec::<String>::new());
}

// contract: E-27a
#[tokio::test]
async fn pods_are_bound_and_evicted() {
    let webhooks = WebhookServer::start(|_, request| {
        if request["subResource"] == "eviction" && request["name"] == "b" {
            Reply::denied(json!({"message": "no"}))
        } else {
            Reply::allowed()
        }
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    let all = webhooks.hook("all", &json!({"rules": rule(&["*/*"], &["*"])}));
    configure(&server, "Mutating", "all", json!([all]));
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["a", "b"] {
        client.post(pods, &pod(name)).await.ok();
    }
    let binding = json!({"metadata": {"name": "a"}, "target": {"name": "node"}});
    client.post(&format!("{pods}/a/binding"), &binding).await.ok();
    client
        .post(&format!("{pods}/b/binding"), &json!({"metadata": {"name": "b"}, "target": {"name": "n"}}))
        .await
        .ok();
    let eviction = |name: &str| json!({"metadata": {"name": name}});
    let mut old = eviction("a");
    old["apiVersion"] = "policy/v1beta1".into();
    client.post(&format!("{pods}/a/eviction"), &old).await.ok();
    client.post(&format!("{pods}/b/eviction"), &eviction("b")).await.status(400, "");
    client.get(&format!("{pods}/b")).await.ok();
    let reviews = webhooks.take();
    let expected = [
        "CREATE pods/binding a",
        "CREATE pods/binding b",
        "CREATE pods/eviction a",
        "CREATE pods/eviction b",
    ];
    // "*/*" matches pods themselves as well
    let of_subresources: Vec<String> =
        described(&reviews).into_iter().filter(|review| review.contains('/')).collect();
    assert_eq!(of_subresources, expected);
    let binding = reviews.iter().find(|review| review["subResource"] == "binding").unwrap();
    assert_eq!(binding["kind"], json!({"group": "", "version": "v1", "kind": "Binding"}));
    assert_eq!(binding["object"]["target"]["name"], "node");
}

// contract: E-27b
#[tokio::test]
async fn rules_and_selectors_select_webhooks() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    let labels = |labels: Value| json!({"matchLabels": labels});
    let hooks = [
        webhooks.hook("created", &json!({"rules": rule(&["configmaps"], &["CREATE"])})),
        webhooks.hook("deleted", &json!({"rules": rule(&["configmaps"], &["DELETE"])})),
        webhooks.hook("status", &json!({"rules": rule(&["configmaps/status"], &["*"])})),
        webhooks.hook("labelled", &json!({"objectSelector": labels(json!({"a": "b"}))})),
        webhooks.hook(
            "namespace",
            &json!({"namespaceSelector": labels(json!({"kubernetes.io/metadata.name": "default"}))}),
        ),
        webhooks.hook("other", &json!({"namespaceSelector": labels(json!({"x": "y"}))})),
        webhooks.hook(
            "cluster",
            &json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps", "namespaces"], "scope": "Cluster"}]}),
        ),
        webhooks.hook(
            "namespaced",
            &json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["*"], "scope": "Namespaced"}]}),
        ),
    ];
    configure(&server, "Validating", "all", json!(hooks));
    let called = || {
        let paths = webhooks.take_paths();
        let mut names: Vec<String> =
            paths.iter().map(|path| path.trim_matches('/').split('?').next().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    client.post(MAPS, &config_map("a", "1")).await.ok();
    assert_eq!(called(), ["created", "namespace", "namespaced"]);
    let path = format!("{MAPS}/a");
    client.patch(&path, "merge-patch", &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert_eq!(called(), ["labelled", "namespace", "namespaced"]);
    // The label before counts as well.
    client.patch(&path, "merge-patch", &json!({"metadata": {"labels": null}})).await.ok();
    assert_eq!(called(), ["labelled", "namespace", "namespaced"]);
    client.delete(&path).await.ok();
    assert_eq!(called(), ["deleted", "namespace", "namespaced"]);
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "n", "labels": {"x": "y"}}})).await.ok();
    assert_eq!(called(), ["cluster"]);
    client.post("/api/v1/namespaces/n/configmaps", &json!({"metadata": {"name": "a"}})).await.ok();
    assert_eq!(called(), ["created", "namespaced", "other"]);
}

/// A rule for one version of a resource selects requests in its other versions, and the objects are converted.
// contract: E-27b
#[tokio::test]
async fn equivalent_versions_are_converted() {
    let webhooks = WebhookServer::start(|_, request| {
        let version = request["object"]["apiVersion"].clone();
        Reply::patch(&json!([{"op": "add", "path": "/spec/seen", "value": version}]))
    });
    let (webhooks, server) = (webhooks.await, server().await);
    let client = Client::new(&server);
    server.create(widget_definition()).unwrap();
    let of = |version: &str| json!([{"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": [version], "resources": ["widgets"]}]);
    let equivalent = webhooks.hook("equivalent", &json!({"rules": of("v1")}));
    let exact = webhooks.hook("exact", &json!({"rules": of("v1"), "matchPolicy": "Exact"}));
    configure(&server, "Mutating", "all", json!([equivalent, exact]));
    let widget =
        json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}});
    let created = client.post("/apis/example.com/v1beta1/namespaces/default/widgets", &widget).await.ok();
    assert_eq!(created["apiVersion"], "example.com/v1beta1");
    assert_eq!(created["spec"]["seen"], "example.com/v1");
    let reviews = webhooks.take();
    assert_eq!(reviews.len(), 1);
    assert_eq!(reviews[0]["requestKind"]["version"], "v1beta1");
    assert_eq!(reviews[0]["kind"]["version"], "v1");
    assert_eq!(reviews[0]["requestResource"]["version"], "v1beta1");
    assert_eq!(reviews[0]["resource"]["version"], "v1");
}

/// Configurations of admission are exempt, so that a webhook cannot lock itself in.
// contract: E-27c
#[tokio::test]
async fn configurations_are_exempt() {
    let webhooks = WebhookServer::start(|_, _| Reply::denied(json!({"message": "no"}))).await;
    let server = server().await;
    let client = Client::new(&server);
    let all = webhooks.hook("all", &json!({"rules": rule(&["*/*"], &["*"])}));
    configure(&server, "Validating", "all", json!([all]));
    client.post(MAPS, &config_map("a", "1")).await.status(400, "");
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/all");
    client.patch(&path, "merge-patch", &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    client.delete(&path).await.ok();
    client.post(MAPS, &config_map("a", "1")).await.ok();
    assert_eq!(webhooks.take().len(), 1);
}

// contract: E-27c
#[tokio::test]
async fn users_are_named() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let alice = AccessUser::new("t0ken", "alice").groups(["system:masters"]).uid("1");
    let server = ApiServer::builder().access(Access::rbac().user(alice)).start().await.unwrap();
    configure(&server, "Validating", "all", json!([webhooks.hook("all", &json!({}))]));
    let client = Client::new(&server);
    let headers = [("authorization", "Bearer t0ken")];
    client.send(Method::POST, MAPS, &headers, config_map("a", "1").to_string()).await.ok();
    assert_eq!(
        webhooks.take()[0]["userInfo"],
        json!({"username": "alice", "uid": "1", "groups": ["system:masters", "system:authenticated"]})
    );
}

// contract: E-24c
#[tokio::test]
async fn configurations_are_validated() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    let resources = |names: &[&str]| json!({"rules": rule(names, &["*"])});
    let url = |url: &str| json!({"clientConfig": {"url": url}});
    for (fields, field, why) in [
        (
            resources(&["pods/*", "pods/status"]),
            "rules[0].resources[1]",
            "if 'pods/*' is present, must not specify pods/status",
        ),
        (
            resources(&["*/status", "pods/status"]),
            "rules[0].resources[1]",
            "if '*/status' is present, must not specify pods/status",
        ),
        (
            resources(&["*/*", "pods"]),
            "rules[0].resources",
            "if '*/*' is present, must not specify other resources",
        ),
        (
            resources(&["*", "pods"]),
            "rules[0].resources",
            "if '*' is present, must not specify other resources without subresources",
        ),
        (json!({"admissionReviewVersions": ["v1", "v1"]}), "admissionReviewVersions[1]", "duplicate version"),
        (url("https://"), "clientConfig.url", "host must be specified"),
        (url("https://a:b@c/d"), "clientConfig.url", "user information is not permitted in the URL"),
        (url("https://c/d#e"), "clientConfig.url", "fragments are not permitted in the URL"),
        (url("https://c/d?e=f"), "clientConfig.url", "query parameters are not permitted in the URL"),
    ] {
        let configuration = json!({"metadata": {"name": "all"}, "webhooks": [webhooks.hook("all", &fields)]});
        let answer =
            client.post(&format!("{CONFIGURATIONS}/validatingwebhookconfigurations"), &configuration).await;
        answer.status(422, "Invalid");
        let causes = answer.body["details"]["causes"].as_array().unwrap();
        let is_expected = |cause: &Value| {
            cause["field"] == format!("webhooks[0].{field}")
                && cause["message"].as_str().unwrap().contains(why)
        };
        assert!(causes.iter().any(is_expected), "{why}: {causes:?}");
    }
}

/// What a role grants is checked after the webhooks, by each kind of write.
// contract: E-25f, E-27d
#[tokio::test]
async fn rights_are_checked_after_mutation() {
    let webhooks = WebhookServer::start(|_, request| {
        if request["object"]["metadata"]["labels"].is_null() {
            return Reply::allowed();
        }
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]});
        Reply::patch(&json!([{"op": "add", "path": "/rules/-", "value": rule}]))
    });
    let (webhooks, server) = (webhooks.await, access::server().await);
    let client = Client::new(&server);
    let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    let write = json!({"verbs": ["create", "update", "patch"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles"]});
    access::bind(&server, "writes", "alice", json!([pods, write]));
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = |name: &str, labels: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "labels": labels}, "rules": [pods]})
    };
    let all = webhooks.hook("all", &json!({"rules": rule(&["roles"], &["*"])}));
    configure(&server, "Mutating", "all", json!([all]));
    access::post(&client, "alice-token", roles, role("a", Value::Null)).await.ok();
    let path = format!("{roles}/a");
    let apply = [("content-type", "application/apply-patch+yaml")];
    let merge = [("content-type", "application/merge-patch+json")];
    let labelled = role("a", json!({"grants": "more"}));
    for (method, path, headers) in [
        (Method::POST, roles.to_owned(), &[][..]),
        (Method::PUT, path.clone(), &[][..]),
        (Method::PATCH, path.clone(), &merge[..]),
        (Method::PATCH, format!("{path}?fieldManager=m"), &apply[..]),
    ] {
        let refused = access::send(&client, "alice-token", method, &path, headers, &labelled).await;
        let message = refused.status(403, "Forbidden");
        let why = "is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], \
            Resources:[\"secrets\"], Verbs:[\"get\"]}";
        assert!(message.ends_with(why), "{message}");
    }
}

/// A definition is deleted with the UID that it has. A namespace has none before its name is generated.
// contract: E-27a
#[tokio::test]
async fn reviews_have_the_names_and_options_of_kubernetes() {
    let webhooks = WebhookServer::start(|_, _| Reply::allowed()).await;
    let server = server().await;
    let client = Client::new(&server);
    let all = webhooks.hook("all", &json!({"rules": rule(&["*"], &["*"])}));
    configure(&server, "Validating", "all", json!([all]));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = client.post(definitions, &widget_definition()).await.ok();
    webhooks.take();
    client.delete(&format!("{definitions}/widgets.example.com")).await.ok();
    let review = webhooks.take().remove(0);
    assert_eq!(review["options"]["preconditions"], json!({"uid": definition["metadata"]["uid"]}));
    let created = client.post("/api/v1/namespaces", &json!({"metadata": {"generateName": "g-"}})).await.ok();
    let review = webhooks.take().remove(0);
    assert_eq!((&review["name"], &review["namespace"]), (&created["metadata"]["name"], &Value::Null));
}
