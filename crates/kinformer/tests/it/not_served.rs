//! A custom resource whose definition is deleted and returns.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Backoff, Decode, Informer, Part, SharedInformerFactoryBuilder, SourceError};
use kinformer_apiserver::ApiServer;
use kinformer_reflector::RequestLimit;
use kinformer_testing::widget::Widget;
use kube_core::DynamicObject;
use kube_core::discovery::{ApiResource, Scope};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{builder, server, soon, synced, until};

fn define(server: &ApiServer, size: &str) {
    define_in(server, "Namespaced", size);
}

fn define_in(server: &ApiServer, scope: &str, size: &str) {
    server.create(Widget::definition(scope, size)).unwrap();
}

fn undefine(server: &ApiServer) {
    server.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", Widget::DEFINITION).unwrap();
}

fn create(server: &ApiServer, name: &str, size: Value) {
    create_in(server, Some("default"), name, size);
}

fn create_in(server: &ApiServer, namespace: Option<&str>, name: &str, size: Value) {
    server.create(Widget::json(namespace, name, size)).unwrap();
}

/// The definition is deleted, and returns with another schema. Its informer is removed later, while it is gone again.
// contract: R-25a, R-25f, R-25g
#[tokio::test]
async fn informer_survives_its_definition() {
    let server = server().await;
    define(&server, "integer");
    create(&server, "first", json!(1));
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let reported = errors.clone();
    let factory = builder(&server)
        .reflector(|options| {
            options.backoff(Backoff::from_delays(|| std::iter::repeat(Duration::from_millis(100))))
        })
        .decode::<Widget>(Decode::OnArrival)
        .on_error(move |failure| reported.lock().push(failure.error.to_string()))
        .build();
    let widgets = factory.informer::<Widget>();
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let (received, received_all) = (events.clone(), events.clone());
    widgets
        .handler()
        .for_each(move |event| {
            let kind = match event {
                kinformer::Event::Added(_) => "add",
                kinformer::Event::Updated(_) => "update",
                kinformer::Event::Deleted(_) => "delete",
                _ => "other",
            };
            received.lock().push(format!("{kind} {}", event.key().name()));
        })
        .unwrap();
    synced(&factory).await;
    assert_eq!(widgets.lister().get(("default", "first")).unwrap().decode().unwrap().size, 1);
    assert!(widgets.status().not_served().is_none());

    undefine(&server);
    until(|| widgets.status().not_served().is_some()).await.unwrap();
    // The server deletes the objects of a definition with it, and the watch has delivered that.
    assert!(widgets.snapshot().unwrap().is_empty());
    assert!(widgets.has_synced());

    define(&server, "string");
    create(&server, "second", json!("large"));
    until(|| widgets.status().not_served().is_none() && widgets.snapshot().unwrap().len() == 1)
        .await
        .unwrap();
    let second = widgets.lister().get(("default", "second")).unwrap();
    assert!(second.decode().is_err(), "a size is no number any more");
    let any = factory.dynamic(ApiResource::erase::<Widget>(&()), Scope::Namespaced);
    let second: DynamicObject = any.lister().get(("default", "second")).unwrap().decode().unwrap().clone();
    assert_eq!(second.data["size"], "large");
    until(|| received_all.lock().len() == 3).await.unwrap();
    assert_eq!(*events.lock(), ["add first", "delete first", "add second"]);
    let errors = errors.lock().clone();
    assert!(errors.iter().any(|error| error.contains("not served")), "{errors:?}");
    assert!(errors.iter().any(|error| error.contains("second")), "{errors:?}");

    undefine(&server);
    until(|| widgets.status().not_served().is_some()).await.unwrap();
    tokio::time::timeout_at(soon(), widgets.remove()).await.unwrap();
    assert!(widgets.status().is_stopped());
    tokio::time::timeout_at(soon(), factory.shutdown()).await.unwrap().unwrap();
    server.shutdown().await;
}

/// The error of a wait for a sync says that the resource is not served.
// contract: R-25a
#[tokio::test]
async fn sync_timeout_says_that_resource_is_not_served() {
    let server = server().await;
    let factory = builder(&server).build();
    let (widgets, pods) = (factory.informer::<Widget>(), factory.informer::<Pod>());
    factory.start().unwrap();
    until(|| widgets.status().not_served().is_some()).await.unwrap();
    let error = widgets.wait_for_sync().until(Instant::now()).await.unwrap_err().to_string();
    assert!(error.contains("widgets") && error.contains("not served"), "{error}");
    pods.wait_for_sync().until(soon()).await.unwrap();
    assert!(pods.status().not_served().is_none());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A factory whose informers request a resource again at once.
fn impatient(server: &ApiServer) -> SharedInformerFactoryBuilder {
    builder(server).reflector(|options| {
        let delays = || std::iter::repeat(Duration::from_millis(20));
        options.backoff(Backoff::from_delays(delays)).request_limit(RequestLimit::Off)
    })
}

async fn server_with(scope: &str) -> ApiServer {
    let server = server().await;
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    server.create(other).unwrap();
    define_in(&server, scope, "integer");
    server
}

/// Logs the names of the objects that a handler receives.
fn log<K: 'static>(widgets: &Informer<K>) -> Arc<Mutex<Vec<String>>> {
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = events.clone();
    widgets.handler().for_each(move |event| log.lock().push(event.key().to_string())).unwrap();
    events
}

