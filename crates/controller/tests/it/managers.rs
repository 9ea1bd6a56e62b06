//! Several controllers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Pod, Secret};
use kinformer_apiserver::{Fault, Verb};
use kinformer_controller::events::{EventRecorder, EventType};
use kinformer_controller::kinformer_leader_election::{End, LeaderElector};
use kinformer_controller::{
    Action, CancellationToken, Controller, ControllerState, Error, Health, Manager, State, Task, Trigger,
};
use kinformer_workqueue::LOW_PRIORITY;
use tokio::sync::oneshot;

use crate::common::{Cluster, config_map, key, recorded, until, within};

/// Keeps the controllers from their start.
fn gate(may_start: oneshot::Receiver<()>) -> Task {
    let mut may_start = Some(may_start);
    Task::once("gate", move || may_start.take().unwrap()).need_leader_election(false)
}

/// The controllers start together and end together. The health shows it.
// contract: K-08a, K-08d
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_start_and_end_together() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let (mut one, reconcile_one) = recorded(|_| Ok(Action::none()));
    let (mut two, reconcile_two) = recorded::<u32>(|_| Ok(Action::none()));
    let numbers = Controller::of(&cluster.factory).keyed("numbers").build(reconcile_two);
    let queue = numbers.queue().clone();
    let manager = Manager::new()
        .add(Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile_one))
        .unwrap()
        .add(numbers)
        .unwrap();
    let health = manager.health();
    assert_eq!(health.state(), State::Starting);
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    assert_eq!(one.next().await.key, key("a"));
    queue.add(7);
    assert_eq!(two.next().await.key, 7);
    assert!(health.is_ready());
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    assert_eq!(health.state(), State::Stopped);
    assert!(queue.is_shut_down());
    cluster.end().await;
}

/// As of a program whose controllers are all switched off.
// contract: K-08i
#[tokio::test(start_paused = true)]
async fn manager_without_controllers_waits() {
    let (manager, shutdown) = (Manager::new(), CancellationToken::new());
    let health = manager.health();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(health.is_ready() && !running.is_finished());
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
}

/// If a controller cannot start, none does, and the error says which.
// contract: K-08b, K-08g
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_start_ends_all() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    cluster.server.faults().inject(Fault::internal_error().resource("secrets").always());
    cluster.server.faults().inject(Fault::stall().resource("pods").always());
    let (_, hangs) = recorded(|_| Ok(Action::none()));
    let pods = Controller::of(&cluster.factory).reconciles::<Pod>().sync_timeout(Duration::from_secs(3600));
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let (_, never) = recorded(|_| Ok(Action::none()));
    let secrets = Controller::of(&cluster.factory).reconciles::<Secret>();
    let manager = Manager::new()
        .add(Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile))
        .unwrap()
        .add(secrets.sync_timeout(Duration::from_millis(100)).build(never))
        .unwrap()
        .add(pods.build(hangs))
        .unwrap();
    let error = within(manager.run(CancellationToken::new())).await.unwrap_err();
    assert!(error.to_string().starts_with("controller secret: secrets had not synced"), "{error}");
    assert!(calls.rest().is_empty());
    cluster.end().await;
}

/// Two controllers with one name are refused.
// contract: K-08c
#[tokio::test]
async fn names_are_unique() {
    let cluster = Cluster::start().await;
    let controller = || {
        let (_, reconcile) = recorded(|_| Ok(Action::none()));
        Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile)
    };
    let error = Manager::new().add(controller()).unwrap().add(controller()).unwrap_err();
    assert!(matches!(&error, Error::DuplicateName { name } if &**name == "configmap"));
    assert!(error.to_string().contains("set another name"), "{error}");
    cluster.end().await;
}

/// The errors of several controllers are one error.
// contract: K-08b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_several_controllers() {
    let cluster = Cluster::start().await;
    let controller = |name: &str| {
        let builder = Controller::of(&cluster.factory).keyed::<u32>(name).grace(Duration::from_millis(1));
        let controller = builder.build(|_| std::future::pending());
        controller.queue().add(1);
        controller
    };
    let (one, two) = (controller("one"), controller("two"));
    let monitors = [one.monitor(), two.monitor()];
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Manager::new().add(one).unwrap().add(two).unwrap().run(shutdown.clone()));
    within(async {
        while monitors.iter().any(|monitor| monitor.metrics().active == 0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    shutdown.cancel();
    let error = within(running).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Several(errors) if errors.len() == 2), "{error}");
    assert!(error.to_string().contains("controller one: ") && error.to_string().contains("controller two: "));
    cluster.end().await;
}

