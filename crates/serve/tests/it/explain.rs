//! Why an object is missing, and the only read from the API server.

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kinformer::SharedInformerFactory;
use kinformer_apiserver::{Fault, Verb};
use kinformer_serve::{FailureLog, Server};
use kinformer_testing::wait::within;
use serde_json::Value;

use crate::common::{Client, PODS, World, client_of, cluster, pod};

async fn explain(client: &Client, namespace: &str, name: &str) -> Value {
    client.ok(&format!("{PODS}/objects/{namespace}/{name}/explain")).await
}

fn says(explanation: &Value, reason: &str, part: &str) {
    assert_eq!(explanation["reason"], reason, "{explanation}");
    assert!(explanation["message"].as_str().unwrap().contains(part), "no {part:?} in {explanation}");
}

// contract: H-13a
#[tokio::test]
async fn missing_objects_are_explained() {
    let world = World::with(1, |factory| factory.labels("app=web").namespace("shop"), |server| server).await;
    let present = explain(&world.client, "shop", "web-0").await;
    says(&present, "Present", "at version");
    assert_eq!((&present["present"], &present["canAsk"]), (&true.into(), &true.into()));
    let version = world.pods.lister().get(("shop", "web-0")).unwrap().resource_version().to_string();
    assert_eq!(present["resourceVersion"], version);

    let never = explain(&world.client, "shop", "none").await;
    says(&never, "NeverSeen", "the selector \"app=web\"");
    assert_eq!((&never["present"], &never["resourceVersion"]), (&false.into(), &Value::Null));
    says(&explain(&world.client, "data", "web-0").await, "OutOfScope", "only of: shop");

    let mut other = pod("web-0");
    other["metadata"]["labels"]["app"] = "api".into();
    let written = world.cluster.update(other).unwrap();
    let path = format!("{PODS}/objects/shop/web-0/explain");
    let left = world.until(&path, |reply| reply.json()["present"] == false).await.json();
    says(&left, "Deleted", "deleted, or left the selector \"app=web\", at version");
    assert_eq!(left["resourceVersion"], written["metadata"]["resourceVersion"]);
    assert!(left["time"].as_str().unwrap().ends_with('Z'), "{left}");
    world.put_again(pod("web-0")).await;
    says(&explain(&world.client, "shop", "web-0").await, "Present", "");
    world.end().await;
}

impl World {
    /// As `put`, for an object that exists and does not match the selector.
    async fn put_again(&self, pod: Value) {
        let written = self.cluster.update(pod).unwrap();
        let version = written["metadata"]["resourceVersion"].as_str().unwrap();
        within("the pod", self.pods.wait_for(("shop", "web-0"), &version.into())).await.unwrap();
    }
}

/// Several objects, since the last error of an informer would name one.
// contract: H-13b
#[tokio::test]
async fn objects_that_cannot_be_stored() {
    let refuse = |pod: &mut Pod| match pod.metadata.name.as_deref() {
        Some(name) if name.starts_with("bad") => Err(format!("{name} is not wanted").into()),
        _ => Ok(()),
    };
    let world = World::with(1, |factory| factory.transform::<Pod>(refuse), |server| server).await;
    for name in ["bad-0", "bad-1"] {
        world.cluster.create(pod(name)).unwrap();
    }
    world.put(pod("web-1")).await;
    for name in ["bad-0", "bad-1"] {
        let path = format!("{PODS}/objects/shop/{name}/explain");
        let reply = world.until(&path, |reply| reply.json()["reason"] != "NeverSeen").await;
        says(
            &reply.json(),
            "DecodeFailed",
            &format!(
                "could not store it: the sink failed to add: transform of shop/{name} failed: {name} is not wanted"
            ),
        );
    }
    world.end().await;
}

/// The store keeps the state before one that it cannot store, and says so.
// contract: H-13b
#[tokio::test]
async fn stored_objects_may_be_behind() {
    let refuse =
        |pod: &mut Pod| match pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("bad")) {
            true => Err("not wanted".into()),
            false => Ok(()),
        };
    let world = World::with(1, |factory| factory.transform::<Pod>(refuse), |server| server).await;
    let path = format!("{PODS}/objects/shop/web-0/explain");
    let mut bad = pod("web-0");
    bad["metadata"]["labels"]["bad"] = "true".into();
    world.cluster.update(bad).unwrap();
    let newer = "; it received a newer one, and could not store it";
    let reply = world.until(&path, |reply| reply.text().contains(newer)).await;
    says(&reply.json(), "Present", "not wanted");
    world.put(pod("web-0")).await;
    let reply = world.client.ok(&path).await;
    assert!(!reply["message"].as_str().unwrap().contains(newer), "{reply}");
    world.end().await;
}

