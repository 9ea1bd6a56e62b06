//! Kubernetes' sample-controller: each Foo has a Deployment with as many replicas as the Foo asks for. The Deployment is
//! created again when it is deleted, and corrected when it is changed; the status of the Foo shows its available replicas.
//!
//! `cargo run -p kinformer-controller --example sample_controller` runs it on an API server in this process, changes
//! objects, and ends by itself. With `-- KUBECONFIG`, or the variable `$KUBECONFIG`, it runs on that cluster, where the
//! kind must be defined, until it receives Ctrl-C.
#![allow(clippy::print_stdout, reason = "an example program prints")]
#![allow(clippy::disallowed_names, reason = "the kind of the sample is Foo")]
#![allow(clippy::indexing_slicing, reason = "indexing a JSON value returns null for a missing field")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kinformer::{FieldPath, Lister, ObjectKey, PackedMetadata as _, SharedInformerFactory};
use kinformer_apiserver::ApiServer;
use kinformer_controller::{
    Action, CancellationToken, Controller, Manager, ReconcileError, Request, set_controller_reference,
};
use kube::{CustomResource, CustomResourceExt as _};
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;

/// The custom resource. Groups below k8s.io require the annotation.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    namespaced,
    status = "FooStatus"
)]
#[kube(annotation("api-approved.kubernetes.io", "unapproved, experimental-only"))]
#[serde(rename_all = "camelCase")]
struct FooSpec {
    deployment_name: String,
    replicas: i32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FooStatus {
    available_replicas: i32,
}

/// What a reconciliation needs: the stores of the informers, and a client to write.
struct Reconciler {
    foos: Lister<Foo>,
    deployments: Lister<Deployment>,
    client: Client,
    /// What was written.
    written: mpsc::Sender<String>,
}

impl Reconciler {
    async fn reconcile(&self, request: Request<ObjectKey>) -> Result<Action, ReconcileError> {
        let Some(foo) = self.foos.get_opt(&request.key)? else {
            return Ok(Action::none()); // it was deleted; the garbage collector deletes its Deployment
        };
        let foo = foo.decode_arc()?;
        if foo.spec.deployment_name.is_empty() {
            return Err(ReconcileError::permanent("spec.deploymentName is empty"));
        }
        let namespace = request.namespace().unwrap_or_default();
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let wanted = deployment(&foo)?;
        let available = match self.deployments.get_opt((namespace, &*foo.spec.deployment_name))? {
            None => {
                // Refused if the store does not have it yet; the retry finds it.
                api.create(&PostParams::default(), &wanted).await?;
                self.report(format!("created deployment {} for {}", foo.spec.deployment_name, request.key))
                    .await;
                0
            }
            Some(deployment) => {
                // Fields are read in place; the object is not decoded.
                if !deployment
                    .owner_references()?
                    .iter()
                    .any(|owner| Some(&owner.uid) == foo.metadata.uid.as_ref())
                {
                    return Err("the deployment belongs to another owner".into());
                }
                if deployment.field(&FieldPath::new(&["spec", "replicas"]))? != Some(foo.spec.replicas) {
                    // Refused if the deployment has changed since it was stored.
                    let replicas = Patch::Merge(json!({
                        "metadata": {"resourceVersion": deployment.resource_version().to_string()},
                        "spec": {"replicas": foo.spec.replicas},
                    }));
                    api.patch(&foo.spec.deployment_name, &PatchParams::default(), &replicas).await?;
                    self.report(format!("scaled {} to {}", foo.spec.deployment_name, foo.spec.replicas))
                        .await;
                }
                deployment.field(&FieldPath::new(&["status", "availableReplicas"]))?.unwrap_or(0)
            }
        };
        let status = Patch::Merge(json!({"status": {"availableReplicas": available}}));
        let foos: Api<Foo> = Api::namespaced(self.client.clone(), namespace);
        foos.patch_status(request.name(), &PatchParams::default(), &status).await?;
        Ok(Action::none())
    }

