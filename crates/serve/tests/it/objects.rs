//! Lists, single objects and indexes.

use http::{Method, StatusCode};
use kinformer_apiserver::Verb;
use kinformer_testing::scripted_http::{Answer, in_process_client};
use kinformer_testing::wait::within;
use serde_json::{Value, json};

use kinformer::SharedInformerFactory;
use kinformer::kube_core::discovery::{ApiResource, Scope};
use kinformer::kube_core::gvk::GroupVersionKind;
use kinformer_serve::Server;

use crate::common::{Client, PODS, World, client_of, cluster, node, pod};

fn names(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

async fn five() -> World {
    let world = World::start(0).await;
    for (name, node, app, phase) in [
        ("b", "node-1", "web", "Running"),
        ("a", "node-2", "web", "Pending"),
        ("d", "node-1", "api", "Failed"),
        ("c", "node-2", "api", "Running"),
    ] {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = node.into();
        pod["metadata"]["labels"]["app"] = app.into();
        pod["status"]["phase"] = phase.into();
        world.put(pod).await;
    }
    let mut other = pod("e");
    other["metadata"]["namespace"] = "data".into();
    let written = world.cluster.create(other).unwrap();
    let version = written["metadata"]["resourceVersion"].as_str().unwrap();
    world.pods.wait_for(("data", "e"), &version.into()).await.unwrap();
    world
}

// contract: H-04a, H-04b
#[tokio::test]
async fn lists_are_selected_and_sorted() {
    let world = five().await;
    for (query, expected) in [
        ("", "e a b c d"),
        ("sort=-key", "d c b a e"),
        ("sort=namespace", "e a b c d"),
        ("sort=name", "a b c d e"),
        ("sort=-name", "e d c b a"),
        ("sort=status", "d a e b c"),
        ("sort=resourceVersion", "b a d c e"),
        ("sort=-resourceVersion", "e c d a b"),
        ("namespace=data", "e"),
        ("namespace=none", ""),
        ("index=node&value=node-2", "a c"),
        ("index=node&value=", ""),
        ("index=node&value=node-2&namespace=data", ""),
        ("labelSelector=app%20in%20(api)", "c d"),
        ("labelSelector=app%3Dapi&index=node&value=node-2", "c"),
        ("filter=HOP%2FB", "b"),
        ("filter=data", "e"),
        ("limit=2", "e a"),
        ("limit=2&offset=3", "c d"),
        ("offset=9", ""),
    ] {
        let page = world.client.ok(&format!("{PODS}/objects?{query}")).await;
        assert_eq!(names(&page).join(" "), expected, "{query}");
    }
    // The creation times have seconds, so only their presence is compared.
    let page = world.client.ok(&format!("{PODS}/objects?sort=created")).await;
    let row = &page["items"][1];
    assert_eq!((&page["total"], &page["next"], &page["offset"]), (&5.into(), &Value::Null, &0.into()));
    assert!(row["created"].as_str().unwrap().ends_with('Z'), "{row}");
    let row = &world.client.ok(&format!("{PODS}/objects?filter=shop%2Fa")).await["items"][0];
    let stored = world.pods.lister().get(("shop", "a")).unwrap();
    let expected = json!({
        "key": "shop/a", "namespace": "shop", "name": "a", "uid": stored.uid(), "created": row["created"],
        "resourceVersion": stored.resource_version().to_string(), "status": "Pending", "deleting": false,
    });
    assert_eq!(*row, expected);
    let nodes = world.client.ok("/api/v1/informers/nodes/objects").await;
    assert_eq!(
        (&nodes["items"][0]["key"], &nodes["items"][0]["status"]),
        (&"node-1".into(), &"Ready".into())
    );

    let indexes = world.client.ok(&format!("{PODS}/indexes")).await;
    assert_eq!(
        indexes,
        json!({"indexes": [{"name": "namespace", "values": 2}, {"name": "node", "values": 2}]})
    );
    let values = world.client.ok(&format!("{PODS}/indexes/node")).await;
    let items = json!([{"value": "node-1", "objects": 3}, {"value": "node-2", "objects": 2}]);
    assert_eq!(values, json!({"index": "node", "total": 2, "offset": 0, "items": items}));
    let values = world.client.ok(&format!("{PODS}/indexes/node?filter=-2")).await;
    assert_eq!((&values["total"], &values["items"][0]["value"]), (&1.into(), &"node-2".into()));
    let values = world.client.ok(&format!("{PODS}/indexes/node?limit=1&offset=1")).await;
    assert_eq!((&values["total"], &values["items"][0]["value"]), (&2.into(), &"node-2".into()));
    world.end().await;
}

// contract: H-05, H-06b
#[tokio::test]
async fn pages_are_of_one_snapshot() {
    let world = World::start(5).await;
    let first = world.client.ok(&format!("{PODS}/objects?limit=2&sort=-name")).await;
    assert_eq!(names(&first), ["web-4", "web-3"]);
    world.delete("web-2").await;
    world.put(pod("web-9")).await;
    let mut seen = names(&first);
    let mut next = first["next"].as_str().map(str::to_owned);
    while let Some(path) = next {
        let page = world.client.ok(&path).await;
        assert_eq!(
            (&page["view"], &page["revision"], &page["total"]),
            (&first["view"], &first["revision"], &5.into())
        );
        seen.extend(names(&page));
        next = page["next"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, ["web-4", "web-3", "web-2", "web-1", "web-0"]);
    let now = world.client.ok(&format!("{PODS}/objects?limit=2&sort=-name")).await;
    assert_eq!(names(&now), ["web-9", "web-4"]);
    assert!(now["revision"].as_u64() > first["revision"].as_u64() && now["view"] != first["view"]);

    let message = world.client.get(&format!("{PODS}/objects?view=none")).await.fails(410, "Expired");
    assert!(message.contains("without the parameter view"), "{message}");
    let of_pods = first["view"].as_str().unwrap();
    world.client.get(&format!("/api/v1/informers/nodes/objects?view={of_pods}")).await.fails(410, "Expired");
    world.end().await;
}

// contract: H-07b, H-07c
#[tokio::test]
async fn validators_answer_with_304() {
    let world = World::start(2).await;
    let stored = world.pods.lister().get(("shop", "web-0")).unwrap();
    let object = format!("{PODS}/objects/shop/web-0");
    let reply = world.client.get(&object).await;
    let tag = reply.header("etag").to_owned();
    assert!(tag.starts_with(&format!("\"{}-", stored.resource_version())), "{tag}");
    for path in [
        object.as_str(),
        &format!("{object}?format=yaml"),
        &format!("{PODS}/objects?limit=1"),
        "/",
        "/page.js",
    ] {
        let reply = world.client.get(path).await;
        let tag = reply.header("etag").to_owned();
        assert!(!tag.is_empty(), "{path}");
        for sent in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            let same = world.client.request(Method::GET, path, &[("if-none-match", &sent)]).await;
            assert_eq!(same.status, StatusCode::NOT_MODIFIED, "{path} {sent}");
            assert!(same.body.is_empty() && same.header("etag") == tag);
        }
        let other = world.client.request(Method::GET, path, &[("if-none-match", "\"other\"")]).await;
        assert_eq!(other.status, StatusCode::OK);
    }
    let tag = world.client.get(&format!("{PODS}/objects")).await.header("etag").to_owned();
    let mut changed = pod("web-0");
    changed["status"]["phase"] = "Failed".into();
    world.put(changed).await;
    for path in [object, format!("{PODS}/objects")] {
        let reply = world.client.request(Method::GET, &path, &[("if-none-match", &tag)]).await;
        assert_eq!(reply.status, StatusCode::OK, "the state has changed: {path}");
    }
    world.end().await;
}

/// A server that returns other content for one version, as after a change of a conversion.
// contract: H-07b, H-09a
#[tokio::test]
async fn content_that_changes_at_one_version() {
    let pod = |app: &str| {
        let metadata =
            json!({"name": "a", "namespace": "shop", "resourceVersion": "5", "labels": {"app": app}});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    };
    let (send, events) = tokio::sync::mpsc::channel(1);
    let mut events = Some(events);
    let (client, _requests) = in_process_client(move |request| {
        if request.is_watch_list() {
            return Answer::failure(422, "Invalid");
        }
        if request.is_watch() {
            return events
                .take()
                .map_or_else(Answer::never, |events| Answer::watch([]).then_received(events));
        }
        let metadata = json!({"resourceVersion": "10"});
        let list =
            json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": [pod("old")]});
        Answer::json(&list)
    });
    let factory = kinformer::SharedInformerFactory::new(client);
    let pods = factory.core().v1().pods();
    let builder = kinformer_serve::Server::builder().listen("127.0.0.1:0".parse().unwrap());
    let server = builder.informer(&pods).bind().await.unwrap().spawn();
    factory.start().unwrap();
    within("sync", factory.wait_for_cache_sync()).await.into_result().unwrap();
    let client = crate::common::Client { address: server.local_addr() };
    let path = format!("{PODS}/objects/shop/a");
    let old = client.get(&path).await;
    let mut stream = client.stream("/api/v1/events", &[]).await;
    let event = json!({"type": "MODIFIED", "object": pod("new")});
    send.send(format!("{event}\n").into()).await.unwrap();
    let change = stream.next_of(&["change"]).await.data;
    let difference = json!([{"path": "metadata.labels.app", "old": "old", "new": "new"}]);
    assert_eq!((&change["type"], &change["diff"]), (&"updated".into(), &difference), "{change}");
    let new = client.request(Method::GET, &path, &[("if-none-match", old.header("etag"))]).await;
    assert_eq!(new.status, StatusCode::OK);
    assert_eq!(new.json()["metadata"]["labels"]["app"], "new");
    assert_ne!(new.header("etag"), old.header("etag"));
    drop(stream);
    server.shutdown().await;
    factory.shutdown().await.unwrap();
}

/// In both encodings of the store.
// contract: H-07a
#[tokio::test]
async fn objects_are_json_or_yaml() {
    let protobuf = kinformer_apiserver::ApiServer::builder()
        .protobuf(kinformer_apiserver::ProtobufAnswers::Offered)
        .namespace_lifecycle(kinformer_apiserver::NamespaceLifecycle::AutoCreate);
    for cluster in [protobuf.start().await.unwrap(), crate::common::cluster(0).await] {
        let written = cluster.create(pod("web-0")).unwrap();
        let factory = kinformer::SharedInformerFactory::new(crate::common::client_of(&cluster));
        let pods = factory.core().v1().pods();
        let builder = kinformer_serve::Server::builder().listen("127.0.0.1:0".parse().unwrap());
        let server = builder.informer(&pods).bind().await.unwrap().spawn();
        factory.start().unwrap();
        kinformer_testing::wait::within("sync", factory.wait_for_cache_sync()).await.into_result().unwrap();
        let client = crate::common::Client { address: server.local_addr() };
        let path = format!("{PODS}/objects/shop/web-0");
        let object = client.ok(&path).await;
        for field in [
            "/apiVersion",
            "/kind",
            "/metadata/uid",
            "/metadata/labels",
            "/spec/nodeName",
            "/status/phase",
            "/spec/containers/0/image",
        ] {
            assert_eq!(object.pointer(field), written.pointer(field), "{field} of {object}");
        }
        let row = &client.ok(&format!("{PODS}/objects")).await["items"][0];
        assert_eq!(
            (&row["status"], &row["created"]),
            (&"Running".into(), &written["metadata"]["creationTimestamp"])
        );
        let yaml = client.get(&format!("{path}?format=yaml")).await;
        assert_eq!(yaml.header("content-type"), "application/yaml");
        let read: Value = serde_saphyr::from_str(&yaml.text()).unwrap();
        assert_eq!(read, object);
        let accepted = client.request(Method::GET, &path, &[("accept", "application/yaml, */*")]).await;
        assert_eq!(accepted.body, yaml.body);
        let json = client.request(Method::GET, &path, &[("accept", "text/html, */*;q=0.8")]).await;
        assert_eq!(json.header("content-type"), "application/json");
        client.get(&format!("{path}?format=xml")).await.fails(400, "BadRequest");
        server.shutdown().await;
        factory.shutdown().await.unwrap();
        cluster.shutdown().await;
    }
}

// contract: H-08
#[tokio::test]
async fn large_responses_are_compressed_and_head_has_no_body() {
    let world = World::start(50).await;
    let path = format!("{PODS}/objects");
    let plain = world.client.get(&path).await;
    assert!(plain.header("content-encoding").is_empty());
    let gzip = [("accept-encoding", "gzip")];
    let small = world.client.request(Method::GET, &path, &gzip).await;
    assert_eq!(small.header("content-encoding"), "gzip");
    assert!(small.body.len() * 4 < plain.body.len(), "{} of {}", small.body.len(), plain.body.len());
    let tiny = world.client.request(Method::GET, "/healthz", &gzip).await;
    assert!(tiny.header("content-encoding").is_empty());
    for path in [path.as_str(), &format!("{PODS}/objects/shop/web-0"), "/", "/healthz", "/metrics", PODS] {
        let head = world.client.request(Method::HEAD, path, &[]).await;
        assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0), "{path}");
        let get = world.client.get(path).await;
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
    world.end().await;
}

