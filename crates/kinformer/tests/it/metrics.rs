//! Informers of factories on one page of metrics.

use std::collections::BTreeMap;

use crate::common::{config_map, factory, server, soon, synced, version};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kinformer::prometheus::InformerCollector;
use kinformer::{Informer, PartId, SharedInformerFactory, SharedInformerFactoryBuilder};
use kube_core::discovery::{ApiResource, Scope};
use prometheus_client::{encoding::text, registry::Registry};
use serde::Deserialize;

/// A builder of factories that send no request.
fn builder() -> SharedInformerFactoryBuilder {
    let config = kube_client::Config::new("http://127.0.0.1:1".parse().unwrap());
    SharedInformerFactory::builder(kinformer::client(config).unwrap())
}

/// The labels of the informers on the page, and their values of a metric.
fn lines(collector: &InformerCollector, metric: &str) -> Vec<String> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector.clone()));
    let mut page = String::new();
    text::encode(&mut page, &registry).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix(metric));
    lines.map(str::to_owned).collect()
}

fn labels(collector: &InformerCollector) -> Vec<String> {
    lines(collector, "informer_objects")
}

/// The memory of the objects in a store follows it, and is absent if it is unknown.
// contract: I-30
#[tokio::test]
async fn memory_of_the_stored_objects_is_a_metric() {
    let server = server().await;
    server.create(config_map("default", "a", "1")).unwrap();
    let factory = factory(&server);
    let (maps, collector) = (factory.informer::<ConfigMap>(), InformerCollector::new());
    maps.add_to(&collector).unwrap();
    let page = || lines(&collector, "informer_bytes{");
    assert_eq!(page(), [r#"name="configmaps",resource="configmaps"} 0"#]);
    maps.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    let created = server.create(config_map("default", "b", &"2".repeat(1_000))).unwrap();
    maps.wait_for(PartId::ONLY, &version(&created)).until(soon()).await.unwrap();
    // Beside its bytes an object has the positions of its namespace, its name, its UID and its labels.
    let bytes: usize = ["a", "b"]
        .map(|name| maps.lister().get(("default", name)).unwrap())
        .iter()
        .map(|map| map.encoded_len() + size_of_val(&**map) + 8 * (3 + 2 * map.labels().count()))
        .sum();
    assert!(bytes > 1_000);
    assert_eq!(maps.status().bytes(), Some(bytes as u64));
    assert_eq!(page(), [format!(r#"name="configmaps",resource="configmaps"}} {bytes}"#)]);

    maps.decode_on_arrival();
    assert_eq!((maps.status().bytes(), page()), (None, vec![]));
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Objects that cannot be decoded when they arrive are counted, also if the type is set by the program.
// contract: F-14d
#[tokio::test]
async fn errors_of_decoding_on_arrival_are_a_metric() {
    #[derive(Deserialize)]
    struct Numbers {
        #[serde(rename = "data")]
        _data: BTreeMap<String, u64>,
    }

    let server = server().await;
    server.create(config_map("default", "a", "no number")).unwrap();
    let factory = factory(&server);
    let (maps, collector) = (factory.informer::<ConfigMap>(), InformerCollector::new());
    maps.cast::<Numbers>().decode_on_arrival();
    maps.add_to(&collector).unwrap();
    maps.handler().for_each(|_| {}).unwrap();
    synced(&factory).await;
    let page = lines(&collector, "informer_decode_errors_total{");
    assert_eq!(page, [r#"name="configmaps",resource="configmaps"} 1"#]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: I-16c, F-12a
#[tokio::test]
async fn informers_of_a_factory_have_different_names() {
    let factory = builder().build();
    let collector = InformerCollector::new();
    let pods = ApiResource::erase::<Pod>(&());
    let metadata = factory.metadata::<Pod>();
    let dynamic = factory.dynamic(pods, Scope::Namespaced);
    let autoscaling = factory.autoscaling();
    fn add<K>(collector: &InformerCollector, informer: &Informer<K>) {
        informer.add_to(collector).unwrap();
    }
    add(&collector, &factory.informer::<Pod>());
    add(&collector, &factory.informer::<Pod>());
    add(&collector, &metadata);
    add(&collector, &dynamic);
    add(&collector, &dynamic.metadata());
    add(&collector, &autoscaling.v1().horizontal_pod_autoscalers());
    add(&collector, &autoscaling.v2().horizontal_pod_autoscalers());
    let labels = labels(&collector);
    assert_eq!(labels.len(), 3, "{labels:#?}");
    let v2 = r#"{name="horizontalpodautoscalers.v2.autoscaling",resource="horizontalpodautoscalers.autoscaling"} 0"#;
    assert!(labels.iter().any(|line| line == v2), "{labels:#?}");
}

// contract: I-16a, I-16d
#[tokio::test]
async fn factories_differ_by_namespace_or_name() {
    let collector = InformerCollector::new();
    let [a, b] = ["team-a", "team-b"].map(|namespace| builder().namespace(namespace).build());
    a.informer::<Pod>().add_to(&collector).unwrap();
    b.informer::<Pod>().add_to(&collector).unwrap();
    assert_eq!(
        labels(&collector),
        ["team-a", "team-b"].map(|scope| format!(r#"{{name="pods",resource="pods",scope="{scope}"}} 0"#)),
    );

    // Nodes are in no namespace.
    a.informer::<Node>().add_to(&collector).unwrap();
    let refused = b.informer::<Node>().add_to(&collector).unwrap_err().to_string();
    assert!(refused.contains(r#""nodes" of "nodes""#) && refused.contains("another name"), "{refused}");
    let named = builder().name("b").build();
    named.informer::<Node>().add_to(&collector).unwrap();
    assert_eq!(labels(&collector).len(), 4);
}
