//! The informers of a controller that runs: kept alive, and missed when they stop.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::{BoxError, SharedInformerFactory};
use kinformer_apiserver::Fault;
use kinformer_controller::{
    Action, CancellationToken, Controller, ControllerState, Error, Manager, State, Task, Trigger,
};
use serde_json::{Value, json};

use crate::common::{Cluster, Running, config_map, gated, key, recorded, until, within};

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}})
}

/// A controller goes on when the program drops its factory, the factory of a trigger, and the last lease of an informer.
// contract: K-07g
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_keeps_its_informers() {
    let cluster = Cluster::start().await;
    let factory = || SharedInformerFactory::new(cluster.factory.client().clone());
    let (own, other) = (factory(), factory());
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let leased = own.informer::<ConfigMap>().lease();
    let informer = (*leased).clone();
    let builder = Controller::of(&own).reconciles_informer(&leased);
    let secrets = Trigger::on(&other.informer::<Secret>()).object();
    let running = Running::of(builder.trigger(secrets).build(reconcile));
    other.start().unwrap();
    cluster.create(config_map("a", "1"));
    assert_eq!(calls.next().await.key, key("a"));
    drop((own, other, leased));
    cluster.create(config_map("b", "1"));
    assert_eq!(calls.next().await.key, key("b"));
    cluster.create(secret("c"));
    assert_eq!(calls.next().await.key, key("c"));
    assert!(!running.task.is_finished() && !informer.status().is_stopped());
    running.end().await.unwrap();
    within(informer.stopped()).await;
    cluster.end().await;
}

/// An informer that is removed, or whose factory is shut down, ends the controller with an error that names it.
// contract: K-07h, K-07i
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informer_that_stops_ends_the_controller() {
    for removed in [true, false] {
        for is_own in [true, false] {
            let cluster = Cluster::start().await;
            let other = SharedInformerFactory::new(cluster.factory.client().clone());
            let (mut calls, gate, reconcile) = gated();
            let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>();
            let secrets = if is_own { &cluster.factory } else { &other }.informer::<Secret>();
            let controller = builder.trigger(Trigger::on(&secrets).object()).build(reconcile);
            other.start().unwrap();
            let monitor = controller.monitor();
            let running = Running::of(controller);
            cluster.create(config_map("a", "1"));
            calls.next().await;
            match (removed, is_own) {
                (true, _) => assert!(secrets.remove().await),
                (false, true) => cluster.factory.shutdown().await.unwrap(),
                (false, false) => other.shutdown().await.unwrap(),
            }
            until(|| matches!(monitor.state(), ControllerState::Stopped { .. })).await;
            assert!(!running.task.is_finished(), "it waits for the reconciliation");
            gate.add_permits(1);
            let error = within(running.task).await.unwrap().unwrap_err();
            let expected = if removed || !is_own { "secrets" } else { "" };
            assert!(
                matches!(&error, Error::InformerStopped { informer, .. } if informer.contains(expected)),
                "{error}"
            );
            assert_eq!(monitor.state().to_string(), format!("stopped: {error}"));
            cluster.end().await;
        }
    }
}

/// So does one that stops before it has synced: the error does not wait for the other informers.
// contract: K-07h
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informer_that_stops_before_its_sync() {
    let cluster = Cluster::start().await;
    cluster.server.faults().inject(Fault::stall().resource("configmaps").always());
    cluster.server.faults().inject(Fault::stall().resource("secrets").always());
    let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().owns::<Secret>();
    let controller = builder.build(reconcile);
    let monitor = controller.monitor();
    let running = Running::of(controller);
    let secrets = cluster.factory.informer::<Secret>();
    until(|| matches!(monitor.state(), ControllerState::Waiting { missing } if missing.len() == 2)).await;
    secrets.remove().await;
    let error = within(running.task).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "controller configmap: the informer of secrets has stopped");
    cluster.end().await;
}

/// So does one that has synced and stops while another one, of the same or of another controller, has not.
// contract: K-07h, K-07i
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informer_that_stops_during_the_sync_of_another() {
    for has_other_controller in [false, true] {
        let cluster = Cluster::start().await;
        cluster.server.faults().inject(Fault::stall().resource("secrets").always());
        let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
        let (_calls, of_secrets) = recorded(|_| Ok(Action::none()));
        let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>();
        let mut manager = Manager::new();
        let builder = if has_other_controller {
            let secrets = Controller::of(&cluster.factory).reconciles::<Secret>();
            manager = manager.add(secrets.build(of_secrets)).unwrap();
            builder
        } else {
            builder.owns::<Secret>()
        };
        let controller = builder.build(reconcile);
        let monitor = controller.monitor();
        let running = tokio::spawn(manager.add(controller).unwrap().run(CancellationToken::new()));
        let synced = if has_other_controller { "synced" } else { "waiting for secrets" };
        until(|| monitor.state().to_string() == synced).await;
        cluster.factory.informer::<ConfigMap>().remove().await;
        let error = within(running).await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "controller configmap: the informer of configmaps has stopped");
        assert_eq!(monitor.state().to_string(), format!("stopped: {error}"));
        cluster.end().await;
    }
}

/// So does one that stops while the controllers wait for the leadership. The health says it at once.
// contract: K-07h, K-07i
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informer_that_stops_ends_the_wait_for_the_leadership() {
    let cluster = Cluster::start().await;
    let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
    let manager = Manager::new();
    let health = manager.health();
    let controller = Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile);
    let (_calls, reconcile) = recorded::<u32>(|_| Ok(Action::none()));
    let numbers = Controller::of(&cluster.factory).keyed("numbers").build(reconcile);
    let manager = manager.add(numbers).unwrap().add(controller).unwrap();
    let wait = Task::once("wait", std::future::pending::<Result<(), BoxError>>).need_leader_election(false);
    let running = tokio::spawn(manager.add(wait).unwrap().run(CancellationToken::new()));
    until(|| health.has_synced()).await;
    cluster.factory.informer::<ConfigMap>().remove().await;
    let error = within(running).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "controller configmap: the informer of configmaps has stopped");
    let state = health.controllers()[1].state.clone();
    assert_eq!(state, ControllerState::Stopped { error: Some(error.to_string().into()) });
    assert_eq!((health.state(), health.has_synced(), health.is_alive()), (State::Stopped, false, false));
    cluster.end().await;
}

/// The shutdown of a program: the token first, or the factory first, has no error.
// contract: K-07h
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_of_both_is_no_error() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let (mut calls, gate, reconcile) = gated();
    let running = Running::of(Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile));
    calls.next().await;
    running.shutdown.cancel();
    cluster.factory.shutdown().await.unwrap();
    gate.add_permits(1);
    within(running.task).await.unwrap().unwrap();
    cluster.end().await;
}
