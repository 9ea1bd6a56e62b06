//! Errors, panics and delays of reconciliations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinformer::ObjectKey;
use kinformer_controller::{Action, Controller, ReconcileError};
use kinformer_workqueue::{Add, ItemExponential, LOW_PRIORITY};

use crate::common::{Cluster, Running, config_map, key, recorded, short, within};

/// An error is retried with backoff until the reconciliation succeeds; the success forgets the failures.
// contract: K-05a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_retried() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded(|request| match request.failures {
        0..3 => Err("not yet".into()),
        _ => Ok(Action::none()),
    });
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().rate_limiter(short());
    let controller = builder.build(reconcile);
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    cluster.create(config_map("a", "1"));
    for failures in 0..4 {
        let call = calls.next().await;
        assert_eq!((call.key, call.failures), (key("a"), failures));
    }
    while queue.metrics().in_flight > 0 || queue.metrics().failing > 0 {
        tokio::task::yield_now().await;
    }
    cluster.change("a", "2");
    assert_eq!(calls.next().await.failures, 0);
    running.end().await.unwrap();
    cluster.end().await;
}

/// A permanent error is not retried. The next change reconciles the key again.
// contract: K-05b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permanent_errors_are_not_retried() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded::<ObjectKey>(|request| match request.name() {
        "a" => Err(ReconcileError::permanent("invalid")),
        _ => Ok(Action::none()),
    });
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().rate_limiter(short());
    let controller = builder.build(reconcile);
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    cluster.create(config_map("a", "1"));
    assert_eq!(calls.next().await.key, key("a"));
    while queue.metrics().in_flight > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((queue.metrics().delayed, queue.depth()), (0, 0));
    cluster.change("a", "2");
    assert_eq!(calls.next().await.key, key("a"));
    running.end().await.unwrap();
    cluster.end().await;
}

/// A reconciliation can request another one after a delay.
// contract: K-05c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_requeued() {
    let cluster = Cluster::start().await;
    let count = AtomicU32::new(0);
    let (mut calls, reconcile) = recorded(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0..3 => Ok(Action::requeue_after(Duration::from_millis(1))),
        _ => Ok(Action::none()),
    });
    let running = Running::of(Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile));
    cluster.create(config_map("a", "1"));
    for _ in 0..4 {
        assert_eq!(calls.next().await.failures, 0);
    }
    running.end().await.unwrap();
    cluster.end().await;
}

/// A reconciliation can set the priority of the next one of its key, also with an error.
// contract: K-05j
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_requeued_with_a_priority() {
    let cluster = Cluster::start().await;
    let count = AtomicU32::new(0);
    let (mut calls, reconcile) = recorded(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(Action::requeue_after(Duration::from_millis(1)).priority(5)),
        1 => Ok(Action::requeue_after(Duration::from_millis(1))),
        2 => Err(ReconcileError::from("not yet").priority(-7)),
        3 => Err("not yet".into()),
        4 => Ok(Action::retry().priority(3)),
        _ => Ok(Action::none().priority(9)),
    });
    cluster.create(config_map("a", "1"));
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().rate_limiter(short());
    let running = Running::of(builder.build(reconcile));
    for priority in [LOW_PRIORITY, 5, 5, -7, -7, 3] {
        assert_eq!(calls.next().await.priority, priority);
    }
    cluster.change("a", "2");
    assert_eq!(calls.next().await.priority, 0);
    running.end().await.unwrap();
    cluster.end().await;
}

