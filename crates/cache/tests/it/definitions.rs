//! Custom resources whose definitions come and go while a cache reads them.

use std::time::Duration;

use kinformer::{Backoff, InformerError, ReflectorState, SourceError};
use kinformer_apiserver::ApiServer;
use kinformer_cache::{Cache, CacheBuilder, Error, Kind, Query};
use kinformer_testing::widget::Widget;
use kube_core::gvk::GroupVersionKind;
use serde_json::{Value, json};

use crate::common::{builder, requests, server};

fn define(server: &ApiServer, size: &str) {
    define_in(server, "Namespaced", size);
}

fn define_in(server: &ApiServer, scope: &str, size: &str) {
    server.create(Widget::definition(scope, size)).unwrap();
}

fn undefine(server: &ApiServer) {
    server.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", Widget::DEFINITION).unwrap();
}

fn create(server: &ApiServer, name: &str, size: impl Into<Value>) {
    server.create(Widget::json(Some("team-a"), name, size)).unwrap();
}

fn create_in(server: &ApiServer, namespace: Option<&str>, name: &str) {
    server.create(Widget::json(namespace, name, 1)).unwrap();
}

fn kind() -> GroupVersionKind {
    GroupVersionKind::gvk("example.com", "v1", "Widget")
}

const HOUR: Duration = Duration::from_secs(3600);

/// A cache whose informers do not request a resource within an hour after three failures.
fn patient(server: &ApiServer) -> CacheBuilder {
    builder(server).options(|options| {
        options.reflector(|options| {
            options.backoff(Backoff::from_delays(|| {
                std::iter::repeat_n(Duration::from_millis(10), 3).chain(std::iter::repeat(HOUR))
            }))
        })
    })
}

/// Waits until the resource of the widgets is served, or until it is not and the next request is in an hour.
async fn is_served(cache: &Cache, served: bool) {
    let informer = cache.kind::<Widget>().informer().unwrap();
    let reflector = informer.status().parts()[0].reflector().clone();
    let is_long = |state: &ReflectorState| matches!(state, ReflectorState::BackingOff { delay, .. } if *delay > HOUR / 2);
    let is_reached = |state: &ReflectorState| {
        informer.status().not_served().is_none() == served && (served || is_long(state))
    };
    tokio::time::timeout(Duration::from_secs(60), reflector.state_where(is_reached)).await.unwrap();
}