// contract: H-20
#[tokio::test]
async fn failures_say_what_to_do() {
    let world = World::start(1).await;
    for (path, code, reason, part) in [
        ("/api/v1/informers/none", 404, "NotFound", "the informers are: pods, nodes"),
        (
            "/api/v1/informers/pods/objects?index=none&value=a",
            404,
            "NotFound",
            "the indexes are: namespace, node",
        ),
        ("/api/v1/informers/pods/indexes/none", 404, "NotFound", "the indexes are: namespace, node"),
        ("/api/v1/informers/pods/objects?index=node", 400, "BadRequest", "belong together"),
        ("/api/v1/informers/pods/objects?sort=age", 400, "BadRequest", "none of key, namespace, name"),
        ("/api/v1/informers/pods/objects?limit=0", 400, "BadRequest", "1 to 1000"),
        ("/api/v1/informers/pods/objects?limit=x", 400, "BadRequest", "1 to 1000"),
        ("/api/v1/informers/pods/objects?offset=-1", 400, "BadRequest", "0 or more"),
        ("/api/v1/informers/pods/objects?labelSelector=app%20in%20a", 400, "BadRequest", "label selector"),
        ("/api/v1/informers/pods/objects/shop/none", 404, "NotFound", "explain"),
        ("/api/v1/informers/pods/objects/web-0", 404, "NotFound", "NAMESPACE/NAME"),
        ("/api/v1/informers/nodes/objects/shop/node-1", 404, "NotFound", "objects/NAME"),
        ("/api/v1/informers/pods/objects/shop/web-0/none", 404, "NotFound", "history, explain and ask"),
        ("/api/v1/informers/pods/objects/shop/web-0/ask", 405, "MethodNotAllowed", "GET"),
        ("/api/v1/informers/pods/objects/shop/", 400, "BadRequest", "empty"),
        ("/api/v1/informers/pods/objects/shop/%ff", 400, "BadRequest", "UTF-8"),
        ("/api/v1/informers/pods/none", 404, "NotFound", "/api/v1/informers/{informer}"),
        ("/api/v1/events?informer=none", 404, "NotFound", "the informers are"),
        ("/api/v1/events?since=x", 400, "BadRequest", "id of an event"),
        ("/none", 404, "NotFound", "/openapi.json"),
    ] {
        let message = world.client.get(path).await.fails(code, reason);
        assert!(message.contains(part), "{path}: {message}");
    }
    for (method, path) in [
        (Method::POST, PODS.to_owned()),
        (Method::DELETE, format!("{PODS}/objects/shop/web-0")),
        (Method::POST, format!("{PODS}/objects/shop/web-0")),
        (Method::POST, "/healthz".to_owned()),
    ] {
        world.client.request(method, &path, &[]).await.fails(405, "MethodNotAllowed");
    }
    world.end().await;
}

