//! Metadata and whole objects of one resource: one informer if both are requested before the start, else two.

use crate::common::{builder, config_map, factory, server, soon, synced, until, version, watches};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::prometheus::InformerCollector;
use kinformer::{Decode, Packed, PartId, Projection};
use kinformer_apiserver::ApiServer;
use kinformer_testing::logs::of_this_thread;
use kube_core::discovery::ApiResource;
use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use std::sync::Arc;

fn value_of(map: &Packed<ConfigMap>) -> String {
    map.decode().unwrap().data.as_ref().unwrap()["key"].clone()
}

async fn two_maps() -> ApiServer {
    let server = server().await;
    for (name, value) in [("a", "1"), ("b", "2")] {
        server.create(config_map("default", name, value)).unwrap();
    }
    server
}

/// Also if the views of metadata are used before whole objects are requested.
// contract: F-13a, F-13d
#[tokio::test]
async fn views_before_the_start_share_the_informer_of_whole_objects() {
    for is_used_before in [false, true] {
        let server = two_maps().await;
        let factory = factory(&server);
        let metadata = factory.metadata::<ConfigMap>();
        assert_eq!(
            (metadata.selection().resource(), metadata.selection().projection()),
            ("configmaps (metadata)".into(), Projection::Metadata)
        );
        let received = Arc::new(Mutex::new(Vec::new()));
        let recorded = received.clone();
        let record = move |name: &str| recorded.lock().push(name.to_owned());
        if is_used_before {
            let record = record.clone();
            metadata.handler().for_each(move |event| record(event.key().name())).unwrap();
        }
        let whole = factory.core().v1().config_maps();
        assert_eq!(whole.id(), metadata.id());
        for view in [whole.selection().resource(), metadata.selection().resource()] {
            assert_eq!(view, "configmaps");
        }
        if !is_used_before {
            assert_eq!(whole.name(), "configmaps");
            metadata.handler().for_each(move |event| record(event.key().name())).unwrap();
        }
        synced(&factory).await;
        assert_eq!(value_of(&whole.lister().get(("default", "a")).unwrap()), "1");
        assert!(!metadata.lister().get(("default", "a")).unwrap().is_metadata_only());
        until(|| received.lock().len() == 2).await.unwrap();
        assert_eq!(metadata.status().parts()[0].reflector().metrics().relists, 0);
        watches(&server, 1).await;
        assert_eq!(factory.wait_for_cache_sync().await.iter().count(), 1);
        factory.shutdown().await.unwrap();
        server.shutdown().await;
    }
}

