//! Several namespaces in one informer.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{QUEUES, builder, config_map, node, server, soon, synced, until, version, watches};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{
    Added, Deleted, Error, Event, InformerError, KeyRef, LabelSelector, NamespaceOptions, PackedObject,
    PartId, SharedInformerFactory, Updated,
};
use kinformer_apiserver::ApiServer;
use parking_lot::Mutex;
use serde_json::json;

/// A map in each of three namespaces.
async fn three_namespaces() -> ApiServer {
    let server = server().await;
    for namespace in ["team-a", "team-b", "team-c"] {
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create(team).unwrap();
        server.create(config_map(namespace, "map", "1")).unwrap();
    }
    server
}

fn two(server: &ApiServer) -> SharedInformerFactory {
    builder(server).namespaces(["team-a", "team-b", "team-a"]).build()
}

fn keys(informer: &kinformer::Informer<ConfigMap>) -> Vec<String> {
    informer.snapshot().unwrap().ordered().iter().map(|map| map.key().to_string()).collect()
}

fn described(event: &Event<impl Deref<Target = PackedObject>>) -> String {
    match event {
        Event::Added(Added { object, in_initial_list, .. }) => format!("+{} {in_initial_list}", object.key()),
        Event::Updated(Updated { new, .. }) => format!("={}", new.key()),
        Event::Deleted(Deleted { tombstone, .. }) => format!("-{}", tombstone.key()),
        _ => "?".to_owned(),
    }
}

// contract: F-17a, F-17b, F-17c
#[tokio::test]
async fn namespaces_are_parts_of_one_informer() {
    let server = three_namespaces().await;
    server.create(node("n")).unwrap();
    let factory = two(&server);
    let maps = factory.core().v1().config_maps();
    let nodes = factory.core().v1().nodes();
    let (events, revisions) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (event_log, revision_log) = (events.clone(), revisions.clone());
    let handler = maps
        .handler()
        .for_each(move |event| {
            event_log.lock().push(described(&event));
            revision_log.lock().push(event.revision());
        })
        .unwrap();
    synced(&factory).await;
    handler.synced().until(soon()).await.unwrap();
    assert_eq!(keys(&maps), ["team-a/map", "team-b/map"]);
    assert_eq!(
        (nodes.snapshot().unwrap().len(), nodes.status().parts().len()),
        (1, 1),
        "nodes are in no namespace"
    );
    let parts = maps.status().parts();
    let names: Vec<_> = parts.iter().map(|part| (part.id().number(), part.name())).collect();
    assert_eq!(names, [(0, "team-a"), (1, "team-b")]);
    assert!(maps.status().parts().iter().all(|part| part.reflector().is_synced()));
    // Two of maps, one of nodes.
    watches(&server, 3).await;

    let changed = server.update(config_map("team-b", "map", "2")).unwrap();
    maps.wait_for(("team-b", "map"), &version(&changed)).until(soon()).await.unwrap();
    assert_eq!(maps.snapshot().unwrap().resource_versions().of(PartId::new(1)), &version(&changed));
    let lower = maps.snapshot().unwrap().resource_versions().lowest();
    assert!(version(&changed).reaches(&lower) && !lower.is_unset());
    server.create(config_map("team-c", "other", "1")).unwrap();
    let last = server.delete("v1", "ConfigMap", "team-a", "map").unwrap();
    maps.wait_for(PartId::new(0), &version(&last)).until(soon()).await.unwrap();
    assert!(maps.wait_for(("team-c", "map"), &version(&last)).until(soon()).await.is_err());
    until(|| events.lock().len() == 4).await.unwrap();
    events.lock()[..2].sort();
    assert_eq!(*events.lock(), ["+team-a/map true", "+team-b/map true", "=team-b/map", "-team-a/map"]);
    assert!(revisions.lock().is_sorted(), "one store: {revisions:?}");
    assert_eq!(maps.lister().namespace("team-b").list(&LabelSelector::default()).unwrap().len(), 1);
    factory.shutdown().await.unwrap();
    watches(&server, 0).await;
    server.shutdown().await;
}

