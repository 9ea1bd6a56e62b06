//! The end of a controller.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_controller::{Action, CancellationToken, Controller, ControllerState, Error, Manager};

use crate::common::{Cluster, Running, config_map, gated, key, recorded, until, within};

/// A shutdown finishes the running reconciliations and begins no other. Its handlers are removed.
// contract: K-07a, K-07d
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_finishes_running_reconciliations() {
    let cluster = Cluster::start().await;
    (0..10).for_each(|i| drop(cluster.create(config_map(&format!("c{i}"), "1"))));
    let (mut calls, gate, reconcile) = gated();
    let controller = Controller::of(&cluster.factory).reconciles::<ConfigMap>().workers(2).build(reconcile);
    let (queue, monitor) = (controller.queue().clone(), controller.monitor());
    let running = Running::of(controller);
    calls.next().await;
    calls.next().await;
    running.shutdown.cancel();
    while !queue.is_shut_down() {
        tokio::task::yield_now().await;
    }
    assert!(!running.task.is_finished());
    gate.add_permits(10);
    running.end().await.unwrap();
    assert!(calls.rest().is_empty());
    assert_eq!((monitor.metrics().succeeded, queue.depth()), (2, 0));
    let config_maps = cluster.factory.informer::<ConfigMap>();
    within(async {
        while config_maps
            .status()
            .metrics()
            .handlers
            .iter()
            .any(|handler| handler.name.starts_with("controller"))
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    cluster.end().await;
}

/// Reconciliations that have not ended after the grace period are dropped, and the error names their keys.
// contract: K-07b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grace_period_ends() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("stuck", "1"));
    let (mut calls, _gate, reconcile) = gated();
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().workers(2);
    let running = Running::of(builder.grace(Duration::from_millis(10)).build(reconcile));
    assert_eq!(calls.next().await.key, key("stuck"));
    let error = running.end().await.unwrap_err();
    assert!(matches!(&error, Error::Stuck { keys, .. } if keys.len() == 1));
    let text = error.to_string();
    assert!(text.contains("not ended within 10ms") && text.contains("stuck"), "{text}");
    cluster.end().await;
}

/// A key that the program has taken itself is no reconciliation that has not ended.
// contract: K-07b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_items_are_no_reconciliations() {
    let cluster = Cluster::start().await;
    let (_calls, reconcile) = recorded::<u32>(|_| Ok(Action::none()));
    let controller = Controller::of(&cluster.factory).keyed("numbers").build(reconcile);
    let (queue, monitor) = (controller.queue().clone(), controller.monitor());
    queue.add(1);
    let item = queue.try_next().unwrap();
    let running = Running::of(controller);
    until(|| monitor.state() == ControllerState::Running).await;
    running.end().await.unwrap();
    item.done();
    cluster.end().await;
}

/// Dropping the future of a run ends it at once.
// contract: K-07c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_run_ends_at_once() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let dropped = Arc::new(());
    let held = dropped.clone();
    let (sender, mut began) = tokio::sync::mpsc::channel(100);
    let controller = Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(move |_| {
        let (sender, held) = (sender.clone(), held.clone());
        async move {
            let _held = held;
            _ = sender.try_send(());
            std::future::pending::<()>().await;
            Ok(Action::none())
        }
    });
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    within(began.recv()).await.unwrap();
    running.task.abort();
    within(async {
        while Arc::strong_count(&dropped) > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(queue.is_shut_down());
    cluster.end().await;
}

/// A shutdown before the start, and during the wait for the first lists.
// contract: K-07a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_before_the_first_lists() {
    let cluster = Cluster::start().await;
    let controller = || {
        let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
        Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile)
    };
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    within(controller().run(shutdown)).await.unwrap();
    cluster.server.faults().inject(kinformer_apiserver::Fault::stall().always());
    let controller = controller();
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    running.end().await.unwrap();
    assert!(queue.is_shut_down());
    cluster.end().await;
}

