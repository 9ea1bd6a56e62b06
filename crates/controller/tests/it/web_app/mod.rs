//! The operator of the example `web_app`, as a whole. Its life is the same on the real kube-apiserver (in e2e).

#[expect(dead_code, reason = "its main program")]
#[path = "../../../examples/web_app/main.rs"]
mod operator;
mod scenario;

use std::time::Duration;

use kinformer_apiserver::TestCluster;
use kinformer_controller::events::EventRecorder;
use kinformer_controller::kinformer::SharedInformerFactory;
use kinformer_controller::kinformer_leader_election::LeaderElector;
use kinformer_controller::{CancellationToken, Error, Manager};
use kube::CustomResourceExt as _;
use kube_client::Client;
use tokio::task::JoinHandle;

use operator::types;
use scenario::Life;

/// A replica of the operator.
struct Replica {
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

impl Replica {
    fn start(client: &Client) -> Self {
        let factory = SharedInformerFactory::new(client.clone());
        let elector = LeaderElector::builder(client.clone(), "default", operator::NAME).build().unwrap();
        let events = EventRecorder::new(client.clone(), operator::NAME, elector.identity());
        let manager = Manager::new().leader_election(&elector).events(&events, Duration::from_secs(5));
        let manager = manager.add(operator::operator(&factory, elector.client(client), events)).unwrap();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(manager.factory(&factory).run(shutdown.clone()));
        Self { shutdown, running }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }
}

// contract: K-13a, K-13b, K-02i, K-24a
#[tokio::test(start_paused = true)]
async fn operator_with_server_side_apply() {
    let cluster = TestCluster::builder().crd(types::WebApp::crd()).start().await.unwrap();
    let life = Life::begin(cluster.client(), "default").await;
    let first = Replica::start(&cluster.client());
    life.waits_for_its_config_map().await;
    life.changes().await;
    let managers = life.is_written_by_others().await;
    assert_eq!(managers, scenario::managers_of_the_deployment());
    let second = Replica::start(&cluster.client());
    first.stop().await;
    life.goes_on("shop:3").await;
    let third = Replica::start(&cluster.client());
    second.stop().await;
    life.goes_on("shop:4").await;
    life.ends().await;
    third.stop().await;
    life.has_events().await;
    cluster.shutdown().await;
}
