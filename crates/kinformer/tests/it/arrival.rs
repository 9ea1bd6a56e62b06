//! Decoding on arrival.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{builder, config_map, factory, server, soon, synced, version};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::{Added, Decode, Deleted, Event, FieldPath, PartId, SourceError};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};

// contract: F-14b, F-15a
#[tokio::test]
async fn transform_result_is_decoded() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = builder(&server)
        .decode::<ConfigMap>(Decode::OnArrival)
        .transform::<ConfigMap>(|map| {
            map.data = None;
            Ok(())
        })
        .build();
    let maps = factory.core().v1().config_maps();
    maps.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    let created = server.create(config_map("default", "b", "2")).unwrap();
    maps.wait_for(PartId::ONLY, &version(&created)).until(soon()).await.unwrap();
    for name in ["a", "b"] {
        let map = maps.lister().get(("default", name)).unwrap();
        assert!(map.is_decoded(), "{name}");
        assert_eq!(map.decode().unwrap().data, None, "{name}");
    }
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Objects that have arrived and are not stored yet when decoding on arrival is requested.
// contract: F-14a
#[tokio::test]
async fn objects_between_arrival_and_store_are_decoded() {
    #[derive(Deserialize)]
    struct Numbers {
        #[serde(rename = "data")]
        _data: BTreeMap<String, u64>,
    }

    let server = server().await;
    for name in ["a", "b"] {
        server.create(config_map("default", name, name)).unwrap();
    }
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    let informer = maps.cast::<Numbers>();
    // Index functions run between the two.
    maps.index("requests", move |_, _| {
        informer.decode_on_arrival();
        Ok(())
    })
    .unwrap();
    synced(&factory).await;
    assert_eq!(maps.status().undecoded(), 2);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Of several calls, the last one is used.
// contract: F-03b
#[tokio::test]
async fn last_decode_option_is_used() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let (read, arrival) = (Decode::OnRead { keep: 1 }, Decode::OnArrival);
    for (first, last, decoded) in [(arrival, read, false), (read, arrival, true)] {
        let factory = builder(&server).decode::<ConfigMap>(first).decode::<ConfigMap>(last).build();
        let maps = factory.core().v1().config_maps();
        synced(&factory).await;
        assert_eq!(maps.lister().get(("default", "a")).unwrap().is_decoded(), decoded, "{first:?} {last:?}");
        factory.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

// contract: F-14c
#[tokio::test]
async fn final_state_of_a_deletion_is_not_decoded() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = builder(&server).decode::<ConfigMap>(Decode::OnArrival).build();
    let maps = factory.core().v1().config_maps();
    let mut events = maps.stream().unwrap();
    synced(&factory).await;
    let Some(Event::Added(Added { object, .. })) = events.next().await else { panic!("it was not added") };
    assert!(object.is_decoded());
    server.delete("v1", "ConfigMap", "default", "a").unwrap();
    let Some(Event::Deleted(Deleted { tombstone, .. })) = events.next().await else {
        panic!("it was not deleted")
    };
    assert!(!tombstone.object().unwrap().is_decoded());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A type whose decoding panics for one value.
struct Panicking;

impl<'de> Deserialize<'de> for Panicking {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Map {
            data: BTreeMap<String, String>,
        }

        let map = Map::deserialize(deserializer)?;
        assert!(map.data["key"] != "panic", "a type that panics");
        Ok(Self)
    }
}

// contract: F-14d, F-14f, F-14h
#[tokio::test]
async fn panicking_decoder_is_reported_without_loss() {
    let server = server().await;
    for (name, value) in [("a", "1"), ("b", "panic"), ("c", "3")] {
        server.create(config_map("default", name, value)).unwrap();
    }
    let reported = Arc::<Mutex<Vec<String>>>::default();
    let hook = reported.clone();
    let factory = builder(&server)
        .on_error(move |failure| {
            let SourceError::Undecodable(error) = failure.error else { return };
            let key = error.key.as_ref().unwrap();
            hook.lock().push(format!("{} {key} {error}", failure.reflector));
        })
        .build();
    let maps = factory.core().v1().config_maps().cast::<Panicking>();
    maps.decode_on_arrival();
    synced(&factory).await;
    assert_eq!((maps.snapshot().unwrap().len(), maps.status().undecoded()), (3, 1));
    let created = server.create(config_map("default", "d", "panic")).unwrap();
    maps.wait_for(PartId::ONLY, &version(&created)).until(soon()).await.unwrap();
    assert_eq!((maps.snapshot().unwrap().len(), maps.status().undecoded()), (4, 2));
    assert!(maps.lister().get(("default", "c")).unwrap().is_decoded());
    let as_another_type = maps.cast::<ConfigMap>().lister().get(("default", "d")).unwrap();
    assert!(as_another_type.decode().is_ok());
    let reported = reported.lock().clone();
    assert_eq!(reported.len(), 2, "{reported:?}");
    for (report, key) in reported.iter().zip(["default/b", "default/d"]) {
        assert!(report.starts_with(&format!("configmaps {key}")), "{report}");
        assert!(report.contains("a type that panics"), "{report}");
    }
    assert_eq!(maps.status().parts()[0].reflector().metrics().relists, 0, "no batch was lost");
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The log of this thread: the message and the fields of each event, one a line.
#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for LogLines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Line(String);
        impl tracing::field::Visit for Line {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        self.0.lock().push(line.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// An object that does not decode on arrival is logged, and handlers receive it.
// contract: F-14e, F-14g
#[tokio::test]
async fn undecodable_object_is_logged_and_delivered() {
    let log = LogLines::default();
    let _logs = kinformer_testing::logs::set_default(log.clone());
    let server = server().await;
    for (name, value) in [("a", "1"), ("b", "panic")] {
        server.create(config_map("default", name, value)).unwrap();
    }
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps().cast::<Panicking>();
    maps.decode_on_arrival();
    let mut events = maps.stream().unwrap();
    synced(&factory).await;
    let mut delivered = Vec::new();
    for _ in 0..2 {
        let Some(Event::Added(Added { object, .. })) = events.next().await else { panic!("not added") };
        delivered.push((object.key().name().to_owned(), object.is_decoded()));
    }
    delivered.sort();
    assert_eq!(delivered, [("a".to_owned(), true), ("b".to_owned(), false)]);
    let logged = log.0.lock().clone();
    let logged: Vec<_> = logged.iter().filter(|line| line.contains("not decoded on arrival")).collect();
    assert_eq!(logged.len(), 1, "{logged:?}");
    for part in ["WARN", "key=default/b", "a type that panics", "configmaps"] {
        assert!(logged[0].contains(part), "{logged:?}");
    }
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-14j
#[tokio::test]
async fn other_types_read_objects_decoded_on_arrival() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.core().v1().config_maps();
    maps.metadata().decode_on_arrival();
    // The first type counts.
    maps.decode_on_arrival();
    synced(&factory).await;
    let map = maps.lister().get(("default", "a")).unwrap();
    let (one, other) = (map.decode().unwrap(), map.decode().unwrap());
    assert_eq!(one.data.as_ref().unwrap()["key"], "1");
    // The value is shared while it is held, as with decoding on read.
    assert!(std::ptr::eq(&raw const *one, &raw const *other));
    let metadata = maps.metadata().lister().get(("default", "a")).unwrap();
    assert_eq!(metadata.decode().unwrap().metadata.name.as_deref(), Some("a"));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The name of an object stays, and the log says so.
// contract: L-28d
#[tokio::test]
async fn identifying_field_is_not_dropped() {
    let log = LogLines::default();
    let _logs = kinformer_testing::logs::set_default(log.clone());
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let fields = [FieldPath::new(&["metadata", "name"]), FieldPath::new(&["data"])];
    let factory = builder(&server).drop_fields::<ConfigMap>(fields).build();
    let maps = factory.informer::<ConfigMap>();
    synced(&factory).await;
    let map = maps.lister().get("default/a").unwrap();
    assert_eq!(
        (map.decode().unwrap().metadata.name.as_deref(), &map.decode().unwrap().data),
        (Some("a"), &None)
    );
    let logged = log.0.lock().clone();
    let logged: Vec<_> = logged.iter().filter(|line| line.contains("is not dropped")).collect();
    let [line] = logged[..] else { panic!("{logged:?}") };
    assert!(line.contains("resource=configmaps") && line.contains("field=metadata.name"), "{line}");
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}