/// A task that ends by itself runs when the informers have synced, and before the controllers reconcile.
// contract: K-08e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconciles_only_when_it_may() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let controller = Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile);
    let (sender, may_start) = oneshot::channel::<()>();
    let manager = Manager::new().add(controller).unwrap().add(gate(may_start)).unwrap();
    let health = manager.health();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    until(|| health.has_synced()).await;
    assert!(calls.rest().is_empty() && !health.is_ready());
    sender.send(()).unwrap();
    assert_eq!(calls.next().await.key, key("a"));
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    cluster.end().await;
}

/// The first signal ends the controllers, the second one ends the wait for a reconciliation.
// contract: K-08f
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_end_the_controllers() {
    let terminate = || {
        let kill =
            std::process::Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status();
        assert!(kill.unwrap().success());
    };
    let cluster = Cluster::start().await;
    for signals in 1..=2 {
        let (mut calls, gate, reconcile) = crate::common::gated();
        let controller = Controller::of(&cluster.factory).keyed::<u32>("numbers").build(reconcile);
        let queue = controller.queue().clone();
        queue.add(1);
        let elector = LeaderElector::builder(cluster.factory.client().clone(), "default", "test");
        let elector = elector.identity("own").retry_period(Duration::from_millis(50)).build().unwrap();
        let manager = Manager::new().leader_election(&elector).add(controller).unwrap();
        let running = tokio::spawn(manager.run_until_signal());
        calls.next().await;
        terminate();
        while !queue.is_shut_down() {
            tokio::task::yield_now().await;
        }
        assert!(!running.is_finished());
        if signals == 1 {
            gate.add_permits(1);
            within(running).await.unwrap().unwrap();
        } else {
            terminate();
            let error = within(running).await.unwrap().unwrap_err();
            assert!(matches!(error, Error::Interrupted), "{error}");
        }
    }
    cluster.end().await;
}

/// With an elector: the informers sync before the election, a shutdown releases the Lease, and a lost leadership ends all.
// contract: K-08h, N-09e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconciles_as_leader() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let client = cluster.factory.client().clone();
    let elector = |identity: &str| {
        LeaderElector::builder(client.clone(), "default", "test")
            .identity(identity)
            .renew_deadline(Duration::from_secs(5))
            .retry_period(Duration::from_millis(50))
            .build()
            .unwrap()
    };
    let other = within(elector("other").acquire()).await;
    let (mut calls, gate, reconcile) = crate::common::gated();
    let controller = || Controller::of(&cluster.factory).reconciles::<ConfigMap>();
    let first = controller().build(reconcile);
    let monitor = first.monitor();
    let shutdown = CancellationToken::new();
    let own = elector("own");
    let manager = Manager::new().add(first).unwrap();
    let health = manager.health();
    let running = tokio::spawn({
        let (own, shutdown) = (own.clone(), shutdown.clone());
        async move { manager.leader_election(&own).run(shutdown).await }
    });
    until(|| health.candidacy().is_some_and(|candidacy| candidacy.answered.is_some())).await;
    assert_eq!((monitor.state(), health.candidacy().unwrap().error), (ControllerState::Synced, None));
    assert!(calls.rest().is_empty());
    other.release().await.unwrap();
    assert_eq!(calls.next().await.key, key("a"));
    assert_eq!((own.leader().as_deref(), health.candidacy()), (Some("own"), None));
    gate.add_permits(1);
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    let lease = || cluster.server.get("coordination.k8s.io/v1", "Lease", "default", "test").unwrap().unwrap();
    assert_eq!(lease()["spec"]["holderIdentity"], "");

    let (mut calls, _gate, reconcile) = crate::common::gated();
    let second = controller().build(reconcile);
    let running = tokio::spawn(async move {
        Manager::new().leader_election(&own).add(second).unwrap().run(CancellationToken::new()).await
    });
    calls.next().await;
    cluster.server.delete("coordination.k8s.io/v1", "Lease", "default", "test").unwrap();
    let error = within(running).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::NotLeader(reason) if reason.end == End::Removed), "{error}");
    cluster.end().await;
}