// contract: F-13d, F-13e, F-13f
#[tokio::test]
async fn whole_objects_after_the_start_have_a_second_informer() {
    let (_guard, lines) = of_this_thread();
    let server = two_maps().await;
    let factory = factory(&server);
    let metadata = factory.metadata::<ConfigMap>();
    synced(&factory).await;
    watches(&server, 1).await;
    assert!(metadata.has_synced());
    let maps = ApiResource::erase::<ConfigMap>(&());
    let has = || [Projection::Metadata, Projection::Whole].map(|of| factory.has_informer(&maps, of));
    assert_eq!(has(), [true, false]);

    let whole = factory.informer::<ConfigMap>();
    assert_ne!(whole.id(), metadata.id());
    assert_eq!(factory.core().v1().config_maps().id(), whole.id());
    assert_eq!(has(), [true, true]);
    assert!(factory.wait_for_cache_sync().await.into_result().is_err(), "it was not started");
    synced(&factory).await;
    watches(&server, 2).await;
    assert_eq!(value_of(&whole.lister().get(("default", "b")).unwrap()), "2");
    assert!(metadata.lister().get(("default", "b")).unwrap().is_metadata_only());
    let changed = server.update(config_map("default", "b", "3")).unwrap();
    whole.wait_for(PartId::ONLY, &version(&changed)).until(soon()).await.unwrap();
    metadata.wait_for(PartId::ONLY, &version(&changed)).until(soon()).await.unwrap();
    assert_eq!(lines.having(&["INFO", "configmaps", "second informer", "whole_objects"]).len(), 1);

    // They differ by name, also in metrics.
    let outcomes = factory.wait_for_cache_sync().await;
    let names: Vec<_> = outcomes.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["configmaps", "configmaps (metadata)"]);
    let collector = InformerCollector::new();
    metadata.add_to(&collector).unwrap();
    whole.add_to(&collector).unwrap();
    let (mut registry, mut page) = (Registry::default(), String::new());
    registry.register_collector(Box::new(collector));
    text::encode(&mut page, &registry).unwrap();
    for name in ["configmaps", "configmaps (metadata)"] {
        let line = format!(r#"informer_objects{{name="{name}",resource="{name}"}} 2"#);
        assert!(page.contains(&line), "{page}");
    }
    let found = factory.informers_of("", "configmaps");
    assert_eq!(
        found.iter().map(|one| one.selection().projection()).collect::<Vec<_>>(),
        [Projection::Whole, Projection::Metadata]
    );

    // Each is removed by itself. Metadata is that of the whole objects, if there is an informer of them.
    let later = factory.metadata::<ConfigMap>();
    assert_eq!(later.id(), whole.id());
    assert!(whole.remove().await && !metadata.status().is_stopped());
    assert_eq!(factory.metadata::<ConfigMap>().id(), metadata.id());
    watches(&server, 1).await;
    assert!(metadata.remove().await);
    assert_eq!(has(), [false, false]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The start decides, not the first request of the informer.
// contract: F-13d
#[tokio::test]
async fn start_decides_before_the_informer_runs() {
    let server = two_maps().await;
    let factory = factory(&server);
    let metadata = factory.metadata::<ConfigMap>();
    metadata.handler().for_each(|_| {}).unwrap();
    factory.start().unwrap();
    let whole = factory.informer::<ConfigMap>();
    assert_ne!(whole.id(), metadata.id());
    synced(&factory).await;
    assert_eq!(
        (metadata.selection().projection(), whole.selection().projection()),
        (Projection::Metadata, Projection::Whole)
    );
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-13b, F-13e
#[tokio::test]
async fn option_fetches_whole_objects_from_the_start() {
    let server = two_maps().await;
    let factory = builder(&server).of_kind::<ConfigMap>(|maps| maps.whole_objects()).build();
    let metadata = factory.metadata::<ConfigMap>();
    let secrets = factory.metadata::<Secret>();
    synced(&factory).await;
    assert_eq!((metadata.name(), secrets.name()), ("configmaps", "secrets (metadata)"));
    assert_eq!(factory.informer::<ConfigMap>().id(), metadata.id());
    let map = metadata.lister().get(("default", "a")).unwrap();
    assert!(!map.is_metadata_only() && map.decode().unwrap().metadata.name.is_some());
    watches(&server, 2).await;
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-14k
#[tokio::test]
async fn option_decodes_whole_objects_on_arrival() {
    let server = two_maps().await;
    let factory = builder(&server).decode::<ConfigMap>(Decode::OnArrival).build();
    let metadata = factory.metadata::<ConfigMap>();
    synced(&factory).await;
    assert!(!metadata.lister().get(("default", "a")).unwrap().is_decoded());
    let whole = factory.informer::<ConfigMap>();
    synced(&factory).await;
    assert!(whole.snapshot().unwrap().iter().all(|map| map.is_decoded()));
    assert_eq!((whole.status().undecoded(), metadata.status().undecoded()), (0, 0));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-14k
#[tokio::test]
async fn metadata_is_decoded_on_arrival_as_well() {
    let server = two_maps().await;
    let factory = factory(&server);
    let metadata = factory.metadata::<ConfigMap>();
    metadata.decode_on_arrival();
    synced(&factory).await;
    assert!(metadata.snapshot().unwrap().iter().all(|map| map.is_decoded()));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}
