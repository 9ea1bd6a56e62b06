//! The operator of the tests of kinformer-controller, with server-side apply, on the real kube-apiserver.

#[path = "../../../crates/controller/tests/it/web_app/operator.rs"]
mod operator;
#[path = "../../../crates/controller/tests/it/web_app/scenario.rs"]
mod scenario;

use e2e::Options;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::Api;
use kube_client::api::PostParams;

use crate::planes;

/// The managers of its Deployment are those on the embedded server.
// contract: K-13a, K-13b
#[tokio::test(flavor = "multi_thread")]
async fn operator_with_server_side_apply() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &operator::definition()).await.unwrap();
    let namespace = planes::namespace(&client, "web-apps").await;
    let managers = scenario::run(client, &namespace).await;
    assert_eq!(managers, scenario::managers_of_the_deployment());
}
