//! Tasks of a manager, their order, and the election.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinformer::BoxError;
use kinformer_apiserver::{Fault, Verb};
use kinformer_controller::kinformer_leader_election::{End, LeaderElector};
use kinformer_controller::{
    Action, CancellationToken, Controller, ControllerState, Error, Manager, State, Task,
};
use parking_lot::Mutex;

use crate::common::{Cluster, config_map, gated, key, recorded, until, within};

/// What has begun and ended, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    fn read(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// The function of a task that logs its start and its end.
    fn task(
        &self,
        name: &'static str,
    ) -> impl FnMut(CancellationToken) -> futures::future::BoxFuture<'static, Result<(), BoxError>> + Send + use<>
    {
        let log = self.clone();
        move |shutdown| {
            let log = log.clone();
            Box::pin(async move {
                log.add(format!("{name} begins"));
                shutdown.cancelled().await;
                log.add(format!("{name} ends"));
                Ok(())
            })
        }
    }
}

fn elector(cluster: &Cluster, identity: &str) -> LeaderElector {
    LeaderElector::builder(cluster.factory.client().clone(), "default", "test")
        .identity(identity)
        .renew_deadline(Duration::from_secs(5))
        .retry_period(Duration::from_millis(50))
        .build()
        .unwrap()
}

/// Servers, tasks of each replica, those of the leader in their groups, and the end in the opposite order.
// contract: K-21a, K-21b, K-21c
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_of_the_start_and_of_the_end() {
    let cluster = Cluster::start().await;
    let (log, shutdown) = (Log::default(), CancellationToken::new());
    let install = log.clone();
    let manager = Manager::new()
        .leader_election(&elector(&cluster, "own"))
        .factory(&cluster.factory)
        .add(Task::new("last", log.task("last")))
        .unwrap()
        .add(Task::new("first", log.task("first")))
        .unwrap()
        .add(Task::once("install", move || {
            install.add("installed");
            std::future::ready(Ok::<_, Error>(()))
        }))
        .unwrap()
        .add(Task::new("each", log.task("each")).need_leader_election(false))
        .unwrap()
        .add(Task::server("server", log.task("server")))
        .unwrap()
        .group(["install"])
        .group(["first"]);
    let running = tokio::spawn(manager.run(shutdown.clone()));
    until(|| log.read().len() == 5).await;
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    let begins = ["server begins", "each begins", "installed", "first begins", "last begins"];
    let ends = ["last ends", "first ends", "each ends", "server ends"];
    assert_eq!(log.read(), [&begins[..], &ends[..]].concat());
    assert!(cluster.factory.is_shut_down());
    cluster.end().await;
}

/// What fails is named, and the rest ends in order.
// contract: K-21d
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_named_and_the_rest_ends() {
    let panics = || Task::new("bad", async |_| -> Result<(), BoxError> { panic!("no luck") });
    let fails = || Task::new("bad", async |_| Err::<(), _>("no disk"));
    let ends = || Task::new("bad", async |_| Ok::<_, BoxError>(()));
    let panics_at_once =
        || Task::new("bad", |_| -> std::future::Ready<Result<(), BoxError>> { panic!("no luck") });
    let cases: [(&dyn Fn() -> Task, &str); 4] = [
        (&panics, "bad panicked: no luck"),
        (&panics_at_once, "bad panicked: no luck"),
        (&fails, "task bad: no disk"),
        (&ends, "task bad has ended before the shutdown; use Task::once for one that may"),
    ];
    for (bad, text) in cases {
        let log = Log::default();
        let manager = Manager::new()
            .add(Task::server("server", log.task("server")))
            .unwrap()
            .add(bad())
            .unwrap()
            .add(Task::new("other", log.task("other")).need_leader_election(false))
            .unwrap();
        let error = within(manager.run(CancellationToken::new())).await.unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(log.read(), ["server begins", "other begins", "other ends", "server ends"]);
    }
}

/// A task that does not end is dropped after its grace period. One that ends by itself is not waited for.
// contract: K-21e
#[tokio::test(start_paused = true)]
async fn tasks_that_do_not_end() {
    let dropped = Arc::new(());
    let (in_task, in_once) = (dropped.clone(), dropped.clone());
    let stuck = Task::new("stuck", move |_| {
        let held = in_task.clone();
        async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok::<_, BoxError>(())
        }
    });
    let once = Task::once("once", move || {
        let held = in_once.clone();
        async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok::<_, BoxError>(())
        }
    });
    let shutdown = CancellationToken::new();
    let manager = Manager::new().add(stuck.grace(Duration::from_secs(5))).unwrap().add(once).unwrap();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!running.is_finished());
    shutdown.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "task stuck: not ended within 5s after the shutdown");
    while Arc::strong_count(&dropped) > 1 {
        tokio::task::yield_now().await;
    }
}

