//! The informers of a factory: request, start, sync and shutdown.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    POLICIES, builder, config_map, factory, factory_with, node, server, soon, synced, version, watches,
};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kinformer::{
    Decode, Error, FieldPath, IndexFunction, Informer, LabelSelector, NAMESPACE_INDEX, PartId, Phase,
    SharedInformerFactory,
};
use kinformer_apiserver::Fault;
use kinformer_reflector::WatchListMode;
use kinformer_testing::tasks;
use kinformer_testing::{FakeSource, Item};
use kube_core::gvk::{GroupVersionKind, GroupVersionResource};
use parking_lot::Mutex;
use serde_json::json;

// contract: F-01
#[tokio::test]
async fn one_informer_for_each_resource() {
    for decode in POLICIES {
        one_informer_for_each_resource_in(decode).await;
    }
}

async fn one_informer_for_each_resource_in(decode: Decode) {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory_with(&server, decode);

    let maps = factory.informer::<ConfigMap>();
    let again = factory.core().v1().config_maps();
    let metadata = factory.metadata::<ConfigMap>();
    let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let dynamic = factory.for_kind(&kind).await.unwrap();
    let once_more = factory.for_kind(&kind).await.unwrap();
    synced(&factory).await;

    // All views are of the same informer: a handler of one view is a handler of the others.
    let handler = maps.handler().for_each(|_| {}).unwrap();
    assert!(again.remove_handler(&handler).await);
    let handler = dynamic.handler().for_each(|_| {}).unwrap();
    assert!(maps.remove_handler(&handler).await, "another type, the same informer");
    assert!(!once_more.remove_handler(&handler).await);
    let nodes = factory.informer::<Node>();
    let handler = nodes.handler().for_each(|_| {}).unwrap();
    assert!(!maps.remove_handler(&handler).await, "another kind, another informer");

    assert_eq!(
        [
            maps.snapshot().unwrap().len(),
            metadata.snapshot().unwrap().len(),
            dynamic.snapshot().unwrap().len()
        ],
        [1, 1, 1]
    );
    watches(&server, 1).await;
    factory.shutdown().await.unwrap();
    watches(&server, 0).await;
    server.shutdown().await;
}

