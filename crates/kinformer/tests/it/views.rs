//! One informer for a resource, read as several types.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{builder, config_map, factory, server, soon, synced, version, watches};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{
    Added, Decode, Deleted, Event, FieldPath, LabelSelector, Packed, PackedObject, PackedRef, PartId,
    SharedInformerFactory, Snapshot, Updated, WatchListMode,
};
use kinformer_testing::scripted_http::{Answer, in_process_client};
use kube_core::DynamicObject;
use kube_core::discovery::{ApiResource, Scope};
use kube_core::gvk::GroupVersionResource;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

fn maps() -> ApiResource {
    ApiResource::erase::<ConfigMap>(&())
}

/// The events that a test received, in order.
type Received = Arc<Mutex<Vec<String>>>;

fn described(event: &Event<impl Deref<Target = PackedObject>>) -> String {
    match event {
        Event::Added(Added { object, in_initial_list, .. }) => {
            format!("+{} {in_initial_list}", object.name())
        }
        Event::Updated(Updated { new, .. }) => format!("={}", new.name()),
        Event::Deleted(Deleted { tombstone, .. }) => format!("-{}", tombstone.key().name()),
        _ => "?".to_owned(),
    }
}

/// Typed objects, dynamic objects and metadata are views of one informer.
// contract: F-12a, F-12b, F-12c, F-13a, F-13b
#[tokio::test]
async fn all_types_are_views_of_one_informer() {
    let server = server().await;
    for (name, value) in [("a", "1"), ("b", "2")] {
        server.create(config_map("default", name, value)).unwrap();
    }
    let factory = factory(&server);
    let typed = factory.core().v1().config_maps();
    let dynamic = factory.dynamic(maps(), Scope::Namespaced);
    let metadata = factory.metadata::<ConfigMap>();
    typed.index_by_field("value", &["data", "key"]).unwrap();
    dynamic
        .index("again", |map, values| {
            let map = map.decode()?;
            values.push(map.data["data"]["key"].as_str().unwrap_or_default());
            Ok(())
        })
        .unwrap();

    let received: [Received; 4] = Default::default();
    let [one, two, three, four] = received.clone();
    let blocking = typed.handler().for_each(move |event| one.lock().push(described(&event))).unwrap();
    let inline = dynamic
        .handler()
        .filter(|map| map.label("value") == Some("2"))
        .inline()
        .for_each(move |event| two.lock().push(described(&event)))
        .unwrap();
    let asynchronous = metadata
        .handler()
        .for_each_async(move |event| {
            let three = three.clone();
            async move {
                tokio::task::yield_now().await;
                three.lock().push(described(&event));
            }
        })
        .unwrap();
    let mut stream = typed.stream().unwrap();
    synced(&factory).await;
    watches(&server, 1).await;
    assert_eq!(factory.wait_for_cache_sync().await.iter().count(), 1);
    for handler in [&blocking, &inline, &asynchronous] {
        handler.synced().until(soon()).await.unwrap();
    }
    for _ in 0..2 {
        let event = stream.next().await.unwrap();
        four.lock().push(described(&event));
    }
    for received in &received {
        received.lock().sort();
    }
    let all = ["+a true", "+b true"];
    assert_eq!(
        received.each_ref().map(|received| received.lock().clone()),
        [&all[..], &all[1..], &all, &all]
    );

    let object = typed.lister().namespace("default").get("a").unwrap();
    assert_eq!(object.decode().unwrap().data.as_ref().unwrap()["key"], "1");
    let as_dynamic = dynamic.lister().get(("default", "a")).unwrap();
    assert_eq!(as_dynamic.decode().unwrap().data["data"]["key"], "1");
    assert_eq!(
        metadata.lister().get(("default", "a")).unwrap().decode().unwrap().metadata.name.as_deref(),
        Some("a")
    );
    assert!(Arc::ptr_eq(object.object(), as_dynamic.object()), "it is stored once");
    for snapshot in [typed.dynamic().snapshot().unwrap(), dynamic.snapshot().unwrap()] {
        assert_eq!(snapshot.by_index("value", "2").unwrap()[0].name(), "b");
        assert_eq!(snapshot.by_index("again", "2").unwrap().len(), 1);
    }
    let selector: LabelSelector = "value=2".parse().unwrap();
    assert_eq!(dynamic.lister().list(&selector).unwrap().len(), 1);

    // A handler of one view belongs to the informer.
    assert!(metadata.remove_handler(&blocking).await);
    let changed = server.update(config_map("default", "b", "2")).unwrap();
    dynamic.wait_for(PartId::ONLY, &version(&changed)).until(soon()).await.unwrap();
    factory.shutdown().await.unwrap();
    watches(&server, 0).await;
    server.shutdown().await;
}

