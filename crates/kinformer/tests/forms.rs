//! Objects that are packed and objects that are decoded at once, of one factory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

mod common;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Form, builder, config_map, factory, server, soon, synced, version, watches};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinformer::{
    EagerObjects, Encoding, Event, FieldPath, Object, Objects, Packed, PackedObjects, Phase,
    SharedIndexInformer, SharedInformerFactory, Transform, index_by_field,
};
use kinformer_apiserver::{ApiServer, ProtobufAnswers};
use kinformer_store::Indexer;
use kube_core::Resource;
use kube_core::gvk::GroupVersionKind;
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

// contract: F-08
#[tokio::test]
async fn both_forms_are_of_one_factory() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = builder(&server).named("mine").build();
    let eager = factory.eager();
    let maps: SharedIndexInformer<Packed<ConfigMap>> = factory.core().v1().config_maps().informer();
    let decoded: SharedIndexInformer<ConfigMap> = eager.core().v1().config_maps().informer();
    let metadata = eager.metadata::<ConfigMap>().informer();
    // Whichever is started, and waited for, it is all of them.
    eager.start().unwrap();
    let report = factory.wait_for_cache_sync_until(soon()).await;
    let names: Vec<_> = report.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["mine/configmaps", "mine/configmaps (eager)", "mine/configmaps (metadata)"]);
    assert!(report.all_synced());
    assert_eq!([maps.resource(), decoded.resource(), metadata.resource()], ["configmaps"; 3]);
    watches(&server, 3).await;
    assert_eq!(
        maps.get_by_key(("default", "a")).unwrap().typed().unwrap().data.as_ref().unwrap()["key"],
        "1"
    );
    assert_eq!(decoded.get_by_key(("default", "a")).unwrap().data.as_ref().unwrap()["key"], "1");

    // In either form it is found again.
    let handler = maps.handler().for_each(|_| {}).unwrap();
    let again = eager.packed().informer_for::<ConfigMap>();
    assert!(again.remove_handler(&handler).await);
    let handler = decoded.handler().for_each(|_| {}).unwrap();
    assert!(factory.eager().generic::<ConfigMap>().informer().remove_handler(&handler).await);

    factory.shutdown().await.unwrap();
    assert!(eager.is_shut_down());
    assert_eq!([maps.phase(), decoded.phase(), metadata.phase()], [Phase::Stopped; 3]);
    assert_eq!(eager.informer_for::<Node>().phase(), Phase::Stopped);
    watches(&server, 0).await;
    server.shutdown().await;
}

// contract: F-08
#[tokio::test]
async fn the_informers_end_with_the_last_view_of_the_factory() {
    let server = server().await;
    let factory = factory(&server);
    let eager = factory.eager();
    drop(factory);
    let maps = eager.informer_for::<ConfigMap>();
    synced(&eager).await;
    assert_eq!(maps.phase(), Phase::Running);
    drop(eager);
    tokio::time::timeout_at(soon(), maps.stopped()).await.unwrap();
    server.shutdown().await;
}

/// Written once, for both.
fn keys_with<O: Objects>(factory: &SharedInformerFactory<O>, value: &str) -> Vec<String> {
    use kinformer::Typed as _;
    let is = |map: &O::Of<ConfigMap>| {
        map.typed().unwrap().data.as_ref().is_some_and(|data| data.get("key").is_some_and(|key| key == value))
    };
    let maps = factory.core().v1().config_maps().informer().snapshot();
    maps.ordered().into_iter().filter(|map| is(map)).map(|map| map.key().to_string()).collect()
}

// contract: F-08
#[tokio::test]
async fn what_is_written_once_reads_both() {
    reads::<PackedObjects>().await;
    reads::<EagerObjects>().await;
}