/// A name is one segment, whatever its characters are.
// contract: H-20
#[tokio::test]
async fn names_are_decoded_after_the_path_is_split() {
    let world = World::start(1).await;
    world.cluster.create(node("history")).unwrap();
    world.until("/api/v1/informers/nodes/objects/history", |reply| reply.status == StatusCode::OK).await;
    world.client.ok("/api/v1/informers/nodes/objects/history/history").await;
    world.client.ok(&format!("{PODS}/objects/shop/%77eb-0")).await;
    let message = world.client.get(&format!("{PODS}/objects/shop%2Fweb-0")).await.fails(404, "NotFound");
    assert!(message.contains("NAMESPACE/NAME"), "{message}");
    let message = world.client.get(&format!("{PODS}/objects/shop/a%2Fb")).await.fails(404, "NotFound");
    assert!(message.contains("shop/a/b"), "{message}");
    world.client.get(&format!("{PODS}/objects/shop/history")).await.fails(404, "NotFound");
    world.end().await;
}

/// Every read, of objects that exist and that do not.
// contract: H-03
#[tokio::test]
async fn reads_do_not_touch_the_api_server() {
    let world = World::start(3).await;
    let before = world.cluster.metrics().requests;
    for path in [
        "/api/v1/informers".to_owned(),
        PODS.to_owned(),
        format!("{PODS}/indexes"),
        format!("{PODS}/indexes/node"),
        format!("{PODS}/objects"),
        format!("{PODS}/objects?index=node&value=node-1&sort=created"),
        format!("{PODS}/objects/shop/web-0"),
        format!("{PODS}/objects/shop/none"),
        format!("{PODS}/objects/shop/web-0/history"),
        format!("{PODS}/objects/shop/none/history"),
        format!("{PODS}/objects/shop/web-0/explain"),
        format!("{PODS}/objects/shop/none/explain"),
        "/metrics".to_owned(),
        "/readyz".to_owned(),
        "/healthz".to_owned(),
        "/openapi.json".to_owned(),
        "/".to_owned(),
    ] {
        world.client.get(&path).await;
    }
    let mut stream = world.client.stream("/api/v1/events", &[]).await;
    stream.next_of(&["state"]).await;
    assert_eq!(world.cluster.metrics().requests, before);
    assert_eq!(world.cluster.metrics().requests_for(Verb::Get, "pods"), 0);
    drop(stream);
    world.end().await;
}