/// A delay of zero, as of a deadline that has passed, is no loop without a delay.
// contract: K-05h
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requeue_without_a_delay_has_the_backoff() {
    let cluster = Cluster::start().await;
    let hour = Duration::from_secs(3600);
    let (mut calls, reconcile) = recorded(|_| Ok(Action::requeue_after(Duration::ZERO)));
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>();
    let controller = builder.rate_limiter(ItemExponential::new(hour, hour)).build(reconcile);
    let monitor = controller.monitor();
    let running = Running::of(controller);
    cluster.create(config_map("a", "1"));
    assert_eq!(calls.next().await.failures, 0);
    within(async {
        while monitor.metrics().queue.failing == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(calls.rest().is_empty());
    cluster.change("a", "2");
    assert_eq!(calls.next().await.failures, 1);
    running.end().await.unwrap();
    cluster.end().await;
}

/// Keys that fail do not delay the retries of others, unlike with client-go's limit for all keys.
// contract: K-05i
#[tokio::test(start_paused = true)]
async fn default_limiter_has_no_limit_for_all_keys() {
    let client =
        kinformer::client(kinformer::kube_client::Config::new("http://127.0.0.1:1".parse().unwrap()));
    let factory = kinformer::SharedInformerFactory::new(client.unwrap());
    let controller = Controller::of(&factory).keyed::<u32>("numbers").build(async |_| Ok(Action::none()));
    let (queue, start) = (controller.queue(), tokio::time::Instant::now());
    for number in 0..1_000 {
        queue.add_with(number, Add::new().rate_limited());
    }
    for _ in 0..1_000 {
        drop(queue.next().await.unwrap());
    }
    assert_eq!(start.elapsed(), Duration::from_millis(5));
    for _ in 0..20 {
        queue.add_with(0, Add::new().rate_limited());
        drop(queue.next().await.unwrap());
    }
    let start = tokio::time::Instant::now();
    queue.add_with(0, Add::new().rate_limited());
    drop(queue.next().await.unwrap());
    assert_eq!(start.elapsed(), Duration::from_secs(1_000));
}

/// A conflict is logged at the level debug, other errors as warnings.
// contract: K-17e
#[tokio::test]
async fn conflicts_are_logged_quietly() {
    let (_guard, lines) = kinformer_testing::logs::of_this_thread();
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded::<ObjectKey>(|request| match (request.failures, request.name()) {
        (0, "conflict") => {
            let status =
                serde_json::json!({"status": "Failure", "code": 409, "reason": "Conflict", "message": ""});
            let status = serde_json::from_value(status)?;
            Err(kube_client::Error::Api(status).into())
        }
        (0, _) => Err("other".into()),
        _ => Ok(Action::none()),
    });
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().rate_limiter(short());
    let running = Running::of(builder.build(reconcile));
    for name in ["conflict", "other"] {
        cluster.create(config_map(name, "1"));
        assert_eq!([calls.next().await.failures, calls.next().await.failures], [0, 1]);
        let failed = lines.having(&["reconciliation failed", name]);
        assert_eq!(failed.len(), 1, "{failed:?}");
        let level = if name == "conflict" { "DEBUG" } else { "WARN" };
        assert!(failed[0].contains(level), "{failed:?}");
    }
    running.end().await.unwrap();
    cluster.end().await;
}

/// A panic, in the function or in its future, is contained and retried.
// contract: K-05d
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panics_are_retried() {
    let cluster = Cluster::start().await;
    let (sender, mut calls) = tokio::sync::mpsc::channel(100);
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().rate_limiter(short());
    let controller = builder.build(move |request| {
        _ = sender.try_send(request.failures);
        assert_ne!(request.failures, 0, "a panic of the function");
        async move {
            assert_ne!(request.failures, 1, "a panic of the future");
            Ok(Action::none())
        }
    });
    let running = Running::of(controller);
    cluster.create(config_map("a", "1"));
    for failures in 0..3 {
        assert_eq!(crate::common::within(calls.recv()).await, Some(failures));
    }
    running.end().await.unwrap();
    cluster.end().await;
}

/// A reconciliation that exceeds the timeout is dropped and retried.
// contract: K-05e
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeouts_are_retried() {
    let cluster = Cluster::start().await;
    let dropped = Arc::new(());
    let held = dropped.clone();
    let (sender, mut calls) = tokio::sync::mpsc::channel(100);
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().rate_limiter(short());
    let controller = builder.timeout(Duration::from_millis(1)).build(move |request| {
        _ = sender.try_send(request.failures);
        let held = held.clone();
        async move {
            let _held = held;
            if request.failures < 2 {
                std::future::pending::<()>().await;
            }
            Ok(Action::none())
        }
    });
    let running = Running::of(controller);
    cluster.create(config_map("a", "1"));
    for failures in 0..3 {
        assert_eq!(crate::common::within(calls.recv()).await, Some(failures));
    }
    running.end().await.unwrap();
    assert_eq!(Arc::strong_count(&dropped), 1);
    cluster.end().await;
}

/// Keys that always fail, and one whose reconciliation never returns, do not keep others from being reconciled.
// contract: K-05f
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_keys_beside_others() {
    const OTHERS: u32 = 2_000;
    let cluster = Cluster::start().await;
    let others = Arc::new(AtomicU32::new(0));
    let count = others.clone();
    let builder = Controller::of(&cluster.factory).keyed::<u32>("numbers").workers(2);
    let controller = builder.rate_limiter(short()).build(move |request| {
        let count = count.clone();
        async move {
            match *request {
                0 => std::future::pending().await,
                1 => Err("always".into()),
                _ => {
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(Action::none())
                }
            }
        }
    });
    let queue = controller.queue().clone();
    (0..OTHERS + 2).for_each(|key| assert!(queue.add(key)));
    let running = Running::of(controller);
    crate::common::within(async {
        while others.load(Ordering::Relaxed) < OTHERS {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.task.abort();
    cluster.end().await;
}

/// The metrics count reconciliations by result.
// contract: K-09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_results() {
    let cluster = Cluster::start().await;
    let (mut calls, gate, gated) = crate::common::gated();
    let builder = Controller::of(&cluster.factory).keyed::<u32>("numbers").workers(3);
    let controller = builder.timeout(Duration::from_millis(20)).rate_limiter(short()).build(move |request| {
        let gated = (*request == 9).then(|| gated(request.clone()));
        async move {
            match *request {
                1 => return Ok(Action::requeue_after(Duration::from_secs(3600))),
                2 if request.failures == 0 => return Err("error".into()),
                3 => return Err(ReconcileError::permanent("error")),
                4 if request.failures == 0 => panic!("panic"),
                5 if request.failures == 0 => std::future::pending().await,
                _ => {}
            }
            match gated {
                Some(gated) => gated.await,
                None => Ok(Action::none()),
            }
        }
    });
    let reader = controller.monitor();
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    (0..6).for_each(|key| assert!(queue.add(key)));
    let ended = |metrics: &kinformer_controller::ControllerMetrics| {
        metrics.succeeded + metrics.requeued + metrics.failed
    };
    crate::common::within(async {
        while ended(&reader.metrics()) < 9 || queue.metrics().in_flight > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let counted = reader.metrics();
    assert_eq!((counted.succeeded, counted.requeued, counted.failed), (4, 1, 4));
    assert_eq!((counted.permanent, counted.panicked, counted.timed_out), (1, 1, 1));
    assert_eq!((counted.active, counted.workers, counted.queue.adds), (0, 3, 9));
    assert_eq!(counted.reconcile_time.count(), 9);
    assert!(counted.reconcile_time.sum() >= Duration::from_millis(20), "the timeout");
    queue.add(9);
    calls.next().await;
    assert_eq!(reader.metrics().active, 1);
    gate.add_permits(1);
    running.end().await.unwrap();
    cluster.end().await;
}

/// A key whose `Clone` panics on demand.
#[derive(Debug)]
struct Fragile(u32, &'static AtomicU32);

impl PartialEq for Fragile {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Fragile {}

impl std::hash::Hash for Fragile {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        let is_first = self.0 == 0 && self.1.fetch_add(1, Ordering::Relaxed) == 0;
        assert!(!is_first, "a panic of Clone");
        Self(self.0, self.1)
    }
}

/// A panic of a key's own methods ends neither the worker nor the key.
// contract: K-05g
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panicking_key_is_retried() {
    let clones: &'static AtomicU32 = Box::leak(Box::default());
    let cluster = Cluster::start().await;
    let (sender, mut calls) = tokio::sync::mpsc::channel(100);
    let controller = Controller::of(&cluster.factory).keyed::<Fragile>("fragile").build(move |request| {
        _ = sender.try_send(request.0);
        async { Ok(Action::none()) }
    });
    let (queue, monitor) = (controller.queue().clone(), controller.monitor());
    queue.add(Fragile(0, clones));
    queue.add(Fragile(1, clones));
    let running = Running::of(controller);
    let mut keys = [crate::common::within(calls.recv()).await, crate::common::within(calls.recv()).await];
    keys.sort();
    assert_eq!(keys, [Some(0), Some(1)]);
    running.end().await.unwrap();
    assert_eq!(monitor.metrics().active, 0);
    cluster.end().await;
}

/// The monitor has the last failures with their keys, texts and attempts, also those of a timeout and of a panic.
// contract: K-18a, K-18b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn monitor_has_the_last_failures() {
    let cluster = Cluster::start().await;
    let builder = Controller::of(&cluster.factory).keyed::<u32>("numbers");
    let controller =
        builder.timeout(Duration::from_millis(20)).rate_limiter(short()).build(|request| async move {
            match (*request, request.failures) {
                (1, 0) => Err("broken".into()),
                (1, 1) => panic!("boom"),
                (1, 2) => std::future::pending().await,
                (1, _) => Err(ReconcileError::permanent("x".repeat(5_000))),
                (number, _) if number > 1 => Err(ReconcileError::permanent(format!("number {number}"))),
                _ => Ok(Action::none()),
            }
        });
    let (monitor, queue) = (controller.monitor(), controller.queue().clone());
    let running = Running::of(controller);
    let failed = |count| {
        let metrics = monitor.metrics();
        metrics.failed == count && metrics.queue.in_flight == 0
    };
    assert!(queue.add(1));
    crate::common::until(|| failed(4)).await;
    let failures = monitor.failures();
    let texts: Vec<_> = failures.iter().map(|failure| failure.to_string()).collect();
    let expected =
        ["1, attempt 1: broken", "1, attempt 2: it panicked: boom", "1, attempt 3: it took longer than 20ms"];
    assert_eq!(texts[..3], expected);
    assert_eq!(texts[3], format!("1, attempt 4: {}", "x".repeat(2_048)));
    (2..42).chain([0]).for_each(|number| assert!(queue.add(number)));
    crate::common::until(|| failed(44) && monitor.metrics().succeeded == 1).await;
    let kept = monitor.failures();
    assert_eq!(kept.len(), 32);
    assert_eq!((kept[31].key, kept[31].attempt, kept[31].error.as_str()), (41, 1, "number 41"));
    let text = monitor.to_string();
    let first = text.lines().next().unwrap();
    assert_eq!(first, "controller numbers, running: 1 reconciliations succeeded, 44 failed, 0 running");
    assert!(text.ends_with("\n  41, attempt 1: number 41") && text.lines().count() == 33, "{text}");
    running.end().await.unwrap();
    cluster.end().await;
}
