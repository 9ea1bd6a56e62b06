//! The options of the informers of a cache: sync periods, namespaces, transforms, and their inheritance.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use kinformer::{Informer, SharedInformerFactory, SharedInformerFactoryBuilder};
use kinformer_apiserver::ApiServer;
use kinformer_cache::{CacheBuilder, Error, Query};
use kube_core::gvk::{GroupVersionKind, GroupVersionResource};
use serde_json::json;

use crate::common::{builder, server};

const HOUR: Duration = Duration::from_secs(3600);

/// The resync periods of the informers of some kinds.
fn periods(factory: &SharedInformerFactory) -> Vec<Duration> {
    fn period<K: 'static>(informer: &Informer<K>) -> Duration {
        let first = informer.for_each(|_| {}).unwrap().resync_period();
        let second = informer.for_each(|_| {}).unwrap().resync_period();
        assert_eq!(first, second, "drawn once for each informer");
        first.unwrap()
    }
    vec![
        period(&factory.informer::<Pod>()),
        period(&factory.informer::<ConfigMap>()),
        period(&factory.informer::<Secret>()),
        period(&factory.informer::<Service>()),
        period(&factory.informer::<Node>()),
    ]
}

// contract: C-04e, C-06b
#[tokio::test]
async fn sync_period_has_jitter() {
    let server = server().await;
    let cache = builder(&server).build().await.unwrap();
    let with_jitter = periods(cache.factory());
    assert!(with_jitter.iter().all(|period| *period >= 9 * HOUR && *period <= 11 * HOUR), "{with_jitter:?}");
    assert!(with_jitter.iter().any(|period| *period != with_jitter[0]), "{with_jitter:?}");

    let own = builder(&server).options(|options| options.resync_for::<Pod>(HOUR)).build().await.unwrap();
    let own = periods(own.factory())[0];
    assert!(own >= HOUR * 9 / 10 && own <= HOUR * 11 / 10 && own != HOUR, "{own:?}");

    let exact = |options: SharedInformerFactoryBuilder| options.resync_jitter(0.0).resync_for::<Pod>(HOUR);
    let exact = periods(builder(&server).options(exact).build().await.unwrap().factory());
    assert_eq!(exact[0], HOUR);
    assert!(exact[1..].iter().all(|period| *period == 10 * HOUR), "{exact:?}");
    server.shutdown().await;
}

fn widget_definition(scope: &str) -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": scope, "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

/// The requests of discovery: those without a resource.
fn discoveries(server: &ApiServer) -> u64 {
    let metrics = server.metrics();
    metrics.requests.iter().filter(|((_, resource), _)| resource.is_empty()).map(|(_, count)| count).sum()
}

// contract: C-04b
#[tokio::test]
async fn namespaces_of_a_cluster_scoped_type_are_refused() {
    let server = server().await;
    server.create(crate::common::node("n")).unwrap();
    let refused =
        builder(&server).options(|options| options.of_kind::<Node>(|nodes| nodes.namespaces(["team-a"])));
    let error = refused.build().await.unwrap_err();
    assert!(matches!(error, Error::ClusterScoped { .. }) && error.to_string().contains("nodes"), "{error}");

    let cache = builder(&server)
        .options(|options| options.namespaces(["team-a"]).of_kind::<Node>(|nodes| nodes.labels("")))
        .build()
        .await
        .unwrap();
    cache.start().unwrap();
    assert_eq!(cache.list::<Node>(&Query::new()).await.unwrap().len(), 1, "no effect on nodes");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-04b, C-04d
#[tokio::test]
async fn scope_of_a_kind_without_a_type_is_discovered() {
    let server = server().await;
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let widgets = GroupVersionResource::gvr("example.com", "v1", "widgets");
    let labels =
        builder(&server).options(|options| options.resource(&widgets, |widgets| widgets.labels("a=b")));
    labels.build().await.unwrap();
    assert_eq!(discoveries(&server), 0, "without namespaces, discovery is not asked");

    let with_namespaces = |builder: CacheBuilder| {
        builder.options(|options| options.resource(&widgets, |widgets| widgets.namespaces(["team-a"])))
    };
    // Not served yet: the cache is built.
    let early = with_namespaces(builder(&server)).build().await.unwrap();
    assert_eq!(discoveries(&server), 1);
    server.create(widget_definition("Cluster")).unwrap();
    let error = with_namespaces(builder(&server)).build().await.unwrap_err();
    assert!(error.to_string().contains("widgets.example.com"), "{error}");
    assert!(matches!(error, Error::ClusterScoped { .. }), "{error}");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    for error in [early.dynamic(&kind).await.unwrap_err(), early.dynamic_metadata(&kind).await.unwrap_err()] {
        assert!(matches!(error, Error::ClusterScoped { .. }), "{error}");
    }

    let definition = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    server.delete(definition.0, definition.1, "", "widgets.example.com").unwrap();
    server.create(widget_definition("Namespaced")).unwrap();
    let cache = with_namespaces(builder(&server)).build().await.unwrap();
    assert!(cache.dynamic(&kind).await.is_ok());
    server.shutdown().await;
}
