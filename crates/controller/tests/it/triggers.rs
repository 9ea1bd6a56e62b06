//! What enqueues keys.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::{ObjectKey, Scope, SharedInformerFactory};
use kinformer_controller::{Action, CancellationToken, Controller, Error, Predicate, Reason, Trigger};
use kinformer_workqueue::LOW_PRIORITY;
use serde_json::json;

use crate::common::{Cluster, Running, config_map, gated, key, recorded};

/// Each event of an object enqueues its key, a deletion too. Changes during a reconciliation lead to one more.
// contract: K-01a, K-01b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_enqueue_the_key() {
    let cluster = Cluster::start().await;
    let (mut calls, gate, reconcile) = gated();
    let builder = Controller::of(&cluster.factory).reconciles::<ConfigMap>().workers(4);
    let controller = builder.build(reconcile);
    assert_eq!(&**controller.name(), "configmap");
    let running = Running::of(controller);
    cluster.create(config_map("a", "1"));
    assert_eq!(calls.next().await.key, key("a"));
    let config_maps = cluster.factory.informer::<ConfigMap>();
    for value in 2..10 {
        cluster.change("a", &value.to_string());
    }
    cluster.server.delete("v1", "ConfigMap", "default", "a").unwrap();
    while config_maps.lister().get(("default", "a")).is_ok() {
        tokio::task::yield_now().await;
    }
    cluster.create(config_map("b", "1"));
    assert_eq!(calls.next().await.key, key("b"), "`a` is in flight once, though there are other workers");
    gate.add_permits(2); // they may wait for them in any order
    assert_eq!(calls.next().await.key, key("a"));
    gate.add_permits(10);
    cluster.create(config_map("c", "1"));
    assert_eq!(calls.next().await.key, key("c"));
    running.end().await.unwrap();
    cluster.end().await;
}

/// An object that leaves the scope is not reconciled, and its queued key is dropped. It is reconciled when it comes back.
// contract: D-10a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leaves_the_scope_is_not_reconciled() {
    let cluster = Cluster::start().await;
    ["a", "b"].into_iter().for_each(|name| drop(cluster.create(config_map(name, "1"))));
    let (mut calls, gate, reconcile) = gated();
    let controller = Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile);
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    calls.next().await;
    while queue.depth() < 1 {
        tokio::task::yield_now().await;
    }
    let config_maps = cluster.factory.informer::<ConfigMap>();
    config_maps.set_scope(&Scope::namespaces(["other"])).await.unwrap();
    while queue.depth() > 0 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(10);
    config_maps.set_scope(&Scope::namespaces(["default"])).await.unwrap();
    let keys: BTreeSet<_> = [calls.next().await.key, calls.next().await.key].into();
    assert_eq!(keys, [key("a"), key("b")].into());
    assert!(calls.rest().is_empty());
    running.end().await.unwrap();
    cluster.end().await;
}

/// As many keys are reconciled at the same time as there are workers.
// contract: K-01c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_reconcile_at_the_same_time() {
    let cluster = Cluster::start().await;
    (0..10).for_each(|i| drop(cluster.create(config_map(&format!("c{i}"), "1"))));
    let (mut calls, gate, reconcile) = gated();
    let running =
        Running::of(Controller::of(&cluster.factory).reconciles::<ConfigMap>().workers(3).build(reconcile));
    let mut keys: BTreeSet<_> =
        [calls.next().await.key, calls.next().await.key, calls.next().await.key].into();
    tokio::task::yield_now().await;
    assert!(calls.rest().is_empty());
    gate.add_permits(10);
    while keys.len() < 10 {
        keys.insert(calls.next().await.key);
    }
    running.end().await.unwrap();
    cluster.end().await;
}

/// Keys of the initial list are queued below keys of live changes.
// contract: K-04a
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn initial_list_has_a_low_priority() {
    let cluster = Cluster::start().await;
    (0..3).for_each(|i| drop(cluster.create(config_map(&format!("old-{i}"), "1"))));
    let (mut calls, gate, reconcile) = gated();
    let controller = Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile);
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    assert_eq!(calls.next().await.priority, LOW_PRIORITY);
    cluster.create(config_map("new", "1"));
    while queue.depth() < 3 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(10);
    let next = calls.next().await;
    assert_eq!((next.key, next.priority), (key("new"), 0));
    assert_eq!(calls.next().await.priority, LOW_PRIORITY);
    running.end().await.unwrap();
    cluster.end().await;
}

