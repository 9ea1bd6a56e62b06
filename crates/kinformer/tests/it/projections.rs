//! Metadata first, and whole objects later: one informer, one watch.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{QUEUES, builder, config_map, factory, server, soon, synced, until, version, watches};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinformer::{
    Added, Backoff, Buffer, Decode, Deleted, Encoding, Event, Failure, LabelSelector, Packed, PackedObject,
    PartId, Phase, QueueKind, ReflectorOptions, SharedInformerFactory, Updated, WatchListMode,
};
use kinformer_apiserver::{ApiServer, Fault, Verb};
use kinformer_testing::scripted_http::{Answer, ScriptedServer};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The events that a test received, in order.
type Received = Arc<Mutex<Vec<String>>>;

fn described(event: &Event<impl Deref<Target = PackedObject>>) -> String {
    match event {
        Event::Added(Added { object, .. }) => format!("+{}", object.name()),
        Event::Updated(Updated { new, .. }) => format!("={}", new.name()),
        Event::Deleted(Deleted { tombstone, .. }) => format!("-{}", tombstone.key().name()),
        _ => "?".to_owned(),
    }
}

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

/// A request for whole objects switches the informer of metadata.
// contract: F-13a, F-13d, F-16a, F-16b, F-16c, F-16d, F-16e, F-16g, F-16i
#[tokio::test]
async fn request_for_whole_objects_switches_metadata() {
    for mode in [WatchListMode::Auto, WatchListMode::Off] {
        let server = two_maps().await;
        let factory = builder(&server).reflector(move |options| options.watch_list(mode)).build();
        let metadata = factory.metadata::<ConfigMap>();
        let received: [Received; 4] = Default::default();
        let [one, two, three, four] = received.clone();
        metadata.handler().for_each(move |event| one.lock().push(described(&event))).unwrap();
        metadata.handler().inline().for_each(move |event| two.lock().push(described(&event))).unwrap();
        metadata
            .handler()
            .for_each_async(move |event| {
                three.lock().push(described(&event));
                async {}
            })
            .unwrap();
        let mut stream = metadata.stream().unwrap();
        synced(&factory).await;
        watches(&server, 1).await;
        assert!(metadata.lister().get(("default", "a")).unwrap().is_metadata_only());

        let whole = factory.informer::<ConfigMap>();
        whole
            .index("value", |map, values| {
                values.push(&value_of(&map.into_owned()));
                Ok(())
            })
            .unwrap();
        // Like an informer that has not synced, although metadata is stored.
        assert!(!whole.has_synced() && metadata.has_synced());
        assert!(whole.snapshot().unwrap().is_empty() && whole.lister().get(("default", "a")).is_err());
        assert!(whole.snapshot().unwrap().is_empty() && whole.snapshot().unwrap().keys().is_empty());
        assert!(whole.lister().list(&LabelSelector::everything()).unwrap().is_empty());
        assert_eq!(metadata.snapshot().unwrap().len(), 2);
        let late: Received = Default::default();
        let handler = whole
            .handler()
            .for_each({
                let late = late.clone();
                move |event| {
                    let Event::Added(Added { object, .. }) = &event else { return };
                    late.lock().push(value_of(&object.into_owned()));
                }
            })
            .unwrap();
        whole.wait_for_sync_until(soon()).await.unwrap();
        factory.wait_for_cache_sync_until(soon()).await.into_result().unwrap();
        handler.synced_until(soon()).await.unwrap();
        late.lock().sort();
        assert_eq!(*late.lock(), ["1", "2"], "a handler that has synced has received all of them");
        assert_eq!(
            (
                whole.snapshot().unwrap().len(),
                whole.snapshot().unwrap().len(),
                metadata.snapshot().unwrap().len()
            ),
            (2, 2, 2)
        );
        assert_eq!(value_of(&whole.lister().get(("default", "a")).unwrap()), "1");
        assert_eq!(value_of(&whole.lister().get("default/b").unwrap()), "2");
        assert_eq!(whole.snapshot().unwrap().by_index("value", "2").unwrap()[0].name(), "b");
        assert!(metadata.lister().get(("default", "a")).unwrap().decode().unwrap().metadata.name.is_some());
        watches(&server, 1).await;
        assert_eq!(factory.wait_for_cache_sync().await.iter().count(), 1, "there is one informer");

        // Later changes are delivered once, to all handlers.
        let changed = server.update(config_map("default", "b", "3")).unwrap();
        whole.wait_for_until(PartId::ONLY, &version(&changed), soon()).await.unwrap();
        assert_eq!(value_of(&whole.lister().get(("default", "b")).unwrap()), "3");
        for _ in 0..3 {
            let event = stream.next().await.unwrap();
            four.lock().push(described(&event));
        }
        let deleted = server.delete("v1", "ConfigMap", "default", "a").unwrap();
        whole.wait_for_until(PartId::ONLY, &version(&deleted), soon()).await.unwrap();
        let event = stream.next().await.unwrap();
        four.lock().push(described(&event));
        for received in &received {
            until(|| received.lock().len() >= 4).await.unwrap();
            received.lock()[..2].sort();
            assert_eq!(*received.lock(), ["+a", "+b", "=b", "-a"], "nothing is delivered again");
        }
        factory.shutdown().await.unwrap();
        watches(&server, 0).await;
        server.shutdown().await;
    }
}

