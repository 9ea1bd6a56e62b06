//! Invalid requests: the response is a `Status`, and the server continues.

use crate::common::{Client, PATIENCE, config_map, server, widget, widget_definition};
use http::Method;
use kinformer_apiserver::ApiServer;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

// contract: E-01a, E-01l
#[tokio::test]
async fn invalid_bodies() {
    let server = server().await;
    let client = Client::new(&server);
    let version = server.version();
    let deep = "[".repeat(100_000);
    for body in [
        "",
        "{",
        "nonsense",
        "[]",
        "\"text\"",
        "{\"metadata\":[]}",
        "{\"metadata\":{\"name\":1}}",
        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"a\":1}}}",
        "{\"metadata\":{\"name\":\"a\",\"finalizers\":\"x\"}}",
        "{\"metadata\":{\"name\":\"a\",\"ownerReferences\":[1]}}",
        "{\"metadata\":{\"name\":\"a\",\"ownerReferences\":[{\"uid\":1}]}}",
        "{\"metadata\":{\"name\":\"a\",\"ownerReferences\":[{\"controller\":\"true\"}]}}",
        "{\"metadata\":{\"name\":\"a\",\"deletionTimestamp\":\"x\"}}",
        "{\"metadata\":{\"name\":\"a\",\"creationTimestamp\":\"2026-02-30T00:00:00Z\"}}",
        "{\"metadata\":{\"name\":\"a\",\"creationTimestamp\":7}}",
        "{\"metadata\":{\"name\":\"a\",\"deletionGracePeriodSeconds\":\"1\"}}",
        "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}",
        "{\"apiVersion\":\"v2\",\"metadata\":{\"name\":\"a\"}}",
        "{\"kind\":7}",
        deep.as_str(),
    ] {
        let answer =
            client.send(Method::POST, MAPS, &[("content-type", "application/json")], body.to_owned()).await;
        let shown: String = body.chars().take(60).collect();
        assert_eq!((answer.code.as_u16(), &answer.body["reason"]), (400, &json!("BadRequest")), "{shown}");
    }
    let bytes: &[u8] = &[0xff, 0xfe, 0x00];
    client.send(Method::POST, MAPS, &[], bytes).await.status(400, "BadRequest");
    let unknown = |kind: &str, version: &str| {
        format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        )
    };
    for (version, kind, why) in [
        ("v2", "ConfigMap", unknown("ConfigMap", "v2")),
        ("v1", "Other", unknown("Other", "v1")),
        ("v1", "Pod", "converting (v1.Pod) to (core.ConfigMap): unknown conversion".to_owned()),
    ] {
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        let expected = format!("{kind} in version \"{version}\" cannot be handled as a ConfigMap: {why}");
        assert_eq!(client.post(MAPS, &body).await.status(400, "BadRequest"), expected);
    }
    let scaler = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let other =
        json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}});
    let types = "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)";
    assert_eq!(client.post(scaler, &other).await.status(400, "BadRequest"), types);
    assert_eq!(server.version(), version, "nothing was stored");
}

// contract: E-01a
#[tokio::test]
async fn invalid_names() {
    let server = server().await;
    let client = Client::new(&server);
    for name in ["A", "a_b", "-a", "a-", "a..b", "a/b", "ä", &"a".repeat(254)] {
        let answer = client.post(MAPS, &config_map(name, "1")).await;
        assert!(answer.status(422, "Invalid").contains("metadata.name: Invalid value"), "{name}");
    }
    client.post(MAPS, &config_map("a.b-c.d", "1")).await.ok();
    let role = json!({"metadata": {"name": "system:controller"}});
    client.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await.ok();
}

// contract: E-01l
#[tokio::test]
async fn invalid_owners() {
    let server = server().await;
    let client = Client::new(&server);
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "u", "controller": true});
    let with = |owners: Value| {
        let mut map = config_map("a", "1");
        map["metadata"]["ownerReferences"] = owners;
        map
    };
    for (field, value, part) in [
        ("apiVersion", "", "metadata.ownerReferences[0].apiVersion: Required value: must not be empty"),
        ("apiVersion", "apps/", "metadata.ownerReferences[0].apiVersion: Invalid value"),
        ("kind", "", "metadata.ownerReferences[0].kind: Required value: must not be empty"),
        ("name", "", "metadata.ownerReferences[0].name: Required value"),
        ("uid", "", "metadata.ownerReferences[0].uid: Required value"),
    ] {
        let mut wrong = owner.clone();
        wrong[field] = value.into();
        let refused = client.post(MAPS, &with(json!([wrong]))).await;
        let message = refused.status(422, "Invalid");
        assert!(message.contains(part), "{message}");
    }
    let empty = client.post(MAPS, &with(json!([{}]))).await;
    empty.status(422, "Invalid");
    assert_eq!(empty.body["details"]["causes"].as_array().unwrap().len(), 4);
    let event = json!({"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"});
    let message = client.post(MAPS, &with(json!([event]))).await.status(422, "Invalid");
    assert!(message.contains("is disallowed from being an owner"), "{message}");
    let mut other = owner.clone();
    other["uid"] = "other".into();
    let message = client.post(MAPS, &with(json!([owner, other]))).await.status(422, "Invalid");
    assert!(message.contains("Only one reference can have Controller set to true"), "{message}");
    server.create(with(json!([owner]))).unwrap();
    let patch = json!({"metadata": {"ownerReferences": [{"name": "b"}]}});
    client.patch(&format!("{MAPS}/a"), "merge-patch", &patch).await.status(422, "Invalid");
}

