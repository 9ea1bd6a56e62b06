//! Decoding on read and on arrival, and indexes by field.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{
    POLICIES, builder, config_map, factory, factory_with, server, soon, synced, version, watches,
};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer::{Decode, Encoding, Event, FieldPath, PackedRef, PartId};
use kinformer_apiserver::{ApiServer, ProtobufAnswers, Validation};
use kube_core::gvk::GroupVersionKind;
use kube_core::{DynamicObject, Resource};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

// contract: F-08a, F-08c
#[tokio::test]
async fn objects_read_the_same_in_both_decode_modes() {
    for decode in POLICIES {
        reads(decode).await;
    }
}

async fn reads(decode: Decode) {
    let server = server().await;
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "2")] {
        server.create(config_map("default", name, value)).unwrap();
    }
    let factory = factory_with(&server, decode);
    let maps = factory.core().v1().config_maps();
    let received = Arc::new(Mutex::new(Vec::new()));
    let recorder = received.clone();
    let handler = maps.handler().for_each(move |event| {
        let map = event.object().unwrap().decode().unwrap();
        recorder.lock().extend(map.data.as_ref().and_then(|data| data.get("key").cloned()));
    });
    let handler = handler.unwrap();
    synced(&factory).await;
    handler.synced().until(soon()).await.unwrap();
    received.lock().sort();
    assert_eq!(received.lock()[..], ["1", "2", "2"]);
    let with = |value: &str| {
        let now = maps.snapshot().unwrap();
        let objects = now.ordered().into_iter();
        let with = objects.filter(|map| map.decode().unwrap().data.as_ref().unwrap()["key"] == value);
        with.map(|map| map.key().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(with("2"), ["default/b", "default/c"]);
    let changed = server.update(config_map("default", "b", "3")).unwrap();
    maps.wait_for(PartId::ONLY, &version(&changed)).until(soon()).await.unwrap();
    assert_eq!(with("2"), ["default/c"]);
    assert!(maps.lister().get(("default", "a")).unwrap().is_decoded());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-03b
#[tokio::test]
async fn resync_period_is_set_per_kind() {
    let server = server().await;
    let factory = builder(&server).resync_for::<ConfigMap>(Duration::from_secs(60)).build();
    let (maps, dynamic) = (factory.informer::<ConfigMap>(), factory.informer::<ConfigMap>().dynamic());
    for period in [
        maps.handler().for_each(|_| {}).unwrap().resync_period(),
        dynamic.handler().for_each(|_| {}).unwrap().resync_period(),
    ] {
        assert_eq!(period, Some(Duration::from_secs(60)));
    }
    let nodes = factory.informer::<Node>();
    assert_eq!(nodes.handler().for_each(|_| {}).unwrap().resync_period(), None);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: L-14a, F-03b
#[tokio::test]
async fn dropped_field_is_in_no_view() {
    let server = server().await;
    let mut map = config_map("default", "a", "1");
    map["metadata"]["annotations"] = json!({"long": "text"});
    server.create(map).unwrap();
    let factory = builder(&server)
        .drop_fields::<ConfigMap>([FieldPath::new(&["metadata", "annotations"])])
        .drop_fields::<ConfigMap>([FieldPath::new(&["data", "key"])])
        .drop_fields::<Node>([FieldPath::new(&["metadata", "labels"])])
        .decode::<ConfigMap>(Decode::OnRead { keep: 0 })
        .build();
    let maps = factory.informer::<ConfigMap>();
    synced(&factory).await;
    let packed = maps.lister().get(("default", "a")).unwrap();
    let typed = packed.decode().unwrap();
    assert_eq!((&typed.metadata.annotations, packed.label("value")), (&None, Some("1")));
    assert!(typed.data.as_ref().is_none_or(|data| data.is_empty()));
    let dynamic = packed.clone().cast::<DynamicObject>();
    assert_eq!(dynamic.decode().unwrap().metadata.annotations, None);
    // No value stays decoded without a reader.
    let before = std::ptr::from_ref(&*typed);
    assert_eq!(before, std::ptr::from_ref(&*packed.decode().unwrap()));
    drop(typed);
    assert!(!packed.is_decoded());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-05b
#[tokio::test]
async fn discovered_resource_is_indexed_by_field() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.for_kind(&GroupVersionKind::gvk("", "v1", "ConfigMap")).await.unwrap();
    maps.index_by_field("key", &["data", "key"]).unwrap();
    synced(&factory).await;
    assert_eq!(maps.name(), "configmaps");
    let now = maps.snapshot().unwrap();
    let found = now.by_index("key", "1").unwrap();
    let decoded = found[0].decode().unwrap();
    assert_eq!(decoded.data["data"]["key"], "1");
    assert_eq!(decoded.types.as_ref().map(|types| types.kind.as_str()), Some("ConfigMap"));
    assert_eq!(maps.lister().get("default/b").unwrap_err().to_string(), "configmaps \"default/b\" not found");
    let error = maps.lister().by_index("none", "1").unwrap_err().to_string();
    assert!(error.contains("configmaps") && error.contains("none"), "{error}");
    watches(&server, 1).await;
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The number of decoded pods, for each test that counts them.
static DECODED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// A pod that counts how often it is decoded.
#[derive(Clone, Debug)]
struct Counted<const TEST: usize>(Pod);

impl<'de, const TEST: usize> Deserialize<'de> for Counted<TEST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED[TEST].fetch_add(1, Ordering::Relaxed);
        Pod::deserialize(deserializer).map(Self)
    }
}

impl<const TEST: usize> Resource for Counted<TEST> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

fn pod(name: &str, node: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "hostNetwork": true, "priority": 7,
            "containers": [{"name": "main", "image": "none"}]},
    })
}