/// The errors of single objects quote their values.
// contract: H-16a
#[tokio::test]
async fn errors_do_not_quote_hidden_values() {
    let refuse = |pod: &mut Pod| match pod.metadata.name.as_deref() {
        Some("bad") => Err("the value is c2VjcmV0".into()),
        _ => Ok(()),
    };
    let hide = |server: kinformer_serve::ServerBuilder| server.hide_field("spec.containers");
    let world = World::with(1, |factory| factory.transform::<Pod>(refuse), hide).await;
    world.cluster.create(pod("bad")).unwrap();
    let path = format!("{PODS}/objects/shop/bad/explain");
    let explained = world.until(&path, |reply| reply.json()["reason"] == "DecodeFailed").await;
    says(&explained.json(), "DecodeFailed", "may quote hidden values");
    let state = world.client.get(PODS).await;
    assert!(state.json()["sources"][0]["lastError"].is_string(), "{}", state.text());
    for text in [state.text(), explained.text()] {
        assert!(!text.contains("c2VjcmV0"), "{text}");
    }
    world.end().await;
}

// contract: H-13c
#[tokio::test]
async fn informers_that_have_no_list() {
    for (fault, reason, part) in [
        (Fault::forbidden(), "Forbidden", "refuses to list pods"),
        (Fault::internal_error(), "NotSynced", "its last error"),
    ] {
        let cluster = cluster(1).await;
        cluster.faults().inject(fault.clone().on(Verb::Watch).always());
        cluster.faults().inject(fault.on(Verb::List).always());
        let factory = SharedInformerFactory::new(client_of(&cluster));
        let pods = factory.core().v1().pods();
        let builder = Server::builder().listen("127.0.0.1:0".parse().unwrap());
        let server = builder.informer(&pods).bind().await.unwrap().spawn();
        let client = Client { address: server.local_addr() };
        let not_started = explain(&client, "shop", "web-0").await;
        says(&not_started, "NotSynced", "was not started");
        assert_eq!(not_started["canAsk"], false);
        let asked = client.request(Method::POST, &format!("{PODS}/objects/shop/web-0/ask"), &[]).await;
        asked.fails(501, "NoClient");
        factory.start().unwrap();
        let failing = async {
            loop {
                let explanation = explain(&client, "shop", "web-0").await;
                if explanation["reason"] == reason && explanation["message"].as_str().unwrap().contains(part)
                {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        within(reason, failing).await;
        factory.shutdown().await.unwrap();
        says(&explain(&client, "shop", "web-0").await, "Stopped", "has stopped");
        server.shutdown().await;
        cluster.shutdown().await;
    }
}

/// A resource whose definition does not exist.
// contract: H-02a, H-13c
#[tokio::test]
async fn resource_that_is_not_served() {
    let cluster = cluster(0).await;
    let factory = SharedInformerFactory::new(client_of(&cluster));
    let gvk = kinformer::kube_core::gvk::GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = kinformer::kube_core::discovery::ApiResource::from_gvk_with_plural(&gvk, "widgets");
    let widgets = factory.dynamic(resource, kinformer::kube_core::discovery::Scope::Namespaced);
    let builder = Server::builder().listen("127.0.0.1:0".parse().unwrap());
    let server = builder.informer(&widgets).bind().await.unwrap().spawn();
    factory.start().unwrap();
    let client = Client { address: server.local_addr() };
    let path = "/api/v1/informers/widgets.example.com";
    let explained = async {
        loop {
            let explanation = client.ok(&format!("{path}/objects/shop/a/explain")).await;
            if explanation["reason"] == "NotServed" {
                return explanation;
            }
            tokio::task::yield_now().await;
        }
    };
    says(&within("the reason", explained).await, "NotServed", "does not serve widgets.example.com");
    let state = client.ok(path).await;
    assert_eq!(state["problems"][0]["reason"], "NotServed", "{state}");
    assert!(state["sources"][0]["notServed"].as_str().unwrap().contains("404"), "{state}");
    server.shutdown().await;
    factory.shutdown().await.unwrap();
    cluster.shutdown().await;
}

/// An informer may be older than the server, and be added later: the server knows nothing of the time before.
// contract: H-11, H-13a
#[tokio::test]
async fn informers_are_known_since_they_were_added() {
    let world = World::start(1).await;
    let services = world.factory.core().v1().services();
    world.factory.start().unwrap();
    within("sync", world.factory.wait_for_cache_sync()).await.into_result().unwrap();
    let service = serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "shop"},
        "spec": {"ports": [{"port": 80}]}});
    let version =
        world.cluster.create(service).unwrap()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    within("the service", services.wait_for(("shop", "a"), &version.into())).await.unwrap();
    world.cluster.delete("v1", "Service", "shop", "a").unwrap();
    let gone = async {
        while !services.snapshot().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    within("the deletion", gone).await;
    let added = format!("{:.3}", jiff::Timestamp::now());
    world.server.add(&services).unwrap();
    let path = "/api/v1/informers/services/objects/shop/a";
    let since = world.client.ok(&format!("{path}/history")).await["since"].as_str().unwrap().to_owned();
    assert!(since >= added, "{since} is before {added}");
    says(&world.client.ok(&format!("{path}/explain")).await, "NeverSeen", &since);
    world.end().await;
}

/// The informers of two clusters have the same names, and each cluster has its log.
// contract: H-13b
#[tokio::test]
async fn failures_are_those_of_the_cluster() {
    let (east, log) = (cluster(0).await, FailureLog::new());
    let recorded = log.clone();
    let refuse = |pod: &mut Pod| match pod.metadata.name.as_deref() {
        Some("bad") => Err("no".into()),
        _ => Ok(()),
    };
    let factory = SharedInformerFactory::builder(client_of(&east)).cluster("east").transform::<Pod>(refuse);
    let factory = factory.on_error(move |failure| recorded.record(failure)).build();
    let pods = factory.core().v1().pods();
    let add = |server: kinformer_serve::ServerBuilder| server.informer(&pods).failures_of("east", log);
    let world = World::with(0, |factory| factory, add).await;
    factory.start().unwrap();
    east.create(pod("bad")).unwrap();
    let path = format!("{PODS}/objects/shop/bad/explain");
    let of_east = format!("{path}?cluster=east");
    world.until(&of_east, |reply| reply.json()["reason"] == "DecodeFailed").await;
    says(&world.client.ok(&format!("{path}?cluster=")).await, "NeverSeen", "it did not exist");
    let state = world.client.ok(&format!("{PODS}?cluster=east")).await;
    assert!(state["sources"][0]["lastErrorAt"].is_string(), "{state}");
    let state = world.client.ok(&format!("{PODS}?cluster=")).await;
    assert!(state["sources"][0]["lastErrorAt"].is_null(), "{state}");
    factory.shutdown().await.unwrap();
    world.end().await;
    east.shutdown().await;
}

// contract: H-14a
#[tokio::test]
async fn asking_sends_one_request() {
    let hidden = |server: kinformer_serve::ServerBuilder| server.hide_field("spec.containers.image");
    let world = World::with(1, |factory| factory.labels("app=web"), hidden).await;
    let ask = |name: &str| {
        let (client, path) = (world.client, format!("{PODS}/objects/shop/{name}/ask"));
        async move { client.request(Method::POST, &path, &[("content-length", "0")]).await.json() }
    };
    let same = ask("web-0").await;
    assert_eq!((&same["found"], &same["key"]), (&true.into(), &"shop/web-0".into()));
    assert!(same["message"].as_str().unwrap().contains("the store has the same version"), "{same}");
    assert_eq!(same["object"]["metadata"]["name"], "web-0");
    assert!(same["object"]["spec"]["containers"][0].get("image").is_none(), "hidden: {same}");
    assert_eq!(world.cluster.metrics().requests_for(Verb::Get, "pods"), 1);

    let mut other = pod("api-0");
    other["metadata"]["labels"]["app"] = "api".into();
    world.cluster.create(other).unwrap();
    let other = ask("api-0").await;
    assert!(other["message"].as_str().unwrap().contains("do not match the selector \"app=web\""), "{other}");
    for name in ["%2e%2e", ".", "a%2Fb", "a%25b"] {
        let invalid = ask(name).await;
        assert_eq!((&invalid["code"], &invalid["reason"]), (&400.into(), &"BadRequest".into()), "{invalid}");
    }
    let none = ask("none").await;
    assert_eq!((&none["found"], &none["object"]), (&false.into(), &Value::Null));
    assert!(none["message"].as_str().unwrap().contains("not found"), "{none}");
    assert_eq!(world.cluster.metrics().requests_for(Verb::Get, "pods"), 3);
    assert!(world.client.get("/metrics").await.text().contains("kinformer_serve_api_server_reads_total 3"));

    world.cluster.faults().inject(Fault::forbidden().on(Verb::Get));
    let refused = world.client.request(Method::POST, &format!("{PODS}/objects/shop/web-0/ask"), &[]).await;
    refused.fails(502, "ApiServer");
    world.end().await;
}

// contract: H-14b
#[tokio::test]
async fn asking_often_is_refused() {
    let world = World::start(1).await;
    let path = format!("{PODS}/objects/shop/web-0/ask");
    let mut refused = None;
    // Five at once, and one more each second.
    for _ in 0..100 {
        let reply = world.client.request(Method::POST, &path, &[]).await;
        if reply.status == 429 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("a limit");
    refused.fails(429, "TooManyRequests");
    assert_eq!(refused.header("retry-after"), "1");
    world.end().await;
}