// contract: F-17b, F-17d
#[tokio::test]
async fn relist_of_one_namespace_affects_no_other() {
    let server = three_namespaces().await;
    let factory = two(&server);
    let maps = factory.core().v1().config_maps();
    let events = Arc::new(Mutex::new(Vec::new()));
    let event_log = events.clone();
    maps.handler().for_each(move |event| event_log.lock().push(described(&event))).unwrap();
    synced(&factory).await;
    watches(&server, 2).await;
    let parts = maps.status().parts();
    let [first, second] = &*parts else { panic!("two namespaces") };
    let replaces = |part: &kinformer::Part| part.reflector().metrics().replaces;
    let before = replaces(second);
    first.reflector().relist(kinformer_reflector::SourceError::expired("on purpose"));
    until(|| replaces(first) == 2).await.unwrap();
    let created = server.create(config_map("team-a", "new", "1")).unwrap();
    maps.wait_for(("team-a", "new"), &version(&created)).until(soon()).await.unwrap();
    assert_eq!(keys(&maps), ["team-a/map", "team-a/new", "team-b/map"]);
    assert_eq!(replaces(second), before);
    until(|| events.lock().len() == 3).await.unwrap();
    events.lock()[..2].sort();
    assert_eq!(*events.lock(), ["+team-a/map true", "+team-b/map true", "+team-a/new false"]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-03a, F-17a, F-17b
#[tokio::test]
async fn every_queue_serves_several_namespaces() {
    let server = three_namespaces().await;
    for queue in QUEUES {
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let factory =
            builder(&server).namespaces(["team-a", "team-b"]).cluster("east").queue_with(move |parts| {
                count.fetch_add(1, Ordering::Relaxed);
                queue.build(parts)
            });
        let factory = factory.build();
        let maps = factory.core().v1().config_maps();
        synced(&factory).await;
        assert_eq!(keys(&maps), ["team-a/map", "team-b/map"], "{queue:?}");
        assert_eq!((made.load(Ordering::Relaxed), &*maps.status().metrics().cluster), (1, "east"));
        let created = server.create(config_map("team-b", "new", "1")).unwrap();
        maps.wait_for(("team-b", "new"), &version(&created)).until(soon()).await.unwrap();
        let deleted = server.delete("v1", "ConfigMap", "team-b", "new").unwrap();
        maps.wait_for(PartId::new(1), &version(&deleted)).until(soon()).await.unwrap();
        assert_eq!(maps.snapshot().unwrap().len(), 2, "{queue:?}");
        factory.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

// contract: F-17e
#[tokio::test]
async fn no_namespace_and_an_empty_one_mean_all() {
    let server = three_namespaces().await;
    let none: [&str; 0] = [];
    for factory in [
        builder(&server).namespaces(none).build(),
        builder(&server).namespaces(["team-a", ""]).build(),
        builder(&server).namespace("").build(),
    ] {
        let maps = factory.core().v1().config_maps();
        synced(&factory).await;
        assert_eq!((maps.snapshot().unwrap().len(), maps.status().parts().len()), (3, 1));
        factory.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

/// Objects of a resource in one namespace by labels, and in all others by a field.
// contract: F-24a, F-24d, F-24e
#[tokio::test]
async fn other_namespaces_have_selectors_of_their_own() {
    let server = three_namespaces().await;
    server.create(config_map("team-b", "other", "1")).unwrap();
    let mut labelled = config_map("team-a", "labelled", "1");
    labelled["metadata"]["labels"] = json!({"app": "web"});
    server.create(labelled).unwrap();
    let factory = builder(&server)
        .of_kind::<ConfigMap>(|maps| {
            let others = NamespaceOptions::all_others().fields("metadata.name=map");
            maps.namespaces([others, NamespaceOptions::new("team-a").labels("app=web")])
        })
        .build();
    let maps = factory.core().v1().config_maps();
    synced(&factory).await;
    assert_eq!(keys(&maps), ["team-a/labelled", "team-b/map", "team-c/map"]);
    assert_eq!(
        maps.status().parts().iter().map(|part| part.name()).collect::<Vec<_>>(),
        ["team-a", "other namespaces"]
    );
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-d"}});
    server.create(namespace).unwrap();
    let later = server.create(config_map("team-d", "map", "1")).unwrap();
    maps.wait_for(("team-d", "map"), &version(&later)).until(soon()).await.unwrap();
    assert_eq!(keys(&maps).len(), 4);
    server.delete("v1", "ConfigMap", "team-d", "map").unwrap();
    until(|| keys(&maps).len() == 3).await.unwrap();
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A key of another namespace is in no part, with a single namespace as with several.
// contract: S-27e
#[tokio::test]
async fn key_of_another_namespace_is_in_no_part() {
    let server = three_namespaces().await;
    server.create(node("n")).unwrap();
    for namespaces in [&["team-a"][..], &["team-a", "team-a"], &["team-a", "team-b"]] {
        let factory = builder(&server).namespaces(namespaces.iter().copied()).build();
        let metadata = factory.metadata::<ConfigMap>();
        let nodes = factory.core().v1().nodes();
        nodes.handler().for_each(|_| {}).unwrap();
        synced(&factory).await;
        // For metadata, then for whole objects.
        let stored = metadata.lister().get(("team-a", "map")).unwrap().resource_version();
        for key in [("team-c", "map"), ("", "map")] {
            let waited = metadata.wait_for(key, &stored).until(soon()).await;
            assert!(
                matches!(waited, Err(Error::Informer(InformerError::VersionNotReached { .. }))),
                "{key:?}: {waited:?}"
            );
        }
        let whole = factory.core().v1().config_maps();
        let waited = whole.wait_for(("team-c", "map"), &stored).until(soon()).await;
        assert!(
            matches!(waited, Err(Error::Informer(InformerError::VersionNotReached { .. }))),
            "{waited:?}"
        );
        factory.start().unwrap();
        whole.wait_for(("team-a", "map"), &stored).until(soon()).await.unwrap();
        whole.wait_for(PartId::ONLY, &stored).until(soon()).await.unwrap();
        // Cluster-scoped objects are not restricted.
        let version = nodes.lister().get(KeyRef::named("n")).unwrap().resource_version();
        nodes.wait_for(KeyRef::named("n"), &version).until(soon()).await.unwrap();
        factory.shutdown().await.unwrap();
    }
    server.shutdown().await;
}
