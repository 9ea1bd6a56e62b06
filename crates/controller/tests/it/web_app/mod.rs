//! An operator with server-side apply, as a whole. The scenario runs on the real kube-apiserver as well (in e2e).

mod operator;
mod scenario;

use kinformer_apiserver::TestCluster;

// contract: K-13a, K-13b
#[tokio::test(start_paused = true)]
async fn operator_with_server_side_apply() {
    let cluster = TestCluster::builder().crd(operator::definition()).start().await.unwrap();
    let managers = scenario::run(cluster.client(), "default").await;
    assert_eq!(managers, scenario::managers_of_the_deployment());
    cluster.shutdown().await;
}