/// A controller that is dropped, or whose run is never polled, has ended: its queue takes no key, and its state says so.
// contract: K-07c, K-15c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_that_never_began_has_ended() {
    let cluster = Cluster::start().await;
    let controller = || {
        let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
        Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile)
    };
    let stopped = ControllerState::Stopped { error: None };
    let shutdown = CancellationToken::new();
    let unpolled = controller();
    let (queue, monitor) = (unpolled.queue().clone(), unpolled.monitor());
    assert_eq!(monitor.state().to_string(), "not started");
    drop(unpolled.run(shutdown.clone()));
    assert_eq!((monitor.state(), queue.add(key("a"))), (stopped.clone(), false));

    shutdown.cancel();
    let first = controller();
    let (queue, monitor) = (first.queue().clone(), first.monitor());
    within(first.run(shutdown.clone())).await.unwrap();
    assert_eq!((monitor.state(), queue.add(key("a"))), (stopped.clone(), false));

    let in_manager = controller();
    let (queue, monitor) = (in_manager.queue().clone(), in_manager.monitor());
    let manager = Manager::new().add(in_manager).unwrap();
    let health = manager.health();
    within(manager.run(shutdown.clone())).await.unwrap();
    assert_eq!((monitor.state(), queue.add(key("a"))), (stopped.clone(), false));
    assert!(!health.is_alive());

    let manager = Manager::new().add(controller()).unwrap();
    let health = manager.health();
    drop(manager.run(shutdown));
    assert_eq!((health.is_alive(), &health.controllers()[0].state), (false, &stopped));
    cluster.end().await;
}

/// Without a grace period, idle workers are no error. The longest timeouts are no limit.
// contract: K-07b, K-07e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shortest_and_longest_timeouts() {
    let cluster = Cluster::start().await;
    for grace in [Duration::ZERO, Duration::MAX] {
        let (mut calls, reconcile) = recorded::<u32>(|_| Ok(Action::none()));
        let builder = Controller::of(&cluster.factory).keyed("numbers").workers(4);
        let builder = builder.grace(grace).sync_timeout(Duration::MAX).timeout(Duration::MAX);
        let controller = builder.build(reconcile);
        let (queue, monitor) = (controller.queue().clone(), controller.monitor());
        let running = Running::of(controller);
        queue.add(1);
        calls.next().await;
        within(async {
            while monitor.metrics().active > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        running.end().await.unwrap();
    }
    cluster.end().await;
}

/// A reconciliation that blocks its thread does not keep the run from its end.
// contract: K-07b, K-07e
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn blocking_reconciliation_is_left_behind() {
    let cluster = Cluster::start().await;
    let (sender, mut began) = tokio::sync::mpsc::channel(1);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = parking_lot::Mutex::new(released);
    let builder = Controller::of(&cluster.factory).keyed::<u32>("numbers").grace(Duration::ZERO);
    let controller = builder.build(move |_| {
        _ = sender.try_send(());
        _ = released.lock().recv();
        std::future::ready(Ok(Action::none()))
    });
    controller.queue().add(7);
    let running = Running::of(controller);
    within(began.recv()).await.unwrap();
    let error = running.end().await.unwrap_err();
    assert!(matches!(&error, Error::Stuck { keys, .. } if keys == &["7"]), "{error}");
    release.send(()).unwrap();
    cluster.end().await;
}

/// A drain of the queue by the program ends the run, after the queued keys. So does its end before the start.
// contract: K-07f
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_that_is_shut_down_ends_the_run() {
    let cluster = Cluster::start().await;
    for keys in [0..0, 0..5] {
        let (mut calls, reconcile) = recorded::<u32>(|_| Ok(Action::none()));
        let controller = Controller::of(&cluster.factory).keyed("numbers").workers(2).build(reconcile);
        let (queue, monitor) = (controller.queue().clone(), controller.monitor());
        assert!(keys.clone().all(|key| queue.add(key)));
        let (run, is_drained) = within(async {
            tokio::join!(controller.run(CancellationToken::new()), queue.shut_down_with_drain())
        })
        .await;
        run.unwrap();
        assert!(is_drained);
        assert_eq!(calls.rest().len(), keys.len());
        assert_eq!(monitor.state(), ControllerState::Stopped { error: None });
    }
    cluster.end().await;
}