/// The last events are written by the leader's client before the Lease is released.
// contract: K-16j
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_events_are_written_before_the_release() {
    let cluster = Cluster::start().await;
    let client = cluster.factory.client();
    let elector = LeaderElector::builder(client.clone(), "default", "test").identity("own").build().unwrap();
    let recorder = EventRecorder::new(elector.client(client), "example.com/test", "test-1");
    let slow = Fault::delay(Duration::from_millis(50)).on(Verb::Create).resource("events");
    cluster.server.faults().inject(slow.always());
    let shutdown = CancellationToken::new();
    let controller = Controller::of(&cluster.factory).keyed::<u8>("numbers").build({
        let (recorder, shutdown) = (recorder.clone(), shutdown.clone());
        move |_| {
            let (recorder, shutdown) = (recorder.clone(), shutdown.clone());
            async move {
                shutdown.cancelled().await;
                let object = ObjectReference { name: Some("a".to_owned()), ..ObjectReference::default() };
                for reason in ["One", "Two", "Three", "Four"] {
                    recorder.event(&object, EventType::Normal, reason, "Reconcile", "");
                }
                Ok(Action::none())
            }
        }
    });
    controller.queue().add(1);
    let monitor = controller.monitor();
    let manager = Manager::new().add(controller).unwrap().events(&recorder, Duration::from_secs(60));
    let running = tokio::spawn({
        let shutdown = shutdown.clone();
        async move { manager.leader_election(&elector).run(shutdown).await }
    });
    until(|| monitor.metrics().queue.in_flight == 1).await;
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    let metrics = recorder.metrics();
    assert_eq!((metrics.written, metrics.not_leader, metrics.pending), (4, 0, 0));
    let lease = cluster.server.get("coordination.k8s.io/v1", "Lease", "default", "test").unwrap().unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "");
    cluster.end().await;
}

/// Events are written until what reports them has ended, with an election and without one, also if the start fails.
// contract: K-16j
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_what_needs_no_leader() {
    let cluster = Cluster::start().await;
    let client = cluster.factory.client();
    let object = ObjectReference { name: Some("a".to_owned()), ..ObjectReference::default() };
    for (case, elects, fails) in [("one", true, false), ("two", false, false), ("three", true, true)] {
        let recorder = EventRecorder::new(client.clone(), format!("example.com/{case}"), "test-1");
        let manager = Manager::new().events(&recorder, Duration::from_secs(60));
        let elector = LeaderElector::builder(client.clone(), "default", case).build().unwrap();
        let manager = if elects { manager.leader_election(&elector) } else { manager };
        let (recorded, object, shutdown) = (recorder.clone(), object.clone(), CancellationToken::new());
        let (ends, begins) = (shutdown.clone(), shutdown.clone());
        let task = Task::new("each", move |stop: CancellationToken| {
            let (recorded, object) = (recorded.clone(), object.clone());
            async move {
                stop.cancelled().await;
                recorded.event(&object, EventType::Normal, "Ended", "End", "");
                Ok::<_, Error>(())
            }
        });
        let start = Task::once("start", move || {
            if !fails {
                begins.cancel();
            }
            std::future::ready(if fails { Err("no disk") } else { Ok(()) })
        });
        let manager = manager.add(task.need_leader_election(false)).unwrap();
        let manager = manager.add(start.need_leader_election(false)).unwrap();
        assert_eq!(within(manager.run(ends)).await.is_err(), fails);
        let metrics = recorder.metrics();
        assert_eq!((metrics.written, metrics.shut_down, metrics.pending), (1, 0, 0), "{case}");
    }
    cluster.end().await;
}

/// While it waits for the leadership, a controller enqueues nothing. Then it reconciles the objects that exist.
// contract: K-08j
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_has_an_empty_queue() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("deleted", "1"));
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let (keys, receiver) = tokio::sync::mpsc::channel(10);
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>();
    let controller = builder.trigger(Trigger::channel(receiver)).build(reconcile);
    let monitor = controller.monitor();
    let (sender, leads) = oneshot::channel::<()>();
    let shutdown = CancellationToken::new();
    let manager = Manager::new().add(controller).unwrap();
    let running = tokio::spawn(manager.add(gate(leads)).unwrap().run(shutdown.clone()));
    until(|| monitor.state() == ControllerState::Synced).await;
    keys.try_send(key("by-hand")).unwrap();
    cluster.server.delete("v1", "ConfigMap", "default", "deleted").unwrap();
    for i in 0..20 {
        let name = format!("short-{i}");
        cluster.create(config_map(&name, "1"));
        cluster.server.delete("v1", "ConfigMap", "default", &name).unwrap();
    }
    cluster.create(config_map("kept", "1"));
    let config_maps = cluster.factory.informer::<ConfigMap>();
    until(|| config_maps.lister().get(("default", "kept")).is_ok()).await;
    let queue = monitor.metrics().queue;
    assert_eq!((queue.depth, queue.adds), (0, 0));
    sender.send(()).unwrap();
    let mut both = [calls.next().await, calls.next().await].map(|call| (call.key, call.priority));
    both.sort();
    assert_eq!(both, [(key("by-hand"), 0), (key("kept"), LOW_PRIORITY)]);
    cluster.change("kept", "2");
    assert_eq!(calls.next().await.priority, 0, "a live change");
    assert!(calls.rest().is_empty());
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    cluster.end().await;
}