/// A resync enqueues keys with a low priority; a priority of the trigger applies to all events.
// contract: K-04a, K-04b
#[tokio::test(start_paused = true)]
async fn priorities_of_triggers() {
    let period = Duration::from_secs(3600);
    for (priority, expected) in [(None, [LOW_PRIORITY, 0, LOW_PRIORITY]), (Some(7), [7, 7, 7])] {
        let Cluster { server, .. } = Cluster::start().await;
        let client = kinformer::client(server.config().unwrap()).unwrap();
        let factory = SharedInformerFactory::builder(client).default_resync(period).build();
        let cluster = Cluster { server, factory };
        cluster.create(config_map("a", "1"));
        let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
        let trigger = Trigger::on(&cluster.factory.informer::<ConfigMap>());
        let trigger = if let Some(priority) = priority { trigger.priority(priority) } else { trigger };
        let controller = Controller::of(&cluster.factory).reconciles_on(trigger).build(reconcile);
        tokio::time::resume();
        let running = Running::of(controller);
        let of_list = calls.next().await.priority;
        cluster.change("a", "2");
        let of_change = calls.next().await.priority;
        tokio::time::pause();
        tokio::time::advance(period).await;
        tokio::time::resume();
        assert_eq!([of_list, of_change, calls.next().await.priority], expected);
        running.end().await.unwrap();
        cluster.end().await;
        tokio::time::pause();
    }
}

/// A map function enqueues any keys for an object. If it panics, the event enqueues nothing, and later events do.
// contract: K-02e, K-02h
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_map_events_to_keys() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let controller = Controller::of(&cluster.factory)
        .reconciles::<ConfigMap>()
        .watches::<Secret>(|secret, keys| {
            assert_ne!(secret.name(), "bad");
            keys.push(key(secret.name()));
            keys.push(key("every-secret"));
            Ok(())
        })
        .build(reconcile);
    let running = Running::of(controller);
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}});
    cluster.create(secret("bad"));
    cluster.create(secret("good"));
    assert_eq!(calls.next().await.key, key("good"));
    assert_eq!(calls.next().await.key, key("every-secret"));
    running.end().await.unwrap();
    cluster.end().await;
}

/// A map function is called for both states of an update, and reads the indexes of other informers, which have synced before.
/// An error is logged, and the keys before it are enqueued.
// contract: K-02b, K-02e, K-02h
#[tokio::test]
async fn map_functions_read_indexes() {
    let (_guard, lines) = kinformer_testing::logs::of_this_thread();
    let cluster = Cluster::start().await;
    let secret = |of: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default", "labels": {"of": of}}});
    for name in ["a", "b", "c"] {
        cluster.create(config_map(name, name));
    }
    cluster.create(secret("a"));
    let config_maps = cluster.factory.informer::<ConfigMap>();
    config_maps.index_by_field("value", &["data", "value"]).unwrap();
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let lister = config_maps.lister();
    let secrets = Trigger::on(&cluster.factory.informer::<Secret>()).map(move |secret, keys| {
        for config_map in lister.by_index("value", secret.label("of").unwrap_or_default())? {
            keys.push(config_map.key().try_into()?);
        }
        lister.by_index("no-such-index", "")?;
        Ok(())
    });
    // The informer of each trigger has synced before.
    let none = Trigger::on(&config_maps).map(|_, _| Ok(()));
    let builder = Controller::of(&cluster.factory).keyed("secrets").trigger(secrets).trigger(none);
    let running = Running::of(builder.build(reconcile));
    assert_eq!(calls.next().await.key, key("a"));
    cluster.server.update(secret("b")).unwrap();
    let both: BTreeSet<_> = [calls.next().await.key, calls.next().await.key].into();
    assert_eq!(both, [key("a"), key("b")].into());
    let failed =
        lines.having(&["ERROR", "trigger failed; keys may be missing", "default/s", "no-such-index"]);
    assert_eq!(failed.len(), 2, "one of each event");
    running.end().await.unwrap();
    cluster.end().await;
}

/// Keys of any type, from a channel.
// contract: K-02f, K-02g
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_channel() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded::<(u8, &str)>(|_| Ok(Action::none()));
    let (sender, keys) = tokio::sync::mpsc::channel(10);
    let (mut other_sender, other_keys) = mpsc::channel(10);
    let controller = Controller::of(&cluster.factory)
        .keyed("numbers")
        .trigger(Trigger::channel(keys))
        .trigger(Trigger::stream(other_keys))
        .trigger(Trigger::on(&cluster.factory.informer::<ConfigMap>()).map(|_, keys| {
            keys.push((2, "two"));
            Ok(())
        }))
        .build(reconcile);
    let running = Running::of(controller);
    sender.try_send((1, "one")).unwrap();
    assert_eq!(calls.next().await.key, (1, "one"));
    other_sender.try_send((3, "three")).unwrap();
    assert_eq!(calls.next().await.key, (3, "three"));
    cluster.create(config_map("a", "1"));
    assert_eq!(*calls.next().await, (2, "two"));
    running.end().await.unwrap();
    assert!(sender.is_closed() && other_sender.is_closed(), "the streams are dropped");
    cluster.end().await;
}