/// The informer requests the kind when discovery lists it, and after a reset; the schema is another one.
// contract: C-09c, C-05, R-25f, R-25h
#[tokio::test]
async fn kind_returns_when_discovery_lists_it() {
    let server = server().await;
    define(&server, "integer");
    create(&server, "first", json!(1));
    let cache = patient(&server).build().await.unwrap();
    cache.start().unwrap();
    let widgets = cache.kind::<Widget>();
    assert_eq!(widgets.get("team-a/first").await.unwrap().decode().unwrap().size, 1);

    undefine(&server);
    is_served(&cache, false).await;
    let error = widgets.informer().unwrap().status().not_served().unwrap();
    assert!(matches!(&*error, SourceError::NotServed { .. }), "{error}");
    assert!(error.to_string().contains("is not served"), "{error}");
    // Its objects were deleted with it; reads are answered by the store.
    let error = widgets.get("team-a/first").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert!(widgets.list(&Query::new()).await.unwrap().is_empty());

    define(&server, "string");
    create(&server, "second", json!("large"));
    let before = requests(&server, "widgets");
    assert!(widgets.get("team-a/second").await.is_err(), "for an hour");
    assert_eq!(requests(&server, "widgets"), before);
    cache.mapper().resource(&kind()).await.unwrap();
    is_served(&cache, true).await;
    // Not before the list is stored.
    let second = async {
        loop {
            match widgets.get("team-a/second").await {
                Err(Error::NotFound { .. }) => tokio::task::yield_now().await,
                second => break second.unwrap(),
            }
        }
    };
    let second = tokio::time::timeout(Duration::from_secs(60), second).await.unwrap();
    let error = second.decode().err().unwrap().to_string();
    assert!(error.contains("size") || error.contains("large"), "{error}");
    let dynamic = cache.dynamic(&kind()).await.unwrap();
    assert_eq!(dynamic.get("team-a/second").await.unwrap().decode().unwrap().data["size"], "large");

    undefine(&server);
    is_served(&cache, false).await;
    define(&server, "integer");
    cache.mapper().resource(&kind()).await.unwrap(); // it is known, so discovery is not asked
    cache.mapper().reset();
    is_served(&cache, true).await;

    undefine(&server);
    is_served(&cache, false).await;
    assert!(widgets.remove_informer().await);
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The first read of a kind that is not installed yet.
// contract: C-01c, C-05, C-09c
#[tokio::test]
async fn read_of_a_kind_that_is_not_served_says_so() {
    let server = server().await;
    let cache = patient(&server).sync_timeout(Duration::from_millis(200)).build().await.unwrap();
    cache.start().unwrap();
    let widgets = cache.kind::<Widget>();
    let informer = widgets.informer().unwrap();
    is_served(&cache, false).await;
    let error = widgets.get("team-a/first").await.unwrap_err();
    let Error::NotSynced { source, .. } = &error else { panic!("{error}") };
    assert!(matches!(source, kinformer::Error::Informer(InformerError::NotSynced(_))), "{source}");
    let text = error.to_string();
    assert!(text.contains("widgets") && text.contains("the resource is not served"), "{text}");
    let error = cache.dynamic(&kind()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server does not serve the kind Widget of example.com/v1; install its definition, or correct its version"
    );
    define(&server, "integer");
    create(&server, "first", json!(1));
    informer.status().retry_if_not_served();
    tokio::time::timeout(Duration::from_secs(60), informer.wait_for_sync()).await.unwrap().unwrap();
    widgets.get("team-a/first").await.unwrap();
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// The objects of a kind that returns with another scope are read by their keys, also through handles from before.
// contract: R-25i, C-02e
#[tokio::test]
async fn kind_returns_with_another_scope() {
    for [first, second] in [["Namespaced", "Cluster"], ["Cluster", "Namespaced"]] {
        let server = server().await;
        let create_with = |scope: &str, name: &str| match scope {
            "Namespaced" => create(&server, name, json!(1)),
            _ => create_in(&server, None, name),
        };
        define_in(&server, first, "integer");
        create_with(first, "first");
        let cache = patient(&server).build().await.unwrap();
        cache.start().unwrap();
        let widgets = cache.dynamic(&kind()).await.unwrap();
        widgets.get("team-a/first").await.unwrap();

        undefine(&server);
        is_served(&cache, false).await;
        define_in(&server, second, "integer");
        create_with(second, "second");
        cache.mapper().reset();
        is_served(&cache, true).await;
        let is_stored = async {
            while widgets.get("team-a/second").await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), is_stored).await.unwrap();
        let listed = async |namespace| widgets.list(&Query::new().namespace(namespace)).await.unwrap().len();
        let is_cluster = second == "Cluster";
        assert_eq!(widgets.get("second").await.is_ok(), is_cluster);
        assert_eq!(widgets.get("team-b/second").await.is_ok(), is_cluster);
        assert_eq!((listed("team-a").await, listed("team-b").await), (1, usize::from(is_cluster)));
        assert_eq!(widgets.informer().unwrap().selection().is_namespaced(), !is_cluster);
        assert!(matches!(widgets.get("team-a/first").await, Err(Error::NotFound { .. })));
        cache.shutdown().await.unwrap();
        server.shutdown().await;
    }
}

async fn live_names<K>(widgets: &Kind<K>, namespace: &str) -> Vec<String> {
    let listed = widgets.list(&Query::new().namespace(namespace)).await.unwrap();
    listed.iter().map(|widget| widget.key().to_string()).collect()
}

/// Live reads through handles from before another scope have the objects of now.
// contract: C-12c
#[tokio::test]
async fn live_reads_follow_the_scope() {
    let server = server().await;
    define(&server, "integer");
    create(&server, "first", json!(1));
    let cache = builder(&server).build().await.unwrap();
    let (typed, dynamic) = (cache.kind::<Widget>().live(), cache.dynamic(&kind()).await.unwrap().live());
    for handle in [live_names(&typed, "team-a").await, live_names(&dynamic, "team-a").await] {
        assert_eq!(handle, ["team-a/first"]);
    }

    undefine(&server);
    define_in(&server, "Cluster", "integer");
    create_in(&server, None, "second");
    cache.mapper().reset();
    typed.get("team-a/second").await.unwrap();
    let error = dynamic.get("team-a/first").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    for handle in [live_names(&typed, "team-b").await, live_names(&dynamic, "team-b").await] {
        assert_eq!(handle, ["second"]);
    }

    // Handles of the other scope. Before discovery is asked again, a list recognizes it by the objects.
    let dynamic = cache.dynamic(&kind()).await.unwrap().live();
    undefine(&server);
    define(&server, "integer");
    create(&server, "third", json!(1));
    create_in(&server, Some("team-b"), "fourth");
    for handle in [live_names(&typed, "team-a").await, live_names(&dynamic, "team-a").await] {
        assert_eq!(handle, ["team-a/third"]);
    }
    cache.mapper().reset();
    dynamic.get("team-b/fourth").await.unwrap();
    typed.get("team-b/fourth").await.unwrap();
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}

/// Reads that find nothing request the scope at most once in 10 s.
// contract: C-12d
#[tokio::test]
async fn missing_objects_cause_few_discovery_requests() {
    let server = server().await;
    define(&server, "integer");
    let cache = builder(&server).build().await.unwrap();
    let widgets = cache.kind::<Widget>().live();
    let others = || {
        let requests = server.metrics().requests;
        requests
            .iter()
            .filter(|((_, resource), _)| resource.is_empty())
            .map(|(_, number)| number)
            .sum::<u64>()
    };
    let before = others();
    for _ in 0..5 {
        let error = widgets.get("team-a/none").await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
    }
    let first = others() - before;
    assert!(first > 0, "discovery was asked");
    cache.mapper().reset();
    widgets.get("team-a/none").await.unwrap_err();
    assert_eq!(others() - before, 2 * first);
    cache.shutdown().await.unwrap();
    server.shutdown().await;
}
