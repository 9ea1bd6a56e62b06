//! The start of a controller.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::{ObjectKey, SharedInformerFactory};
use kinformer_apiserver::{Fault, Verb};
use kinformer_controller::{Action, Controller, Error, Queue};
use tokio::sync::mpsc;

use crate::common::{Cluster, Running, config_map, key, recorded, within};

/// No key is reconciled before the objects of all informers are stored.
// contract: K-06a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconciles_after_all_first_lists() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let fault = cluster.server.faults().inject(Fault::stall().on(Verb::List).resource("secrets"));
    let watch = cluster.server.faults().inject(Fault::stall().on(Verb::Watch).resource("secrets"));
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().owns::<Secret>();
    let controller = builder.build(reconcile);
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    let config_maps = cluster.factory.informer::<ConfigMap>();
    within(config_maps.wait_for_sync()).await.unwrap();
    assert!(calls.rest().is_empty() && queue.depth() == 0);
    cluster.server.faults().remove(fault);
    cluster.server.faults().remove(watch);
    cluster.server.drop_connections();
    assert_eq!(calls.next().await.key, key("a"));
    running.end().await.unwrap();
    cluster.end().await;
}

/// No key is reconciled before the keys of all stored objects are enqueued.
// contract: K-06a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconciles_after_all_stored_objects_are_enqueued() {
    const OBJECTS: usize = 1_000;
    let cluster = Cluster::start().await;
    for number in 0..OBJECTS {
        cluster.create(config_map(&format!("c-{number}"), "1"));
    }
    let queue = Arc::new(OnceLock::<Queue<ObjectKey>>::new());
    let (sender, mut depths) = mpsc::channel(OBJECTS);
    let (_calls, reconcile) = recorded({
        let queue = queue.clone();
        move |_| {
            _ = sender.try_send(queue.get().unwrap().depth());
            Ok(Action::none())
        }
    });
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().workers(1);
    let controller = builder.build(reconcile);
    assert!(queue.set(controller.queue().clone()).is_ok());
    let running = Running::of(controller);
    assert_eq!(within(depths.recv()).await, Some(OBJECTS - 1), "one of them is reconciled");
    running.end().await.unwrap();
    cluster.end().await;
}

/// If an informer has not synced in time, the error names it with its last error.
// contract: K-06b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sync_timeout_names_the_informer() {
    let cluster = Cluster::start().await;
    cluster.server.faults().inject(Fault::internal_error().resource("secrets").always());
    let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().owns::<Secret>();
    let running = Running::of(builder.sync_timeout(Duration::from_millis(300)).build(reconcile));
    let error = running.task.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::NotSynced { .. }));
    let text = error.to_string();
    assert!(text.starts_with("controller configmap: secrets had not synced after 300ms: "), "{text}");
    assert!(text.contains("500"), "{text}");
    cluster.end().await;
}

/// A controller of a factory that was shut down ends with an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_informers_are_an_error() {
    let cluster = Cluster::start().await;
    let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
    let factory = SharedInformerFactory::new(cluster.factory.client().clone());
    let controller = Controller::of(&factory).reconciles::<ConfigMap>().build(reconcile);
    factory.start().unwrap();
    factory.shutdown().await.unwrap();
    let error = Running::of(controller).task.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "controller configmap: the informer of configmaps has stopped");
    cluster.end().await;
}
