//! A custom resource whose definition is deleted and returns.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinformer::{Backoff, Decode};
use kinformer_apiserver::ApiServer;
use kube_core::discovery::{ApiResource, Scope};
use kube_core::metadata::ObjectMeta;
use kube_core::{DynamicObject, NamespaceResourceScope, Resource};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{builder, server, soon, synced, until};

#[derive(Clone, Debug, Deserialize)]
struct Widget {
    metadata: ObjectMeta,
    size: u32,
}

impl Resource for Widget {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Widget".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "widgets".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn define(server: &ApiServer, size: &str) {
    server
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "properties": {"size": {"type": size}}}}}],
            },
        }))
        .unwrap();
}

fn undefine(server: &ApiServer) {
    let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    server.delete(kind.0, kind.1, "", "widgets.example.com").unwrap();
}

fn create(server: &ApiServer, name: &str, size: Value) {
    let metadata = json!({"name": name, "namespace": "default"});
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "size": size});
    server.create(widget).unwrap();
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
    assert!(widgets.not_served().is_none());

    undefine(&server);
    until(|| widgets.not_served().is_some()).await.unwrap();
    // The server deletes the objects of a definition with it, and the watch has delivered that.
    assert!(widgets.snapshot().unwrap().is_empty());
    assert!(widgets.has_synced());

    define(&server, "string");
    create(&server, "second", json!("large"));
    until(|| widgets.not_served().is_none() && widgets.snapshot().unwrap().len() == 1).await.unwrap();
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
    until(|| widgets.not_served().is_some()).await.unwrap();
    tokio::time::timeout_at(soon(), widgets.remove()).await.unwrap();
    assert!(widgets.is_stopped());
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
    until(|| widgets.not_served().is_some()).await.unwrap();
    let error = widgets.wait_for_sync_until(Instant::now()).await.unwrap_err().to_string();
    assert!(error.contains("widgets") && error.contains("not served"), "{error}");
    pods.wait_for_sync_until(soon()).await.unwrap();
    assert!(pods.not_served().is_none());
    factory.shutdown().await.unwrap();
    server.shutdown().await;
}