#[tokio::test]
async fn media_types() {
    let server = server().await;
    let client = Client::new(&server);
    let send = |method, path: &'static str, media_type: &'static str, body: &'static str| {
        let client = client.clone();
        async move { client.send(method, path, &[("content-type", media_type)], body).await }
    };
    let answer = send(Method::POST, MAPS, "text/plain", "x").await;
    assert!(answer.status(415, "UnsupportedMediaType").contains("application/json"));
    let yaml = "metadata:\n  name: from-yaml\ndata: {key: \"1\"}\n";
    assert_eq!(send(Method::POST, MAPS, "application/yaml", yaml).await.code, 201);
    send(Method::POST, MAPS, "application/yaml", "a: [").await.status(400, "BadRequest");
    send(Method::POST, MAPS, "application/yaml", "- 1").await.status(400, "BadRequest");
    send(Method::POST, MAPS, "application/json; charset=utf-8", "{\"metadata\":{\"name\":\"c\"}}").await.ok();
    let one = "/api/v1/namespaces/default/configmaps/from-yaml";
    for (media_type, body, code) in [
        ("application/json", "{}", 415),
        ("application/json-patch+json", "{}", 400),
        ("application/json-patch+json", "[{\"op\":\"fly\",\"path\":\"/\"}]", 422),
        ("application/json-patch+json", "[{\"op\":\"replace\",\"path\":\"\",\"value\":1}]", 422),
        ("application/json-patch+json", "[{\"op\":\"remove\",\"path\":\"/none\"}]", 422),
        ("application/merge-patch+json", "[]", 400),
        ("application/merge-patch+json", "{\"metadata\":7}", 422),
        ("application/strategic-merge-patch+json", "{\"$patch\":\"explode\"}", 500),
        ("application/strategic-merge-patch+json", "{", 400),
    ] {
        let answer = send(Method::PATCH, one, media_type, body).await;
        assert_eq!(
            (answer.code.as_u16(), &answer.body["kind"]),
            (code, &json!("Status")),
            "{media_type} {body}"
        );
    }
    let many = Value::Array(vec![json!({"op": "test", "path": "/a", "value": 1}); 10_001]).to_string();
    client
        .send(Method::PATCH, one, &[("content-type", "application/json-patch+json")], many)
        .await
        .status(413, "RequestEntityTooLarge");
    // Each copy doubles the object: refused before it is large.
    let doubling: Vec<Value> =
        (0..64).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/k{n}")})).collect();
    client
        .send(
            Method::PATCH,
            one,
            &[("content-type", "application/json-patch+json")],
            json!(doubling).to_string(),
        )
        .await
        .status(422, "Invalid");
}

