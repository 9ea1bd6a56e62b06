//! Example programs as processes, each through a kill of kube-apiserver.

use std::process::Stdio;

use e2e::{Options, programs};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::discovery::ApiResource;
use kube_core::{DynamicObject, GroupVersionKind};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::process::Child;

use crate::controllers::has_replicas;
use crate::output::Output;
use crate::planes;
use crate::recorder::{BOUND, eventually};

/// Sends a signal to a program, which ends without an error.
pub(crate) async fn end(program: &mut Child, signal: Signal) {
    let id = Pid::from_raw(program.id().unwrap().try_into().unwrap());
    kill(id, signal).unwrap();
    let ended = tokio::time::timeout(BOUND, program.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}");
}

/// The example program keeps the Deployment of a Foo through a kill of kube-apiserver, and ends by a signal.
#[tokio::test(flavor = "multi_thread")]
async fn sample_controller_survives_a_kill_of_the_api_server() {
    let mut control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let definition = serde_json::from_value(json!({
        "metadata": {
            "name": "foos.samplecontroller.k8s.io",
            // Groups below k8s.io require it.
            "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
        },
        "spec": {
            "group": "samplecontroller.k8s.io", "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }))
    .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let mut program = programs::example(programs::SAMPLE_CONTROLLER, &control_plane.kubeconfig()).unwrap();
    let mut program = program.kill_on_drop(true).spawn().unwrap();

    let kind = GroupVersionKind::gvk("samplecontroller.k8s.io", "v1alpha1", "Foo");
    let resource = ApiResource::from_gvk_with_plural(&kind, "foos");
    let foos: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    let foo =
        DynamicObject::new("foo", &resource).data(json!({"spec": {"deploymentName": "web", "replicas": 2}}));
    eventually("the kind is served", async || {
        foos.create(&PostParams::default(), &foo).await.map_err(|error| error.to_string())
    })
    .await;
    has_replicas(&client, "web", Some(2)).await;
    control_plane.kill_apiserver();
    control_plane.restart_apiserver().await.unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let deleted = eventually("a deletion after the restart", async || {
        let deleted = deployments.get("web").await.map_err(|error| error.to_string())?;
        let delete = deployments.delete("web", &DeleteParams::default()).await;
        delete.map(|_| deleted.metadata.uid).map_err(|error| error.to_string())
    })
    .await;
    eventually("the deployment is created again", async || {
        let found = deployments.get("web").await.map_err(|error| error.to_string())?;
        if found.metadata.uid == deleted { Err("it is the old one".to_owned()) } else { Ok(()) }
    })
    .await;
    end(&mut program, Signal::SIGTERM).await;
    delete_deployments(&client).await;
    planes::keep(control_plane).await;
}

/// The controller by hand reconciles pods, before and after.
#[tokio::test(flavor = "multi_thread")]
async fn workqueue_controller_survives_a_kill_of_the_api_server() {
    let mut control_plane = planes::take(Options::new().controllers()).await;
    let client = control_plane.client().await.unwrap();
    let mut program = programs::example(programs::WORKQUEUE_CONTROLLER, &control_plane.kubeconfig()).unwrap();
    let mut program = program.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut output = Output::of(&mut program);
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod = |image: &str| -> Pod {
        let containers = json!([{"name": "main", "image": image}]);
        serde_json::from_value(json!({"metadata": {"name": "web-0"}, "spec": {"containers": containers}}))
            .unwrap()
    };
    eventually("the service account exists", async || {
        let created = pods.create(&PostParams::default(), &pod("busybox:1")).await;
        created.map_err(|error| error.to_string())
    })
    .await;
    output.line(|line| line == "default/web-0 runs busybox:1").await;
    control_plane.kill_apiserver();
    control_plane.restart_apiserver().await.unwrap();
    eventually("a deletion after the restart", async || {
        let deleted = pods.delete("web-0", &DeleteParams::default().grace_period(0)).await;
        deleted.map_err(|error| error.to_string())
    })
    .await;
    output.line(|line| line == "default/web-0 is gone").await;
    end(&mut program, Signal::SIGINT).await;
    output.line(|line| line.ends_with("0 retries")).await;
    planes::keep(control_plane).await;
}

/// Processes that elect a leader: one is killed, one stopped and continued. The program compares the writes of all
/// leaders, and fails if they overlap.
#[tokio::test(flavor = "multi_thread")]
async fn leader_election_survives_a_kill_of_the_api_server() {
    let mut control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let mut program = programs::example(programs::LEADER_ELECTION, &control_plane.kubeconfig()).unwrap();
    let mut program = program.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut output = Output::of(&mut program);
    output.line(|line| line.starts_with("# stop ")).await;
    control_plane.kill_apiserver();
    control_plane.restart_apiserver().await.unwrap();
    output.line(|line| line.starts_with("# continue ")).await;
    output.line(|line| line.starts_with("written by c ")).await;
    let ended = tokio::time::timeout(BOUND, program.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}");
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
    let left = config_maps.list(&ListParams::default().labels("leader-election-example")).await.unwrap();
    assert_eq!(left.items.len(), 0);
    planes::keep(control_plane).await;
}

/// The operator has one Deployment for each zone, before and after. Their names are generated, so that a read of a state
/// before its own writes would lead to more.
#[tokio::test(flavor = "multi_thread")]
async fn cache_operator_survives_a_kill_of_the_api_server() {
    let mut control_plane = planes::take(Options::new()).await;
    let client = control_plane.client().await.unwrap();
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Website", "plural": "websites"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }))
    .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let mut program = programs::example(programs::CACHE_OPERATOR, &control_plane.kubeconfig()).unwrap();
    let mut program = program.kill_on_drop(true).spawn().unwrap();

    let kind = GroupVersionKind::gvk("example.com", "v1", "Website");
    let resource = ApiResource::from_gvk_with_plural(&kind, "websites");
    let websites: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    let zones = |zones: &[&str]| json!({"spec": {"zones": zones}});
    eventually("the kind is served", async || {
        let website = DynamicObject::new("web", &resource).data(zones(&["east", "west"]));
        websites.create(&PostParams::default(), &website).await.map_err(|error| error.to_string())
    })
    .await;
    has_zones(&client, &["east", "west"]).await;
    control_plane.kill_apiserver();
    control_plane.restart_apiserver().await.unwrap();
    eventually("a change after the restart", async || {
        let patch = Patch::Merge(zones(&["east", "north", "south"]));
        let patched = websites.patch("web", &PatchParams::default(), &patch).await;
        patched.map_err(|error| error.to_string())
    })
    .await;
    has_zones(&client, &["east", "north", "south"]).await;
    end(&mut program, Signal::SIGTERM).await;
    has_zones(&client, &["east", "north", "south"]).await;
    delete_deployments(&client).await;
    planes::keep(control_plane).await;
}

/// Deletes the Deployments whose owners no controller deletes here.
async fn delete_deployments(client: &Client) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
}

/// Waits until there is one Deployment for each of these zones.
async fn has_zones(client: &Client, zones: &[&str]) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    eventually("a deployment for each zone", async || {
        let found = deployments.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let labels = found.items.into_iter().map(|found| found.metadata.labels.unwrap_or_default());
        let mut found: Vec<String> = labels.filter_map(|mut labels| labels.remove("zone")).collect();
        found.sort();
        if found == zones { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}