/// Objects are addressed by their keys, whatever the scope with which the informer was requested.
// contract: R-25i
#[tokio::test]
async fn objects_are_addressed_by_their_keys() {
    let cluster = cluster(1).await;
    let factory = SharedInformerFactory::new(client_of(&cluster));
    let dynamic = |kind: &str, plural: &str, scope| {
        let kind = GroupVersionKind::gvk("", "v1", kind);
        factory.dynamic(ApiResource::from_gvk_with_plural(&kind, plural), scope)
    };
    let nodes = dynamic("Node", "nodes", Scope::Namespaced);
    let pods = dynamic("Pod", "pods", Scope::Cluster);
    assert!(nodes.selection().is_namespaced() && !pods.selection().is_namespaced());
    let server = Server::builder().listen("127.0.0.1:0".parse().unwrap()).informer(&nodes).informer(&pods);
    let server = server.bind().await.unwrap().spawn();
    factory.start().unwrap();
    factory.wait_for_cache_sync().await.into_result().unwrap();
    let client = Client { address: server.local_addr() };
    for (of, key, namespaced) in [("nodes", "node-1", false), ("pods", "shop/web-0", true)] {
        let path = format!("/api/v1/informers/{of}");
        assert_eq!(client.ok(&path).await["namespaced"], namespaced);
        client.ok(&format!("{path}/objects/{key}")).await;
        assert_eq!(client.ok(&format!("{path}/objects/{key}/explain")).await["reason"], "Present");
        let listed = client.ok(&format!("{path}/objects?namespace=shop")).await;
        assert_eq!(listed["total"], usize::from(namespaced));
    }
    server.shutdown().await;
    factory.shutdown().await.unwrap();
    cluster.shutdown().await;
}