/// Names of groups are checked before anything begins.
// contract: K-21d
#[tokio::test]
async fn names_of_groups() {
    let log = Log::default();
    let manager = || Manager::new().add(Task::new("a", log.task("a"))).unwrap();
    let run = async |manager: Manager| within(manager.run(CancellationToken::new())).await.unwrap_err();
    let error = run(manager().group(["a", "b"])).await;
    assert!(matches!(&error, Error::UnknownName { name } if &**name == "b"), "{error}");
    let error = run(manager().group(["a"]).group(["a"])).await;
    assert_eq!(error.to_string(), "\"a\" is in two groups of the manager");
    assert!(log.read().is_empty());
}

/// They do not exhaust the stack of a thread.
// contract: K-21c
#[tokio::test]
async fn many_groups() {
    const GROUPS: usize = 300;
    let (log, shutdown, mut manager) = (Log::default(), CancellationToken::new(), Manager::new());
    for number in 0..GROUPS {
        let name = format!("task {number}");
        manager = manager.add(Task::new(name.clone(), log.task("one"))).unwrap().group([name]);
    }
    let running = tokio::spawn(manager.run(shutdown.clone()));
    until(|| log.read().len() == GROUPS).await;
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    assert_eq!(log.read().len(), 2 * GROUPS);
}

/// A panic in the drop of a task's function is contained.
// contract: K-21d
#[tokio::test]
async fn function_that_panics_in_its_drop() {
    struct Panics(Arc<()>);
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in the drop")
        }
    }
    let count = Arc::new(());
    let panics = Panics(count.clone());
    let task = Task::once("task", move || {
        let is_used = Arc::strong_count(&panics.0) > 1;
        async move { if is_used { Ok(()) } else { Err(BoxError::from("dropped")) } }
    });
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Manager::new().add(task).unwrap().run(shutdown.clone()));
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    assert_eq!(Arc::strong_count(&count), 1);
}

/// An error whose text panics is the error of the run.
// contract: K-21d
#[tokio::test]
async fn error_that_cannot_be_written() {
    #[derive(Debug)]
    struct Unwritable;
    impl std::fmt::Display for Unwritable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no text")
        }
    }
    impl std::error::Error for Unwritable {}
    let manager = Manager::new().add(Task::new("bad", async |_| Err::<(), _>(Unwritable))).unwrap();
    let error = within(manager.run(CancellationToken::new())).await.unwrap_err();
    assert!(matches!(&error, Error::Task { name, .. } if &**name == "bad"));
}

/// What is added when the end has begun is refused, and does not begin.
// contract: K-21g
#[tokio::test]
async fn nothing_is_added_during_the_end() {
    let (log, shutdown) = (Log::default(), CancellationToken::new());
    let (may_end, ends) = tokio::sync::oneshot::channel::<()>();
    let (mut ends, begins) = (Some(ends), log.clone());
    let slow = Task::new("slow", move |_| {
        begins.add("slow begins");
        ends.take().unwrap()
    });
    let manager = Manager::new().add(slow).unwrap();
    let handle = manager.handle();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    until(|| log.read().len() == 1).await;
    shutdown.cancel();
    for late in [
        Task::server("server", log.task("server")),
        Task::new("each", log.task("each")).need_leader_election(false),
        Task::new("leader", log.task("leader")),
    ] {
        let error = handle.add(late).unwrap_err();
        assert!(matches!(error, Error::ManagerEnded { .. }), "{error}");
    }
    may_end.send(()).unwrap();
    within(running).await.unwrap().unwrap();
    assert_eq!(log.read(), ["slow begins"]);
}

/// An informer that triggers nothing has synced before the first reconciliation. Its failure is named.
// contract: K-21b
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_of_the_factory_sync_before() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let fault = cluster.server.faults().inject(Fault::internal_error().resource("secrets").always());
    let manager = |timeout| {
        let (calls, reconcile) = recorded(|_| Ok(Action::none()));
        let factory = kinformer::SharedInformerFactory::new(cluster.factory.client().clone());
        let controller = Controller::of(&factory).reconciles::<ConfigMap>().build(reconcile);
        _ = factory.informer::<Secret>().lister();
        let manager = Manager::new().factory(&factory).sync_timeout(timeout).add(controller).unwrap();
        (calls, manager, factory)
    };
    let (mut calls, fails, factory) = manager(Duration::from_millis(300));
    let error = within(fails.run(CancellationToken::new())).await.unwrap_err();
    assert!(matches!(error, Error::Factory(_)) && error.to_string().contains("secrets"), "{error}");
    assert!(calls.rest().is_empty() && factory.is_shut_down());

    let (mut calls, waits, _factory) = manager(Duration::from_secs(3600));
    let (health, shutdown) = (waits.health(), CancellationToken::new());
    let running = tokio::spawn(waits.run(shutdown.clone()));
    until(|| health.has_synced()).await; // those of its triggers
    assert!(calls.rest().is_empty() && health.state() == State::Starting);
    cluster.server.faults().remove(fault);
    assert_eq!(calls.next().await.key, key("a"));
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    cluster.end().await;
}