fn resource() -> ApiResource {
    ApiResource::erase::<Widget>(&())
}

/// The kind of an informer of single namespaces becomes cluster-scoped: an error says so until it is in namespaces again.
// contract: R-25j, F-17f
#[tokio::test]
async fn restricted_kind_becomes_cluster_scoped() {
    let server = server_with("Namespaced").await;
    create(&server, "first", json!(1));
    let factory = impatient(&server).namespaces(["default", "other"]).build();
    let widgets = factory.informer::<Widget>();
    let events = log(&widgets);
    synced(&factory).await;

    undefine(&server);
    until(|| widgets.status().not_served().is_some()).await.unwrap();
    define_in(&server, "Cluster", "integer");
    create_in(&server, None, "wide", json!(1));
    let namespace = |part: &Part| match part.reflector().not_served().as_deref() {
        Some(SourceError::OtherScope { resource, namespace }) if resource == "widgets.example.com" => {
            namespace.clone()
        }
        _ => None,
    };
    let namespaces = || widgets.status().parts().iter().filter_map(namespace).collect::<Vec<_>>();
    until(|| namespaces() == ["default", "other"]).await.unwrap();
    let error = widgets.status().not_served().unwrap().to_string();
    assert!(error.contains("widgets.example.com are cluster-scoped"), "{error}");
    assert!(widgets.snapshot().unwrap().is_empty() && !widgets.status().is_stopped());

    undefine(&server);
    define(&server, "integer");
    create_in(&server, Some("other"), "second", json!(1));
    until(|| widgets.status().not_served().is_none() && widgets.snapshot().unwrap().len() == 1)
        .await
        .unwrap();
    until(|| events.lock().len() == 3).await.unwrap();
    assert_eq!(*events.lock(), ["default/first", "default/first", "other/second"]);
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}

/// A cluster-scoped kind of a factory with namespaces becomes namespaced: no object of any namespace is delivered.
// contract: R-25j, F-17f
#[tokio::test]
async fn cluster_scoped_kind_comes_into_namespaces() {
    let server = server_with("Cluster").await;
    create_in(&server, None, "first", json!(1));
    let restricted = impatient(&server).namespaces(["default"]).build();
    let unrestricted = impatient(&server).build();
    let [widgets, all] = [&restricted, &unrestricted].map(|f| f.dynamic(resource(), Scope::Cluster));
    let events = log(&widgets);
    synced(&restricted).await;
    synced(&unrestricted).await;
    assert_eq!(widgets.snapshot().unwrap().len(), 1);

    undefine(&server);
    define(&server, "integer");
    create(&server, "second", json!(1));
    create_in(&server, Some("other"), "second", json!(1));
    let is_other =
        |error: &Arc<SourceError>| matches!(**error, SourceError::OtherScope { namespace: None, .. });
    until(|| widgets.status().not_served().as_ref().is_some_and(is_other)).await.unwrap();
    let error = widgets.status().not_served().unwrap().to_string();
    assert!(error.contains("widgets.example.com are in namespaces"), "{error}");
    until(|| all.snapshot().unwrap().len() == 2).await.unwrap();
    assert!(all.selection().is_namespaced() && all.status().not_served().is_none());

    // An informer that is requested with the scope of now is restricted.
    let again = impatient(&server).namespaces(["default"]).build();
    let now = again.dynamic(resource(), Scope::Namespaced);
    synced(&again).await;
    assert_eq!(now.snapshot().unwrap().len(), 1);

    undefine(&server);
    define_in(&server, "Cluster", "integer");
    create_in(&server, None, "third", json!(1));
    until(|| widgets.lister().get("third").is_ok()).await.unwrap();
    until(|| events.lock().len() == 3).await.unwrap();
    assert_eq!(*events.lock(), ["first", "first", "third"]);
    for factory in [restricted, unrestricted, again] {
        factory.shutdown().await.unwrap();
    }
    server.shutdown().await;
}
