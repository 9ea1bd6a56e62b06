//! Control planes that tests use one after another: the start of one takes longer than most tests.

use e2e::{ControlPlane, Options};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube_client::api::{ListParams, PostParams};
use kube_client::{Api, Client};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;

/// How many control planes are kept while no test uses them.
const KEPT: usize = 4;

/// The control planes that no test uses, the longest unused one first. Statics are not dropped: their components end
/// with this process, whose pipes they read, and `cargo xtask e2e` removes their folders.
static IDLE: Mutex<Vec<ControlPlane>> = Mutex::new(Vec::new());

/// Returns a control plane for one test: an idle one with these options, or a new one. It may have objects of earlier
/// tests, but no pods, deployments and nodes.
pub(crate) async fn take(options: Options) -> ControlPlane {
    let idle = {
        let mut idle = IDLE.lock();
        let place = idle.iter().rposition(|control_plane| *control_plane.options() == options);
        place.map(|place| idle.remove(place))
    };
    match idle {
        Some(control_plane) => alive(control_plane),
        None => ControlPlane::start(options).await.unwrap_or_else(|error| panic!("{error}")),
    }
}

/// Keeps a control plane for other tests, unless it has pods, deployments or nodes. A test that fails drops its control
/// plane instead, which ends it.
pub(crate) async fn keep(control_plane: ControlPlane) {
    let client = control_plane.client().await.unwrap();
    if exists::<Pod>(&client).await || exists::<Deployment>(&client).await || exists::<Node>(&client).await {
        return;
    }
    let control_plane = alive(control_plane);
    let unused = {
        let mut idle = IDLE.lock();
        idle.push(control_plane);
        (idle.len() > KEPT).then(|| idle.remove(0))
    };
    drop(unused);
}

/// Fails with the log of a component that has ended.
fn alive(mut control_plane: ControlPlane) -> ControlPlane {
    control_plane.check().unwrap_or_else(|error| panic!("{error}"));
    control_plane
}

async fn exists<K>(client: &Client) -> bool
where
    K: kube_client::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    !Api::<K>::all(client.clone()).list(&ListParams::default().limit(1)).await.unwrap().items.is_empty()
}

/// Creates a namespace with an unused name, and returns the name.
pub(crate) async fn namespace(client: &Client, prefix: &str) -> String {
    let namespace = json!({"metadata": {"generateName": format!("{prefix}-")}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let created =
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await;
    created.unwrap().metadata.name.unwrap()
}