/// A lost leadership drops the reconciliations. The same controllers begin again with the next one, with all objects.
// contract: K-21f
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_controllers_begin_again() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let (mut calls, gate, reconcile) = gated();
    let (keys, receiver) = tokio::sync::mpsc::channel(10);
    let controller = Controller::of(&cluster.factory).reconciles::<ConfigMap>().workers(3);
    let controller = controller.trigger(kinformer_controller::Trigger::channel(receiver)).build(reconcile);
    let (log, monitor, shutdown) = (Log::default(), controller.monitor(), CancellationToken::new());
    let manager = Manager::new()
        .leader_election(&elector(&cluster, "own"))
        .rejoin_election()
        .add(controller)
        .unwrap()
        .add(Task::new("task", log.task("task")))
        .unwrap();
    let (health, running) = (manager.health(), tokio::spawn(manager.run(shutdown.clone())));
    assert_eq!(calls.next().await.key, key("a"));
    // Another process takes the Lease, and keeps it.
    let lists = cluster.server.requests().on(Verb::List).len();
    let hold = |holder: &str| {
        let mut lease =
            cluster.server.get("coordination.k8s.io/v1", "Lease", "default", "test").unwrap().unwrap();
        lease["spec"]["holderIdentity"] = holder.into();
        lease["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        cluster.server.update(lease).unwrap();
    };
    hold("other");
    until(|| monitor.state() == ControllerState::Synced && monitor.metrics().active == 0).await;
    assert_eq!((health.state(), health.has_synced()), (State::Starting, true));
    cluster.create(config_map("b", "1"));
    keys.try_send(key("by-hand")).unwrap();
    hold("");
    let mut all = [calls.next().await.key, calls.next().await.key, calls.next().await.key];
    all.sort();
    assert_eq!(all, [key("a"), key("b"), key("by-hand")]);
    gate.add_permits(10);
    assert_eq!(cluster.server.requests().on(Verb::List).len(), lists, "no object is listed again");
    until(|| health.is_ready()).await;
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    assert_eq!(log.read(), ["task begins", "task begins", "task ends"]);
    cluster.end().await;
}

/// Without the choice, the loss is an error, and what needs no leader has ended in order.
// contract: K-08h
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_leadership_ends_the_rest_in_order() {
    let cluster = Cluster::start().await;
    let log = Log::default();
    let manager = Manager::new()
        .leader_election(&elector(&cluster, "own"))
        .add(Task::new("leader", log.task("leader")))
        .unwrap()
        .add(Task::server("server", log.task("server")))
        .unwrap();
    let running = tokio::spawn(manager.run(CancellationToken::new()));
    until(|| log.read().len() == 2).await;
    cluster.server.delete("coordination.k8s.io/v1", "Lease", "default", "test").unwrap();
    let error = within(running).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::NotLeader(reason) if reason.end == End::Removed), "{error}");
    assert_eq!(log.read(), ["server begins", "leader begins", "server ends"]);
    cluster.end().await;
}

/// A controller that needs no leader reconciles before the election; one that is added while the manager runs, at once.
// contract: K-21g, K-21h
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_that_begin_later_or_without_a_leader() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1"));
    let other = within(elector(&cluster, "other").acquire()).await;
    let (mut each, reconcile) = recorded(|_| Ok(Action::none()));
    let controller = || Controller::of(&cluster.factory).reconciles::<ConfigMap>();
    let shutdown = CancellationToken::new();
    let manager = Manager::new().leader_election(&elector(&cluster, "own"));
    let (handle, health) = (manager.handle(), manager.health());
    let manager = manager.add(controller().need_leader_election(false).build(reconcile)).unwrap();
    let running = tokio::spawn(manager.run(shutdown.clone()));
    assert_eq!(each.next().await.key, key("a"));
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    handle.add(controller().name("added").build(reconcile)).unwrap();
    until(|| health.controllers().get(1).is_some_and(|added| added.state == ControllerState::Synced)).await;
    assert!(calls.rest().is_empty());
    within(other.release()).await.unwrap();
    assert_eq!(calls.next().await.key, key("a"));
    let (mut calls, reconcile) = recorded(|_| Ok(Action::none()));
    handle.add(controller().name("late").build(reconcile)).unwrap();
    assert_eq!(calls.next().await.key, key("a"));
    let (_calls, reconcile) = recorded(|_| Ok(Action::none()));
    let error = handle.add(controller().name("late").build(reconcile)).unwrap_err();
    assert!(matches!(&error, Error::DuplicateName { name } if &**name == "late"), "{error}");
    shutdown.cancel();
    within(running).await.unwrap().unwrap();
    let error = handle.add(Task::new("too late", async |_| Ok::<_, BoxError>(()))).unwrap_err();
    assert_eq!(error.to_string(), "too late was not started: the manager has ended");
    cluster.end().await;
}
