//! The state of informers, and their problems.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Scope, ShardField, ShardSelector, SharedInformerFactory};
use kinformer_apiserver::{Fault, Verb};
use kinformer_serve::Server;
use kinformer_testing::wait::within;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::common::{Client, PODS, Reply, World, client_of, cluster, pod};

fn problem(state: &Value, reason: &str) -> Option<String> {
    let problems = state["problems"].as_array().unwrap();
    let found = problems.iter().find(|problem| problem["reason"] == reason)?;
    Some(found["message"].as_str().unwrap().to_owned())
}

/// Waits for a problem of pods, and returns its message.
async fn wait_for(world: &World, reason: &str) -> String {
    let reply = world.until(PODS, |reply| problem(&reply.json(), reason).is_some()).await;
    problem(&reply.json(), reason).unwrap()
}

// contract: H-01a, H-01b, H-02b
#[tokio::test]
async fn state_of_each_informer() {
    let world = World::start(3).await;
    let all = world.client.ok("/api/v1/informers").await;
    let names: Vec<&str> =
        all["informers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["pods", "nodes"]);
    assert_eq!(all["eventsKept"], 10_000);
    let pods = world.client.ok(PODS).await;
    assert_eq!(
        (&pods["phase"], &pods["synced"], &pods["objects"]),
        (&"Running".into(), &true.into(), &3.into())
    );
    assert_eq!(
        (&pods["kind"], &pods["namespaced"], &pods["hidden"]),
        (&"Pod".into(), &true.into(), &false.into())
    );
    assert_eq!(pods["indexes"], serde_json::json!(["namespace", "node"]));
    assert_eq!(pods["resourceVersion"], world.pods.status().metrics().resource_versions.lowest().to_string());
    let bytes: usize = world
        .pods
        .lister()
        .list(&Default::default())
        .unwrap()
        .iter()
        .map(|pod| pod.object().encoded_len())
        .sum();
    assert_eq!(pods["bytes"].as_u64(), Some(bytes as u64));
    assert_eq!((&pods["counters"]["lists"], &pods["counters"]["events"]), (&1.into(), &0.into()));
    assert!(
        ["Watching", "WatchListing", "Connecting"].contains(&pods["sources"][0]["state"].as_str().unwrap())
    );
    let handler = &pods["handlers"][0];
    assert_eq!((&handler["name"], &handler["stuck"]), (&"serve".into(), &false.into()));
    assert!(pods["lastEventAt"].as_str().unwrap().ends_with('Z'), "{pods}");
    assert_eq!(pods["problems"], serde_json::json!([]), "all is well");
    world.put(pod("web-9")).await;
    world.delete("web-9").await;
    assert_eq!(world.client.ok(PODS).await["counters"]["events"], 2);
    world.end().await;
}

// contract: H-02a, H-02b
#[tokio::test]
async fn handler_that_is_behind_is_named() {
    let world = World::start(1).await;
    let gate = Arc::new(Semaphore::new(0));
    let waiting = gate.clone();
    let slow = world.pods.handler().name("slow-report").for_each_async(move |_| {
        let waiting = waiting.clone();
        async move { waiting.acquire().await.unwrap().forget() }
    });
    slow.unwrap();
    world.put(pod("web-1")).await;
    let message = wait_for(&world, "HandlerBehind").await;
    assert!(
        message.contains("handler \"slow-report\" is ") && message.contains(" s and 1 event behind"),
        "{message}"
    );
    assert!(message.ends_with("; the other handler is up to date"), "{message}");
    // Later readings have its pace.
    world.put(pod("web-2")).await;
    let falls = "2 events behind, and falls further behind: it handles 0 events a second, 0.";
    let has_pace = |reply: &Reply| {
        problem(&reply.json(), "HandlerBehind").is_some_and(|message| message.contains(falls))
    };
    world.until(PODS, has_pace).await;
    gate.add_permits(1000);
    world.until(PODS, |reply| reply.json()["problems"] == serde_json::json!([])).await;
    world.end().await;
}

// contract: H-02a
#[tokio::test]
async fn panics_and_failing_requests_are_named() {
    let world = World::start(1).await;
    let panics = world.pods.handler().name("careless").for_each(|_| panic!("no"));
    panics.unwrap();
    let message = wait_for(&world, "HandlerPanicked").await;
    assert!(message.contains("handler \"careless\" panicked over 1 event"), "{message}");
    world.cluster.faults().inject(Fault::forbidden().on(Verb::List).always());
    world.cluster.faults().inject(Fault::forbidden().on(Verb::Watch).always());
    world.cluster.drop_connections();
    let refused = world
        .until(PODS, |reply| {
            problem(&reply.json(), "BackingOff").is_some_and(|message| message.contains("403"))
        })
        .await;
    let state = refused.json();
    let message = problem(&state, "BackingOff").unwrap();
    assert!(message.contains(" in a row failed; the next is sent after "), "{message}");
    assert_eq!(state["problems"][0]["severity"], "error", "{state}");
    assert!(state["sources"][0]["lastError"].as_str().unwrap().contains("403"), "{state}");
    assert!(state["sources"][0]["lastErrorAt"].as_str().unwrap().ends_with('Z'), "{state}");
    world.end().await;
}

/// The informer of metadata has a name and URLs of its own.
// contract: H-02c
#[tokio::test]
async fn second_informer_of_a_resource_is_named() {
    let cluster = cluster(1).await;
    let factory = SharedInformerFactory::new(client_of(&cluster));
    let metadata = factory.metadata::<Pod>();
    let builder = Server::builder().listen("127.0.0.1:0".parse().unwrap());
    let server = builder.informer(&metadata).bind().await.unwrap().spawn();
    let client = Client { address: server.local_addr() };
    for _ in 0..2 {
        factory.start().unwrap();
        within("the informers", factory.wait_for_cache_sync()).await.into_result().unwrap();
        server.add(&factory.informer::<Pod>()).unwrap();
    }
    let of_metadata = format!("{PODS}%20(metadata)");
    let (one, other) = (client.ok(&of_metadata).await, client.ok(PODS).await);
    assert_eq!((&one["name"], &other["name"]), (&"pods (metadata)".into(), &"pods".into()));
    assert_eq!(one["problems"], serde_json::json!([]));
    let message = problem(&other, "SecondInformer").unwrap();
    assert!(message.starts_with("pods are watched twice") && message.contains("whole_objects"), "{message}");
    let page = client.ok(&format!("{of_metadata}/objects?limit=1")).await;
    assert_eq!(page["total"], 1);
    let ready = client.get("/readyz?verbose").await.text();
    assert!(ready.contains("]informer/pods (metadata) ok"), "{ready}");
    within("the server", server.shutdown()).await;
    factory.shutdown().await.unwrap();
    cluster.shutdown().await;
}

// contract: H-02a
#[tokio::test]
async fn informers_that_have_not_synced_or_have_stopped() {
    let cluster = cluster(1).await;
    cluster.faults().inject(Fault::stall().on(Verb::Watch).always());
    cluster.faults().inject(Fault::stall().on(Verb::List).always());
    let factory = SharedInformerFactory::new(client_of(&cluster));
    let pods = factory.core().v1().pods();
    let builder = Server::builder().listen("127.0.0.1:0".parse().unwrap());
    let server = builder.informer(&pods).bind().await.unwrap().spawn();
    let client = Client { address: server.local_addr() };
    let state = client.ok(PODS).await;
    assert_eq!(state["phase"], "NotStarted");
    assert!(problem(&state, "NotStarted").is_some(), "{state}");
    client.get(&format!("{PODS}/objects")).await.fails(503, "NotStarted");
    factory.start().unwrap();
    let not_synced = async {
        while problem(&client.ok(PODS).await, "NotSynced").is_none() {
            tokio::task::yield_now().await;
        }
    };
    within("the problem", not_synced).await;
    factory.shutdown().await.unwrap();
    let state = client.ok(PODS).await;
    assert_eq!((&state["phase"], &state["problems"][0]["reason"]), (&"Stopped".into(), &"Stopped".into()));
    server.shutdown().await;
    cluster.shutdown().await;
}

/// Informers that are added by several threads at the same time have one handler and one place each.
// contract: H-25
#[tokio::test]
async fn informers_are_added_by_many_threads() {
    let world = World::start(0).await;
    let api = world.factory.core().v1();
    let added = [
        api.services().dynamic(),
        api.config_maps().dynamic(),
        api.endpoints().dynamic(),
        api.namespaces().dynamic(),
        api.persistent_volumes().dynamic(),
        api.service_accounts().dynamic(),
        api.limit_ranges().dynamic(),
        api.resource_quotas().dynamic(),
    ];
    let server = Arc::new(world.server);
    let start = Arc::new(std::sync::Barrier::new(added.len()));
    let threads = added.clone().map(|informer| {
        let (server, start) = (server.clone(), start.clone());
        tokio::task::spawn_blocking(move || {
            start.wait();
            server.add(&informer).unwrap();
        })
    });
    for thread in threads {
        thread.await.unwrap();
    }
    for informer in &added {
        let names: Vec<_> =
            informer.status().metrics().handlers.iter().map(|handler| handler.name.to_string()).collect();
        assert_eq!(names, ["serve"], "{}", informer.selection().resource());
    }
    let all = world.client.ok("/api/v1/informers").await;
    assert_eq!(all["informers"].as_array().unwrap().len(), 2 + added.len());
    // Their changes are recorded under their names.
    world.factory.start().unwrap();
    within("sync", world.factory.wait_for_cache_sync()).await.into_result().unwrap();
    let mut stream = world.client.stream("/api/v1/events", &[]).await;
    stream.next_of(&["state"]).await;
    for informer in &added {
        let (kind, name) = (&informer.selection().api_resource().kind, informer.selection().resource());
        let mut metadata = serde_json::json!({"name": name});
        if informer.selection().is_namespaced() {
            metadata["namespace"] = "shop".into();
        }
        let spec = match &**kind {
            "Service" => serde_json::json!({"ports": [{"port": 80}]}),
            "PersistentVolume" => serde_json::json!({"capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}),
            "LimitRange" => serde_json::json!({"limits": []}),
            _ => serde_json::json!({}),
        };
        world
            .cluster
            .create(serde_json::json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}))
            .unwrap();
        let change = loop {
            let change = stream.next_of(&["change"]).await;
            if change.data["name"] == *name {
                break change;
            }
        };
        assert_eq!(change.data["informer"], *name);
    }
    drop(stream);
    let server = Arc::into_inner(server).unwrap();
    World { server, ..world }.end().await;
}

/// Informers of one resource in two clusters are chosen by a parameter.
// contract: H-25
#[tokio::test]
async fn cluster_and_scope_choose_an_informer() {
    let world = World::start(2).await;
    let other = cluster(1).await;
    let builder = SharedInformerFactory::builder(client_of(&other)).cluster("east").namespace("shop");
    let factory = builder.build();
    let pods = factory.core().v1().pods();
    world.server.add(&pods).unwrap();
    world.server.add(&pods).unwrap();
    factory.start().unwrap();
    within("sync", factory.wait_for_cache_sync()).await.into_result().unwrap();
    let message = world.client.get(PODS).await.fails(400, "BadRequest");
    assert!(message.contains("cluster=\"east\" scope=\"shop\""), "{message}");
    for query in ["cluster=east", "scope=shop", "cluster=east&scope=shop"] {
        let state = world.client.ok(&format!("{PODS}?{query}")).await;
        assert_eq!(
            (&state["objects"], &state["cluster"], &state["scope"]),
            (&1.into(), &"east".into(), &"shop".into())
        );
    }
    let page = world.client.ok(&format!("{PODS}/objects?cluster=east&limit=1")).await;
    assert_eq!(page["total"], 1);
    // Names of nothing choose the informer that has none.
    for query in ["cluster=", "scope=", "cluster=&scope="] {
        let first = world.client.ok(&format!("{PODS}/objects?{query}&limit=1")).await;
        assert_eq!(first["total"], 2, "{query}");
        let second = world.client.ok(first["next"].as_str().unwrap()).await;
        assert_eq!((&second["view"], &second["offset"]), (&first["view"], &1.into()));
    }
    let message = world.client.get(&format!("{PODS}?scope=none")).await.fails(404, "NotFound");
    assert!(message.contains("there is one with cluster=\"\" scope=\"\""), "{message}");
    let metrics = world.client.get("/metrics").await.text();
    assert!(metrics.contains("cluster=\"east\",scope=\"shop\""), "{metrics}");
    let ready = world.client.get("/readyz?verbose").await.text();
    assert!(ready.contains("[+]informer/pods cluster=east scope=shop ok"), "{ready}");

    let third = SharedInformerFactory::new(client_of(&other));
    let error = world.server.add(&third.core().v1().pods()).unwrap_err();
    assert!(matches!(error, kinformer_serve::Error::DuplicateInformer { .. }), "{error}");
    factory.shutdown().await.unwrap();
    third.shutdown().await.unwrap();
    world.end().await;
    other.shutdown().await;
}

/// The scope is that of now, with its parts; requests name the informer by the one that it was added with.
// contract: H-01c
#[tokio::test]
async fn scope_of_an_informer_that_changes() {
    let world = World::start(1).await;
    let selection = async || world.client.ok(PODS).await;
    let first = selection().await;
    let all = serde_json::json!({
        "scope": "", "namespaces": [], "labelSelector": null, "fieldSelector": null, "shard": null,
    });
    assert_eq!((&first["selection"], &first["scope"]), (&all, &"".into()));
    let scope = Scope::namespaces(["a", "b"]).labels("app=web");
    within("a change of the scope", world.pods.set_scope(&scope)).await.unwrap();
    let narrowed = selection().await;
    assert_eq!(narrowed["selection"]["namespaces"], serde_json::json!(["a", "b"]));
    assert_eq!(narrowed["selection"]["labelSelector"], "app=web");
    let parts: Vec<&str> = narrowed["sources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|source| source["name"].as_str().unwrap())
        .collect();
    assert_eq!(parts, ["a labels app=web", "b labels app=web"]);
    assert_eq!(narrowed["scope"], "", "requests name it as before");
    let shard = ShardSelector::new(ShardField::Uid, [0..1 << 62, 1 << 63..1 << 64]);
    within("a change of the scope", world.pods.set_scope(&Scope::shard(shard))).await.unwrap();
    assert_eq!(
        selection().await["selection"]["shard"],
        serde_json::json!({"field": "object.metadata.uid", "ranges": [
            {"from": "0x0000000000000000", "to": "0x4000000000000000"},
            {"from": "0x8000000000000000", "to": "0x10000000000000000"},
        ]})
    );
    world.end().await;
}