#[tokio::test]
async fn too_large_body() {
    let server = server().await;
    let client = Client::new(&server);
    let body = format!("{{\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(3 * 1024 * 1024));
    client.send(Method::POST, MAPS, &[], body).await.status(413, "RequestEntityTooLarge");
    client.get(MAPS).await.ok();
}

// contract: E-03a, E-03d, E-04a
#[tokio::test]
async fn parameters() {
    let server = server().await;
    let client = Client::new(&server);
    for (query, code, reason) in [
        ("resourceVersion=abc", 400, "BadRequest"),
        ("resourceVersion=-1", 400, "BadRequest"),
        ("resourceVersion=99999999999999999999999", 400, "BadRequest"),
        ("watch=1&resourceVersion=abc", 500, ""),
        ("limit=many", 400, "BadRequest"),
        ("timeoutSeconds=soon&watch=1", 400, "BadRequest"),
        ("timeoutSeconds=", 400, "BadRequest"),
        ("continue=%00", 400, "BadRequest"),
        ("continue=bm9uc2Vuc2U", 400, "BadRequest"),
        ("labelSelector=a%20b", 400, "BadRequest"),
        ("labelSelector=a+in+(", 400, "BadRequest"),
        ("fieldSelector=metadata.name", 400, "BadRequest"),
        ("fieldSelector=a%3Db", 400, "BadRequest"),
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422, "Invalid"),
        ("resourceVersionMatch=Nearly&resourceVersion=1", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
        ("watch=1&sendInitialEvents=true", 422, "Invalid"),
        ("watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1", 422, "Invalid"),
    ] {
        let answer = client.get(&format!("{PODS}?{query}")).await;
        assert_eq!(
            (answer.code.as_u16(), answer.body["reason"].as_str().unwrap_or_default()),
            (code, reason),
            "{query}: {}",
            answer.body
        );
    }
    for harmless in ["unknown=1", "pretty=true&&=&a=b=c", "limit=0", "limit=-5", "watch=false", "%ff=%ff"] {
        client.get(&format!("{PODS}?{harmless}")).await.ok();
    }
    let mut named =
        client.watch(&format!("{PODS}?watch=1&fieldSelector=metadata.name%3Da&timeoutSeconds=1")).await;
    assert!(named.next().await.is_err());
    client.get(&format!("{PODS}/a?watch=1&fieldSelector=metadata.name%3Db")).await.status(400, "BadRequest");
}

#[tokio::test]
async fn paths_and_methods() {
    let server = server().await;
    let client = Client::new(&server);
    for path in [
        "/api/v1/nothing",
        "/api/v2/pods",
        "/apis/apps/v1/nothing",
        "/apis/x/y/z",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/pods/a/nothing",
        "/%00",
        "/api/v1/namespaces/default/pods/%2f..%2f",
    ] {
        client.get(path).await.status(404, "NotFound");
    }
    client.send(Method::OPTIONS, PODS, &[], "").await.status(405, "MethodNotAllowed");
    client.post(&format!("{PODS}/a"), &json!({})).await.status(405, "MethodNotAllowed");
    client.put(PODS, &json!({})).await.status(405, "MethodNotAllowed");
    client.post("/api/v1/pods", &crate::common::pod("a")).await.status(405, "MethodNotAllowed");
    client.delete(&format!("{PODS}/a/status")).await.status(405, "MethodNotAllowed");
}

#[tokio::test]
async fn malformed_connections() {
    let server = server().await;
    for bytes in [
        b"\0\x01\x02 nonsense\r\n\r\n".as_slice(),
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\ngarbage",
    ] {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        stream.shutdown().await.unwrap();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().ok();
    }
    // A truncated body.
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream
        .write_all(
            format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{\"meta").as_bytes(),
        )
        .await
        .unwrap();
    drop(stream);
    Client::new(&server).get(PODS).await.ok();
    server.shutdown().await;
}

#[tokio::test]
async fn scale_of_custom_kinds_without_paths() {
    let server = server().await;
    let client = Client::new(&server);
    let mut definition = widget_definition();
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {}});
    let error = server.create(definition).unwrap_err().to_string();
    assert!(error.contains("scale.specReplicasPath: Required value"), "{error}");
    server.create(widget_definition()).unwrap();
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    client.post(path, &widget("w")).await.ok();
    let text = json!({"spec": {"replicas": "two"}});
    client.patch(&format!("{path}/w/scale"), "merge-patch", &text).await.status(422, "Invalid");
}

async fn survives(server: &ApiServer, method: Method, path: String, body: Vec<u8>, content_type: &str) {
    let client = Client::new(server);
    let Ok(uri) = path.parse::<http::uri::PathAndQuery>() else { return };
    let answer = client.send(method, uri.as_str(), &[("content-type", content_type)], body).await;
    assert!(answer.code.as_u16() < 500, "{} {}", answer.code, answer.body);
    client.get("/healthz").await.ok();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn arbitrary_requests_never_fail_the_server(
        method in prop::sample::select(vec![Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE]),
        path in "/(api/v1|apis/apps/v1)(/namespaces/default)?/(pods|deployments|configmaps)(/[a-z%0-9.]{0,5})?(/(status|scale|binding|x))?(\\?[a-zA-Z=&%0-9!,]{0,30})?",
        body in prop_oneof![
            "\\PC{0,60}".prop_map(String::into_bytes),
            "\\{\"(metadata|spec|status|kind)\":(\\{\"(name|labels|replicas)\":(\"a\"|1|null|\\[\\]|\\{\\})\\}|null|1|\\[1\\])\\}".prop_map(String::into_bytes),
        ],
        content_type in prop::sample::select(vec!["application/json", "application/merge-patch+json", "application/json-patch+json",
            "application/strategic-merge-patch+json", "application/yaml", "x"]),
    ) {
        // A watch would not end.
        prop_assume!(!path.contains("watch"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = server().await;
            server.create(config_map("a", "1")).unwrap();
            survives(&server, method, path, body, content_type).await;
            server.shutdown().await;
        });
    }
}

// contract: E-01a
#[tokio::test]
async fn metadata_is_refused_with_the_words_of_kubernetes() {
    let server = server().await;
    let client = Client::new(&server);
    let mut map = config_map("a", "1");
    map["metadata"]["finalizers"] = json!(["a/b/c"]);
    let message = client.post(MAPS, &map).await.status(422, "Invalid");
    let rule = "a valid label key must consist of alphanumeric characters, '-', '_' or '.'";
    assert!(message.contains(&format!("metadata.finalizers: Invalid value: \"a/b/c\": {rule}")), "{message}");
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": true, "blockOwnerDeletion": false});
    map["metadata"] =
        json!({"name": "a", "labels": {"/b": "x"}, "ownerReferences": [owner("a"), owner("b")]});
    let message = client.post(MAPS, &map).await.status(422, "Invalid");
    assert!(
        message.contains("metadata.labels: Invalid value: \"/b\": prefix part must be non-empty"),
        "{message}"
    );
    let first = r#"[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"a","controller":true,"blockOwnerDeletion":false},"#;
    assert!(message.contains(first), "{message}");
}
