//! The resources of kinds.

use std::time::Duration;

use kinformer_cache::{Error, RestMapper};
use kinformer_testing::scripted_http::{Answer, in_process_client};
use kube_core::discovery::Scope;
use kube_core::gvk::GroupVersionKind;
use serde_json::json;

use crate::common::{server, started};

// contract: C-09a, C-09b
#[tokio::test]
async fn kind_that_is_defined_later_is_found() {
    let server = server().await;
    let cache = started(&server).await;
    let mapper = cache.mapper();
    let (node, scope) = mapper.resource(&GroupVersionKind::gvk("", "v1", "Node")).await.unwrap();
    assert_eq!((&*node.plural, scope), ("nodes", Scope::Cluster));

    let widget = GroupVersionKind::gvk("example.com", "v1", "Widget");
    for unknown in [&widget, &GroupVersionKind::gvk("", "v1", "Gadget")] {
        let error = cache.dynamic(unknown).await.unwrap_err();
        assert!(matches!(error, Error::UnknownKind { .. }), "{error}");
        assert!(error.to_string().contains(&unknown.kind), "{error}");
    }
    server
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        }))
        .unwrap();
    // Not requested again within 10 s.
    assert!(matches!(cache.dynamic(&widget).await, Err(Error::UnknownKind { .. })));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let widgets = cache.dynamic(&widget).await.unwrap();
    server
        .create(json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "w", "namespace": "team-a"}}))
        .unwrap();
    assert_eq!(widgets.get("team-a/w").await.unwrap().name(), "w");

    // A definition that is replaced is found after a reset.
    server.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com").unwrap();
    mapper.resource(&widget).await.unwrap();
    mapper.reset();
    assert!(matches!(mapper.resource(&widget).await, Err(Error::UnknownKind { .. })));
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A group whose discovery fails is requested again after a second, and the kinds of other groups are found.
// contract: C-09d, C-09f
#[tokio::test(start_paused = true)]
async fn unavailable_group_is_asked_once_a_second() {
    let mut is_available = false;
    let (client, requests) = in_process_client(move |request| match request.target.as_str() {
        "/apis/example.com/v1" if !std::mem::replace(&mut is_available, true) => {
            Answer::failure(503, "ServiceUnavailable")
        }
        "/api/v1" | "/apis/example.com/v1" => Answer::json(&json!({
            "kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": request.target.trim_start_matches("/apis/").trim_start_matches("/api/"),
            "resources": [{"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget",
                "verbs": ["get", "list", "watch"]}],
        })),
        _ => Answer::failure(404, "NotFound"),
    });
    let mapper = RestMapper::new(client);
    let [widget, core] = ["example.com", ""].map(|group| GroupVersionKind::gvk(group, "v1", "Widget"));
    let asked = || requests.all().iter().filter(|request| request.target.starts_with("/apis/")).count();
    for _ in 0..2 {
        let error = mapper.resource(&widget).await.unwrap_err();
        assert!(error.to_string().contains("ServiceUnavailable"), "{error}");
        assert_eq!(asked(), 1);
    }
    mapper.resource(&core).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(mapper.resource(&widget).await.unwrap().0.plural, "widgets");
    assert_eq!(asked(), 2);
}