// contract: F-09a, F-09b
#[tokio::test]
async fn index_by_field_decodes_nothing_else() {
    let server = ApiServer::builder().protobuf(ProtobufAnswers::Offered).start().await.unwrap();
    for number in 0..1000 {
        server.create(pod(&format!("p{number}"), Some(&format!("node-{}", number % 10)))).unwrap();
    }
    server.create(pod("waiting", None)).unwrap();
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let before = DECODED[0].load(Ordering::Relaxed);
        let factory = builder(&server).encoding(encoding).build();
        let pods = factory.informer::<Counted<0>>();
        pods.index_by_field("node", &["spec", "nodeName"]).unwrap();
        pods.index_by_field("host", &["spec", "hostNetwork"]).unwrap();
        synced(&factory).await;
        // Stored objects are indexed as well.
        pods.index_by_field("priority", &["spec", "priority"]).unwrap();
        let store = pods.snapshot().unwrap();
        assert_eq!(store.get(("default", "p0")).unwrap().encoding(), encoding);
        assert_eq!(store.index_values("node").unwrap().len(), 10);
        assert_eq!(store.index_len("node", "node-3").unwrap(), 100);
        assert_eq!(store.index_len("host", "true").unwrap(), 1001);
        assert_eq!(store.index_len("priority", "7").unwrap(), 1001);
        let bound = server.create(pod("late", Some("node-3"))).unwrap();
        pods.wait_for(PartId::ONLY, &version(&bound)).until(soon()).await.unwrap();
        assert_eq!(pods.snapshot().unwrap().by_index("node", "node-3").unwrap().len(), 101);
        assert_eq!(DECODED[0].load(Ordering::Relaxed), before, "no pod was read");
        let one = pods.lister().get(("default", "p0")).unwrap();
        assert_eq!(one.decode().unwrap().0.spec.as_ref().unwrap().node_name.as_deref(), Some("node-0"));
        assert_eq!(DECODED[0].load(Ordering::Relaxed), before + 1);
        factory.shutdown().await.unwrap();
        server.delete("v1", "Pod", "default", "late").unwrap();
    }
    server.shutdown().await;
}

