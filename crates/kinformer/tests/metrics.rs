//! Informers of factories on one page of metrics.
#![cfg(feature = "prometheus")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use k8s_openapi::api::core::v1::{Node, Pod};
use kinformer::prometheus::InformerCollector;
use kinformer::{
    EagerObjects, Object, SharedIndexInformer, SharedInformerFactory, SharedInformerFactoryBuilder,
};
use kube_core::discovery::{ApiResource, Scope};
use prometheus_client::{encoding::text, registry::Registry};

/// Nothing is asked of the server.
fn builder() -> SharedInformerFactoryBuilder {
    let config = kube_client::Config::new("http://127.0.0.1:1".parse().unwrap());
    SharedInformerFactory::builder(kinformer::client(config).unwrap())
}

/// The labels of the informers on the page.
fn labels(collector: &InformerCollector) -> Vec<String> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector.clone()));
    let mut page = String::new();
    text::encode(&mut page, &registry).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("informer_objects"));
    lines.map(str::to_owned).collect()
}

// contract: I-16, F-08
#[tokio::test]
async fn the_informers_of_one_factory_differ_in_their_names() {
    let factory = builder().build();
    let collector = InformerCollector::new();
    let pods = ApiResource::erase::<Pod>(&());
    let dynamic = factory.dynamic(pods, Scope::Namespaced);
    let eager: SharedInformerFactory<EagerObjects> = factory.eager();
    let autoscaling = factory.autoscaling();
    fn add<T: Object>(collector: &InformerCollector, informer: &SharedIndexInformer<T>) {
        collector.add(informer).unwrap();
    }
    add(&collector, &factory.informer_for::<Pod>());
    add(&collector, &factory.informer_for::<Pod>());
    add(&collector, &eager.informer_for::<Pod>());
    add(&collector, &factory.metadata::<Pod>().informer());
    add(&collector, &dynamic.informer());
    add(&collector, &dynamic.packed().informer());
    add(&collector, &dynamic.metadata().informer());
    add(&collector, &autoscaling.v1().horizontal_pod_autoscalers().informer());
    add(&collector, &autoscaling.v2().horizontal_pod_autoscalers().informer());
    let labels = labels(&collector);
    assert_eq!(labels.len(), 8, "{labels:#?}");
    let v2 = r#"{name="horizontalpodautoscalers.v2.autoscaling",resource="horizontalpodautoscalers.autoscaling"} 0"#;
    assert!(labels.iter().any(|line| line == v2), "{labels:#?}");
}

// contract: I-16
#[tokio::test]
async fn factories_differ_in_their_namespaces_or_in_their_names() {
    let collector = InformerCollector::new();
    let [a, b] = ["team-a", "team-b"].map(|namespace| builder().namespace(namespace).build());
    collector.add(&a.informer_for::<Pod>()).unwrap();
    collector.add(&b.informer_for::<Pod>()).unwrap();
    assert_eq!(
        labels(&collector),
        ["team-a", "team-b"].map(|scope| format!(r#"{{name="pods",resource="pods",scope="{scope}"}} 0"#)),
    );

    // Nodes are in no namespace.
    collector.add(&a.informer_for::<Node>()).unwrap();
    let refused = collector.add(&b.informer_for::<Node>()).unwrap_err().to_string();
    assert!(refused.contains(r#""nodes" of "nodes""#) && refused.contains("another name"), "{refused}");
    let named = builder().named("b").build();
    collector.add(&named.informer_for::<Node>()).unwrap();
    assert_eq!(labels(&collector).len(), 4);
}
