//! Health, metrics and the OpenAPI document.

use http::{Method, StatusCode};
use kinformer::SharedInformerFactory;
use kinformer_apiserver::{Fault, Verb};
use kinformer_serve::{Server, ServerBuilder};
use serde_json::Value;

use crate::common::{Client, PODS, World, client_of, cluster};
use crate::controllers::Provided;

// contract: H-21
#[tokio::test]
async fn ready_means_synced() {
    let cluster = cluster(1).await;
    let factory = SharedInformerFactory::new(client_of(&cluster));
    let (pods, nodes) = (factory.core().v1().pods(), factory.core().v1().nodes());
    let stalled: Vec<_> = [Verb::List, Verb::Watch]
        .map(|verb| cluster.faults().inject(Fault::forbidden().on(verb).resource("nodes").always()))
        .into();
    let builder = Server::builder().listen("127.0.0.1:0".parse().unwrap());
    let server = builder.informer(&pods).informer(&nodes).bind().await.unwrap().spawn();
    let client = Client { address: server.local_addr() };
    assert_eq!(client.get("/healthz").await.text(), "ok\n");
    let reply = client.get("/readyz").await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(reply.text().contains("[-]informer/pods failed: not synced\n"), "{}", reply.text());
    factory.start().unwrap();
    kinformer_testing::wait::within("pods", pods.wait_for_sync()).await.unwrap();
    let reply = client.get("/readyz").await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    let expected = "[+]informer/pods ok\n[-]informer/nodes failed: not synced\nreadyz check failed\n";
    assert_eq!(reply.text(), expected);
    assert_eq!(client.get("/healthz").await.status, StatusCode::OK, "health is not readiness");
    stalled.into_iter().for_each(|fault| cluster.faults().remove(fault));
    kinformer_testing::wait::within("nodes", nodes.wait_for_sync()).await.unwrap();
    assert_eq!(client.get("/readyz").await.text(), "ok\n");
    let verbose = client.get("/readyz?verbose").await;
    assert_eq!(verbose.text(), "[+]informer/pods ok\n[+]informer/nodes ok\nreadyz check passed\n");
    factory.shutdown().await.unwrap();
    let reply = client.get("/readyz").await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(reply.text().contains("failed: stopped"), "{}", reply.text());
    server.shutdown().await;
    cluster.shutdown().await;
}

/// A resource that can only be listed is ready, and the answers say how fresh it is.
// contract: R-26b, R-26c
#[tokio::test]
async fn resource_that_is_not_watchable() {
    let cluster = cluster(1).await;
    let factory = SharedInformerFactory::new(client_of(&cluster));
    let pods = factory.core().v1().pods();
    cluster.faults().inject(Fault::forbidden().on(Verb::Watch).resource("pods").always());
    let builder = Server::builder().listen("127.0.0.1:0".parse().unwrap());
    let server = builder.informer(&pods).bind().await.unwrap().spawn();
    let client = Client { address: server.local_addr() };
    factory.start().unwrap();
    kinformer_testing::wait::within("pods", pods.wait_for_sync()).await.unwrap();
    let reply = client.get("/readyz?verbose").await;
    assert_eq!(reply.status, StatusCode::OK);
    let expected = "[+]informer/pods ok (not watchable: as fresh as the last list)\nreadyz check passed\n";
    assert_eq!(reply.text(), expected);
    let state = client.ok(PODS).await;
    assert_eq!(state["problems"][0]["reason"], "NotWatchable", "{state}");
    assert!(state["sources"][0]["notWatchable"].as_str().unwrap().contains("403"), "{state}");
    assert_eq!(pods.status().not_watchable().unwrap().status().unwrap().code, 403);
    server.shutdown().await;
    factory.shutdown().await.unwrap();
    cluster.shutdown().await;
}

/// Pages and objects are encoded on threads of their own, here the only one, so that they do not delay probes.
// contract: H-19c, H-19d
#[test]
fn probes_do_not_wait_for_encoding() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().max_blocking_threads(1).build().unwrap().block_on(async {
        let world = World::start(3).await;
        let view = world.client.ok(&format!("{PODS}/objects")).await["view"].as_str().unwrap().to_owned();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || released.recv());
        let client = world.client;
        let paths = ["?view=VIEW&limit=2", "/shop/web-0", "/shop/web-0/explain"];
        let paths = paths.map(|path| format!("{PODS}/objects{}", path.replace("VIEW", &view)));
        let reads = paths.map(|path| tokio::spawn(async move { client.ok(&path).await }));
        for path in ["/healthz", "/readyz", "/healthz", "/readyz"] {
            assert_eq!(client.get(path).await.status, StatusCode::OK, "{path}");
        }
        assert!(reads.iter().all(|read| !read.is_finished()));
        release.send(()).unwrap();
        busy.await.unwrap().unwrap();
        for read in reads {
            read.await.unwrap();
        }
        world.end().await;
    });
}