// contract: F-01
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_share_one_informer() {
    let server = server().await;
    let factory = factory(&server);
    let requests: Vec<_> = (0..50)
        .map(|_| {
            let factory = factory.clone();
            tokio::spawn(async move { factory.core().v1().secrets() })
        })
        .collect();
    let mut informers: Vec<Informer<Secret>> = Vec::new();
    for request in requests {
        informers.push(request.await.unwrap());
    }
    let handler = informers[0].handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    watches(&server, 1).await;
    assert!(informers[49].remove_handler(&handler).await);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-02a
#[tokio::test]
async fn start_starts_new_informers() {
    for decode in POLICIES {
        start_starts_new_informers_in(decode).await;
    }
}

async fn start_starts_new_informers_in(decode: Decode) {
    let server = server().await;
    let factory = factory_with(&server, decode);
    factory.start().unwrap();
    let maps = factory.informer::<ConfigMap>();
    assert_eq!(maps.status().phase(), Phase::NotStarted);
    synced(&factory).await;
    assert_eq!(maps.status().phase(), Phase::Running);

    let nodes = factory.informer::<Node>();
    assert_eq!(nodes.status().phase(), Phase::NotStarted);
    let sync = factory.wait_for_cache_sync().await;
    let synced_now: Vec<bool> = sync.iter().map(|(_, synced)| synced.is_ok()).collect();
    assert_eq!(synced_now, [true, false], "unstarted informers are not waited for");
    factory.start().unwrap();
    synced(&factory).await;
    assert_eq!(nodes.status().phase(), Phase::Running);
    watches(&server, 2).await;
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-03a, F-03b
#[tokio::test]
async fn options_apply_to_every_informer() {
    let server = server().await;
    for (namespace, name, value) in [("default", "a", "1"), ("default", "b", "2"), ("kube-public", "c", "1")]
    {
        server.create(config_map(namespace, name, value)).unwrap();
    }
    server.create(node("n")).unwrap();
    let failures = Arc::new(Mutex::new(Vec::new()));
    let seen = failures.clone();
    let factory = builder(&server)
        .name("mine")
        .namespace("default")
        .default_resync(Duration::from_secs(600))
        .resync_for::<Node>(Duration::from_secs(60))
        .transform::<ConfigMap>(|map| {
            map.data = None;
            Ok(())
        })
        .on_error(move |failure| seen.lock().push(failure.reflector.to_owned()))
        .reflector(|options| options.watch_list(WatchListMode::Off))
        .build();
    let (maps, nodes) = (factory.informer::<ConfigMap>(), factory.informer::<Node>());
    let delivered = Arc::new(Mutex::new(Vec::new()));
    let recorder = delivered.clone();
    let handler = maps
        .handler()
        .for_each(move |event| {
            recorder.lock().push(event.object().and_then(|map| map.decode().unwrap().data.clone()));
        })
        .unwrap();
    assert_eq!(handler.resync_period(), Some(Duration::from_secs(600)));
    let node_handler = nodes.handler().for_each(|_| {}).unwrap();
    assert_eq!(node_handler.resync_period(), Some(Duration::from_secs(60)));
    server.faults().inject(Fault::internal_error().resource("configmaps"));
    synced(&factory).await;
    handler.synced().until(soon()).await.unwrap();

    assert_eq!((maps.name(), maps.selection().resource()), ("mine/configmaps", "configmaps".to_owned()));
    assert_eq!(nodes.selection().resource(), "nodes");
    assert_eq!(maps.snapshot().unwrap().len(), 2, "only the namespace");
    assert_eq!(nodes.snapshot().unwrap().len(), 1, "nodes are in no namespace");
    assert!(
        maps.snapshot().unwrap().iter().all(|map| map.decode().unwrap().data.is_none()),
        "the store has the transformed objects"
    );
    assert_eq!(*delivered.lock(), [None, None], "handlers receive the transformed objects");
    assert_eq!(failures.lock()[..], ["mine/configmaps"]);
    assert_eq!(maps.status().metrics().reflector.watch_lists, 0, "the reflector's options");
    factory.shutdown().await.unwrap();

    let selecting =
        builder(&server).tweak_list_options(|params| params.set("labelSelector", "value=1")).build();
    let maps = selecting.informer::<ConfigMap>();
    synced(&selecting).await;
    let mut keys: Vec<_> = maps.snapshot().unwrap().keys().iter().map(ToString::to_string).collect();
    keys.sort();
    assert_eq!(keys, ["default/a", "kube-public/c"]);
    selecting.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-04a, I-08b
#[tokio::test]
async fn wait_returns_the_outcome_of_each_informer() {
    let server = server().await;
    server.faults().inject(Fault::forbidden().resource("secrets").always());
    let (failed, mut failures) = tokio::sync::mpsc::channel(100);
    let factory =
        builder(&server).on_error(move |failure| drop(failed.try_send(failure.reflector.to_owned()))).build();
    let (maps, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start().unwrap();
    maps.wait_for_sync().until(soon()).await.unwrap();
    // A forbidden resource does not affect the other informer.
    assert_eq!(failures.recv().await.as_deref(), Some("secrets"));
    let report = factory.wait_for_cache_sync().until(tokio::time::Instant::now()).await;
    assert!(!report.all_synced());
    let results: Vec<_> = report.iter().map(|(name, result)| (name.to_owned(), result.is_ok())).collect();
    assert_eq!(results, [("configmaps".to_owned(), true), ("secrets".to_owned(), false)]);
    let error = report.into_result().unwrap_err().to_string();
    assert!(error.contains("\"secrets\"") && error.contains("403"), "{error}");

    // RBAC allows it from now on.
    server.faults().clear();
    secrets.wait_for_sync().until(soon()).await.unwrap();
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Shutdown waits for every task, and nothing starts after it.
// contract: F-04b, F-04c, F-04d, P-14a
#[tokio::test]
async fn shutdown_waits_for_every_task() {
    for decode in POLICIES {
        shutdown_waits_for_every_task_in(decode).await;
    }
}

async fn shutdown_waits_for_every_task_in(decode: Decode) {
    let server = server().await;
    let before = tasks::alive();
    let factory = factory_with(&server, decode);
    let maps = factory.informer::<ConfigMap>();
    maps.handler().for_each(|_| {}).unwrap();
    maps.handler().for_each_async(async |_| {}).unwrap();
    factory.informer::<Node>();
    synced(&factory).await;
    let never_started = factory.informer::<Secret>();

    let (one, other) = tokio::join!(factory.shutdown(), factory.shutdown());
    one.unwrap();
    other.unwrap();
    factory.shutdown().await.unwrap();
    assert!(factory.is_shut_down() && maps.status().is_stopped());
    assert!(maps.handler().for_each(|_| {}).is_err(), "a stopped informer refuses handlers");

    assert!(never_started.wait_for_sync().await.is_err(), "it will never sync");

    let late = factory.informer::<Pod>();
    factory.start().unwrap();
    assert_eq!(late.status().phase(), Phase::Stopped);
    assert!(late.wait_for_sync().await.is_err(), "it will never sync");
    let sync = factory.wait_for_cache_sync().await;
    let synced_before = sync.iter().filter(|(_, synced)| synced.is_ok()).count();
    assert_eq!((sync.iter().len(), synced_before), (4, 2), "only those that were started had synced");
    drop((factory, maps, never_started, late));
    watches(&server, 0).await;
    // The remaining tasks are the server's, which has no more connections than before.
    tasks::fall_to(before).await;
    server.shutdown().await;
}

// contract: F-04b
#[tokio::test]
async fn stuck_handler_is_named_and_dropped() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = builder(&server).grace(Duration::from_millis(100)).build();
    let maps = factory.informer::<ConfigMap>();
    let (start_sender, mut started) = tokio::sync::mpsc::channel(1);
    maps.handler()
        .name("stuck")
        .for_each_async(move |_| {
            let start_sender = start_sender.clone();
            async move {
                start_sender.send(()).await.unwrap();
                std::future::pending::<()>().await;
            }
        })
        .unwrap();
    let other = maps.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    started.recv().await.unwrap();
    other.synced().until(soon()).await.unwrap();

    let error = factory.shutdown().await.unwrap_err();
    assert!(matches!(error, Error::Stuck { .. }) && error.to_string().contains("stuck"), "{error}");
    assert!(started.recv().await.is_none(), "the callback was dropped");
    server.shutdown().await;
}

// contract: F-04b
#[tokio::test]
async fn informers_end_with_the_factory() {
    for decode in POLICIES {
        informers_end_with_the_factory_in(decode).await;
    }
}

async fn informers_end_with_the_factory_in(decode: Decode) {
    let server = server().await;
    let factory = factory_with(&server, decode);
    let maps = factory.informer::<ConfigMap>();
    synced(&factory).await;
    drop(factory);
    tokio::time::timeout_at(soon(), maps.stopped()).await.unwrap();
    watches(&server, 0).await;
    server.shutdown().await;
}

#[test]
fn start_needs_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, factory) = runtime.block_on(async {
        let server = server().await;
        let factory = factory(&server);
        (server, factory)
    });
    factory.informer::<ConfigMap>();
    assert!(matches!(factory.start(), Err(Error::NoRuntime)));
    runtime.block_on(async {
        synced(&factory).await;
        factory.shutdown().await.unwrap();
        server.shutdown().await;
    });
}

// contract: F-05b, L-07b
#[tokio::test]
async fn custom_resources_are_discovered() {
    let server = server().await;
    server
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "crontabs.stable.example.com"},
            "spec": {
                "group": "stable.example.com", "scope": "Namespaced",
                "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        }))
        .unwrap();
    server
        .create(json!({
            "apiVersion": "stable.example.com/v1", "kind": "CronTab",
            "metadata": {"name": "nightly", "namespace": "default"}, "spec": {"cron": "0 0 * * *"},
        }))
        .unwrap();
    let factory = factory(&server);
    let resource = GroupVersionResource::gvr("stable.example.com", "v1", "crontabs");
    let tabs = factory.for_resource(&resource).await.unwrap();
    assert_eq!(tabs.selection().resource(), "crontabs.stable.example.com");
    let informer = tabs.clone();
    let by_kind =
        factory.for_kind(&GroupVersionKind::gvk("stable.example.com", "v1", "CronTab")).await.unwrap();
    let handler = by_kind.clone().handler().for_each(|_| {}).unwrap();
    assert!(informer.remove_handler(&handler).await, "one resource, one informer");

    let metadata = tabs.metadata();
    synced(&factory).await;
    assert_eq!(
        informer.lister().get(("default", "nightly")).unwrap().decode().unwrap().data["spec"]["cron"],
        "0 0 * * *"
    );
    let nightly = metadata.lister().get(("default", "nightly")).unwrap();
    assert_eq!(nightly.decode().unwrap().metadata.name.as_deref(), Some("nightly"));

    let unknown = GroupVersionResource::gvr("stable.example.com", "v1", "tabs");
    let error = factory.for_resource(&unknown).await.unwrap_err();
    assert!(matches!(&error, Error::NoSuchResource { resource, .. } if &**resource == "tabs"), "{error}");
    let error = factory.for_kind(&GroupVersionKind::gvk("unknown.example.com", "v1", "X")).await.unwrap_err();
    assert!(
        matches!(error, Error::Discovery { .. }) && error.to_string().contains("unknown.example.com"),
        "{error}"
    );
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: L-13b, L-13c, F-01
#[tokio::test]
async fn packed_objects_are_decoded_when_read() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let packed = factory.informer::<ConfigMap>();
    let value = FieldPath::new(&["data", "key"]);
    packed
        .index("value", move |map, values| {
            if let Some(value) = map.field::<String>(&value)? {
                values.push(&value);
            }
            Ok(())
        })
        .unwrap();
    let (recorder, mut delivered) = tokio::sync::watch::channel(0);
    let handler = packed.handler().for_each(move |event| {
        assert!(event.object().is_some_and(|map| map.decode().unwrap().data.is_some()));
        recorder.send_modify(|delivered| *delivered += 1);
    });
    handler.unwrap();
    synced(&factory).await;
    let written = server.create(config_map("kube-public", "b", "2")).unwrap();
    packed.wait_for(("kube-public", "b"), &version(&written)).until(soon()).await.unwrap();
    tokio::time::timeout_at(soon(), delivered.wait_for(|delivered| *delivered == 2)).await.unwrap().unwrap();

    let now = packed.snapshot().unwrap();
    let two = now.by_index("value", "2").unwrap();
    assert_eq!(two.len(), 1);
    assert_eq!((two[0].key().to_string(), two[0].label("value")), ("kube-public/b".into(), Some("2")));
    assert_eq!(two[0].decode().unwrap().data.as_ref().unwrap()["key"], "2");
    assert_eq!(packed.snapshot().unwrap().by_index(NAMESPACE_INDEX, "default").unwrap().len(), 1);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-06a, F-06b, F-06c, F-06d
#[tokio::test]
async fn lister_reads_the_stored_objects() {
    for decode in POLICIES {
        lister_reads_the_stored_objects_in(decode).await;
    }
}

async fn lister_reads_the_stored_objects_in(decode: Decode) {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory_with(&server, decode);
    let maps = factory.core().v1().config_maps();
    let lister = maps.lister();
    synced(&factory).await;
    let written = server.create(config_map("kube-public", "b", "2")).unwrap();
    maps.wait_for(PartId::ONLY, &version(&written)).until(soon()).await.unwrap();

    assert_eq!(lister.list(&LabelSelector::everything()).unwrap().len(), 2);
    let two: LabelSelector = "value in (2, 3)".parse().unwrap();
    assert_eq!(lister.list(&two).unwrap().len(), 1);
    assert_eq!(lister.namespace("default").list(&two).unwrap().len(), 0);
    assert!(lister.namespace("kube-public").get("b").is_ok());
    let error = lister.get("kube-public/c").unwrap_err();
    assert_eq!(error.to_string(), "configmaps \"kube-public/c\" not found");
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-01
#[tokio::test]
async fn factory_accepts_custom_informers() {
    let server = server().await;
    let factory = builder(&server).name("mine").build();
    let source = FakeSource::new();
    source.apply(Item::of("kitchen/kettle", 0, 0));
    let make = |factory: &SharedInformerFactory| {
        factory.builder_for(source.clone(), "items").index("room", IndexFunction::by_namespace()).build()
    };
    let items = factory.informer_with(make).unwrap();
    let again = factory.informer_with::<Item, Error>(|_| panic!("the informer exists")).unwrap();
    let handler = items.handler().for_each(|_| {}).unwrap();
    assert!(again.remove_handler(&handler).await);
    synced(&factory).await;
    assert_eq!(items.name(), "mine/items");
    assert_eq!(items.store().by_index("room", "kitchen").unwrap().len(), 1);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

#[tokio::test]
async fn server_that_starts_late_is_retried() {
    let first = server().await;
    let address = first.url().trim_start_matches("http://").parse::<std::net::SocketAddr>().unwrap();
    let (failed, mut failures) = tokio::sync::mpsc::channel(100);
    let factory =
        builder(&first).on_error(move |failure| drop(failed.try_send(failure.error.to_string()))).build();
    first.shutdown().await;
    let maps = factory.informer::<ConfigMap>();
    factory.start().unwrap();
    failures.recv().await.unwrap();
    let error = maps.wait_for_sync().until(tokio::time::Instant::now()).await.unwrap_err().to_string();
    assert!(error.contains("\"configmaps\"") && error.contains("refused"), "{error}");

    let server = kinformer_apiserver::ApiServer::builder().listen(address).start().await.unwrap();
    server.create(config_map("default", "a", "1")).unwrap();
    maps.wait_for_sync().until(soon()).await.unwrap();
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// No informer runs after a shutdown, even if a start runs at the same time.
// contract: F-04d
#[tokio::test(flavor = "multi_thread")]
async fn start_during_shutdown_starts_nothing() {
    let config = kube_client::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = kinformer::client(config).unwrap();
    for _ in 0..50 {
        let factory = SharedInformerFactory::new(client.clone());
        let items = factory
            .informer_with(|factory| factory.builder_for(FakeSource::<Item>::new(), "items").build())
            .unwrap();
        let starting = tokio::spawn({
            let factory = factory.clone();
            async move { factory.start() }
        });
        factory.shutdown().await.unwrap();
        let after = items.phase();
        assert_ne!(after, Phase::Running);
        starting.await.unwrap().unwrap();
        assert_eq!(items.phase(), after, "the phase changed after the shutdown");
    }
}

// contract: F-04b
#[tokio::test]
async fn factory_ignores_informers_run_by_others() {
    let server = server().await;
    let factory = factory(&server);
    let maps = factory.informer::<ConfigMap>();
    let cancel = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn({
        let (maps, cancel) = (maps.clone(), cancel.clone());
        async move { maps.run(cancel).await }
    });
    maps.wait_for_sync().until(soon()).await.unwrap();
    factory.start().unwrap();
    factory.shutdown().await.unwrap();
    assert_eq!(maps.status().phase(), Phase::Running);
    cancel.cancel();
    running.await.unwrap().unwrap();
    server.shutdown().await;
}

/// A dropped wait for the sync changes nothing: the informers continue, and a later wait has their outcome.
// contract: F-19a
#[tokio::test]
async fn dropped_waits_change_nothing() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.informer::<ConfigMap>();
    factory.start().unwrap();
    assert!(factory.wait_for_cache_sync().now_or_never().is_none());
    assert!(factory.wait_for_cache_sync().until(soon()).now_or_never().is_none());
    assert!(maps.wait_for_sync().now_or_never().is_none());
    assert!(maps.wait_for_sync().until(soon()).now_or_never().is_none());
    assert!(maps.wait_for(PartId::ONLY, &1.into()).now_or_never().is_none());
    assert!(maps.wait_for(PartId::ONLY, &1.into()).until(soon()).now_or_never().is_none());
    assert!(maps.stopped().now_or_never().is_none());
    let sync = factory.wait_for_cache_sync().until(soon()).await;
    assert_eq!(sync.iter().filter(|(_, synced)| synced.is_ok()).count(), 1);
    maps.wait_for(PartId::ONLY, &1.into()).now_or_never().unwrap().unwrap();
    assert_eq!(maps.status().phase(), Phase::Running);
    factory.shutdown().await.unwrap();
    maps.stopped().now_or_never().unwrap();
    server.shutdown().await;
}

/// A shutdown that is dropped after its first poll continues. Another call returns the same error.
// contract: F-19b
#[tokio::test]
async fn dropped_shutdown_continues() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = builder(&server).grace(Duration::from_millis(100)).build();
    let maps = factory.informer::<ConfigMap>();
    let (start_sender, mut started) = tokio::sync::mpsc::channel(1);
    let handler = move |_| {
        let start_sender = start_sender.clone();
        async move {
            start_sender.send(()).await.unwrap();
            std::future::pending::<()>().await;
        }
    };
    maps.handler().name("stuck").for_each_async(handler).unwrap();
    factory.start().unwrap();
    started.recv().await.unwrap();
    drop(factory.shutdown());
    assert!(!factory.is_shut_down(), "never polled");
    assert!(factory.shutdown().now_or_never().is_none());
    assert!(factory.is_shut_down());
    tokio::time::timeout_at(soon(), maps.stopped()).await.unwrap();
    assert!(started.recv().await.is_none(), "the callback was dropped");
    for _ in 0..2 {
        let error = factory.shutdown().await.unwrap_err();
        assert!(matches!(error, Error::Stuck { .. }), "{error}");
    }
    server.shutdown().await;
}

/// A dropped run of one informer stops it. A dropped removal of a handler has removed it.
// contract: F-19c
#[tokio::test]
async fn dropped_run_and_removals_are_done() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.informer::<ConfigMap>();
    let (start_sender, mut started) = tokio::sync::mpsc::channel(1);
    let handler = move |_| {
        let start_sender = start_sender.clone();
        async move {
            start_sender.send(()).await.unwrap();
            std::future::pending::<()>().await;
        }
    };
    let stuck = maps.handler().for_each_async(handler.clone()).unwrap();
    let mut running = Box::pin(maps.run(Default::default()));
    let mut poll_until_started = async || {
        tokio::select! {
            ended = &mut running => panic!("{ended:?}"),
            started = started.recv() => started.unwrap(),
        }
    };
    poll_until_started().await;
    assert!(maps.remove_handler(&stuck).now_or_never().is_none());
    assert!(stuck.is_removed());
    let other = maps.handler().for_each_async(handler).unwrap();
    poll_until_started().await;
    drop(running);
    tokio::time::timeout_at(soon(), maps.stopped()).await.unwrap();
    assert!(started.recv().await.is_none(), "the callback was dropped");
    assert!(other.is_removed() && maps.status().phase() == Phase::Stopped);
    assert!(maps.run(Default::default()).await.is_err());
    watches(&server, 0).await;
    server.shutdown().await;
}

/// A dropped discovery leaves the factory as it was.
// contract: F-19e
#[tokio::test]
async fn dropped_discovery_creates_no_informer() {
    let server = server().await;
    let factory = factory(&server);
    let resource = GroupVersionResource::gvr("", "v1", "configmaps");
    let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
    assert!(factory.for_resource(&resource).now_or_never().is_none());
    assert!(factory.for_kind(&kind).now_or_never().is_none());
    factory.start().unwrap();
    assert_eq!(factory.wait_for_cache_sync().until(soon()).await.iter().len(), 0);
    let maps = factory.for_resource(&resource).await.unwrap();
    synced(&factory).await;
    assert_eq!(maps.status().phase(), Phase::Running);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A name that cannot be a path segment is an error, and no request is sent.
// contract: L-22a
#[tokio::test]
async fn invalid_path_segments_send_no_request() {
    let server = server().await;
    let client = kinformer::client(server.config().unwrap()).unwrap();
    for bad in ["v1/namespaces/kube-system/secrets?x=", "..", "a%2Fb"] {
        let factory = SharedInformerFactory::builder(client.clone()).namespace(bad).build();
        let resource = GroupVersionResource::gvr("", bad, "pods");
        assert!(matches!(factory.for_resource(&resource).await, Err(Error::Name(_))));
        let kind = GroupVersionKind::gvk(bad, "v1", "Pod");
        assert!(matches!(factory.for_kind(&kind).await, Err(Error::Name(_))));

        let pods = factory.core().v1().pods();
        factory.start().unwrap();
        let failed = async {
            loop {
                if let Some(error) = pods.status().parts()[0].reflector().last_error() {
                    return error;
                }
                tokio::task::yield_now().await;
            }
        };
        let error = tokio::time::timeout_at(soon(), failed).await.unwrap();
        assert!(error.to_string().contains(&format!("the namespace {bad:?}")), "{error}");
        factory.shutdown().await.unwrap();
    }
    assert!(server.metrics().requests.is_empty(), "{:?}", server.metrics());
}