/// With a delay, several changes lead to one reconciliation.
// contract: K-04c
#[tokio::test(start_paused = true)]
async fn debounce_delays_keys() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let config_maps = cluster.factory.informer::<ConfigMap>();
    let trigger = Trigger::on(&config_maps).debounce(Duration::from_secs(3600));
    let controller = Controller::of(&cluster.factory).reconciles_on(trigger).build(reconcile);
    tokio::time::resume();
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    cluster.create(config_map("a", "1"));
    while queue.metrics().delayed == 0 {
        tokio::task::yield_now().await;
    }
    cluster.change("a", "2");
    cluster.create(config_map("b", "1"));
    while queue.metrics().delayed < 2 {
        tokio::task::yield_now().await;
    }
    assert!(calls.rest().is_empty());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3601)).await;
    tokio::time::resume();
    let keys = [calls.next().await.key, calls.next().await.key];
    assert_eq!(keys, [key("a"), key("b")]);
    assert!(calls.rest().is_empty());
    running.end().await.unwrap();
    cluster.end().await;
}

/// Keys can be added to the queue directly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_takes_keys() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded::<ObjectKey>(|_| Ok(Action::none()));
    let controller = Controller::of(&cluster.factory).reconciles::<ConfigMap>().build(reconcile);
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    queue.add(key("by-hand"));
    assert_eq!(calls.next().await.key, key("by-hand"));
    running.end().await.unwrap();
    cluster.end().await;
}

/// A stream that panics ends; the controller goes on.
// contract: K-05g
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panicking_stream_ends() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded::<u32>(|_| Ok(Action::none()));
    let keys = futures::stream::iter(0_u32..).inspect(|key| assert!(*key < 2));
    let controller =
        Controller::of(&cluster.factory).keyed("numbers").trigger(Trigger::stream(keys)).build(reconcile);
    let queue = controller.queue().clone();
    let running = Running::of(controller);
    assert_eq!([calls.next().await.key, calls.next().await.key], [0, 1]);
    queue.add(7);
    assert_eq!(calls.next().await.key, 7);
    running.end().await.unwrap();
    cluster.end().await;
}

/// A stream that is always ready neither keeps the only thread nor survives the controller.
// contract: K-02f, K-07d
#[tokio::test]
async fn stream_that_is_always_ready() {
    let cluster = Cluster::start().await;
    let (mut calls, reconcile) = recorded::<u32>(|_| Ok(Action::none()));
    let keys = futures::stream::repeat(1);
    let controller =
        Controller::of(&cluster.factory).keyed("numbers").trigger(Trigger::stream(keys)).build(reconcile);
    let running = Running::of(controller);
    assert_eq!(calls.next().await.key, 1);
    running.end().await.unwrap();
    cluster.end().await;
}

/// The objects whose field has the name of a changed one are enqueued, of its namespace only. Controllers share the index.
// contract: K-02i
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn references_enqueue_the_objects_that_refer() {
    let cluster = Cluster::start().await;
    cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
    for (namespace, name, refers_to) in [("default", "a", "x"), ("default", "b", "x"), ("other", "c", "x")] {
        cluster.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
            "data": {"secret": refers_to}}));
    }
    let builder = || {
        let never = Predicate::new(|_| false);
        let config_maps = Trigger::on(&cluster.factory.informer::<ConfigMap>()).filter(never);
        Controller::of(&cluster.factory).reconciles_on(config_maps).refers_to::<Secret>(&["data", "secret"])
    };
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    let (mut other_calls, other) = recorded(|_| Ok(Action::none()));
    let (running, other) = (Running::of(builder().build(reconcile)), Running::of(builder().build(other)));
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}});
    cluster.create(secret("y")); // nothing refers to it
    cluster.create(secret("x"));
    for calls in [&mut calls, &mut other_calls] {
        let (first, second) = (calls.next().await, calls.next().await);
        assert!(first.reasons.contains(Reason::Mapped), "{first:?}");
        assert_eq!(BTreeSet::from([first.key, second.key]), [key("a"), key("b")].into());
    }
    cluster.server.delete("v1", "Secret", "default", "x").unwrap();
    assert_eq!(BTreeSet::from([calls.next().await.key, calls.next().await.key]), [key("a"), key("b")].into());
    running.end().await.unwrap();
    other.end().await.unwrap();
    assert!(calls.rest().is_empty());

    // Another index with the name is an error, and so is a controller without a reconciled kind.
    cluster.factory.informer::<ConfigMap>().index("data.other", |_, _| Ok(())).unwrap();
    let taken = builder().refers_to::<Secret>(&["data", "other"]).build(async |_| Ok(Action::none()));
    let error = taken.run(CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("data.other"), "{error}");
    let keyed = Controller::of(&cluster.factory).keyed::<ObjectKey>("keyed").refers_to::<Secret>(&["data"]);
    let error = keyed.build(async |_| Ok(Action::none())).run(CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, Error::NoReconciledKind { .. }), "{error}");
    cluster.end().await;
}