// contract: H-22
#[tokio::test]
async fn metrics_of_informers_and_of_the_server() {
    let world = World::start(3).await;
    world.client.get(&format!("{PODS}/objects")).await;
    let reply = world.client.get("/metrics").await;
    assert!(reply.header("content-type").starts_with("application/openmetrics-text"));
    let text = reply.text();
    for part in [
        "informer_queued_items{name=\"pods\",resource=\"pods\"} 0",
        "informer_objects{name=\"pods\",resource=\"pods\"} 3",
        "informer_objects{name=\"nodes\",resource=\"nodes\"} 1",
        "informer_store_resource_version{",
        "informer_processing_latency_seconds_bucket{",
        "informer_handler_queued_events{name=\"pods\",resource=\"pods\",handler=\"serve\"} 0",
        "kinformer_serve_requests_total{code=\"200\"} 1",
        "kinformer_serve_views 1",
        "kinformer_serve_view_bytes ",
        "kinformer_serve_encoded_changes_total 0",
        "kinformer_serve_streams 0",
        "kinformer_serve_changes 0",
        "# EOF",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    world.end().await;
}

/// Each path of the document is a route, and each route is in the document.
// contract: H-23
#[tokio::test]
async fn document_has_all_paths() {
    let server = |server: ServerBuilder| {
        let passes = || Ok(());
        server.controllers(Provided).health_check("check", passes).ready_check("check", passes)
    };
    let world = World::with(1, |factory| factory, server).await;
    let document = world.client.ok("/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    let message = world.client.get("/none").await.fails(404, "NotFound");
    let listed: std::collections::BTreeSet<&str> =
        message.split("the paths are: ").nth(1).unwrap().split(", ").collect();
    assert_eq!(listed, paths.keys().map(String::as_str).collect());
    for (path, operations) in paths {
        let has_namespace = path.contains("{namespace}");
        let is_node = path.contains("/objects/{name}") && !has_namespace;
        let (informer, name) = if is_node { ("nodes", "node-1") } else { ("pods", "web-0") };
        let filled = path
            .replace("{informer}", informer)
            .replace("{index}", "node")
            .replace("{namespace}", "shop")
            .replace("{name}", name)
            .replace("{controller}", "web")
            .replace("{check}", "check")
            .replace("/reconciliations", "/reconciliations?key=shop/web-0");
        assert!(!filled.contains('{'), "{filled}");
        for (method, operation) in operations.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let response = world.client.open(method, &filled, &[], "").await;
            assert_eq!(response.status(), StatusCode::OK, "{filled}");
            let content = operation["responses"]["200"]["content"].as_object().unwrap();
            let (content_type, schema) = content.iter().next().unwrap();
            let sent = response.headers()["content-type"].to_str().unwrap();
            assert!(sent.starts_with(content_type.as_str()), "{filled}: {sent} is not {content_type}");
            if content_type == "application/json" && schema["schema"].get("$ref").is_some() {
                let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
                conforms(&document, &schema["schema"], &serde_json::from_slice(&body).unwrap(), &filled);
            }
        }
    }
    world.end().await;
}

/// Asserts that a value has the type of a schema, and no field that the schema does not have.
fn conforms(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let schema =
            document.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("no schema {name}"));
        return conforms(document, schema, value, place);
    }
    if let Some(one_of) = schema["oneOf"].as_array() {
        // A schema, or null.
        if !value.is_null() {
            conforms(document, &one_of[0], value, place);
        }
        return;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let actual = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(
        types.contains(&actual) || (actual == "integer" && types.contains(&"number")),
        "{place}: {value} is no {types:?}"
    );
    if let (Some(properties), Some(fields)) = (schema["properties"].as_object(), value.as_object()) {
        for (name, field) in fields {
            let schema =
                properties.get(name).unwrap_or_else(|| panic!("{place}: {name} is not in the document"));
            conforms(document, schema, field, &format!("{place} {name}"));
        }
    }
    for item in value.as_array().into_iter().flatten() {
        conforms(document, &schema["items"], item, place);
    }
}