async fn reads<O: Form>() {
    use kinformer::Typed as _;
    let server = server().await;
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "2")] {
        server.create(config_map("default", name, value)).unwrap();
    }
    let factory = O::of(factory(&server));
    let maps = factory.core().v1().config_maps().informer();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let handler = maps.handler().for_each(move |event: &Event<Arc<O::Of<ConfigMap>>>| {
        let data = event.object().and_then(|map| (**map).typed().unwrap().data.clone());
        tell.lock().extend(data.and_then(|data| data.get("key").cloned()));
    });
    let handler = handler.unwrap();
    synced(&factory).await;
    handler.synced_until(soon()).await.unwrap();
    told.lock().sort();
    assert_eq!(told.lock()[..], ["1", "2", "2"]);
    assert_eq!(keys_with(&factory, "2"), ["default/b", "default/c"]);
    let changed = server.update(config_map("default", "b", "3")).unwrap();
    maps.wait_for_until(&version(&changed), soon()).await.unwrap();
    assert_eq!(keys_with(&factory, "2"), ["default/c"]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-08, F-03
#[tokio::test]
async fn resyncs_are_for_a_kind_and_transforms_for_a_form() {
    let server = server().await;
    for name in ["a", "b"] {
        server.create(config_map("default", name, "1")).unwrap();
    }
    let without_b = Transform::new(|map: Arc<Packed<ConfigMap>>| match map.key().name() {
        "b" => Err("not wanted".into()),
        _ => Ok(map),
    });
    let without_data = Transform::in_place(|map: &mut ConfigMap| {
        map.data = None;
        Ok(())
    });
    let factory = builder(&server)
        .resync_for::<ConfigMap>(Duration::from_secs(60))
        .transform(without_b)
        .transform(without_data)
        .build();
    let (maps, decoded) = (factory.informer_for::<ConfigMap>(), factory.eager().informer_for::<ConfigMap>());
    for period in [
        maps.handler().for_each(|_| {}).unwrap().resync_period(),
        decoded.handler().for_each(|_| {}).unwrap().resync_period(),
    ] {
        assert_eq!(period, Some(Duration::from_secs(60)));
    }
    synced(&factory).await;
    let keys: Vec<_> = maps.store().list().iter().map(|map| map.key().to_string()).collect();
    assert_eq!(keys, ["default/a"]);
    assert!(maps.get_by_key(("default", "a")).unwrap().typed().unwrap().data.is_some());
    assert_eq!(decoded.store().len(), 2);
    assert!(decoded.store().list().iter().all(|map| map.data.is_none()));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: L-14, F-03
#[tokio::test]
async fn what_is_cut_is_cut_in_both_forms() {
    let server = server().await;
    let mut map = config_map("default", "a", "1");
    map["metadata"]["annotations"] = json!({"long": "text"});
    server.create(map).unwrap();
    let factory = builder(&server)
        .drop_fields::<ConfigMap>([FieldPath::new(&["metadata", "annotations"])])
        .drop_fields::<ConfigMap>([FieldPath::new(&["data", "key"])])
        .drop_fields::<Node>([FieldPath::new(&["metadata", "labels"])])
        .decoded_cache_size_for::<ConfigMap>(0)
        .build();
    let maps = factory.informer_for::<ConfigMap>();
    let decoded = factory.eager().informer_for::<ConfigMap>();
    synced(&factory).await;
    let packed = maps.get_by_key(("default", "a")).unwrap();
    let typed = packed.typed().unwrap();
    let eager = decoded.get_by_key(("default", "a")).unwrap();
    for map in [&*typed, &*eager] {
        assert_eq!((&map.metadata.annotations, map.label("value")), (&None, Some("1")));
        assert!(map.data.as_ref().is_none_or(|data| data.is_empty()));
    }
    // Nothing stays decoded that nobody holds.
    let before = std::ptr::from_ref(&*typed);
    assert_eq!(before, std::ptr::from_ref(&*packed.typed().unwrap()));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-08, F-05
#[tokio::test]
async fn resources_that_are_named_can_be_packed_too() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let maps = factory.for_kind(&GroupVersionKind::gvk("", "v1", "ConfigMap")).await.unwrap();
    let packed = maps.packed();
    let (plain, again) = (maps.informer(), packed.informer());
    again.add_indexers([("key", index_by_field(&["data", "key"]))]).unwrap();
    synced(&factory).await;
    assert_eq!((plain.name(), again.name()), ("configmaps (dynamic)", "configmaps (dynamic, packed)"));
    assert_eq!(plain.get_by_key(("default", "a")).unwrap().data["data"]["key"], "1");
    let found = again.store().by_index("key", "1").unwrap();
    let typed = found[0].typed().unwrap();
    assert_eq!(typed.data["data"]["key"], "1");
    assert_eq!(typed.types.as_ref().map(|types| types.kind.as_str()), Some("ConfigMap"));
    assert_eq!(
        packed.lister().get("default/b").unwrap_err().to_string(),
        "configmaps \"default/b\" not found"
    );
    watches(&server, 2).await;
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// How many pods were decoded, by each test that counts them.
static DECODED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// A pod that counts.
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

// contract: F-09
#[tokio::test]
async fn an_index_by_a_field_decodes_nothing_else() {
    let server = ApiServer::builder().protobuf(ProtobufAnswers::Offered).start().await.unwrap();
    for number in 0..1000 {
        server.create(pod(&format!("p{number}"), Some(&format!("node-{}", number % 10)))).unwrap();
    }
    server.create(pod("waiting", None)).unwrap();
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let before = DECODED[0].load(Ordering::Relaxed);
        let factory = builder(&server).encoding(encoding).build();
        let pods = factory.informer_for::<Counted<0>>();
        let indexers = [("node", &["spec", "nodeName"]), ("host", &["spec", "hostNetwork"])];
        pods.add_indexers(indexers.map(|(name, path)| (name, index_by_field(path)))).unwrap();
        synced(&factory).await;
        // Of one that is there already, as well.
        pods.add_indexers([("priority", index_by_field(&["spec", "priority"]))]).unwrap();
        let store = pods.snapshot();
        assert_eq!(store.get(("default", "p0")).unwrap().encoding(), encoding);
        assert_eq!(store.index_values("node").unwrap().count(), 10);
        assert_eq!(store.index_len("node", "node-3").unwrap(), 100);
        assert_eq!(store.index_len("host", "true").unwrap(), 1001);
        assert_eq!(store.index_len("priority", "7").unwrap(), 1001);
        let bound = server.create(pod("late", Some("node-3"))).unwrap();
        pods.wait_for_until(&version(&bound), soon()).await.unwrap();
        assert_eq!(pods.store().by_index("node", "node-3").unwrap().len(), 101);
        assert_eq!(DECODED[0].load(Ordering::Relaxed), before, "nobody has read a pod");
        let one = pods.get_by_key(("default", "p0")).unwrap();
        assert_eq!(one.typed().unwrap().0.spec.as_ref().unwrap().node_name.as_deref(), Some("node-0"));
        assert_eq!(DECODED[0].load(Ordering::Relaxed), before + 1);
        factory.shutdown().await.unwrap();
        server.delete("v1", "Pod", "default", "late").unwrap();
    }
    server.shutdown().await;
}

// contract: L-13
#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_decoded_once_for_all_handlers_and_only_if_one_asks() {
    const MANY: usize = 200;
    let decoded = || DECODED[1].load(Ordering::Relaxed);
    let server = ApiServer::builder().protobuf(ProtobufAnswers::Offered).start().await.unwrap();
    for number in 0..MANY {
        server.create(pod(&format!("p{number}"), None)).unwrap();
    }
    let factory = factory(&server);
    let pods = factory.informer_for::<Counted<1>>();
    let told = pods.handler().for_each(|event| assert!(!event.key().name().is_empty())).unwrap();
    synced(&factory).await;
    told.synced().await.unwrap();
    assert_eq!(decoded(), 0, "nobody has asked");
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let read = |event: &Event<Arc<Packed<Counted<1>>>>| {
                let pod = event.object().unwrap().typed().unwrap();
                assert_eq!(pod.0.spec.as_ref().unwrap().priority, Some(7));
            };
            pods.handler().for_each(read).unwrap()
        })
        .collect();
    for reader in &readers {
        reader.synced().await.unwrap();
        assert_eq!((reader.stats().panics, reader.stats().delivered), (0, MANY as u64));
    }
    assert_eq!(decoded(), MANY, "as many as are kept");
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: F-09, L-25
#[tokio::test]
async fn an_index_by_a_field_of_json_in_protobuf_is_the_same_in_both_encodings() {
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
        let revisions = factory.informer_for::<ControllerRevision>();
        let indexers = [
            ("replicas", &["data", "spec", "replicas"][..]),
            ("text", &["data", "text"]),
            ("list", &["data", "spec", "list", "0"]),
        ];
        revisions.add_indexers(indexers.map(|(name, path)| (name, index_by_field(path)))).unwrap();
        synced(&factory).await;
        let store = revisions.snapshot();
        let one = store.get(("default", "r1")).unwrap();
        assert_eq!(one.encoding(), encoding);
        assert_eq!(
            [store.index_len("replicas", "0").unwrap(), store.index_len("replicas", "1").unwrap()],
            [2; 2]
        );
        assert_eq!(store.index_values("text").unwrap().count(), 0, "it was left out");
        assert_eq!(store.index_values("list").unwrap().count(), 0, "no field of a list");
        assert_eq!(one.typed().unwrap().data.0, json!({"spec": {"replicas": 1, "list": [1]}}));
        factory.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

// contract: F-09
#[tokio::test]
async fn a_field_that_is_no_value_is_reported_with_its_object() {
    let server = server().await;
    let mut map = config_map("default", "a", "1");
    map["data"]["\u{e4}\"x"] = "\u{e4}\"y".into();
    server.create(map).unwrap();
    let factory = builder(&server).encoding(Encoding::Json).build();
    let maps = factory.informer_for::<ConfigMap>();
    synced(&factory).await;
    // What JSON has to write in another way is read as it was meant.
    let indexers =
        [("odd", &["data", "\u{e4}\"x"][..]), ("none", &["data", "x"]), ("deep", &["a", "b", "c"])];
    maps.add_indexers(indexers.map(|(name, path)| (name, index_by_field(path)))).unwrap();
    let store = maps.snapshot();
    assert_eq!(store.index_len("odd", "\u{e4}\"y").unwrap(), 1);
    assert_eq!(store.index_values("none").unwrap().count(), 0);
    assert_eq!(store.index_values("deep").unwrap().count(), 0);

    // What is no value is told with the object, which is stored all the same.
    let store = Indexer::builder().index("labels", index_by_field(&["metadata", "labels"])).build().unwrap();
    let report = store.add(maps.get_by_key(("default", "a")).unwrap()).unwrap();
    let told = report.into_result().unwrap_err().to_string();
    assert!(told.contains("\"labels\" failed for default/a") && told.contains("a text, a number"), "{told}");
    assert_eq!(store.len(), 1);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}
