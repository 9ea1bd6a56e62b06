//! Reads of single objects, and the errors of reads.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kinformer::Scope;
use kinformer_apiserver::{Fault, Verb};
use kinformer_cache::{Error, Query};
use kube_core::gvk::GroupVersionKind;

use crate::common::{builder, node, pod, requests, server, started};

// contract: C-01a, C-01b, C-07
#[tokio::test]
async fn first_read_starts_the_informer_and_waits() {
    let server = server().await;
    server.create(pod("team-a", "web", "web", "node-1")).unwrap();
    let cache = started(&server).await;
    assert_eq!(requests(&server, "pods"), 0);

    let kind = GroupVersionKind::gvk("", "v1", "Pod");
    let metadata = cache.metadata::<Pod>().get("team-a/web").await.unwrap();
    let typed = cache.get::<Pod>("team-a/web").await.unwrap();
    let dynamic = cache.dynamic(&kind).await.unwrap().get("team-a/web").await.unwrap();
    let dynamic_metadata = cache.dynamic_metadata(&kind).await.unwrap().get("team-a/web").await.unwrap();
    assert_eq!(typed.decode().unwrap().spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));
    assert_eq!(dynamic.decode().unwrap().types.as_ref().unwrap().kind, "Pod");
    assert_eq!(metadata.label("app"), Some("web"));
    assert_eq!(dynamic_metadata.decode().unwrap().types.as_ref().unwrap().api_version, "meta.k8s.io/v1");
    let again = cache.get::<Pod>("team-a/web").await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&typed.into_object(), &again.into_object()), "reads share the object");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The start of the factory is that of the cache.
