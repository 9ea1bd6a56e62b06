//! The program of the tests: a handler, a controller whose replicas elect a leader, and a controller whose objects are shared out.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kinformer::prometheus::{InformerCollector, RequestCollector};
use kinformer::{ObjectKey, SharedInformerFactory};
use kinformer_apiserver::TestCluster;
use kinformer_controller::kinformer_leader_election::{LeaderElector, TokioClock};
use kinformer_controller::kinformer_ring::Ring;
use kinformer_controller::prometheus::ControllerCollector;
use kinformer_controller::{
    Action, CancellationToken, Controller, Manager, ReconcileError, Request, Sharding,
};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The name of the Lease of the leader.
pub(crate) const LEASE: &str = "operator";
/// The name of the ring.
pub(crate) const RING: &str = "shop";

/// What a handler or a reconciliation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Succeeds,
    Fails,
    FailsFor(&'static str),
    PanicsOnce,
    Hangs,
    HangsFor(&'static str),
    Takes(Duration),
}

/// A behavior that a test changes. What hangs goes on after a change.
#[derive(Clone)]
pub(crate) struct Switch(watch::Sender<Behavior>);

impl Switch {
    fn new() -> Self {
        Self(watch::Sender::new(Behavior::Succeeds))
    }

    pub(crate) fn set(&self, behavior: Behavior) {
        self.0.send_replace(behavior);
    }

    async fn act(&self, name: &str) -> Result<(), ReconcileError> {
        let behavior = *self.0.borrow();
        match behavior {
            Behavior::Fails => return Err("the fault of the test".into()),
            Behavior::FailsFor(failing) if failing == name => return Err("the fault of the test".into()),
            Behavior::PanicsOnce => {
                self.set(Behavior::Succeeds);
                panic!("the fault of the test");
            }
            Behavior::HangsFor(hanging) if hanging != name => {}
            Behavior::Hangs | Behavior::HangsFor(_) => {
                let mut changes = self.0.subscribe();
                _ = changes.wait_for(|now| *now != behavior).await;
            }
            Behavior::Takes(duration) => tokio::time::sleep(duration).await,
            Behavior::Succeeds | Behavior::FailsFor(_) => {}
        }
        Ok(())
    }
}

/// A process.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    pub(crate) handler: Switch,
    pub(crate) reconcile: Switch,
    factory: SharedInformerFactory,
    informers: InformerCollector,
    registry: Registry,
    tasks: Vec<JoinHandle<Result<(), kinformer_controller::Error>>>,
}

impl Operator {
    pub(crate) fn start(cluster: &TestCluster, name: &'static str) -> Self {
        let client = cluster.client_of(name).unwrap();
        let factory = SharedInformerFactory::new(client.clone());
        let (handler, reconcile) = (Switch::new(), Switch::new());
        let maps = factory.informer::<ConfigMap>();
        maps.decode_on_arrival();
        let report = handler.clone();
        let report = maps.handler().name("report").for_each_async(move |event| {
            let report = report.clone();
            async move { _ = report.act(event.key().name()).await }
        });
        report.unwrap();

        let elector = LeaderElector::builder(client.clone(), "default", LEASE).identity(name);
        let elector = elector.clock(TokioClock::new()).build().unwrap();
        let switch = reconcile.clone();
        let controller = Controller::of(&factory).reconciles::<ConfigMap>().workers(2).build(
            move |request: Request<ObjectKey>| {
                let switch = switch.clone();
                async move { switch.act(request.name()).await.map(|()| Action::none()) }
            },
        );
        let manager = Manager::new().factory(&factory).leader_election(&elector).rejoin_election();
        let manager = manager.add(controller).unwrap();

        let ring = Ring::leases(client.clone(), "default", RING).identity(name).clock(TokioClock::new());
        let sharding = Sharding::new(ring.build().unwrap());
        let shard = SharedInformerFactory::new(client);
        let sharded = Controller::of(&shard).reconciles::<Secret>().sharded(&sharding);
        let sharded = sharded.build(async |_| Ok(Action::none()));
        let of_ring = Manager::new().add(sharded).unwrap().sharding(&sharding).unwrap();

        let informers = InformerCollector::new();
        maps.add_to(&informers).unwrap();
        shard.informer::<Secret>().add_to(&informers).unwrap();
        let controllers = ControllerCollector::new();
        controllers.add_manager(&manager).unwrap();
        controllers.add_manager(&of_ring).unwrap();
        controllers.add_election(&elector);
        controllers.add_ring(sharding.ring());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(informers.clone()));
        registry.register_collector(Box::new(controllers));
        registry.register_collector(Box::new(RequestCollector));
        let tasks = [manager, of_ring].map(|manager| tokio::spawn(manager.run(CancellationToken::new())));
        Self { name, handler, reconcile, factory, informers, registry, tasks: tasks.into() }
    }

    /// Starts another informer.
    pub(crate) fn watch_pods(&self) {
        self.factory.informer::<Pod>().add_to(&self.informers).unwrap();
        self.factory.start().unwrap();
    }

    /// The text of `/metrics`.
    pub(crate) fn page(&self) -> String {
        let mut page = String::new();
        text::encode(&mut page, &self.registry).unwrap();
        page
    }

    /// Ends the process without its last words.
    pub(crate) fn crash(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