fn states(health: &Health) -> Vec<(String, ControllerState)> {
    health.controllers().into_iter().map(|one| (one.name.to_string(), one.state)).collect()
}

/// The health names the informers that have not synced, then the states up to the end.
// contract: K-15a, K-15b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_of_each_controller() {
    let cluster = Cluster::start().await;
    let verbs = [Verb::List, Verb::Watch];
    let faults =
        verbs.map(|verb| cluster.server.faults().inject(Fault::stall().on(verb).resource("secrets")));
    let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
    let waits = Controller::of(&cluster.factory).reconciles::<ConfigMap>().owns::<Secret>().build(reconcile);
    let (_calls, reconcile) = recorded::<u32>(|_| Ok(Action::none()));
    let has_none = Controller::of(&cluster.factory).keyed("numbers").build(reconcile);
    let monitor = waits.monitor();
    let manager = Manager::new();
    let health = manager.health();
    let manager = manager.add(waits).unwrap().add(has_none).unwrap();
    let of = |config_map: ControllerState, numbers: ControllerState| {
        vec![("configmap".to_owned(), config_map), ("numbers".to_owned(), numbers)]
    };
    let waiting = |missing: &[&str]| ControllerState::Waiting {
        missing: missing.iter().map(|name| (*name).into()).collect(),
    };
    assert_eq!(states(&health), of(waiting(&[]), waiting(&[])));
    assert!(health.is_alive() && !health.has_synced());

    let (sender, leads) = oneshot::channel::<()>();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(manager.add(gate(leads)).unwrap().run(shutdown.clone()));
    until(|| states(&health) == of(waiting(&["secrets"]), ControllerState::Synced)).await;
    assert_eq!(monitor.state().to_string(), "waiting for secrets");
    assert!(health.is_alive() && !health.has_synced());
    for fault in faults {
        cluster.server.faults().remove(fault);
    }
    cluster.server.drop_connections();
    until(|| health.has_synced()).await;
    assert_eq!(states(&health), of(ControllerState::Synced, ControllerState::Synced));
    assert!(!health.is_ready(), "it waits for the leadership");
    sender.send(()).unwrap();
    until(|| states(&health) == of(ControllerState::Running, ControllerState::Running)).await;
    assert!(health.has_synced() && health.is_ready());
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    let stopped = || ControllerState::Stopped { error: None };
    assert_eq!(states(&health), of(stopped(), stopped()));
    assert!(!health.is_alive() && !health.has_synced() && !health.is_ready());
    cluster.end().await;
}

/// The health has the error of the controller that failed, at its start and at its end.
// contract: K-15a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_has_the_error() {
    let cluster = Cluster::start().await;
    cluster.server.faults().inject(Fault::internal_error().resource("secrets").always());
    let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
    let fails = Controller::of(&cluster.factory).reconciles::<Secret>();
    let fails = fails.sync_timeout(Duration::from_millis(100)).build(reconcile);
    let (_calls, reconcile) = recorded::<u32>(|_| Ok(Action::none()));
    let other = Controller::of(&cluster.factory).keyed("numbers").build(reconcile);
    let manager = Manager::new().add(fails).unwrap().add(other).unwrap();
    let health = manager.health();
    let error = within(manager.run(CancellationToken::new())).await.unwrap_err();
    let failed = ControllerState::Stopped { error: Some(error.to_string().into()) };
    let stopped = ControllerState::Stopped { error: None };
    assert_eq!(states(&health), [("secret".to_owned(), failed), ("numbers".to_owned(), stopped)]);

    let builder = Controller::of(&cluster.factory).keyed::<u32>("stuck").grace(Duration::from_millis(1));
    let controller = builder.build(|_| std::future::pending());
    controller.queue().add(1);
    let (monitor, shutdown) = (controller.monitor(), CancellationToken::new());
    let running = tokio::spawn(controller.run(shutdown.clone()));
    until(|| monitor.metrics().active == 1).await;
    assert_eq!(monitor.state(), ControllerState::Running);
    shutdown.cancel();
    let error = within(running).await.unwrap().unwrap_err();
    assert_eq!(monitor.state().to_string(), format!("stopped: {error}"));
    cluster.end().await;
}