// contract: C-05
#[tokio::test]
async fn factory_starts_the_cache() {
    let server = server().await;
    server.create(node("node-1")).unwrap();
    let cache = builder(&server).build().await.unwrap();
    assert!(!cache.factory().is_started());
    cache.factory().start().unwrap();
    assert_eq!(cache.get::<Node>("node-1").await.unwrap().name(), "node-1");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

// contract: C-05, C-06e
#[tokio::test]
async fn reads_have_typed_errors() {
    let server = server().await;
    server.create(node("node-1")).unwrap();
    let cache = builder(&server).options(|options| options.namespaces(["team-a"])).build().await.unwrap();
    let error = cache.get::<Pod>("team-a/web").await.unwrap_err();
    assert!(matches!(error, Error::NotStarted { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "pods cannot be read: the cache was not started; call Cache::start before reading"
    );
    cache.start().unwrap();
    cache.start().unwrap();
    let error = cache.get::<Pod>("team-a/web").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert_eq!(error.to_string(), r#"pods "team-a/web" not found"#);
    let error = cache.get::<Pod>("team-b/web").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"pods of the namespace "team-b" are not cached; add it to the namespaces of the cache"#
    );
    assert!(matches!(error, Error::UnknownNamespace { .. }), "{error}");
    let error = cache.list::<Pod>(&Query::new().namespace("team-b")).await.unwrap_err();
    assert!(matches!(error, Error::UnknownNamespace { .. }), "{error}");
    assert!(cache.get_opt::<Pod>("team-a/web").await.unwrap().is_none());
    assert!(cache.get_opt::<Node>("node-1").await.unwrap().is_some());
    assert!(matches!(cache.get_opt::<Pod>("team-b/web").await, Err(Error::UnknownNamespace { .. })));
    let error = cache.get::<Pod>("a/b/c").await.unwrap_err();
    assert!(matches!(error, Error::Informer(kinformer::Error::Key(_))), "{error}");
    // Nodes are not in namespaces: that of a key has no effect.
    assert_eq!(cache.get::<Node>("team-b/node-1").await.unwrap().name(), "node-1");
    let nodes = cache.list::<Node>(&Query::new().namespace("team-b")).await.unwrap();
    assert_eq!(nodes.len(), 1);
    cache.shutdown().await.unwrap();
    assert!(cache.get::<Node>("node-1").await.is_ok(), "objects can still be read");
    server.shutdown().await;
}

// contract: C-05
#[tokio::test]
async fn reads_of_what_nothing_has_requested_fail() {
    let server = server().await;
    server.create(pod("team-a", "web", "web", "node-1")).unwrap();
    let cache = builder(&server).fail_on_missing_informer().build().await.unwrap();
    cache.start().unwrap();
    let pods = cache.kind::<Pod>();
    let error = pods.get("team-a/web").await.unwrap_err();
    assert!(matches!(error, Error::NotCached { .. }), "{error}");
    assert!(matches!(pods.list(&Query::new()).await, Err(Error::NotCached { .. })));
    assert_eq!(requests(&server, "pods"), 0);
    // An informer that another part of the program has requested counts.
    let _requested = cache.factory().informer::<Pod>();
    cache.factory().start().unwrap();
    assert_eq!(pods.get("team-a/web").await.unwrap().name(), "web");
    assert!(matches!(cache.get::<Secret>("team-a/s").await, Err(Error::NotCached { .. })));
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Without permission, and with a conversion webhook that fails.
// contract: C-01c
#[tokio::test]
async fn sync_timeout_names_the_informer_and_its_error() {
    for (fault, code) in [(Fault::forbidden as fn() -> Fault, "403"), (Fault::internal_error, "500")] {
        let server = server().await;
        server.faults().inject(fault().on(Verb::List).resource("pods").always());
        server.faults().inject(fault().on(Verb::Watch).resource("pods").always());
        let cache = builder(&server).sync_timeout(Duration::from_millis(200)).build().await.unwrap();
        cache.start().unwrap();
        let pods = cache.kind::<Pod>();
        // The first timeout may come before the first response.
        let text = loop {
            let error = pods.get("team-a/web").await.unwrap_err();
            assert!(matches!(error, Error::NotSynced { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("pods") && text.contains("200ms"), "{text}");
            if text.contains("last error") || text.contains(code) {
                break text;
            }
        };
        assert!(text.contains(code), "{text}");
        // The informer continues, and a later read succeeds.
        server.faults().clear();
        server.create(pod("team-a", "web", "web", "node-1")).unwrap();
        let found = async {
            loop {
                match pods.get("team-a/web").await {
                    Err(Error::NotSynced { .. }) => {}
                    found => break found,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), found).await.unwrap().unwrap();
        cache.shutdown().await.unwrap();
        server.shutdown().await;
    }
}

// contract: C-01d
#[tokio::test]
async fn objects_of_which_only_metadata_is_cached_say_so() {
    let server = server().await;
    server.create(pod("team-a", "web", "web", "node-1")).unwrap();
    let cache = started(&server).await;
    let kind = GroupVersionKind::gvk("", "v1", "Pod");
    let whole_first = |builder: kinformer::SharedInformerFactoryBuilder| {
        builder.of_kind::<Pod>(|pods| pods.whole_objects())
    };
    let cache_of_whole = builder(&server).options(whole_first).build().await.unwrap();
    cache_of_whole.start().unwrap();
    for (cache, expected) in [(&cache, "PartialObjectMetadata"), (&cache_of_whole, "Pod")] {
        let pod = cache.dynamic_metadata(&kind).await.unwrap().get("team-a/web").await.unwrap();
        assert_eq!(pod.object().is_metadata_only(), expected == "PartialObjectMetadata");
        assert_eq!(pod.decode().unwrap().types.as_ref().unwrap().kind, expected);
        cache.shutdown().await.unwrap();
    }
    server.shutdown().await;
}

/// A read of a namespace that has come into the scope waits for its first list. One that is refused is a typed error.
// contract: D-13a
#[tokio::test]
async fn read_of_a_new_namespace_waits_for_its_list() {
    let server = server().await;
    for namespace in ["default", "team-a", "team-b"] {
        server.create(pod(namespace, "web", "web", "node-1")).unwrap();
    }
    let cache = builder(&server).sync_timeout(Duration::from_millis(500)).build().await.unwrap();
    let pods = cache.kind::<Pod>().informer().unwrap();
    pods.set_scope(&Scope::namespaces(["default"])).await.unwrap();
    cache.start().unwrap();
    cache.get::<Pod>("default/web").await.unwrap();
    pods.set_scope(&Scope::namespaces(["default", "team-a"])).await.unwrap();
    cache.get::<Pod>("team-a/web").await.unwrap();
    pods.set_scope(&Scope::namespaces(["team-a"])).await.unwrap();
    pods.set_scope(&Scope::namespaces(["team-a", "default"])).await.unwrap();
    let listed = cache.list::<Pod>(&Query::new().namespace("default")).await.unwrap();
    assert_eq!(listed.len(), 1);
    server.faults().inject(Fault::forbidden().resource("pods").namespace("team-b").always());
    pods.set_scope(&Scope::namespaces(["team-a", "team-b"])).await.unwrap();
    cache.get::<Pod>("team-a/web").await.unwrap();
    let refused = cache.get::<Pod>("team-b/web").await.unwrap_err();
    assert!(matches!(refused, Error::NotSynced { .. }) && refused.to_string().contains("403"), "{refused}");
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}