    async fn report(&self, written: String) {
        _ = self.written.send(written).await; // without an effect at the end of the program
    }
}

fn deployment(foo: &Foo) -> Result<Deployment, ReconcileError> {
    let labels = json!({"app": "nginx", "controller": foo.metadata.name});
    let mut deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": foo.spec.deployment_name, "namespace": foo.metadata.namespace},
        "spec": {
            "replicas": foo.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
            },
        },
    }))?;
    set_controller_reference(foo, &mut deployment)?;
    Ok(deployment)
}

fn manager(
    factory: &SharedInformerFactory,
    written: mpsc::Sender<String>,
) -> Result<Manager, Box<dyn Error>> {
    let reconciler = Arc::new(Reconciler {
        foos: factory.informer::<Foo>().lister(),
        deployments: factory.informer::<Deployment>().lister(),
        client: factory.client().clone(),
        written,
    });
    let controller =
        Controller::of(factory).reconciles::<Foo>().owns::<Deployment>().workers(2).build(move |request| {
            let reconciler = reconciler.clone();
            async move { reconciler.reconcile(request).await }
        });
    Ok(Manager::new().factory(factory).add(controller)?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).or_else(|| std::env::var("KUBECONFIG").ok()) {
        Some(kubeconfig) => run(&kubeconfig).await,
        None => tokio::time::timeout(Duration::from_secs(60), demo()).await?,
    }
}

/// Runs on a cluster until the process receives a signal.
async fn run(kubeconfig: &str) -> Result<(), Box<dyn Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let factory = SharedInformerFactory::new(kinformer::client(config)?);
    let (written, mut reports) = mpsc::channel(16);
    let print = async {
        while let Some(written) = reports.recv().await {
            println!("{written}");
        }
    };
    let (ended, ()) = tokio::join!(manager(&factory, written)?.run_until_signal(), print);
    Ok(ended?)
}

async fn demo() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().start().await?; // a cluster in this process
    server.create(serde_json::to_value(Foo::crd())?)?;
    let client = kinformer::client(server.config()?)?;
    let factory = SharedInformerFactory::new(client.clone());
    let shutdown = CancellationToken::new();
    let (written, mut reports) = mpsc::channel(16);
    let running = tokio::spawn(manager(&factory, written)?.run(shutdown.clone()));

    change_objects(&server, &client, &mut reports).await?;
    shutdown.cancel();
    running.await??;
    server.shutdown().await;
    Ok(())
}

/// What users and other controllers do to the cluster.
async fn change_objects(
    server: &ApiServer,
    client: &Client,
    written: &mut mpsc::Receiver<String>,
) -> Result<(), Box<dyn Error>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    println!("# create a Foo");
    let mut foo = server.create(json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
        "metadata": {"name": "example-foo", "namespace": "default"},
        "spec": {"deploymentName": "example", "replicas": 1},
    }))?;
    print_next(written).await?;
    println!("# ask for three replicas");
    foo["spec"]["replicas"] = json!(3);
    foo["metadata"].as_object_mut().ok_or("no metadata")?.remove("resourceVersion");
    server.update(foo)?;
    print_next(written).await?;
    println!("# delete the deployment");
    server.delete("apps/v1", "Deployment", "default", "example")?;
    print_next(written).await?;
    println!("# its replicas become available");
    let counts = json!({"replicas": 3, "readyReplicas": 3, "availableReplicas": 3});
    let status = Patch::Merge(json!({"status": counts}));
    deployments.patch_status("example", &PatchParams::default(), &status).await?;
    loop {
        let foo = server.get("samplecontroller.k8s.io/v1alpha1", "Foo", "default", "example-foo")?;
        let status = foo.ok_or("the Foo is gone")?["status"].clone();
        if status["availableReplicas"] == 3 {
            println!("status of the Foo: {status}");
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

/// Prints the next write of the controller.
async fn print_next(written: &mut mpsc::Receiver<String>) -> Result<(), Box<dyn Error>> {
    println!("{}", written.recv().await.ok_or("the controller has ended")?);
    Ok(())
}