/// Whole objects that are requested before the start are listed at once.
// contract: F-16i
#[tokio::test]
async fn whole_objects_before_start_need_no_relist() {
    let server = two_maps().await;
    let factory = factory(&server);
    let metadata = factory.metadata::<ConfigMap>();
    metadata.handler().for_each(|_| {}).unwrap();
    let whole = factory.core().v1().config_maps();
    let handler = whole.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    handler.synced_until(soon()).await.unwrap();
    assert!(whole.has_synced());
    assert_eq!(value_of(&whole.lister().get(("default", "a")).unwrap()), "1");
    assert_eq!(metadata.parts()[0].reflector().metrics().relists, 0);
    watches(&server, 1).await;
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Whole objects may be requested at any moment of the first list.
// contract: F-16a, F-16e, F-16i
#[tokio::test]
async fn request_during_first_list_gets_whole_objects() {
    // Lists in pages, so that the request may come between two of them.
    let paged = |options: ReflectorOptions| {
        let soon = || std::iter::repeat(Duration::from_millis(1));
        let options = options.watch_list(WatchListMode::Off).backoff(Backoff::from_delays(soon));
        options.page_size(std::num::NonZeroU32::new(1).unwrap())
    };
    for steps in 0..60 {
        let server = two_maps().await;
        let factory = builder(&server).reflector(paged).build();
        let metadata = factory.metadata::<ConfigMap>();
        metadata.handler().for_each(|_| {}).unwrap();
        factory.start().unwrap();
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        let whole = factory.informer::<ConfigMap>();
        whole.wait_for_sync_until(soon()).await.unwrap();
        let values: Vec<_> =
            whole.snapshot().unwrap().ordered().into_iter().map(|map| value_of(&map.into_owned())).collect();
        assert_eq!(values, ["1", "2"], "after {steps} steps");
        watches(&server, 1).await;
        factory.shutdown().await.unwrap();
        server.shutdown().await;
    }
}

// contract: F-16a, F-16e, F-16g
#[tokio::test]
async fn empty_list_switches_to_whole_objects() {
    for (queue, mode) in each_queue_and_list() {
        let server = server().await;
        let factory = builder(&server).queue(queue);
        let factory = factory.reflector(move |options| options.watch_list(mode)).build();
        let metadata = factory.metadata::<ConfigMap>();
        metadata.handler().for_each(|_| {}).unwrap();
        synced(&factory).await;
        let whole = factory.informer::<ConfigMap>();
        let handler = whole.handler().for_each(|_| {}).unwrap();
        whole.wait_for_sync_until(soon()).await.unwrap();
        handler.synced_until(soon()).await.unwrap();
        let created = server.create(config_map("default", "a", "1")).unwrap();
        whole.wait_for_until(PartId::ONLY, &version(&created), soon()).await.unwrap();
        assert_eq!(value_of(&whole.lister().get(("default", "a")).unwrap()), "1");
        factory.shutdown().await.unwrap();
        server.shutdown().await;
    }
}

// contract: F-16c, F-16e
#[tokio::test]
async fn informer_stopped_during_switch_has_not_synced() {
    let server = two_maps().await;
    let factory = factory(&server);
    let metadata = factory.metadata::<ConfigMap>();
    metadata.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    let stored = metadata.lister().get(("default", "a")).unwrap().resource_version();
    let whole = factory.informer::<ConfigMap>();
    assert_eq!(whole.phase(), Phase::Running);
    factory.shutdown().await.unwrap();
    assert!(metadata.wait_for_sync_until(soon()).await.is_ok());
    assert!(whole.wait_for_sync_until(soon()).await.is_err());
    assert!(whole.wait_for_until(PartId::ONLY, &stored, soon()).await.is_err());
    server.shutdown().await;
}

// contract: F-14k, F-16a
#[tokio::test]
async fn whole_objects_are_decoded_on_arrival() {
    let server = two_maps().await;
    let factory = builder(&server).decode::<ConfigMap>(Decode::OnArrival).build();
    let metadata = factory.metadata::<ConfigMap>();
    metadata.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    assert!(!metadata.lister().get(("default", "a")).unwrap().is_decoded());
    let whole = factory.informer::<ConfigMap>();
    whole.wait_for_sync_until(soon()).await.unwrap();
    assert!(whole.snapshot().unwrap().iter().all(|map| map.is_decoded()));
    assert_eq!(whole.undecoded(), 0);
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

/// A whole object without any other field looks like its metadata.
// contract: F-16a, F-16e, F-16g
#[tokio::test]
async fn objects_with_only_metadata_become_whole() {
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let server = server().await;
        for name in ["a", "b"] {
            let metadata = json!({"name": name, "namespace": "default"});
            server.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
        }
        let factory = builder(&server).encoding(encoding).build();
        let metadata = factory.metadata::<ConfigMap>();
        synced(&factory).await;
        assert_eq!(metadata.snapshot().unwrap().len(), 2);
        let whole = factory.core().v1().config_maps();
        let received = Received::default();
        let recorder = received.clone();
        let handler = whole.handler().for_each(move |event| recorder.lock().push(described(&event))).unwrap();
        factory.wait_for_cache_sync_until(soon()).await.into_result().unwrap();
        handler.synced_until(soon()).await.unwrap();
        received.lock().sort();
        assert_eq!(
            (received.lock().join(" "), whole.snapshot().unwrap().len()),
            ("+a +b".to_owned(), 2),
            "{encoding:?}"
        );
        assert!(whole.lister().get(("default", "a")).is_ok());
        factory.shutdown().await.unwrap();
        server.shutdown().await;
    }
}

/// The list of one namespace does not arrive.
// contract: F-16f, F-17b
#[tokio::test]
async fn wait_for_a_namespace_ignores_other_lists() {
    let server = server().await;
    let mut versions = Vec::new();
    for namespace in ["a", "b"] {
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create(team).unwrap();
        versions.push(version(&server.create(config_map(namespace, "map", "1")).unwrap()));
    }
    let factory = builder(&server).namespaces(["a", "b"]);
    let factory = factory.reflector(|options| options.watch_list(WatchListMode::Off)).build();
    let metadata = factory.metadata::<ConfigMap>();
    synced(&factory).await;
    watches(&server, 2).await;
    server.faults().inject(Fault::delay(Duration::from_secs(3600)).on(Verb::List).times(1));
    let whole = factory.informer::<ConfigMap>();
    let reads = async |part: u32, namespace| {
        whole.wait_for_until(PartId::new(part), &versions[part as usize], soon()).await.unwrap();
        assert_eq!(value_of(&whole.lister().get((namespace, "map")).unwrap()), "1");
    };
    tokio::select! {
        () = reads(0, "a") => {}
        () = reads(1, "b") => {}
    }
    assert_eq!(
        (whole.snapshot().unwrap().len(), metadata.snapshot().unwrap().len(), whole.has_synced()),
        (1, 2, false)
    );
    // Returns at once, although the list has not arrived.
    whole.wait_for_until(PartId::new(2), &versions[0], soon()).await.unwrap_err();
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

fn each_queue_and_list() -> impl Iterator<Item = (QueueKind, WatchListMode)> {
    let modes = [WatchListMode::Auto, WatchListMode::Off];
    QUEUES.into_iter().flat_map(move |queue| modes.map(|mode| (queue, mode)))
}

/// A server with this number of objects.
async fn many_maps(count: usize) -> ApiServer {
    let server = server().await;
    for number in 0..count {
        server.create(config_map("default", &format!("map-{number}"), "1")).unwrap();
    }
    server
}

/// If a queue splits a list, its last piece completes it, also if its version is that of the metadata, as here, where
/// nothing has changed.
// contract: F-16c, F-16j, F-16k, F-16e, F-16g, P-06b
#[tokio::test]
async fn whole_objects_sync_after_the_last_piece() {
    const MAPS: usize = 2000;
    let server = many_maps(MAPS).await;
    for (queue, mode) in each_queue_and_list() {
        let factory = builder(&server).queue_with(move |parts| queue.build(parts));
        let factory = factory.reflector(move |options| options.watch_list(mode)).build();
        let metadata = factory.metadata::<ConfigMap>();
        synced(&factory).await;
        watches(&server, 1).await;
        let whole = factory.informer::<ConfigMap>();
        let received = Arc::new(Mutex::new(0));
        let count = received.clone();
        let handler = whole.handler().inline().for_each(move |_| *count.lock() += 1).unwrap();
        let wait = async {
            whole.wait_for_sync_until(soon()).await.unwrap();
            (whole.snapshot().unwrap().len(), whole.has_synced())
        };
        let handled = async {
            handler.synced_until(soon()).await.unwrap();
            *received.lock()
        };
        let (stored, received) = tokio::join!(wait, handled);
        assert_eq!((stored, received), ((MAPS, true), MAPS), "{queue:?}, {mode:?}");
        assert_eq!(metadata.snapshot().unwrap().len(), MAPS);
        factory.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

/// The list of whole objects has one object with invalid labels, which is left out. Only its metadata is known.
// contract: F-16h
#[tokio::test]
async fn unreadable_object_is_in_no_view_of_whole_objects() {
    let server = ScriptedServer::http(|request| {
        let list = |api_version: &str, kind: &str, version: &str, labels: [Value; 2]| {
            let objects = ["a", "b"].into_iter().zip(labels).map(|(name, labels)| {
                let namespace = "default";
                let metadata =
                    json!({"name": name, "namespace": namespace, "resourceVersion": "5", "labels": labels});
                json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
            });
            let (items, kind) = (Vec::from_iter(objects), format!("{kind}List"));
            let metadata = json!({"resourceVersion": version});
            Answer::json(
                &json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items}),
            )
        };
        let accept = request.header("accept").unwrap();
        match (request.is_watch(), accept.contains("PartialObjectMetadata")) {
            (true, _) => Answer::watch([]).then_hang(),
            (false, true) => list("meta.k8s.io/v1", "PartialObjectMetadata", "10", [json!({}), json!({})]),
            (false, false) => list("v1", "Pod", "20", [json!({}), json!(7)]),
        }
    })
    .await;
    let builder = SharedInformerFactory::builder(kinformer::client(server.config()).unwrap());
    let (failed, mut failures) = tokio::sync::mpsc::channel(64);
    let on_error = move |failure: &Failure<'_>| _ = failed.try_send(failure.error.to_string());
    let factory =
        builder.on_error(on_error).reflector(|options| options.watch_list(WatchListMode::Off)).build();
    let metadata = factory.metadata::<Pod>();
    synced(&factory).await;
    assert_eq!(metadata.snapshot().unwrap().len(), 2);
    server.log().wait_for("watch 10").await;

    let whole = factory.informer::<Pod>();
    let received: Received = Default::default();
    let events = received.clone();
    let handler = whole.handler().for_each(move |event| events.lock().push(described(&event))).unwrap();
    whole.wait_for_sync_until(soon()).await.unwrap();
    handler.synced_until(soon()).await.unwrap();
    assert_eq!(*received.lock(), ["+a"]);
    assert_eq!((whole.snapshot().unwrap().len(), metadata.snapshot().unwrap().len()), (1, 2));
    assert!(whole.lister().get("default/b").is_err());
    assert!(metadata.lister().get(("default", "b")).unwrap().is_metadata_only());
    let mut reported = std::iter::from_fn(|| failures.try_recv().ok());
    assert!(reported.any(|error| error.contains("default/b")));
    factory.shutdown().await.unwrap();
}

/// Two lists are queued at once, at one version.
// contract: F-16c, F-16k, F-16e
#[tokio::test]
async fn metadata_list_does_not_sync_whole_objects() {
    const MAPS: usize = 300;
    let server = many_maps(MAPS).await;
    for (queue, mode) in each_queue_and_list() {
        let factory = builder(&server).queue(queue);
        let factory = factory.reflector(move |options| options.watch_list(mode)).build();
        let metadata = factory.metadata::<ConfigMap>();
        // Blocks the list of metadata (most of it is queued) until the next list has arrived.
        let (release, released) = std::sync::mpsc::channel::<()>();
        let handler = metadata.handler().buffer(Buffer::BackPressure(1));
        handler.for_each(move |_| _ = released.recv()).unwrap();
        factory.start().unwrap();
        let replaces = |lists| {
            let metadata = &metadata;
            move || metadata.parts()[0].reflector().metrics().replaces == lists
        };
        until(replaces(1)).await.unwrap();
        let whole = factory.informer::<ConfigMap>();
        until(replaces(2)).await.unwrap();
        assert!(!whole.has_synced(), "{queue:?}, {mode:?}");
        drop(release);
        whole.wait_for_sync_until(soon()).await.unwrap();
        assert_eq!(whole.snapshot().unwrap().len(), MAPS, "{queue:?}, {mode:?}");
        factory.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

/// A handler of metadata that is added during the switch syncs, also if whole objects cannot be listed.
// contract: F-16b, F-16l
#[tokio::test]
async fn metadata_handler_syncs_during_switch() {
    let server = two_maps().await;
    let factory = factory(&server);
    let metadata = factory.metadata::<ConfigMap>();
    let early = metadata.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    for verb in [Verb::List, Verb::Watch] {
        server.faults().inject(Fault::forbidden().on(verb).resource("configmaps").always());
    }
    let maps = factory.informer::<ConfigMap>();
    let whole = maps.handler().for_each(|_| {}).unwrap();
    let (late, stream) = (metadata.handler().for_each(|_| {}).unwrap(), metadata.stream().unwrap());
    for registration in [&early, &late] {
        tokio::time::timeout_at(soon(), registration.synced()).await.unwrap().unwrap();
    }
    assert!(!whole.has_synced() && !maps.has_synced());
    let events = stream.take(2).collect::<Vec<_>>();
    assert_eq!(tokio::time::timeout_at(soon(), events).await.unwrap().len(), 2);
    server.faults().clear();
    tokio::time::timeout_at(soon(), whole.synced()).await.unwrap().unwrap();
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}