/// A custom type with some of the fields.
#[derive(Deserialize)]
struct Trimmed {
    data: std::collections::BTreeMap<String, String>,
}

// contract: F-12a
#[tokio::test]
async fn custom_type_is_another_view() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps().cast::<Trimmed>();
    synced(&factory).await;
    assert_eq!(maps.lister().get(("default", "a")).unwrap().decode().unwrap().data["key"], "1");
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-13c
#[tokio::test]
async fn metadata_alone_fetches_nothing_else() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let metadata = factory.metadata::<ConfigMap>();
    synced(&factory).await;
    let object = metadata.lister().get(("default", "a")).unwrap();
    assert_eq!(object.decode().unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(object.label("value"), Some("1"));
    let as_dynamic: Packed<DynamicObject> = object.cast();
    assert!(as_dynamic.decode().unwrap().data.get("data").is_none());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// An object that does not decode on arrival is counted and stored, and other types can read it.
// contract: F-14d, F-14f, F-14h, F-14i
#[tokio::test]
async fn undecodable_object_is_counted_and_stored() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = builder(&server).decode::<ConfigMap>(Decode::OnArrival).build();
    // As a type that no object of the kind decodes as.
    let numbers = factory.core().v1().namespaces().cast::<u8>();
    numbers.decode_on_arrival();
    let maps = factory.core().v1().config_maps();
    synced(&factory).await;
    let namespaces = factory.core().v1().namespaces();
    assert_eq!(
        (numbers.status().undecoded(), namespaces.snapshot().unwrap().len()),
        (namespaces.snapshot().unwrap().len() as u64, namespaces.snapshot().unwrap().len())
    );
    assert!(numbers.snapshot().unwrap().iter().all(|object| object.decode().is_err()));
    assert!(namespaces.snapshot().unwrap().iter().all(|object| object.decode().is_ok()));
    let map = maps.lister().get(("default", "a")).unwrap();
    assert!(map.is_decoded() && maps.status().undecoded() == 0);
    let (first, second) = (map.decode().unwrap(), map.decode().unwrap());
    assert!(std::ptr::eq(&raw const *first, &raw const *second));

    // Objects of the watch are decoded as well.
    let created = server.create(config_map("default", "c", "3")).unwrap();
    maps.wait_for(PartId::ONLY, &version(&created)).until(soon()).await.unwrap();
    assert!(maps.lister().get(("default", "c")).unwrap().is_decoded());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Decoding on arrival can be requested at any time, and applies to all views.
// contract: F-14a, F-08b
#[tokio::test]
async fn decode_on_arrival_applies_to_all_views() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    synced(&factory).await;
    assert!(!maps.lister().get(("default", "a")).unwrap().is_decoded());
    factory.core().v1().config_maps().decode_on_arrival();
    assert!(maps.lister().get(("default", "a")).unwrap().is_decoded());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-15a, F-15b
#[tokio::test]
async fn every_view_reads_the_transformed_object() {
    let server = server().await;
    for (name, value) in [("a", "1"), ("b", "2")] {
        server.create(config_map("default", name, value)).unwrap();
    }
    let factory = builder(&server)
        .transform::<ConfigMap>(|map| {
            map.data = None;
            Ok(())
        })
        .transform_packed::<ConfigMap>(|map| match map.name() {
            "b" => Err("refused".into()),
            _ => Ok(map),
        })
        .build();
    let metadata = factory.metadata::<ConfigMap>();
    let dynamic = factory.dynamic(maps(), Scope::Namespaced);
    let maps = factory.informer::<ConfigMap>();
    synced(&factory).await;
    watches(&server, 1).await;
    assert_eq!(
        maps.snapshot().unwrap().keys().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["default/a"]
    );
    let object = dynamic.lister().get(("default", "a")).unwrap();
    assert!(object.decode().unwrap().data.get("data").is_none());
    assert_eq!(object.label("value"), Some("1"));
    assert_eq!(maps.lister().get(("default", "a")).unwrap().decode().unwrap().data, None);
    assert_eq!(metadata.snapshot().unwrap().len(), 1);
    let bytes = String::from_utf8_lossy(&object.encoded()).into_owned();
    assert!(!bytes.contains("\"key\""), "{bytes}");
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: L-28a
#[tokio::test]
async fn typed_transform_keeps_the_record() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let data = FieldPath::new(&["data"]);
    let labels = FieldPath::new(&["metadata", "labels"]);
    let without_labels = labels.clone();
    let factory = builder(&server)
        .drop_fields::<ConfigMap>([data.clone()])
        .transform_packed::<ConfigMap>(move |map| Ok(map.without_fields(&[&without_labels])?))
        .transform::<ConfigMap>(|map| {
            map.immutable = Some(true);
            Ok(())
        })
        .build();
    let maps = factory.informer::<ConfigMap>();
    synced(&factory).await;
    let map = maps.lister().get(("default", "a")).unwrap();
    assert_eq!(map.decode().unwrap().immutable, Some(true));
    assert_eq!(map.dropped_fields(), [data, labels]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Reads of `keep + 1` objects leave `keep` of them decoded, whatever namespaces and transforms there are.
// contract: F-22
#[tokio::test]
async fn transform_results_stay_decoded_as_set() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.create(namespace).unwrap();
        server.create(config_map(name, name, "1")).unwrap();
    }
    let divided = |server| builder(server).namespaces(["a", "b", "c"]);
    for keep in [0, 2] {
        let decode = Decode::OnRead { keep };
        let changed = |map: &mut ConfigMap| {
            map.immutable = Some(true);
            Ok(())
        };
        let factories = [
            builder(&server).decode::<ConfigMap>(decode),
            builder(&server).transform_packed::<ConfigMap>(Ok).decode::<ConfigMap>(decode),
            builder(&server).transform::<ConfigMap>(changed).decode::<ConfigMap>(decode),
            builder(&server).decode::<ConfigMap>(decode).transform(changed).transform(changed),
            divided(&server).decode::<ConfigMap>(decode),
            divided(&server).transform_packed::<ConfigMap>(Ok).decode::<ConfigMap>(decode),
            divided(&server).transform::<ConfigMap>(changed).decode::<ConfigMap>(decode),
        ];
        for (number, factory) in factories.into_iter().enumerate() {
            let factory = factory.build();
            let maps = factory.informer::<ConfigMap>();
            synced(&factory).await;
            let all = maps.snapshot().unwrap();
            all.for_each(|map| drop(map.decode().unwrap()));
            let decoded = all.iter().filter(|map| map.is_decoded()).count();
            assert_eq!(decoded, keep, "transforms {number}");
            factory.shutdown().await.unwrap();
        }
    }
    server.shutdown().await;
}

// contract: F-12b
#[tokio::test]
async fn repeated_requests_list_once() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let informers: Vec<_> = (0..10).map(|_| factory.informer::<ConfigMap>()).collect();
    synced(&factory).await;
    assert!(informers.iter().all(|informer| informer.snapshot().unwrap().len() == 1));
    watches(&server, 1).await;
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-03b
#[tokio::test]
async fn resource_without_a_type_has_options() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let by_name = GroupVersionResource::gvr("", "v1", "configmaps");
    let factory = builder(&server)
        .resource(&by_name, |maps| {
            let maps = maps.drop_fields([FieldPath::new(&["data"])]).resync(Duration::from_secs(3600));
            maps.decode::<DynamicObject>(Decode::OnArrival)
        })
        // The resource has one set of options, by its name and by its type.
        .transform::<ConfigMap>(|map| {
            map.immutable = Some(true);
            Ok(())
        })
        .build();
    let maps = factory.dynamic(maps(), Scope::Namespaced);
    let handler = maps.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    handler.synced().until(soon()).await.unwrap();
    let map = maps.lister().get(("default", "a")).unwrap();
    assert!(map.is_decoded());
    let decoded = map.decode().unwrap();
    assert_eq!((decoded.data.get("data"), &decoded.data["immutable"]), (None, &true.into()));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The differences as sorted text: `+a`, `=a 1>2`, `-a`.
fn differences(earlier: &Snapshot<ConfigMap>, later: &Snapshot<ConfigMap>) -> Vec<String> {
    let value = |map: PackedRef<'_, ConfigMap>| map.decode().unwrap().data.as_ref().unwrap()["key"].clone();
    let mut found: Vec<_> = later
        .changes_since(earlier)
        .map(|change| match (change.old, change.new) {
            (Some(old), Some(new)) => format!("={} {}>{}", new.name(), value(old), value(new)),
            (None, Some(new)) => format!("+{}", new.name()),
            (Some(old), None) => format!("-{}", old.name()),
            (None, None) => "?".to_owned(),
        })
        .collect();
    found.sort();
    found
}

// contract: F-18a
#[tokio::test]
async fn snapshots_differ_by_the_writes_in_between() {
    let server = server().await;
    for name in ["changed", "gone", "same"] {
        server.create(config_map("default", name, "1")).unwrap();
    }
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    synced(&factory).await;
    let earlier = maps.snapshot().unwrap();
    for value in ["2", "3"] {
        server.update(config_map("default", "changed", value)).unwrap();
    }
    server.delete("v1", "ConfigMap", "default", "gone").unwrap();
    server.create(config_map("default", "passing", "1")).unwrap();
    server.delete("v1", "ConfigMap", "default", "passing").unwrap();
    let last = server.create(config_map("default", "new", "1")).unwrap();
    maps.wait_for(PartId::ONLY, &version(&last)).until(soon()).await.unwrap();
    let later = maps.snapshot().unwrap();
    assert_eq!(differences(&earlier, &later), ["+new", "-gone", "=changed 1>3"]);
    assert_eq!(differences(&later, &earlier), ["+gone", "-new", "=changed 3>1"]);
    assert!(differences(&later, &later.clone()).is_empty());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A watch that repeats a stored state stores it again, but changes nothing.
// contract: F-18a
#[tokio::test(start_paused = true)]
async fn repeated_event_is_no_difference() {
    let map = |name, version: &str| {
        let mut map = config_map("default", name, "1");
        map["metadata"]["resourceVersion"] = version.into();
        map["metadata"]["uid"] = name.into();
        map
    };
    let line = |object| format!("{}\n", json!({"type": "MODIFIED", "object": object}));
    let (send, events) = mpsc::channel(1);
    let mut events = Some(events);
    let (client, _) = in_process_client(move |request| match events.take_if(|_| request.is_watch()) {
        Some(events) => Answer::watch([]).then_received(events),
        None if request.is_watch() => Answer::never(),
        None => Answer::json(&json!({
            "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"},
            "items": [map("a", "5"), map("b", "4")],
        })),
    });
    let factory = SharedInformerFactory::builder(client)
        .reflector(|options| options.watch_list(WatchListMode::Off))
        .build();
    let maps = factory.informer::<ConfigMap>();
    synced(&factory).await;
    let earlier = maps.snapshot().unwrap();
    send.send((line(map("a", "5")) + &line(map("b", "6"))).into()).await.unwrap();
    maps.wait_for(PartId::ONLY, &6.into()).until(soon()).await.unwrap();
    let later = maps.snapshot().unwrap();
    let stored = |snapshot: &Snapshot<ConfigMap>| snapshot.get(("default", "a")).unwrap().object().clone();
    assert!(!Arc::ptr_eq(&stored(&earlier), &stored(&later)), "stored again");
    assert_eq!(differences(&earlier, &later), ["=b 1>1"]);
    factory.shutdown().await.unwrap();
}