/// An object is decoded once for all handlers, and only if one of them reads it.
// contract: L-13d, L-13e
#[tokio::test(flavor = "multi_thread")]
async fn object_is_decoded_once_for_all_handlers() {
    const MANY: usize = 200;
    let decoded = || DECODED[1].load(Ordering::Relaxed);
    let server = ApiServer::builder().protobuf(ProtobufAnswers::Offered).start().await.unwrap();
    for number in 0..MANY {
        server.create(pod(&format!("p{number}"), None)).unwrap();
    }
    let factory = factory(&server);
    let pods = factory.informer::<Counted<1>>();
    let reads_keys = pods.handler().for_each(|event| assert!(!event.key().name().is_empty())).unwrap();
    synced(&factory).await;
    reads_keys.synced().await.unwrap();
    assert_eq!(decoded(), 0, "no handler has read an object");
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let read = |event: Event<PackedRef<'_, Counted<1>>>| {
                let pod = event.object().unwrap().decode().unwrap();
                assert_eq!(pod.0.spec.as_ref().unwrap().priority, Some(7));
            };
            pods.handler().for_each(read).unwrap()
        })
        .collect();
    for reader in &readers {
        reader.synced().await.unwrap();
        assert_eq!((reader.metrics().panics, reader.metrics().delivered), (0, MANY as u64));
    }
    assert_eq!(decoded(), MANY, "each object is decoded once");
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// An index by a field of JSON within protobuf is the same in both encodings.
// contract: F-09b, L-25b, L-14b
#[tokio::test]
async fn field_index_is_the_same_in_both_encodings() {
    let server = ApiServer::builder().protobuf(ProtobufAnswers::Offered).start().await.unwrap();
    for number in 0..4 {
        let revision = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
            "metadata": {"name": format!("r{number}"), "namespace": "default"},
            "data": {"spec": {"replicas": number % 2, "list": [1]}, "text": "t"},
        });
        server.create(revision).unwrap();
    }
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let factory = builder(&server)
            .encoding(encoding)
            .drop_fields::<ControllerRevision>([FieldPath::new(&["data", "text"])])
            .build();
        let revisions = factory.informer::<ControllerRevision>();
        let indexers = [
            ("replicas", &["data", "spec", "replicas"][..]),
            ("text", &["data", "text"]),
            ("list", &["data", "spec", "list", "0"]),
        ];
        for (name, path) in indexers {
            revisions.index_by_field(name, path).unwrap();
        }
        synced(&factory).await;
        let store = revisions.snapshot().unwrap();
        let one = store.get(("default", "r1")).unwrap();
        assert_eq!(one.encoding(), encoding);
        assert_eq!(
            [store.index_len("replicas", "0").unwrap(), store.index_len("replicas", "1").unwrap()],
            [2; 2]
        );
        assert_eq!(store.index_values("text").unwrap().len(), 0, "the field was dropped");
        assert_eq!(store.index_values("list").unwrap().len(), 0, "no field of a list");
        assert_eq!(one.decode().unwrap().data.0, json!({"spec": {"replicas": 1, "list": [1]}}));
        factory.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

/// A field that is no string, number or boolean is reported with its object.
// contract: F-09c
#[tokio::test]
async fn field_without_a_value_is_reported() {
    let server = ApiServer::builder().validation(Validation::Off).start().await.unwrap();
    let mut map = config_map("default", "a", "1");
    map["data"]["\u{e4}\"x"] = "\u{e4}\"y".into();
    server.create(map).unwrap();
    let factory = builder(&server).encoding(Encoding::Json).build();
    let maps = factory.informer::<ConfigMap>();
    synced(&factory).await;
    // Escaped names and values are compared unescaped.
    let indexers =
        [("odd", &["data", "\u{e4}\"x"][..]), ("none", &["data", "x"]), ("deep", &["a", "b", "c"])];
    for (name, path) in indexers {
        maps.index_by_field(name, path).unwrap();
    }
    let store = maps.snapshot().unwrap();
    assert_eq!(store.index_len("odd", "\u{e4}\"y").unwrap(), 1);
    assert_eq!(store.index_values("none").unwrap().len(), 0);
    assert_eq!(store.index_values("deep").unwrap().len(), 0);

    // An object without a value is stored, and is in no value of the index.
    maps.index_by_field("labels", &["metadata", "labels"]).unwrap();
    let store = maps.snapshot().unwrap();
    assert_eq!((store.len(), store.index_values("labels").unwrap().len()), (1, 0));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}
