//! Controllers and leader election.

use std::sync::Arc;
use std::time::Duration;

use e2e::Options;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kinformer::{Lister, ObjectKey};
use kinformer_controller::events::{EventRecorder, EventType};
use kinformer_controller::{
    Action, CancellationToken, Controller, Manager, ReconcileError, Request, apply, finalizer,
    set_controller_reference,
};
use kinformer_leader_election::{End, LeaderElector, NotLeader};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::Resource as _;
use serde_json::json;

use crate::mode::factory;
use crate::planes;
use crate::recorder::eventually;

const FINALIZER: &str = "example.com/cleanup";

/// Each config map has a deployment with the number of replicas in its data, and a finalizer.
async fn reconcile(
    config_maps: &Lister<ConfigMap>,
    client: &Client,
    request: Request<ObjectKey>,
) -> Result<Action, ReconcileError> {
    let Ok(config_map) = config_maps.get(&request.key) else { return Ok(Action::none()) };
    let config_map = config_map.decode_arc()?;
    if !config_map.data.as_ref().is_some_and(|data| data.contains_key("replicas")) {
        return Ok(Action::none()); // one of Kubernetes' own
    }
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let cleanup = async |_| -> Result<(), ReconcileError> {
        let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
        match deployments.delete(request.name(), &DeleteParams::background()).await {
            Err(kube_client::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(|_| ()).map_err(ReconcileError::from),
        }
    };
    finalizer::finalize(&api, config_map, FINALIZER, |config_map| deploy(client, config_map), cleanup).await
}

async fn deploy(client: &Client, config_map: Arc<ConfigMap>) -> Result<Action, ReconcileError> {
    let name = config_map.metadata.name.as_deref().unwrap_or_default();
    let replicas = config_map.data.as_ref().and_then(|data| data.get("replicas")).ok_or("no replicas")?;
    let replicas: i32 = replicas.parse().map_err(ReconcileError::permanent)?;
    let mut deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }))?;
    set_controller_reference(&*config_map, &mut deployment)?;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    apply::object(&deployments, &deployment, "example").await?;
    Ok(Action::none())
}

pub(crate) async fn has_replicas(client: &Client, name: &str, replicas: Option<i32>) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    eventually("replicas of the deployment", async || {
        let found = deployments.get_opt(name).await.map_err(|error| error.to_string())?;
        let found = found.map(|found| serde_json::to_value(found).unwrap()["spec"]["replicas"].as_i64());
        if found == replicas.map(|replicas| Some(i64::from(replicas))) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}

/// A controller with a finalizer and server-side apply keeps its deployments through a kill of kube-apiserver.
#[tokio::test(flavor = "multi_thread")]
async fn controller_survives_a_kill_of_the_api_server() {
    let mut control_plane = planes::take(Options::new().controllers()).await;
    let client = control_plane.client().await.unwrap();
    let factory = factory(client.clone()).build();
    let config_maps = factory.informer::<ConfigMap>().lister();
    let reconciler = client.clone();
    let controller = Controller::of(&factory)
        .reconciles::<ConfigMap>()
        .owns::<Deployment>()
        .workers(4)
        .timeout(Duration::from_secs(10))
        .build(move |request| {
            let (config_maps, client) = (config_maps.clone(), reconciler.clone());
            async move { reconcile(&config_maps, &client, request).await }
        });
    let monitor = controller.monitor();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Manager::new().add(controller).unwrap().run(shutdown.clone()));

    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let write = |name: &str, replicas: &str| {
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"replicas": replicas}});
        let (api, name) = (api.clone(), name.to_owned());
        async move { api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(config_map)).await }
    };
    write("web", "2").await.unwrap();
    has_replicas(&client, "web", Some(2)).await;
    write("web", "3").await.unwrap();
    has_replicas(&client, "web", Some(3)).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.delete("web", &DeleteParams::background()).await.unwrap();
    has_replicas(&client, "web", Some(3)).await;

    control_plane.kill_apiserver();
    control_plane.restart_apiserver().await.unwrap();
    eventually("a write after the restart", async || {
        write("web", "4").await.map_err(|error| error.to_string())
    })
    .await;
    has_replicas(&client, "web", Some(4)).await;
    write("invalid", "many").await.unwrap();
    eventually("a permanent error", async || {
        let metrics = monitor.metrics();
        if metrics.permanent > 0 { Ok(()) } else { Err(format!("{metrics:?}")) }
    })
    .await;
    api.delete("web", &DeleteParams::default()).await.unwrap();
    has_replicas(&client, "web", None).await;
    eventually("the deletion of the config map", async || match api.get_opt("web").await {
        Ok(None) => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    factory.shutdown().await.unwrap();
    planes::keep(control_plane).await;
}

fn elector(client: &Client, identity: &str) -> LeaderElector {
    LeaderElector::builder(client.clone(), "default", "test")
        .identity(identity)
        .lease_duration(Duration::from_secs(6))
        .renew_deadline(Duration::from_secs(4))
        .retry_period(Duration::from_millis(500))
        .build()
        .unwrap()
}

/// kube-apiserver accepts events, and the count of a series.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_recorded() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map = serde_json::from_value(json!({"metadata": {"name": "map"}})).unwrap();
    let map = maps.create(&PostParams::default(), &map).await.unwrap();
    let recorder = EventRecorder::new(client.clone(), "example.com/controller", "controller-0");
    for _ in 0..2 {
        let object = map.object_ref(&());
        recorder.event(&object, EventType::Warning, "Invalid", "Reconcile", "replicas is not a number");
    }
    let events: Api<Event> = Api::default_namespaced(client.clone());
    eventually("a series of two events", async || {
        let found = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let of_map =
            |event: &&Event| event.regarding.as_ref().is_some_and(|object| object.uid == map.metadata.uid);
        let found: Vec<_> = found.iter().filter(of_map).collect();
        match found.as_slice() {
            [event] if event.series.as_ref().is_some_and(|series| series.count == 2) => {
                assert_eq!(event.note.as_deref(), Some("replicas is not a number"));
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    planes::keep(control_plane).await;
}

/// Two electors: after a release, after the end of a process, and after the Lease was deleted. The server accepts the time
/// limits of writes.
#[tokio::test(flavor = "multi_thread")]
async fn leaders_are_elected_by_a_lease() {
    let control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let (a, b) = (elector(&client, "a"), elector(&client, "b"));
    let first = a.acquire().await;
    let leader = first.client(&client);
    let api: Api<ConfigMap> = Api::default_namespaced(leader.clone());
    let mut config_map = ConfigMap::default();
    config_map.metadata.name = Some("written".to_owned());
    let written = api.create(&PostParams::default(), &config_map).await.unwrap();
    let waiting = tokio::spawn(async move { b.acquire().await });
    assert!(first.release().await.unwrap());
    let second = waiting.await.unwrap();
    let refused = api.replace("written", &PostParams::default(), &written).await.unwrap_err();
    assert_eq!(NotLeader::of(&refused).unwrap().end, End::Released);
    assert_eq!((second.transitions(), a.leader()), (1, None));
    drop(second); // like a process that has ended

    let third = a.acquire().await;
    assert_eq!(third.transitions(), 2);
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    leases.delete("test", &DeleteParams::default()).await.unwrap();
    assert_eq!(third.ended().await.end, End::Removed);
    planes::keep(control_plane).await;
}
